"""The files of a checkpoint: what is known of each, and whether it is still so.

One rule: a file is read once to learn its checksum, and again only to check it. Names are relative to the job's
directory, and so mean the same wherever that directory is.
"""

import os
import threading
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path

from headgate.checksums import FileFacts, measure
from headgate.errors import BadStorage

__all__ = ["CheckCancelled", "FileFacts", "Reading", "Table", "check", "measure", "tables_of"]

CHECKERS = min(32, max(4, 2 * (os.cpu_count() or 1)))
"""How many files are checked at once. Reading and summing up both let other threads work."""

Table = Mapping[str, FileFacts]


class CheckCancelled(Exception):
    """Nobody wants to know any more whether files are whole."""


class Reading:
    """How far a check has come. May be looked at, and given up, from any thread."""

    def __init__(self) -> None:
        """Nothing is read yet."""
        self.bytes = 0
        self._lock = threading.Lock()
        self._given_up = False

    def give_up(self) -> None:
        """Let the check end soon, with ``CheckCancelled``."""
        self._given_up = True

    def read(self, count: int) -> None:
        """How many bytes more were read."""
        if self._given_up:
            raise CheckCancelled
        with self._lock:
            self.bytes += count


def check(root: Path, table: Table, *, whole: bool = True, reading: Reading | None = None) -> list[str]:
    """What is wrong with the files of a checkpoint, one line for each file that is. Empty: nothing.

    Without ``whole`` no file is read: only whether it is there, and its size.
    """
    reading = reading or Reading()
    with ThreadPoolExecutor(max_workers=CHECKERS, thread_name_prefix="headgate-check") as pool:
        found = pool.map(lambda name: _wrong(root, name, table[name], reading if whole else None), table)
        return [line for line in found if line is not None]


def _wrong(root: Path, name: str, wanted: FileFacts, reading: Reading | None) -> str | None:
    try:
        size = (root / name).stat().st_size
        if size != wanted.size:
            return f"{root / name} has {size} bytes and should have {wanted.size}"
        if reading is not None and measure(root / name, read=reading.read) != wanted:
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
        if isinstance(groups := extra.get("groups"), dict):  # As a checkpoint was published by this process.
            for group in chain.from_iterable(groups.values()):
                found.update(group)
        listed = extra.get("files", {})
        if not isinstance(listed, dict):
            raise BadStorage("a manifest's list of files is not a list of files: restore another checkpoint")
        found.update({name: FileFacts.from_json(value) for name, value in listed.items()})
    return found
