"""What is in a file, compressed or not.

One rule: a place in a file is counted in the bytes that come out of it. Whoever wants to be at a place of a compressed
file reads it from its beginning. What ends too early, or is something else, is an error and never an end.

The codec is told by how the name ends. Python's own reader of bzip2 takes what it cannot read after the last stream for
the end; Arrow's does not.
"""

import gzip
import io
from pathlib import PurePath
from typing import TYPE_CHECKING, BinaryIO, cast

import pyarrow as pa

from headgate.errors import BadStorage

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

GZIP = ".gz"
CODECS = {".bz2": "bz2", ".lz4": "lz4", ".zst": "zstd", ".zstd": "zstd"}
"""How names end, and Arrow's name of the codec."""
UNKNOWN = (".7z", ".Z", ".br", ".deflate", ".lzo", ".snappy", ".xz", ".zip")
"""Of files that are compressed in a way that is not read here. Their bytes are no lines."""
PASSED_BYTES = 256 << 10
"""This much is read at a time to come to a place."""


def content(directory: str, file: str, stream: BinaryIO) -> BinaryIO:
    """The bytes of a file: what is compressed is read as what it was."""
    ending = PurePath(file).suffix
    if ending == GZIP:
        return cast("BinaryIO", gzip.GzipFile(fileobj=stream))
    if ending in CODECS:
        return cast("BinaryIO", io.BufferedReader(_Decompressed(stream, CODECS[ending]), PASSED_BYTES))
    if ending in UNKNOWN:
        known = ", ".join([GZIP, *CODECS])
        raise BadStorage(
            f"{directory}: {file!r} is compressed in a way that is not read: put it there as it was before, or with a "
            f"name that ends in one of {known}"
        )
    return stream


class _Decompressed(io.RawIOBase):
    """A stream of Arrow's that begins again where somebody goes back."""

    def __init__(self, compressed: BinaryIO, codec: str) -> None:
        self._compressed = compressed
        self._codec = codec
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
        self._stream = pa.CompressedInputStream(pa.PythonFile(self._compressed, mode="r"), self._codec)
        self._at = 0
