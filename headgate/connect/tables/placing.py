"""Staged files are put into a table's directory.

One rule: a file has the same final name however often it is put there, and stands under that name only when it is
whole. What no commit of the table names, no reader sees.
"""

import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from headgate.access import OWNER_ONLY, make_directory
from headgate.checksums import damage
from headgate.durable import directories, force, linked, sync
from headgate.errors import BadStorage, InvalidOption
from headgate.sink.partitions import on_executors
from headgate.sink.staging import HIDDEN


@dataclass(frozen=True)
class TableFile:
    """One data file on its way into a table."""

    staged: Path
    name: str
    """Where it goes, from the directory of data files on."""
    size: int
    partition: tuple[str, ...] = ()
    """The directories of partitions that it was staged in."""
    checksum: int | None = None
    """As pre-committed, if it is known."""


def place(files: Sequence[TableFile], target: Path, *, temporary: Path, mode: int = OWNER_ONLY) -> None:
    """Put files into ``target``. ``FileNotFoundError`` if one is neither staged nor there.

    On the same file system a file gets a second name; otherwise executors copy it, through ``temporary``, which must
    be a directory on the file system of ``target``, and is made with ``mode``.
    """
    to_copy = []
    for file in files:
        final = target / file.name
        final.parent.mkdir(parents=True, exist_ok=True)
        try:
            if not linked(file.staged, final) and not final.exists():
                to_copy.append((str(file.staged), str(final), str(temporary / f"copy-{uuid4().hex}")))
        except FileExistsError:
            _check(file, final)
        except FileNotFoundError:
            if not final.exists():
                raise
        # Whoever cleans tables goes by the age of files that no commit names yet.
        if final.exists():
            os.utime(final)
    if to_copy:
        make_directory(temporary, mode)
        on_executors(to_copy, _copy)
    finals = [target / file.name for file in files]
    force([directory for directory in directories(finals, top=target) if directory.exists()])


def temporary_in(target: Path, owner: str) -> Path:
    """Where copies are made before they get their names. Its name begins with ``_``: no reader looks there."""
    return target / HIDDEN / owner


def local_directory(path: str, *, who: str) -> Path:
    """The directory that a path or a ``file:`` URI names. Anything else is refused."""
    scheme, colon, rest = path.partition(":")
    if not colon or "/" in scheme:
        return Path(path).absolute()
    if scheme.lower() != "file" or not re.fullmatch(r"/(//)?[^/].*", rest):
        raise InvalidOption(f"{who}: {path} is not a local or mounted directory: give a path, or file:///path")
    return Path("/" + rest.lstrip("/"))


def _check(file: TableFile, final: Path) -> None:
    """What was put there before must be what was pre-committed. Its staged file by a second name is that file."""
    if file.staged.exists() and final.samefile(file.staged):
        return
    if wrong := damage(final, file.size, file.checksum):
        raise BadStorage(f"{wrong}, as it was pre-committed: remove it, it is not committed")


def _copy(order: tuple[str, str, str]) -> str:
    """Copy a file whole. Two processes that do so at once write the same."""
    staged, final, temporary = order
    try:
        shutil.copyfile(staged, temporary)
        sync(Path(temporary))
        Path(temporary).replace(final)
    except FileNotFoundError:
        if not Path(final).exists():
            raise
    finally:
        Path(temporary).unlink(missing_ok=True)
    return ""
