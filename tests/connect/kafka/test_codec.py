"""What is written can be read, and nothing else can."""

import contextlib
from typing import Any

import pytest
from hypothesis import given, strategies as st

from headgate.connect.kafka.broker.codec import (
    BOOLEAN,
    CLASSIC_STRING,
    DATA,
    INT8,
    INT16,
    INT32,
    INT64,
    NULLABLE_STRING,
    STRING,
    VARINT,
    VARINT_MAX,
    Layout,
    Malformed,
    Reader,
    array,
    classic_array,
    fields,
    read_tags,
    structure,
)

texts = st.text(max_size=50)
TAGS: Layout[Any] = Layout(lambda _: b"", read_tags)


def _read(layout: Layout[Any], data: bytes) -> object:
    """Read all of it. Whatever is cut off at the end must be missed."""
    for size in range(len(data)):
        with pytest.raises(Malformed):
            layout.read(Reader(data[:size]))
    reader = Reader(data)
    found = layout.read(reader)
    reader.end()
    return found


def _comes_back(layout: Layout[Any], value: object) -> bool:
    return _read(layout, layout.write(value)) == value


@given(
    st.integers(-(2**7), 2**7 - 1),
    st.integers(-(2**15), 2**15 - 1),
    st.integers(-(2**31), 2**31 - 1),
    st.integers(-(2**63), 2**63 - 1),
    st.booleans(),
)
def test_numbers_come_back(one: int, two: int, four: int, eight: int, truth: bool) -> None:
    for layout in (fields, structure):
        assert _comes_back(layout(INT8, INT16, INT32, INT64, BOOLEAN), (one, two, four, eight, truth))


@given(st.integers(0, VARINT_MAX))
def test_a_varint_comes_back_in_as_few_bytes_as_it_needs(value: int) -> None:
    assert len(VARINT.write(value)) == max(1, -(-value.bit_length() // 7))
    assert _comes_back(VARINT, value)


@given(texts)
def test_text_comes_back_in_all_ways(value: str) -> None:
    for layout in (STRING, NULLABLE_STRING, CLASSIC_STRING):
        assert _comes_back(layout, value)


def test_no_text_comes_back_where_there_need_be_none() -> None:
    assert _comes_back(NULLABLE_STRING, None)


@given(st.binary(max_size=300))
def test_bytes_come_back(value: bytes) -> None:
    assert _comes_back(DATA, value)


@given(st.lists(texts, max_size=10))
def test_an_array_comes_back_in_both_ways(items: list[str]) -> None:
    assert _comes_back(array(STRING), items)
    assert _comes_back(classic_array(CLASSIC_STRING), items)
    assert _comes_back(array(structure(STRING, INT16)), [(item, 7) for item in items])


@given(st.dictionaries(st.integers(0, 1000), st.binary(max_size=20), max_size=5), texts)
def test_tagged_fields_of_a_later_version_are_kept_apart(tagged: dict[int, bytes], text: str) -> None:
    written = VARINT.write(len(tagged))
    for tag in sorted(tagged):
        written += VARINT.write(tag) + VARINT.write(len(tagged[tag])) + tagged[tag]
    assert _read(TAGS, written) == tagged
    assert _read(structure(STRING), STRING.write(text) + written) == (text,)


@given(st.binary(max_size=60))
def test_any_bytes_at_all_are_read_or_are_malformed(data: bytes) -> None:
    for layout in (VARINT, STRING, NULLABLE_STRING, DATA, CLASSIC_STRING, TAGS, BOOLEAN):
        for each in (layout, array(layout), classic_array(layout), structure(layout)):
            reader = Reader(data)
            with contextlib.suppress(Malformed):
                each.read(reader)
            assert 0 <= reader.left <= len(data), "nothing before the beginning or beyond the end was taken"


@pytest.mark.parametrize(
    ("data", "layout"),
    [
        (b"\x00", STRING),
        (b"\x00", DATA),
        (b"\x00", array(INT8)),
        (b"\xff\xff", CLASSIC_STRING),
        (b"\xff\xfe", CLASSIC_STRING),
        (b"\x02\xff", STRING),
        (b"\x02", BOOLEAN),
        (b"\xff\xff\xff\xff\x1f", VARINT),
        (b"\x80\x80\x80\x80\x80\x01", VARINT),
        (b"\x02\x01\x00\x01\x00", TAGS),
        (b"\xff\xff\xff\xff", classic_array(INT8)),
        (b"\x7f\xff\xff\xff", classic_array(INT8)),
    ],
)
def test_what_cannot_be_is_malformed(data: bytes, layout: Layout[Any]) -> None:
    with pytest.raises(Malformed):
        layout.read(Reader(data))


def test_what_is_left_over_is_malformed() -> None:
    with pytest.raises(Malformed, match="2 bytes too many"):
        Reader(b"ab").end()


def test_what_is_not_what_it_must_be_is_malformed() -> None:
    with pytest.raises(Malformed, match="5 where 4 must be"):
        Reader(b"\x05").expect(INT8, 4)


@pytest.mark.parametrize(
    ("layout", "value"),
    [(VARINT, -1), (VARINT, VARINT_MAX + 1), (INT16, 2**15), (CLASSIC_STRING, "x" * 2**15)],
)
def test_what_does_not_fit_is_not_written(layout: Layout[Any], value: object) -> None:
    with pytest.raises(OverflowError):
        layout.write(value)


def test_a_structure_takes_neither_more_nor_fewer_values_than_it_has() -> None:
    for values in [(1,), (1, 2, 3)]:
        with pytest.raises(ValueError, match="argument 2 is"):
            structure(INT8, INT8).write(values)


@pytest.mark.parametrize(
    ("layout", "value", "expected"),
    [
        (VARINT, 300, b"\xac\x02"),
        (STRING, "ab", b"\x03ab"),
        (NULLABLE_STRING, None, b"\x00"),
        (CLASSIC_STRING, "ab", b"\x00\x02ab"),
        (array(INT16), [1], b"\x02\x00\x01"),
        (classic_array(INT16), [1], b"\x00\x00\x00\x01\x00\x01"),
        (structure(INT8, STRING), (1, "a"), b"\x01\x02a\x00"),
        (fields(INT8, STRING), (1, "a"), b"\x01\x02a"),
    ],
)
def test_the_bytes_are_those_of_the_protocol(layout: Layout[Any], value: object, expected: bytes) -> None:
    assert layout.write(value) == expected
