"""What is in a file, compressed or not.

One rule: a place in a file is counted in the bytes that come out of it. Whoever wants to be at a place of a compressed
file reads it from its beginning. What ends too early, or is something else, is an error and never an end.

The codec is told by how the name ends. A file may be several that were written one after the other. Neither reader of
bzip2 that there is reads these right: Python's takes what it cannot read for the end, Arrow's fails at an empty one.
"""

import bz2
import gzip
import io
from pathlib import PurePath
from typing import TYPE_CHECKING, BinaryIO, Protocol, cast

import pyarrow as pa

from headgate.errors import BadStorage

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

GZIP = ".gz"
BZIP2 = ".bz2"
BY_ARROW = {".lz4": "lz4", ".zst": "zstd", ".zstd": "zstd"}
"""How names end, and Arrow's name of the codec."""
KNOWN = (BZIP2, GZIP, *BY_ARROW)
UNKNOWN = (".7z", ".Z", ".br", ".deflate", ".lzo", ".snappy", ".xz", ".zip")
"""Of files that are compressed in a way that is not read here. Their bytes are no lines."""
PASSED_BYTES = 256 << 10
"""This much is read at a time to come to a place."""


def content(directory: str, file: str, stream: BinaryIO) -> BinaryIO:
    """The bytes of a file: what is compressed is read as what it was."""
    ending = PurePath(file).suffix
    if ending == GZIP:
        return cast("BinaryIO", gzip.GzipFile(fileobj=stream))
    if ending in KNOWN:
        return cast("BinaryIO", io.BufferedReader(_Sought(stream, ending), PASSED_BYTES))
    if ending in UNKNOWN:
        raise BadStorage(
            f"{directory}: {file!r} is compressed in a way that is not read: put it there as it was before, or with a "
            f"name that ends in one of {', '.join(KNOWN)}"
        )
    return stream


class _Reading(Protocol):
    """What comes out of a compressed file, from its beginning to its end."""

    def read(self, size: int, /) -> bytes: ...


class _Sought(io.RawIOBase):
    """The same, which begins again where somebody goes back."""

    def __init__(self, compressed: BinaryIO, ending: str) -> None:
        self._compressed = compressed
        self._ending = ending
        self._begin()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: "WriteableBuffer") -> int:
        into = memoryview(buffer)
        data = self._stream.read(len(into))
        into[: len(data)] = data
        self._at += len(data)
        return len(data)

    def seek(self, place: int, whence: int = io.SEEK_SET) -> int:
        assert whence == io.SEEK_SET
        if place < self._at:
            self._begin()
        while self._at < place and (passed := self._stream.read(min(place - self._at, PASSED_BYTES))):
            self._at += len(passed)
        return self._at

    def _begin(self) -> None:
        self._compressed.seek(0)
        self._at = 0
        if self._ending == BZIP2:
            self._stream: _Reading = _Bzip2(self._compressed)
        else:
            kept = pa.PythonFile(_KeptBytes(self._compressed), mode="r")
            self._stream = pa.CompressedInputStream(kept, BY_ARROW[self._ending])


class _KeptBytes(io.RawIOBase):
    """A stream that stays open when Arrow has done with it."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        return self._stream.read(size)


class _Bzip2:
    """Streams of bzip2, one after the other, and nothing else after them."""

    def __init__(self, compressed: BinaryIO) -> None:
        self._compressed = compressed
        self._next = bz2.BZ2Decompressor()

    def read(self, size: int, /) -> bytes:
        ahead = b""
        while True:
            if self._next.eof:
                ahead = self._next.unused_data or self._compressed.read(PASSED_BYTES)
                if not ahead:
                    return b""
                self._next = bz2.BZ2Decompressor()
            elif self._next.needs_input:
                ahead = self._compressed.read(PASSED_BYTES)
                if not ahead:
                    raise EOFError("it ends too early")
            if data := self._next.decompress(ahead, size):
                return data
            ahead = b""
