"""Orders about the storage: read the chain, publish, hold, copy a savepoint, list, delete.

One rule: what a record names is in the storage before the record is. A checkpoint's record carries the facts of every
file it names, and the segments that were in flight.
"""

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from headgate import layout
from headgate.channel import segments
from headgate.channel.segments import Entry, Segments
from headgate.core import effects as e
from headgate.core.events import (
    ChainRead,
    CreateUnclear,
    Event,
    FilesDeleted,
    FilesListed,
    HoldSet,
    RecordCreated,
    RecordTaken,
    SavepointCopied,
)
from headgate.core.ids import Batch, ChannelId, CheckpointId, Generation, Run, TaskId
from headgate.core.records import CompletedCheckpoint, InFlight, Record, StoredFile
from headgate.errors import HeadgateError
from headgate.run import savepoints
from headgate.run.loop import Note
from headgate.snapshot.files import FileFacts, tables_of
from headgate.snapshot.take import Snapshots
from headgate.store.jobstore import JobStore

NEWEST = Batch(2**62)
"""The age of a file of which nobody can tell the age: newer than any cut."""


class Storage:
    """The storage of one job, and the working directory beside it."""

    def __init__(
        self,
        store: JobStore,
        root: Path,
        snapshots: Snapshots,
        tell: Callable[[Event | Note], None],
        wait_committed: Callable[[CheckpointId], bool],
    ) -> None:
        """``root`` is the job's working directory: inside the storage, or elsewhere. ``wait_committed`` waits until all
        that was sealed up to a checkpoint is committed, and says whether it is.
        """
        self._wait_committed = wait_committed
        self._store = store
        self._root = root
        self._snapshots = snapshots
        self._tell = tell
        self._extras: dict[CheckpointId, Mapping[str, Any]] = {}

    @property
    def fetch(self) -> Callable[[str, Path], None] | None:
        """Brings a file of the storage to a path, when the storage is not the working directory."""
        return None if self._store.local_root == self._root else self._store.copy_out

    def table(self, checkpoint: CheckpointId | None) -> Mapping[str, FileFacts]:
        """The facts of all files of a checkpoint that the job may begin with."""
        return {} if checkpoint is None else tables_of([self._extras[checkpoint]])

    def segments(self, checkpoint: CheckpointId | None, held: InFlight) -> list[Entry]:
        """The segments that were in flight on a channel, with the names of their files in the job's directory."""
        if checkpoint is None:
            return []
        listed = self._extras[checkpoint].get("segments", {}).get(held.channel, [])
        return [
            Entry(Batch(batch), Run(run), tuple((str(name), int(size)) for name, size in files))
            for batch, run, files in listed
        ]

    # -- the chain -----------------------------------------------------------------------------------------------------

    def read_chain(self, order: e.ReadChain) -> None:
        """Read all records. One that cannot be read is never passed over: nothing begins."""
        records: list[Record] = []
        extras: dict[CheckpointId, Mapping[str, Any]] = {}
        for record, extra in self._store.read_records():
            records.append(record)
            if isinstance(record, CompletedCheckpoint):
                extras[record.id] = extra
        self._extras = extras
        self._snapshots.know(tables_of(extras.values()))
        self._tell(ChainRead(order.leader, tuple(records), self._store.held(), self._store.copied()))

    def create_record(self, order: e.CreateRecord) -> None:
        """Publish, fence or void."""
        record = order.record
        begun = time.monotonic()
        try:
            extra = self._manifest(record) if isinstance(record, CompletedCheckpoint) else {}
            found = self._store.create_record(record, extra)
        except (HeadgateError, OSError) as error:
            self._tell(CreateUnclear(order.leader, record.generation, record.id, str(error)))
            return
        if found is not None:
            self._tell(RecordTaken(order.leader, found))
            return
        if isinstance(record, CompletedCheckpoint):
            self._extras[record.id] = extra
            in_flight = sum(size for entries in extra["segments"].values() for _, _, f in entries for _, size in f)
            self._tell(
                Note(
                    "published",
                    {
                        "checkpoint": record.id,
                        "ms": (time.monotonic() - begun) * 1000,
                        "in_flight_bytes": in_flight,
                        "in_flight": {
                            channel: sum(size for _, _, f in entries for _, size in f)
                            for channel, entries in extra["segments"].items()
                        },
                    },
                )
            )
        self._tell(RecordCreated(order.leader, record.generation, record.id))

    def _manifest(self, record: CompletedCheckpoint) -> dict[str, Any]:
        """The facts of all files that a checkpoint names, once they are all in the storage."""
        never = threading.Event()
        names = [name for snapshot in record.tasks for name in snapshot.files]
        table, _ = self._snapshots.make_durable(names, never)
        flying: dict[str, list[tuple[Batch, Run, list[tuple[str, int]]]]] = {}
        for held in record.channels:
            where = segments.directory_of(held.upstream, record.generation)
            entries = Segments(self._root / where, held.channel).between(held.after, held.through)
            for entry in entries:
                files = [(f"{where}/{name}", size) for name, size in entry.files]
                log = f"{where}/log/{held.channel}/{entry.batch}.json"
                facts, _ = self._snapshots.make_durable([log, *(name for name, _ in files)], never)
                table.update(facts)
                flying.setdefault(held.channel, []).append((entry.batch, entry.run, files))
        return {"files": {name: facts.to_json() for name, facts in table.items()}, "segments": flying}

    def set_hold(self, order: e.SetHold) -> None:
        """Remember a hold."""
        self._store.set_hold(order.checkpoint, held=order.held)
        self._tell(HoldSet(order.leader, order.checkpoint, order.held))

    def copy_savepoint(self, order: e.CopySavepoint) -> None:
        """Make a savepoint self-contained. If it fails, or what it sealed is not committed, it is ordered again."""
        if order.checkpoint not in self._store.copied():
            try:
                record, extra = self._store.read_record(order.checkpoint)
                assert isinstance(record, CompletedCheckpoint)
                savepoints.copy_files(self._store, order.checkpoint, extra)
                if not self._wait_committed(order.checkpoint):
                    return
                savepoints.finish(self._store, record, extra)
            except (HeadgateError, OSError) as error:
                self._tell(Note("warning", {"text": f"savepoint {order.checkpoint} is not copied yet: {error}"}))
                return
        self._tell(SavepointCopied(order.leader, order.checkpoint))

    # -- sweeping ------------------------------------------------------------------------------------------------------

    def list_files(self, order: e.ListFiles) -> None:
        """List what tasks and channels have in the storage and in the working directory."""
        found: dict[str, StoredFile] = {}
        for root in self._roots():
            for file in _task_files(root):
                found[file.name] = file
            for file in _channel_files(root):
                found[file.name] = file
        self._tell(FilesListed(order.generation, tuple(found.values())))

    def delete_files(self, order: e.DeleteFiles) -> None:
        """Delete records first, then files. What cannot be deleted goes with a later sweep."""
        for record in order.records:
            self._store.delete_record(record)
            self._extras.pop(record, None)
        for root in self._roots():
            for name in order.files:
                _delete(root, name)
            _tidy(root, order.generation)
        self._snapshots.forget(order.files)
        self._tell(FilesDeleted(order.generation, order.records))

    def _roots(self) -> list[Path]:
        local = self._store.local_root
        return [self._root] if local is None or local == self._root else [self._root, local]


