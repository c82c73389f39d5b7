"""The facts about a file of a checkpoint: its size and its checksum.

One rule: a file is read once to learn its checksum, and again only to check it. Names are relative to the job's
directory, and so mean the same wherever that directory is.
"""

import os
import zlib
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from headgate.errors import BadStorage

READ_BYTES = 1 << 20


@dataclass(frozen=True)
class FileFacts:
    """What a manifest says about a file."""

    size: int
    checksum: int

    def to_json(self) -> list[int]:
        """For a manifest."""
        return [self.size, self.checksum]

    @staticmethod
    def from_json(value: list[int]) -> "FileFacts":
        """From a manifest."""
        return FileFacts(int(value[0]), int(value[1]))


Table = Mapping[str, FileFacts]


def measure(path: Path) -> FileFacts:
    """Read a file and tell its facts."""
    size = checksum = 0
    with path.open("rb", buffering=0) as file:
        while chunk := file.read(READ_BYTES):
            checksum = zlib.crc32(chunk, checksum)
            size += len(chunk)
    return FileFacts(size, checksum)


def force(paths: Iterable[Path]) -> None:
    """Have the file system write files, or the names in directories, to the disk. Spark does not."""
    for path in paths:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def directories(root: Path, files: Iterable[Path]) -> set[Path]:
    """The directories that these files are in, up to and with ``root``."""
    found: set[Path] = set()
    for directory in {file.parent for file in files}:
        above = directory
        while above not in found and above != root.parent:
            found.add(above)
            above = above.parent
    return found


def check(root: Path, table: Table) -> list[str]:
    """What is wrong with the files of a checkpoint, one line for each file that is. Empty: nothing."""
    with ThreadPoolExecutor(max_workers=4, thread_name_prefix="headgate-check") as pool:
        found = pool.map(lambda name: _wrong(root, name, table[name]), table)
        return [line for line in found if line is not None]


def _wrong(root: Path, name: str, wanted: FileFacts) -> str | None:
    try:
        size = (root / name).stat().st_size
        if size != wanted.size:
            return f"{root / name} has {size} bytes and should have {wanted.size}"
        if measure(root / name) != wanted:
            return f"{root / name} is corrupt: its checksum does not match"
    except FileNotFoundError:
        return f"{root / name} is gone"
    except OSError as error:
        return f"{root / name} cannot be read: {error.strerror}"
    return None


def tables_of(extras: Iterable[Mapping[str, object]]) -> dict[str, FileFacts]:
    """The files of several manifests in one table."""
    found: dict[str, FileFacts] = {}
    for extra in extras:
        listed = extra.get("files", {})
        if not isinstance(listed, dict):
            raise BadStorage("a manifest's list of files is not a list of files: restore another checkpoint")
        found.update({name: FileFacts.from_json(value) for name, value in listed.items()})
    return found
