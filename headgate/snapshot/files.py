"""The files of a checkpoint: what is known of each, and whether it is still so.

One rule: a file is read once to learn its checksum, and again only to check it. Names are relative to the job's
directory, and so mean the same wherever that directory is.
"""

import os
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from headgate.checksums import FileFacts, measure
from headgate.errors import BadStorage

__all__ = ["FileFacts", "Table", "check", "directories", "force", "measure", "tables_of"]

Table = Mapping[str, FileFacts]


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
