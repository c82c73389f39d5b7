"""Savepoints that are written to another place: a directory, or a folder of any storage.

One rule: whatever is wrong with the place is said before the savepoint is taken, and what is there then is a whole
savepoint, or nothing. The place is empty or not there yet; a claim goes first, so that two never write to one; the
manifest comes last. What could not be finished is deleted again, and the savepoint is in the job's own storage all the
same: that is where it is complete first, and where it stays.
"""

import contextlib
import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

from headgate.core.ids import CheckpointId
from headgate.errors import BadStorage, HeadgateError, InvalidOption
from headgate.run.savepoints import MANIFEST, directory_of
from headgate.snapshot.files import tables_of
from headgate.store import codec
from headgate.store.api import TEMPORARY, Store
from headgate.store.jobstore import JobStore

CLAIM = "being-written"
"""A file that is in the place for as long as it is written to."""

Opener = Callable[[str], Store]


class ExportGivenUp(Exception):
    """The process ends: nobody goes on copying."""


class Exports:
    """Writes savepoints of a job to other places. ``open_target`` opens one that a user names."""

    def __init__(self, store: JobStore, open_target: Opener) -> None:
        """Nothing is written yet."""
        self.store = store
        self._open_target = open_target

    def claim(self, target: str) -> "Export":
        """Take a place for one savepoint. ``InvalidOption`` if it cannot be used, ``ExternalError`` if it is away."""
        if absolute(target) != target and not Path(target).is_absolute():
            raise InvalidOption(f"target {target}: give an absolute path, or a URI")
        try:
            place = self._open_target(target)
            self._refuse_inside(target, place)
            return _claimed(self.store, target, place)
        except BadStorage as error:
            raise InvalidOption(f"target {target}: {error}") from error
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            raise InvalidOption(f"target {target} cannot be used: {why}; give a directory to write to") from error

    def _refuse_inside(self, target: str, place: Store) -> None:
        own = self.store.local_root
        if own is not None and place.local_root is not None:
            inside = place.local_root.resolve().is_relative_to(own.resolve())
        else:
            inside = f"{place.uri}/".startswith(f"{self.store.uri}/")
        if inside:
            raise InvalidOption(f"target {target} is in the job's own storage: a savepoint is there anyway")


class Export:
    """One place, claimed for one savepoint."""

    def __init__(self, store: JobStore, target: str, place: Store) -> None:
        """It is claimed."""
        self.location = place.uri
        self._store = store
        self._target = target
        self._place = place

    def write(self, savepoint: CheckpointId, given_up: threading.Event) -> None:
        """Copy a savepoint there, from its complete copy in the storage. Ends early when it is ``given_up``."""
        where = directory_of(savepoint)
        done: list[str] = []
        try:
            manifest = self._store.read(f"{where}/{MANIFEST}")
            _, extra = codec.decode(manifest, f"{self._store.uri}/{where}/{MANIFEST}")
            with tempfile.TemporaryDirectory(prefix="headgate-") as scratch:
                for name in tables_of([extra]):
                    done.append(name)
                    self._copy(f"{where}/{name}", name, Path(scratch) / "file", given_up)
            done.append(MANIFEST)
            self._place.put(MANIFEST, manifest)
        except BaseException:
            with contextlib.suppress(HeadgateError, OSError):
                self._place.delete(*reversed(done))  # The manifest first, should it be there.
            self.abandon()
            raise
        self.abandon()

    def abandon(self) -> None:
        """Give the place back."""
        with contextlib.suppress(HeadgateError, OSError):
            self._place.delete(CLAIM)

    def _copy(self, name: str, target: str, scratch: Path, given_up: threading.Event) -> None:
        if given_up.is_set():
            raise ExportGivenUp("the process that wrote it has ended")
        root = self._store.local_root
        if root is not None:
            self._place.copy_in(root / name, target)
            return
        self._store.copy_out(name, scratch)
        self._place.copy_in(scratch, target)


def absolute(target: str | os.PathLike[str]) -> str:
    """A place as another process understands it."""
    place = os.fspath(target)
    return place if "://" in place or place.startswith("file:") else os.path.abspath(place)  # noqa: PTH100 - of a text


def _claimed(store: JobStore, target: str, place: Store) -> Export:
    """The place, if nothing is there. Who looks first and claims then may find that another has claimed meanwhile."""
    _refuse_used(target, place)
    if not place.create_if_absent(CLAIM, uuid4().hex.encode()):
        raise InvalidOption(f"target {target}: another savepoint is being written there; give another directory")
    export = Export(store, target, place)
    try:
        _refuse_used(target, place)
    except BaseException:
        export.abandon()
        raise
    return export


def _refuse_used(target: str, place: Store) -> None:
    root = place.local_root
    found = (entry.path for entry in place.list()) if root is None else _below(root)
    there = next((path for path in found if path != CLAIM), None)
    if there is not None:
        raise InvalidOption(f"target {target} is not empty ({there}): give a directory that is empty or not there yet")


def _below(root: Path) -> Iterator[str]:
    """All that is in a directory and those below it, but for them, and for what is not finished there."""

    def fail(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):  # It is not there yet.
            raise error

    for folder, directories, files in os.walk(root, onerror=fail):
        links = (name for name in directories if (Path(folder) / name).is_symlink())
        names = (name for name in files if not name.startswith(TEMPORARY))
        yield from ((Path(folder) / name).relative_to(root).as_posix() for name in (*links, *names))