def _generations(root: Path, kind: str) -> Iterator[tuple[str, Generation, Path]]:
    """The directories of a kind, by owner and generation."""
    top = root / kind
    for owner in sorted(top.iterdir()) if top.is_dir() else ():
        for directory in sorted(owner.iterdir()):
            if directory.name.startswith("g") and directory.name[1:].isdecimal():
                yield owner.name, Generation(int(directory.name[1:])), directory


def _task_files(root: Path) -> Iterator[StoredFile]:
    for task, generation, directory in _generations(root, "tasks"):
        for name, batch in layout.ages(directory).items():
            path = f"tasks/{task}/g{generation}/{name}"
            yield StoredFile(path, generation, TaskId(task), NEWEST if batch is None else batch)


def _channel_files(root: Path) -> Iterator[StoredFile]:
    """A segment stands for its entry in each reader's log; what has no entry is a batch that was never committed."""
    for task, generation, directory in _generations(root, "channels"):
        where = f"channels/{task}/g{generation}"
        entered: set[str] = set()
        log = directory / "log"
        for reader in sorted(log.iterdir()) if log.is_dir() else ():
            for entry in sorted(reader.glob("*.json")):
                batch = entry.stem
                entered.add(batch)
                path = f"{where}/log/{reader.name}/{entry.name}"
                yield StoredFile(path, generation, ChannelId(reader.name), Batch(int(batch)))
        for segment in sorted(directory.iterdir()):
            if segment.name.isdecimal() and segment.name not in entered:
                yield StoredFile(f"{where}/{segment.name}", generation, TaskId(task), NEWEST)


def _delete(root: Path, name: str) -> None:
    path = root / name
    parts = name.split("/")
    if parts[0] == "channels" and len(parts) == 6:
        directory = root.joinpath(*parts[:3])
        segments.drop(directory, ChannelId(parts[4]), Batch(int(parts[5].removesuffix(".json"))))
    elif path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _tidy(root: Path, generation: Generation) -> None:
    """Remove the empty directories of generations that are over."""
    for kind in ("tasks", "channels"):
        for _, made_in, directory in _generations(root, kind):
            if made_in < generation:
                for below, _, _ in os.walk(directory, topdown=False):
                    if not any(Path(below).iterdir()):
                        Path(below).rmdir()
