"""What Headgate needs of a storage: five verbs over paths, and two that move whole files.

One rule: whatever can be read is whole. A value appears at its path complete and durable, or it does not appear, and
that holds when the process is killed at any point. All else may go wrong: a call that failed may have had its effect.

Paths are relative, of parts joined by ``/``. Folders are not things of their own: they come with the first value below
them, and an empty one does not show.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from headgate.access import OWNER_ONLY
from headgate.errors import BadStorage, HeadgateError, InvalidOption

if TYPE_CHECKING:  # a storage on this machine needs no Spark, which takes its time to import
    from pyspark.sql import SparkSession

TEMPORARY = ".headgate-tmp-"
"""How the names of unfinished files begin. A process that was killed leaves them; they are never listed."""


@dataclass(frozen=True)
class Entry:
    """One value in a storage, as a listing shows it."""

    path: str
    size: int


class Missing(HeadgateError):
    """There is nothing at a path. For whoever asked to judge: it may be news, or quite in order."""

    def __init__(self, where: str) -> None:
        super().__init__(where)
        self.where = where

    def __str__(self) -> str:
        return f"there is nothing at {self.where}"


class Forbidden(BadStorage):
    """The storage lets nobody read or write. At the start only the user can put that right.

    Under a job that runs it may pass, as when a file system is read-only for a moment, and is tried again.
    """


class Store(Protocol):
    """A storage. Any number of processes and threads may use it at once.

    ``ExternalError`` when the storage is away, busy or full; ``BadStorage`` when only the user can help: no right to
    use it, or a file where a folder should be.
    """

    @property
    def uri(self) -> str:
        """Where it is, in the words of a user."""

    @property
    def local_root(self) -> Path | None:
        """The folder that it is, if it is one on this machine."""

    def read(self, path: str) -> bytes:
        """The value at a path, as some ``put`` or ``create_if_absent`` left it. ``Missing`` if there is none."""

    def put(self, path: str, data: bytes, *, secret: bool = False) -> None:
        """Set the value at a path, durably.

        Readers see the old value or the new one and nothing between. Of two that put at once, one comes last.
        ``secret``: only its owner may read it, where the storage knows owners.
        """

    def create_if_absent(self, path: str, data: bytes) -> bool:
        """Set the value at a path that has none. False if it has one, which stays as it is.

        Of any number that try at once, in any processes, one wins. Whoever is told either answer can rely on the
        value being durable. Everything that Headgate promises rests on this verb.
        """

    def list(self, prefix: str = "", *, depth: int | None = None) -> Iterator[Entry]:
        """All values below a folder, in no order; those more than ``depth`` parts below it are left out.

        What was there throughout is shown. What comes or goes meanwhile may be shown or not.
        """

    def delete(self, *paths: str) -> None:
        """Remove values, durably. A path that has none is not an error."""

    def copy_in(self, local: Path, path: str, *, link: bool = False) -> None:
        """``put`` of a whole file of this machine. ``Missing`` if there is no such file.

        ``link`` says that the file will never change: where it is on the storage's own file system it then gets a
        second name instead of a copy.
        """

    def copy_out(self, path: str, local: Path, *, link: bool = False) -> None:
        """Bring a value to a file of this machine, whole, in place of what is there. ``Missing`` if there is none.

        ``link`` as in ``copy_in``. Not durable: whoever needs the file after a crash of the machine copies it again.
        """


def check_path(path: str) -> str:
    """The path, if it can be one. One that leads out of the storage, or to an unfinished file, cannot."""
    for part in path.split("/"):
        if part in {"", ".", ".."} or "\0" in part or part.startswith(TEMPORARY):
            raise InvalidOption(f"{path!r} is not a path in a storage: {part!r} cannot be a name, choose another")
    return path


def open_store(uri: str, spark: "SparkSession | None" = None, *, directory_mode: int = OWNER_ONLY) -> Store:
    """The storage at a place: a path or ``file:`` on this machine, anything else through ``spark``.

    Nothing is written, and mostly nothing is asked: whether the place can be used shows with the first verb.
    ``directory_mode``: of directories on this machine that are made for it; those that are there stay as they are.
    """
    scheme, authority, path = _split(uri)
    if scheme not in {"", "file"}:
        if spark is None:
            raise InvalidOption(f"storage {uri} is reached through Spark, and there is no session: use a local path")
        from headgate.store.hadoop import HadoopStore  # noqa: PLC0415 - as for TYPE_CHECKING

        return HadoopStore(spark, uri)
    if authority not in {"", "localhost"}:
        raise InvalidOption(f"storage {uri} is on {authority}, another machine: write file:///path with three slashes")
    if not path:
        raise InvalidOption(f"storage {uri!r} names no place: give a path, or a URI with one")
    from headgate.store.local import LocalStore  # noqa: PLC0415 - it builds on this module

    return LocalStore(Path(path), directory_mode)


def _split(uri: str) -> tuple[str, str, str]:
    """Scheme, authority and path. Nothing is decoded: Hadoop does not do it either, so both mean the same place."""
    found = re.fullmatch(r"(?:([A-Za-z][A-Za-z0-9+.-]*):)?(?://([^/]*))?(.*)", uri, re.DOTALL)
    assert found is not None, "every part may be empty"
    scheme, authority, path = found.groups(default="")
    return scheme.lower(), authority, path
