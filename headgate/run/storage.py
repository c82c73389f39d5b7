"""Orders about the storage: read the checkpoint log, publish, hold, copy a savepoint, list, delete.

One rule: what a record names is in the storage before the record is. A checkpoint's record carries the facts of every
file it names, and the segments that were in flight.
"""

import contextlib
import os
import re
import shutil
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from headgate import layout
from headgate.channel import segments
from headgate.channel.segments import SegmentEntry, Segments
from headgate.core import checkpoint_log, effects as e
from headgate.core.events import (
    CheckpointLogRead,
    CreateUnclear,
    Event,
    FilesDeleted,
    FilesListed,
    HoldSet,
    LeadershipLost,
    RecordCreated,
    RecordTaken,
    SavepointCopied,
    SavepointDeleted,
)
from headgate.core.ids import Batch, ChannelId, CheckpointId, Generation, LeaderId, Run, TaskId
from headgate.core.records import CompletedCheckpoint, EpochRecord, InFlight, Record, StoredFile
from headgate.errors import BadStorage, HeadgateError, UserError
from headgate.receipts.receipt import SECTION
from headgate.run import savepoints
from headgate.run.loop import Observation
from headgate.run.receipts import Receipts
from headgate.run.staged import StagedFiles
from headgate.snapshot.files import FileFacts, tables_of
from headgate.snapshot.take import Snapshots
from headgate.store.api import Forbidden
from headgate.store.jobstore import JobStore
from headgate.store.manifests import NO_TASK

FOLD_MIN = 16
"""With this many records that nobody needs to read, it is written down which they are."""
NEWEST = Batch(2**62)
"""The age of a file of which nobody can tell the age: newer than any cut."""
ENTRY = re.compile(r"(channels/[^/]+/g[0-9]+)/log/([^/]+)/([0-9]+)\.json")
"""An entry of a channel's log. It stands for the segment that it names, which is in a directory of its number."""


