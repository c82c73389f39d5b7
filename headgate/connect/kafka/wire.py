"""How Kafka's protocol lays out values in bytes.

One rule: what is read is checked, byte for byte: too little, too much or out of range is ``Malformed``, never a guess.

Kafka has two ways to write a length. The classic one is an integer of fixed size; the compact one is a varint of the
length plus one, with 0 for null. Versions that use the compact way also end each structure with tagged fields.
"""

import struct
from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")

VARINT_MAX = 2**32 - 1
"""An unsigned varint has 32 bits: at most five bytes of seven."""
CLASSIC_STRING_MAX = 2**15 - 1
INT16 = struct.Struct(">h")
INT32 = struct.Struct(">i")
INT64 = struct.Struct(">q")


class Malformed(ValueError):
    """Bytes that cannot be what they should be."""


class Writer:
    """Puts values one after the other. Every method returns the writer, so that a structure reads as one line."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def done(self) -> bytes:
        """All that was written."""
        return b"".join(self._parts)

    def raw(self, value: bytes) -> "Writer":
        """Bytes as they are, without a length."""
        self._parts.append(value)
        return self

    def int8(self, value: int) -> "Writer":
        """One byte, signed."""
        return self.raw(struct.pack(">b", value))

    def int16(self, value: int) -> "Writer":
        """Two bytes, signed."""
        return self.raw(INT16.pack(value))

    def int32(self, value: int) -> "Writer":
        """Four bytes, signed."""
        return self.raw(INT32.pack(value))

    def int64(self, value: int) -> "Writer":
        """Eight bytes, signed."""
        return self.raw(INT64.pack(value))

    def boolean(self, value: bool) -> "Writer":  # noqa: FBT001 - the value itself
        """One byte, 0 or 1."""
        return self.raw(b"\x01" if value else b"\x00")

    def varint(self, value: int) -> "Writer":
        """An unsigned number, seven bits a byte, the lowest first."""
        if not 0 <= value <= VARINT_MAX:
            raise ValueError(f"{value} does not fit a varint")
        out = bytearray()
        while value > 0x7F:
            out.append(value & 0x7F | 0x80)
            value >>= 7
        out.append(value)
        return self.raw(bytes(out))

    def string(self, value: str | None) -> "Writer":
        """Text, compact; null if there is none."""
        return self.data(None if value is None else value.encode())

    def data(self, value: bytes | None) -> "Writer":
        """Bytes, compact; null if there are none."""
        if value is None:
            return self.varint(0)
        return self.varint(len(value) + 1).raw(value)

    def classic_string(self, value: str | None) -> "Writer":
        """Text, with its length in two bytes; -1 for null."""
        if value is None:
            return self.int16(-1)
        encoded = value.encode()
        if len(encoded) > CLASSIC_STRING_MAX:
            raise ValueError(f"text of {len(encoded)} bytes does not fit a classic string")
        return self.int16(len(encoded)).raw(encoded)

    def array(self, items: Iterable[T] | None, write: "Callable[[Writer, T], object]") -> "Writer":
        """Items, compact; null if there are none at all. ``write`` puts one of them."""
        if items is None:
            return self.varint(0)
        listed = list(items)
        self.varint(len(listed) + 1)
        return self._each(listed, write)

    def classic_array(self, items: Iterable[T] | None, write: "Callable[[Writer, T], object]") -> "Writer":
        """Items, with their number in four bytes; -1 for null."""
        if items is None:
            return self.int32(-1)
        listed = list(items)
        self.int32(len(listed))
        return self._each(listed, write)

    def tags(self) -> "Writer":
        """The end of a structure, without any tagged field."""
        return self.varint(0)

    def _each(self, items: list[T], write: "Callable[[Writer, T], object]") -> "Writer":
        for item in items:
            write(self, item)
        return self


class Reader:
    """Takes values one after the other."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def end(self) -> None:
        """See that nothing is left."""
        if self._at != len(self._data):
            raise Malformed(f"{len(self._data) - self._at} bytes too many")

    def raw(self, size: int) -> bytes:
        """So many bytes."""
        left = len(self._data) - self._at
        if not 0 <= size <= left:
            raise Malformed(f"{size} bytes are wanted and {left} are left")
        taken = self._data[self._at : self._at + size]
        self._at += size
        return taken

    def int8(self) -> int:
        """One byte, signed."""
        return int.from_bytes(self.raw(1), "big", signed=True)

    def int16(self) -> int:
        """Two bytes, signed."""
        return int.from_bytes(self.raw(2), "big", signed=True)

    def int32(self) -> int:
        """Four bytes, signed."""
        return int.from_bytes(self.raw(4), "big", signed=True)

    def expect_int32(self, wanted: int) -> None:
        """Four bytes that must be this number."""
        found = self.int32()
        if found != wanted:
            raise Malformed(f"{found} where {wanted} must be")

    def int64(self) -> int:
        """Eight bytes, signed."""
        return int.from_bytes(self.raw(8), "big", signed=True)

    def boolean(self) -> bool:
        """One byte, 0 or 1."""
        value = self.raw(1)[0]
        if value > 1:
            raise Malformed(f"{value} is no boolean")
        return value == 1

    def varint(self) -> int:
        """An unsigned number, seven bits a byte, the lowest first."""
        value = 0
        for shift in range(0, 35, 7):
            byte = self.raw(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value > VARINT_MAX:
                    raise Malformed("a varint of more than 32 bits")
                return value
        raise Malformed("a varint of more than five bytes")

    def string(self) -> str:
        """Text, compact."""
        return _present(self.nullable_string())

    def nullable_string(self) -> str | None:
        """Text, compact, or null."""
        value = self.nullable_data()
        return None if value is None else _text(value)

    def data(self) -> bytes:
        """Bytes, compact."""
        return _present(self.nullable_data())

    def nullable_data(self) -> bytes | None:
        """Bytes, compact, or null."""
        size = self.varint()
        return None if size == 0 else self.raw(size - 1)

    def classic_string(self) -> str:
        """Text, with its length in two bytes."""
        return _present(self.nullable_classic_string())

    def nullable_classic_string(self) -> str | None:
        """Text, with its length in two bytes, or null."""
        size = self.int16()
        return None if size == -1 else _text(self.raw(size))

    def array(self, read: "Callable[[Reader], T]") -> list[T]:
        """Items, compact. ``read`` takes one of them."""
        return _present(self.nullable_array(read))

    def nullable_array(self, read: "Callable[[Reader], T]") -> list[T] | None:
        """Items, compact, or null."""
        size = self.varint()
        return None if size == 0 else self._each(size - 1, read)

    def classic_array(self, read: "Callable[[Reader], T]") -> list[T]:
        """Items, with their number in four bytes."""
        return self._each(self.int32(), read)

    def tags(self) -> dict[int, bytes]:
        """The tagged fields at the end of a structure, which any version may add to."""
        found: dict[int, bytes] = {}
        before = -1
        for _ in range(self.varint()):
            tag = self.varint()
            if tag <= before:
                raise Malformed(f"tag {tag} after tag {before}")
            found[tag] = self.raw(self.varint())
            before = tag
        return found

    def _each(self, count: int, read: "Callable[[Reader], T]") -> list[T]:
        # Every item of the protocol has at least one byte, so a number past what is left is wrong before it is tried.
        if not 0 <= count <= len(self._data) - self._at:
            raise Malformed(f"{count} items are wanted and {len(self._data) - self._at} bytes are left")
        return [read(self) for _ in range(count)]


def _present(value: T | None) -> T:
    if value is None:
        raise Malformed("null where there must be a value")
    return value


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise Malformed("text that is not UTF-8") from error
