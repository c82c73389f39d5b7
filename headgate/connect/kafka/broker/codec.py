"""How Kafka's protocol lays out values in bytes.

One rule: what is read is checked, byte for byte: too little, too much or out of range is ``Malformed``, never a guess.

Kafka has two ways to write a length. The classic one is an integer of fixed size; the compact one is a varint of the
length plus one, with 0 for null. Versions that use the compact way also end each structure with tagged fields.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

T = TypeVar("T")

VARINT_MAX = 2**32 - 1
"""An unsigned varint has 32 bits: at most five bytes of seven."""
NO_TAGS = b"\x00"


class Malformed(ValueError):
    """Bytes that cannot be what they should be."""


class Reader:
    """Takes bytes one after the other."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def left(self) -> int:
        """How many were not taken."""
        return len(self._data) - self._at

    def take(self, size: int) -> bytes:
        """How many bytes."""
        if not 0 <= size <= self.left:
            raise Malformed(f"{size} bytes are wanted and {self.left} are left")
        self._at += size
        return self._data[self._at - size : self._at]

    def expect(self, layout: "Layout[T]", wanted: T) -> None:
        """A value that must be this one."""
        found = layout.read(self)
        if found != wanted:
            raise Malformed(f"{found} where {wanted} must be")

    def end(self) -> None:
        """See that nothing is left."""
        if self.left:
            raise Malformed(f"{self.left} bytes too many")


@dataclass(frozen=True)
class Layout(Generic[T]):
    """How a value is written, and read."""

    write: Callable[[T], bytes]
    read: Callable[[Reader], T]


def _integer(size: int) -> Layout[int]:
    return Layout(
        lambda value: value.to_bytes(size, "big", signed=True),
        lambda reader: int.from_bytes(reader.take(size), "big", signed=True),
    )


def _read_boolean(reader: Reader) -> bool:
    value = reader.take(1)[0]
    if value > 1:
        raise Malformed(f"{value} is not a valid boolean")
    return value == 1


def _write_varint(value: int) -> bytes:
    if not 0 <= value <= VARINT_MAX:
        raise OverflowError(f"{value} does not fit a varint")
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _read_varint(reader: Reader) -> int:
    value = 0
    for shift in range(0, 35, 7):
        byte = reader.take(1)[0]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > VARINT_MAX:
                raise Malformed("a varint of more than 32 bits")
            return value
    raise Malformed("a varint of more than five bytes")


def _write_data(value: bytes | None) -> bytes:
    return _write_varint(0) if value is None else _write_varint(len(value) + 1) + value


def _read_data(reader: Reader) -> bytes | None:
    size = _read_varint(reader)
    return None if size == 0 else reader.take(size - 1)


def _encoded(value: str | None) -> bytes | None:
    return None if value is None else value.encode()


def _decoded(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError as error:
        raise Malformed("text that is not UTF-8") from error


def _present(value: T | None) -> T:
    if value is None:
        raise Malformed("null where there must be a value")
    return value


INT8, INT16, INT32, INT64 = (_integer(size) for size in (1, 2, 4, 8))
BOOLEAN = Layout(lambda value: b"\x01" if value else b"\x00", _read_boolean)
VARINT = Layout(_write_varint, _read_varint)
DATA = Layout(_write_data, lambda reader: _present(_read_data(reader)))
STRING = Layout[str](lambda value: _write_data(value.encode()), lambda reader: _present(_decoded(_read_data(reader))))
NULLABLE_STRING = Layout[str | None](
    lambda value: _write_data(_encoded(value)), lambda reader: _decoded(_read_data(reader))
)
CLASSIC_STRING = Layout[str](
    lambda value: INT16.write(len(value.encode())) + value.encode(),
    lambda reader: _present(_decoded(reader.take(INT16.read(reader)))),
)


def array(item: Layout[T]) -> Layout[list[T]]:
    """Items, compact."""
    return Layout(
        lambda items: _write_varint(len(items) + 1) + b"".join(map(item.write, items)),
        lambda reader: _each(reader, _read_varint(reader) - 1, item),
    )


def classic_array(item: Layout[T]) -> Layout[list[T]]:
    """Items, with their number in four bytes."""
    return Layout(
        lambda items: INT32.write(len(items)) + b"".join(map(item.write, items)),
        lambda reader: _each(reader, INT32.read(reader), item),
    )


def _each(reader: Reader, count: int, item: Layout[T]) -> list[T]:
    # Every item of the protocol has at least one byte, so a number past what is left is wrong before it is tried.
    if not 0 <= count <= reader.left:
        raise Malformed(f"{count} items are wanted and {reader.left} bytes are left")
    return [item.read(reader) for _ in range(count)]


def fields(*layouts: Layout[Any]) -> Layout[tuple[Any, ...]]:
    """Values one after the other, as they are."""
    return Layout(
        lambda values: b"".join(layout.write(value) for layout, value in zip(layouts, values, strict=True)),
        lambda reader: tuple(layout.read(reader) for layout in layouts),
    )


def structure(*layouts: Layout[Any]) -> Layout[tuple[Any, ...]]:
    """Values one after the other, with tagged fields at the end, which any version may add to."""
    values = fields(*layouts)

    def read(reader: Reader) -> tuple[Any, ...]:
        found = values.read(reader)
        read_tags(reader)
        return found

    return Layout(lambda given: values.write(given) + NO_TAGS, read)


def read_tags(reader: Reader) -> dict[int, bytes]:
    """Tagged fields: a number and bytes each."""
    found: dict[int, bytes] = {}
    before = -1
    for _ in range(_read_varint(reader)):
        tag = _read_varint(reader)
        if tag <= before:
            raise Malformed(f"tag {tag} after tag {before}")
        found[tag] = reader.take(_read_varint(reader))
        before = tag
    return found
