"""What is written can be read, and nothing else can."""

import contextlib
from collections.abc import Callable

import pytest
from hypothesis import given, strategies as st

from headgate.connect.kafka.wire import VARINT_MAX, Malformed, Reader, Writer

texts = st.text(max_size=50)


def _read(written: Writer, read: Callable[[Reader], object]) -> object:
    """Read all of it. Whatever is cut off at the end must be missed."""
    data = written.done()
    for size in range(len(data)):
        with pytest.raises(Malformed):
            read(Reader(data[:size]))
    reader = Reader(data)
    found = read(reader)
    reader.end()
    return found


@given(
    st.integers(-(2**7), 2**7 - 1),
    st.integers(-(2**15), 2**15 - 1),
    st.integers(-(2**31), 2**31 - 1),
    st.integers(-(2**63), 2**63 - 1),
    st.booleans(),
)
def test_numbers_come_back(one: int, two: int, four: int, eight: int, truth: bool) -> None:
    written = Writer().int8(one).int16(two).int32(four).int64(eight).boolean(truth)

    def read(reader: Reader) -> object:
        return reader.int8(), reader.int16(), reader.int32(), reader.int64(), reader.boolean()

    assert _read(written, read) == (one, two, four, eight, truth)


@given(st.integers(0, VARINT_MAX))
def test_a_varint_comes_back_in_as_few_bytes_as_it_needs(value: int) -> None:
    written = Writer().varint(value)
    assert len(written.done()) == max(1, -(-value.bit_length() // 7))
    assert _read(written, Reader.varint) == value


@given(st.none() | texts)
def test_text_comes_back_in_both_ways(value: str | None) -> None:
    assert _read(Writer().string(value), Reader.nullable_string) == value
    assert _read(Writer().classic_string(value), Reader.nullable_classic_string) == value


@given(st.none() | st.binary(max_size=300))
def test_bytes_come_back(value: bytes | None) -> None:
    assert _read(Writer().data(value), Reader.nullable_data) == value


@given(st.none() | st.lists(texts, max_size=10))
def test_an_array_comes_back(items: list[str] | None) -> None:
    written = Writer().array(items, Writer.string)
    assert _read(written, lambda reader: reader.nullable_array(Reader.string)) == items


@given(st.lists(texts, max_size=10))
def test_a_classic_array_comes_back(items: list[str]) -> None:
    written = Writer().classic_array(items, Writer.classic_string)
    assert _read(written, lambda reader: reader.classic_array(Reader.classic_string)) == items


@given(st.dictionaries(st.integers(0, 1000), st.binary(max_size=20), max_size=5))
def test_tagged_fields_of_a_later_version_are_kept_apart(fields: dict[int, bytes]) -> None:
    written = Writer().varint(len(fields))
    for tag in sorted(fields):
        written.varint(tag).varint(len(fields[tag])).raw(fields[tag])
    assert _read(written, Reader.tags) == fields
    assert _read(Writer().tags(), Reader.tags) == {}


@given(st.binary(max_size=60))
def test_any_bytes_at_all_are_read_or_are_malformed(data: bytes) -> None:
    for read in (Reader.varint, Reader.string, Reader.classic_string, Reader.tags, Reader.boolean):
        with contextlib.suppress(Malformed):
            read(Reader(data))
    for array in (Reader.array, Reader.classic_array):
        with contextlib.suppress(Malformed):
            array(Reader(data), Reader.string)


@pytest.mark.parametrize(
    ("data", "read"),
    [
        (b"\x00", Reader.string),
        (b"\x00", Reader.data),
        (b"\xff\xff", Reader.classic_string),
        (b"\xff\xfe", Reader.nullable_classic_string),
        (b"\x02\xff", Reader.string),
        (b"\x02", Reader.boolean),
        (b"\xff\xff\xff\xff\x1f", Reader.varint),
        (b"\x80\x80\x80\x80\x80\x01", Reader.varint),
        (b"\x02\x01\x00\x01\x00", Reader.tags),
        (b"\xff\xff\xff\xff", lambda reader: reader.classic_array(Reader.int8)),
        (b"\x7f\xff\xff\xff", lambda reader: reader.classic_array(Reader.int8)),
    ],
)
def test_what_cannot_be_is_malformed(data: bytes, read: Callable[[Reader], object]) -> None:
    with pytest.raises(Malformed):
        read(Reader(data))


def test_what_is_left_over_is_malformed() -> None:
    with pytest.raises(Malformed, match="2 bytes too many"):
        Reader(b"ab").end()


@pytest.mark.parametrize("value", [-1, VARINT_MAX + 1])
def test_a_number_that_is_no_varint_is_not_written(value: int) -> None:
    with pytest.raises(ValueError, match="does not fit"):
        Writer().varint(value)


def test_text_that_is_too_long_for_a_classic_string_is_not_written() -> None:
    with pytest.raises(ValueError, match="does not fit"):
        Writer().classic_string("x" * 2**15)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (Writer().varint(300), b"\xac\x02"),
        (Writer().string("ab"), b"\x03ab"),
        (Writer().string(None), b"\x00"),
        (Writer().classic_string("ab"), b"\x00\x02ab"),
        (Writer().classic_string(None), b"\xff\xff"),
        (Writer().array([1], Writer.int16), b"\x02\x00\x01"),
        (Writer().classic_array(None, Writer.int16), b"\xff\xff\xff\xff"),
    ],
)
def test_the_bytes_are_those_of_the_protocol(written: Writer, expected: bytes) -> None:
    assert written.done() == expected
