"""The facts about a file: its size and its checksum.

One rule: a file is read once to learn its checksum, and again only to check it.
"""

import json
import os
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from headgate.errors import BadStorage

READ_BYTES = 1 << 20
READERS = 4
"""How many files are read at a time. Neither reading nor the checksum holds Python's lock."""
CHECKSUM = "crc32"

Item = TypeVar("Item")
Returned = TypeVar("Returned")


class FileFacts(NamedTuple):
    """What a manifest says about a file. As JSON it is a list of both."""

    size: int
    checksum: int

    @staticmethod
    def from_json(value: Sequence[int]) -> "FileFacts":
        """From a manifest."""
        return value if isinstance(value, FileFacts) else FileFacts(int(value[0]), int(value[1]))


def measure(path: Path, *, flush: bool = False, read: Callable[[int], None] = lambda _: None) -> FileFacts:
    """Read a file and tell its facts. ``flush``: have the file system write it to the disk as well.

    ``read`` hears of every piece how long it was.
    """
    size = checksum = 0
    with path.open("rb", buffering=0) as file:
        while chunk := file.read(READ_BYTES):
            checksum = zlib.crc32(chunk, checksum)
            size += len(chunk)
            read(len(chunk))
        if flush:
            os.fsync(file.fileno())
    return FileFacts(size, checksum)


def measure_all(paths: Sequence[Path], *, flush: bool = False) -> list[FileFacts]:
    """As ``measure``, a few files at a time; in the order of the paths."""
    return list(in_parallel(lambda path: measure(path, flush=flush), paths))


def damage(path: Path, size: int, checksum: int | None) -> str:
    """What is wrong with a file that should have these facts. Nothing if it is whole, or if it is not there at all.

    A file of which only the size is known is not read.
    """
    try:
        found = path.stat().st_size
        if found != size:
            return f"{path} has {found} bytes and should have {size}"
        if checksum is not None and measure(path).checksum != checksum:
            return f"{path} is damaged: its checksum does not match"
    except FileNotFoundError:
        pass
    return ""


def in_parallel(work: Callable[[Item], Returned], items: Sequence[Item], threads: int = READERS) -> Iterator[Returned]:
    """Do something for each item, a few at a time; the results in the order of the items."""
    if len(items) <= 1 or threads == 1:
        yield from map(work, items)
        return
    with ThreadPoolExecutor(min(threads, len(items)), "headgate-files") as pool:
        yield from pool.map(work, items)


# -- small files of fields -------------------------------------------------------------------------------------------


def checked_text(fields: Mapping[str, object]) -> str:
    """Fields as JSON, with a checksum among them."""
    return json.dumps({**fields, CHECKSUM: _crc(fields)})


def checked_fields(data: bytes, where: Path | str) -> dict[str, Any]:
    """What ``checked_text`` was given. Text without a checksum, as earlier versions wrote it, is read as it stands."""
    try:
        fields = json.loads(data)
        checksum = fields.pop(CHECKSUM, None)
    except (ValueError, AttributeError, TypeError) as error:
        raise BadStorage(f"{where} is damaged ({error}): restore it from a copy") from error
    if checksum is not None and checksum != _crc(fields):
        raise BadStorage(f"{where} is damaged: its checksum does not match: restore it from a copy")
    return dict(fields)


def _crc(fields: Mapping[str, object]) -> int:
    return zlib.crc32(json.dumps(fields, sort_keys=True, separators=(",", ":")).encode())
