"""Files that are whole or not there, and on the disk when they have their name.

One rule: what is written is written under a temporary name, flushed to the disk, and only then given its own name: by a
rename that replaces, or by a link that fails where something is. Then the directory is flushed too, since that is where
names are.
"""

import errno
import os
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from headgate.checksums import in_parallel
from headgate.errors import BadStorage

FORCE_AT_ONCE = 16
NO_LINKS = (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)
"""A link cannot be made here, and a copy can: another file system, one without links, or too many of them."""


def replace(target: Path, data: bytes, *, prefix: str | None = None, flush: bool = True) -> None:
    """Write a file in place of what had its name: whoever reads finds the old one or the new one.

    ``prefix``: see ``temporary``. Without ``flush`` it is only that; somebody else forces it to the disk, or nobody.
    """
    with temporary(target, prefix) as temp:
        if flush:
            write(temp, data)
            publish(temp, target)
        else:
            temp.write_bytes(data)
            temp.replace(target)


@contextmanager
def temporary(target: Path, prefix: str | None = None) -> Iterator[Path]:
    """A name beside ``target`` that nobody else uses, and that is gone afterwards.

    It begins with ``prefix``, or with a dot and the name of the target: by that it is known when nobody lived to remove
    it.
    """
    temp = target.with_name(f"{f'.{target.name}-' if prefix is None else prefix}{uuid4().hex}")
    try:
        yield temp
    finally:
        # Also after a rename: between two names of one file it does nothing, and leaves both.
        with suppress(FileNotFoundError, NotADirectoryError):
            temp.unlink()


def write(path: Path, data: bytes, mode: int = 0o666) -> None:
    """Write a file that is not there yet, and flush it. ``mode``: its permissions, from which the umask takes."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with open(handle, "wb", buffering=0) as file:  # noqa: PTH123 - of a handle, which no path opens like this
        rest = memoryview(data)
        while rest:
            rest = rest[file.write(rest) :]
        os.fsync(handle)


def publish(temp: Path, target: Path) -> None:
    """Give a flushed file its name, in place of what had it."""
    temp.replace(target)
    sync(target.parent)


def publish_if_absent(temp: Path, target: Path) -> bool:
    """Give a flushed file its name, if that is free."""
    try:
        created = linked(temp, target)
    except FileExistsError:
        created = False
    else:
        if not created:
            raise BadStorage(f"{target.parent} cannot be used: it has no hard links; use another file system")
    # Also when it was taken: whoever took it may have died before this line.
    sync(target.parent)
    return created


def linked(source: Path, target: Path) -> bool:
    """Give a file a second name. False if the file system cannot: it is for the caller to copy, and to flush."""
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        return False
    return True


def sync(path: Path) -> None:
    """Flush a file, or the names in a directory, to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def force(paths: Collection[Path]) -> None:
    """Flush files and directories that others wrote. Spark does not.

    Many at once: a file system writes what it is asked for at the same time in one go.
    """
    for _ in in_parallel(sync, list(paths), FORCE_AT_ONCE):
        pass


def directories(files: Iterable[Path], *, top: Path) -> set[Path]:
    """The directories that these files are in, up to and with ``top``, which is above them all."""
    found: set[Path] = set()
    for directory in {file.parent for file in files}:
        above = directory
        while above not in found and above != top.parent:
            found.add(above)
            above = above.parent
    return found