class Storage:
    """The storage of one job, and the working directory beside it."""

    def __init__(
        self,
        store: JobStore,
        root: Path,
        snapshots: Snapshots,
        tell: Callable[[Event | Observation], None],
        wait_committed: Callable[[CheckpointId], bool],
    ) -> None:
        """``root`` is the job's working directory: inside the storage, or elsewhere. ``wait_committed`` waits until all
        that was pre-committed up to a checkpoint is committed, and says whether it is.
        """
        self._wait_committed = wait_committed
        self._store = store
        self._root = root
        self._snapshots = snapshots
        self.staged = StagedFiles(store, root)
        self.receipts = Receipts()
        self._tell = tell
        self._extras: dict[CheckpointId, Mapping[str, Any]] = {}
        self._copied: set[str] = set()
        self._stored: set[str] = set()
        """What the last listing showed in a storage that is not a folder here. Both belong to the serial executor
        ``garbage``."""

    @property
    def fetch(self) -> Callable[[str, Path], None] | None:
        """Brings a file of the storage to a path, when the storage is not the working directory."""
        return None if self._store.local_root == self._root else self._store.copy_out

    def table(self, checkpoint: CheckpointId | None) -> Mapping[str, FileFacts]:
        """The facts of all files of a checkpoint that the job may begin with."""
        return {} if checkpoint is None else tables_of([self._extras[checkpoint]])

    def segments(self, checkpoint: CheckpointId | None, held: InFlight) -> list[SegmentEntry]:
        """The segments that were in flight on a channel, with the names of their files in the job's directory."""
        if checkpoint is None:
            return []
        listed = self._extras[checkpoint].get("segments", {}).get(held.channel, [])
        return [
            SegmentEntry(Batch(batch), Run(run), tuple((str(name), int(size)) for name, size in files))
            for batch, run, files in listed
        ]

    # -- the checkpoint log ----------------------------------------------------------------------------------------

    def read_checkpoint_log(self, order: e.ReadCheckpointLog) -> None:
        """Read all records. One that cannot be read is never passed over: nothing begins.

        A storage that is away is asked again, since the order is given again.
        """
        records: list[Record] = []
        extras: dict[CheckpointId, Mapping[str, Any]] = {}
        try:
            for record, extra in self._store.read_records():
                records.append(record)
                if isinstance(record, CompletedCheckpoint):
                    extras[record.id] = extra
            held, copied = self._store.held(), self._store.copied()
        except (HeadgateError, OSError) as error:
            if _is_final(error):
                raise
            self._warn(f"the checkpoint log could not be read: {error}")
            return
        for savepoint in self._store.carried_off():
            if savepoint in extras:
                self._warn(
                    f"the directory of savepoint {savepoint} is gone, and it is not copied again: put it back, or "
                    f"delete the savepoint with `headgate savepoint delete {self._store.job} {savepoint}`"
                )
        self._fold(order.leader, tuple(records))
        self._extras = extras
        self._know_receipts(extras)
        self._snapshots.know(tables_of(extras.values()))
        self._tell(CheckpointLogRead(order.leader, tuple(records), held, copied))

    def _know_receipts(self, extras: Mapping[CheckpointId, Mapping[str, Any]]) -> None:
        """Of what the newest checkpoint may still have to commit. Receipts decide nothing, so nothing ends here."""
        try:
            if extras:
                newest = max(extras)
                self.receipts.know(extras[newest], f"the record of checkpoint {newest}")
        except BadStorage as error:
            self._warn(str(error))

    def _fold(self, leader: LeaderId, records: tuple[Record, ...]) -> None:
        """Once our own epoch record is the last record, let nobody read again what it has made superfluous."""
        tail = records[-1] if records else None
        if not isinstance(tail, EpochRecord) or tail.leader != leader:
            return
        needed = checkpoint_log.needed(records)
        if len(records) - len(needed) > FOLD_MIN:
            with contextlib.suppress(HeadgateError, OSError):  # Then the next start takes longer.
                self._store.fold(tail, needed)

    def create_record(self, order: e.CreateRecord) -> None:
        """Publish, an epoch record or an aborted entry. What will not be there at the next try either ends the process.

        A storage that is full, away or read-only is tried again, for as long as it takes.
        """
        record = order.record
        begun = time.monotonic()
        try:
            extra: dict[str, Any] = {}
            if isinstance(record, CompletedCheckpoint):
                extra = self._manifest(record)
                if receipts := self.receipts.section(record):
                    extra[SECTION] = receipts
            found = self._store.create_record(record, extra)
        except (HeadgateError, OSError) as error:
            if _is_final(error):
                raise
            if isinstance(error, FileNotFoundError) and self._store.is_there():
                raise BadStorage(
                    f"checkpoint {record.id} names {error.filename}, which is gone: run the job again, and it goes on "
                    "from its last checkpoint"
                ) from error
            self._tell(CreateUnclear(order.leader, record.generation, record.id, str(error)))
            return
        if found is not None:
            self._tell(RecordTaken(order.leader, found))
            return
        if isinstance(record, CompletedCheckpoint):
            self._extras[record.id] = extra
            in_flight = sum(size for entries in extra["segments"].values() for _, _, f in entries for _, size in f)
            self._tell(
                Observation(
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
        groups: dict[str, list[dict[str, FileFacts]]] = {
            str(snapshot.task): [group.files for group in self._snapshots.groups(snapshot.task, snapshot.files)]
            for snapshot in record.tasks
        }
        table: dict[str, FileFacts] = {}
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
        groups[NO_TASK] = [table]
        return {"groups": groups, "segments": flying}

    def set_hold(self, order: e.SetHold) -> None:
        """Remember a hold. If that fails it is ordered again.

        Whoever leads next reads the holds after its epoch record. So one that is there before any such epoch record is
        heeded; and if somebody else's record is the newest by then, it is taken back, and this process hears that it
        leads no more.
        """
        try:
            new = order.held and order.checkpoint not in self._store.held()
            if new:
                self._store.set_hold(order.checkpoint, held=True)
            newest = self._store.newest()
            if newest is not None and newest.leader != order.leader:
                if new:
                    self._store.set_hold(order.checkpoint, held=False)
                self._tell(LeadershipLost(order.leader))
                return
            if not order.held:
                self._store.set_hold(order.checkpoint, held=False)
        except (HeadgateError, OSError) as error:
            self._warn(f"whether checkpoint {order.checkpoint} is held is not written down yet: {error}")
            return
        self._tell(HoldSet(order.leader, order.checkpoint, order.held))

    def copy_savepoint(self, order: e.CopySavepoint) -> None:
        """Make a savepoint self-contained.

        If it fails, or what it pre-committed is not committed, it is ordered again.
        """
        try:
            if order.checkpoint not in self._store.copied():
                record, extra = self._store.read_record(order.checkpoint)
                assert isinstance(record, CompletedCheckpoint)
                savepoints.copy_files(self._store, order.checkpoint, extra, self._copied)
                if not self._wait_committed(order.checkpoint):
                    return
                savepoints.finish(self._store, record, extra)
                self._copied.clear()
        except (HeadgateError, OSError) as error:
            self._warn(f"savepoint {order.checkpoint} is not copied yet: {error}")
            return
        self._tell(SavepointCopied(order.leader, order.checkpoint))

    def delete_savepoint(self, order: e.DeleteSavepoint) -> None:
        """Delete a savepoint. If it fails it is ordered again; who no longer leads deletes nothing.

        What another checkpoint names of a savepoint that was brought in stays: a finished task is as it was there.
        """
        try:
            if self._store.read_checkpoint_log()[-1].leader != order.leader:
                return
            others = [extra for number, extra in self._extras.items() if number != order.checkpoint]
            savepoints.delete(self._store, order.checkpoint, frozenset(tables_of(others)))
        except UserError:
            raise
        except (HeadgateError, OSError) as error:
            self._warn(f"savepoint {order.checkpoint} is not deleted yet: {error}")
            return
        self._extras.pop(order.checkpoint, None)
        self._tell(SavepointDeleted(order.leader, order.checkpoint))

    # -- garbage collection --------------------------------------------------------------------------------------------

    def list_files(self, order: e.ListFiles) -> None:
        """List what tasks and channels have in the working directory and in the storage.

        What is in both is as old as the working directory says, where all that needs it is.
        """
        found: dict[str, StoredFile] = {}
        try:
            for file in self._listed():
                found.setdefault(file.name, file)
        except (HeadgateError, OSError) as error:  # What was not listed goes with a later collection.
            self._warn(f"what nobody needs any more could not be listed: {error}")
        self._tell(FilesListed(order.generation, tuple(found.values())))

    def delete_files(self, order: e.DeleteFiles) -> None:
        """Delete records first, then files. Files that cannot be deleted go with a later collection."""
        try:
            self._store.delete_record(*order.records)
        except (HeadgateError, OSError) as error:  # Then what they name stays, and the collection is ordered again.
            self._warn(f"records that are no longer kept could not be deleted: {error}")
            return
        for record in order.records:
            self._extras.pop(record, None)
        for root in self._roots():
            for name in order.files:
                with contextlib.suppress(OSError):
                    _delete(root, name)
            _tidy(root, order.generation)
        if self._store.local_root is None:
            going = self._stored.intersection(order.files)
            alone = _left_alone(self._stored, going)
            with contextlib.suppress(HeadgateError, OSError):
                self._store.delete(*going, *alone)
                self._stored.difference_update(going, alone)
        if order.files:
            layout.TABLES.prune()
        entries = [entry for name in order.files if (entry := ENTRY.fullmatch(name))]
        self._snapshots.forget(order.files, [f"{entry[1]}/{entry[3]}" for entry in entries])
        self._tell(FilesDeleted(order.generation, order.records))

    def _roots(self) -> list[Path]:
        local = self._store.local_root
        return [self._root] if local is None or local == self._root else [self._root, local]

    def _listed(self) -> Iterator[StoredFile]:
        for root in self._roots():
            yield from _task_files(root)
            yield from _channel_files(root)
        if self._store.local_root is None:
            self._stored = {entry.path for kind in ("tasks", "channels") for entry in self._store.list(kind)}
            yield from _stored_files(sorted(self._stored))

    def _warn(self, text: str) -> None:
        self._tell(Observation("warning", {"text": text}))


def _is_final(error: Exception) -> bool:
    """Whether a storage that is asked again would say the same."""
    return isinstance(error, UserError) and not isinstance(error, Forbidden)


def _generations(root: Path, kind: str) -> Iterator[tuple[str, Generation, Path]]:
    """The directories of a kind, by owner and generation."""
    top = root / kind
    for directory in sorted(top.glob("*/g*/")):
        if directory.name[1:].isdecimal():
            yield directory.parent.name, Generation(int(directory.name[1:])), directory


def _task_files(root: Path) -> Iterator[StoredFile]:
    for task, generation, directory in _generations(root, "tasks"):
        owner = TaskId(task)
        for path, batch in layout.ages(directory, f"tasks/{task}/g{generation}/").items():
            yield StoredFile(path, generation, owner, NEWEST if batch is None else batch)


def _channel_files(root: Path) -> Iterator[StoredFile]:
    """A segment stands for its entry in each reader's log; what has no entry is a batch that was never committed."""
    for task, generation, directory in _generations(root, "channels"):
        where = f"channels/{task}/g{generation}"
        entered: set[str] = set()
        log = directory / "log"
        for reader in sorted(log.iterdir()) if log.is_dir() else ():
            for entry in sorted(reader.glob("*.json")):
                path = f"{where}/log/{reader.name}/{entry.name}"
                if ENTRY.fullmatch(path):
                    entered.add(entry.stem)
                    yield StoredFile(path, generation, ChannelId(reader.name), Batch(int(entry.stem)))
        for segment in sorted(directory.iterdir()):
            if segment.name.isdecimal() and segment.name not in entered:
                yield StoredFile(f"{where}/{segment.name}", generation, TaskId(task), NEWEST)


def _stored_files(paths: Collection[str]) -> Iterator[StoredFile]:
    """The same of a storage that has no directories, only names. What the working directory has too is judged there."""
    entries = [entry for path in paths if (entry := ENTRY.fullmatch(path))]
    entered = {(entry[1], entry[3]) for entry in entries}
    for path in paths:
        made = re.fullmatch(r"((?:tasks|channels)/([^/]+)/g([0-9]+))/([^/]+)(/.*)?", path)
        entry = ENTRY.fullmatch(path)
        if entry and made:
            yield StoredFile(path, Generation(int(made[3])), ChannelId(entry[2]), Batch(int(entry[3])))
        elif made and (made[1], made[4]) not in entered:
            yield StoredFile(path, Generation(int(made[3])), TaskId(made[2]), NEWEST)


def _left_alone(paths: Collection[str], going: set[str]) -> list[str]:
    """The files of segments whose last entry is going."""
    last = {(entry[1], entry[3]) for path in going if (entry := ENTRY.fullmatch(path))}
    if not last:
        return []
    last -= {(entry[1], entry[3]) for path in paths if path not in going and (entry := ENTRY.fullmatch(path))}
    prefixes = tuple(f"{directory}/{batch}/" for directory, batch in last)
    return [path for path in paths if path.startswith(prefixes)]


def _delete(root: Path, name: str) -> None:
    path = root / name
    entry = ENTRY.fullmatch(name)
    if entry:
        segments.drop(root / entry[1], ChannelId(entry[2]), Batch(int(entry[3])))
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
                    with contextlib.suppress(OSError):  # Something is in it, or a query that is being stopped writes.
                        Path(below).rmdir()
