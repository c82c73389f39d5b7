"""Savepoints: checkpoints that stand on their own.

One rule: everything a savepoint needs is in its directory, under the names that it had in the job's, and its manifest
comes last. It comes only when all that the savepoint pre-committed is committed, so nothing outside is owed to it. A
directory with a manifest can be moved, copied, and kept anywhere.

A savepoint from elsewhere is brought in by publishing it: it becomes the newest checkpoint of the checkpoint log. An
epoch record goes first: whoever led before can no longer publish, so the number that the savepoint gets is nobody
else's, and all that was decided to be committed is known.
"""

import contextlib
import dataclasses
import os
import re
import tempfile
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headgate.core import checkpoint_log, deleting, recovery
from headgate.core.ids import CheckpointId, LeaderId
from headgate.core.records import CompletedCheckpoint, EpochRecord, Kind, Record
from headgate.errors import BadStorage, ExternalError, HeadgateError, InvalidOption
from headgate.receipts.receipt import SECTION
from headgate.snapshot.files import Table, check, tables_of
from headgate.store import codec
from headgate.store.api import Missing, Store, open_store
from headgate.store.jobstore import JobStore

MANIFEST = "manifest.json"
EPOCH_RECORDS_MAX = 100
"""How often an epoch record is tried behind somebody who goes on publishing."""


def directory_of(savepoint: CheckpointId) -> str:
    """Where a savepoint's own copy is, in the job's folder."""
    return f"savepoints/{savepoint}"


def path_of(uri: str, savepoint: CheckpointId) -> str:
    """The same with the job's folder: what a user gives to begin there."""
    return f"{uri}/{directory_of(savepoint)}"


def copy_files(store: JobStore, savepoint: CheckpointId, extra: Mapping[str, Any], done: set[str]) -> None:
    """Copy all that a savepoint names, but for what is ``done``, and add to that.

    What somebody else left there is not relied on: it may be of another savepoint, which was never brought in whole.
    """
    where = directory_of(savepoint)
    for name in tables_of([extra]):
        target = f"{where}/{name}"
        if target not in done:
            _copy_within(store, name, target)
            done.add(target)


def _copy_within(store: JobStore, name: str, target: str) -> None:
    if store.local_root is not None:
        store.copy_in(store.local_root / name, target)
        return
    with tempfile.TemporaryDirectory(prefix="headgate-") as scratch:
        store.copy_out(name, Path(scratch) / "file")
        store.copy_in(Path(scratch) / "file", target)


def finish(store: JobStore, record: CompletedCheckpoint, extra: Mapping[str, Any]) -> None:
    """Write the manifest. All that the savepoint pre-committed is committed by now."""
    whole = dataclasses.replace(record, transactions=(), request=None, stop=False)
    # It owes nothing, so nobody publishes by its receipts; and they say where sinks are, which does not move with it.
    kept = {name: section for name, section in extra.items() if name != SECTION}
    store.put(f"{directory_of(record.id)}/{MANIFEST}", codec.encode(whole, kept))
    store.mark_copied(record.id)


def delete(store: JobStore, savepoint: CheckpointId, needed: frozenset[str] = frozenset()) -> None:
    """Delete a savepoint: its record, its manifest, and then all that it has and nobody else needs."""
    directory = directory_of(savepoint)
    store.delete_record(savepoint)
    store.delete(f"{directory}/{MANIFEST}")
    store.delete(*(entry.path for entry in store.list(directory) if entry.path not in needed))
    store.set_label(savepoint, "")
    store.forget_copied(savepoint)


def delete_at_rest(store: JobStore, savepoint: CheckpointId) -> None:
    """Delete a savepoint of a job that nobody runs, by the same rules as one that runs."""
    records = store.read_checkpoint_log()
    completed = tuple(record for record in records if isinstance(record, CompletedCheckpoint))
    known = any(checkpoint.id == savepoint for checkpoint in completed)
    if known or savepoint not in store.copied():  # A copy without a record is left where a process was killed.
        why = deleting.why_not(completed, recovery.latest(records), store.held(), savepoint)
        if why is not None:
            raise InvalidOption(f"savepoint {savepoint} is not deleted: {why}")
    others = [store.read_record(checkpoint.id)[1] for checkpoint in completed if checkpoint.id != savepoint]
    delete(store, savepoint, frozenset(tables_of(others)))


def read(path: Path) -> tuple[CompletedCheckpoint, dict[str, Any]]:
    """The savepoint in a directory, seen to be whole."""
    return read_from(open_store(str(path)))


def read_from(source: Store) -> tuple[CompletedCheckpoint, dict[str, Any]]:
    """The savepoint in a folder of any storage, seen to be whole; only sizes are looked at where it is not here."""
    where = source.local_root or source.uri
    try:
        data = source.read(MANIFEST)
    except Missing as error:
        raise BadStorage(f"{where} is not a savepoint: it has no {MANIFEST}") from error
    record, extra = codec.decode(data, f"{where}/{MANIFEST}")
    if not isinstance(record, CompletedCheckpoint):
        raise BadStorage(f"{where}/{MANIFEST} is not the manifest of a savepoint: give another directory")
    table = tables_of([extra])
    wrong = _wrong_sizes(source, table) if source.local_root is None else check(source.local_root, table)
    if wrong:
        raise BadStorage(f"savepoint {where} cannot be restored: {wrong[0]}")
    return record, extra


def _wrong_sizes(source: Store, table: Table) -> list[str]:
    sizes = {entry.path: entry.size for entry in source.list()}
    return [
        f"{source.uri}/{name} is gone or cut short" for name, facts in table.items() if sizes.get(name) != facts.size
    ]


@dataclass(frozen=True)
class ImportedSavepoint:
    """A savepoint from elsewhere, seen to be whole. Nothing is written yet."""

    source: Store
    record: CompletedCheckpoint
    extra: Mapping[str, Any]

    def read(self, name: str) -> bytes:
        """A file of it, by the name that it has in the job's storage once it is there."""
        return self.source.read(re.sub(r"^savepoints/[0-9]+/", "", name))

    def copy(self, name: str, store: JobStore, target: str) -> None:
        """Copy a file of it into the job's storage."""
        root = self.source.local_root
        if root is not None:
            store.copy_in(root / name, target)
            return
        with tempfile.TemporaryDirectory(prefix="headgate-") as scratch:
            self.source.copy_out(name, Path(scratch) / "file")
            store.copy_in(Path(scratch) / "file", target)

    def delete(self) -> None:
        """Delete it from where it was: its manifest first, so that nobody takes what is left for whole."""
        self.source.delete(MANIFEST)
        self.source.delete(*tables_of([self.extra]))
        root = self.source.local_root
        for folder, _, _ in os.walk(root, topdown=False) if root is not None else ():
            with contextlib.suppress(OSError):  # Something else is in it.
                Path(folder).rmdir()

    def behind(
        self, epoch_record: EpochRecord, records: tuple[Record, ...]
    ) -> tuple[CompletedCheckpoint, dict[str, Any]]:
        """What it is as the first checkpoint after an epoch record, with ``records`` before it."""
        prefix = directory_of(epoch_record.next_id)
        record = dataclasses.replace(
            self.record,
            id=epoch_record.next_id,
            generation=epoch_record.generation,
            leader=epoch_record.leader,
            kind=Kind.SAVEPOINT,
            tasks=tuple(
                dataclasses.replace(
                    task, generation=epoch_record.generation, files=tuple(f"{prefix}/{name}" for name in task.files)
                )
                for task in self.record.tasks
            ),
            # What this job had decided to commit stays decided.
            transactions=tuple(transaction for _, transaction in recovery.owed(records)),
            keeps=None,
        )
        return record, _prefixed(self.extra, prefix)


def prepare(store: JobStore, path: Path) -> ImportedSavepoint | CheckpointId:
    """See that a savepoint is whole; or its number, if it is our own."""
    return prepare_from(store, open_store(str(path)))


def prepare_from(store: JobStore, source: Store) -> ImportedSavepoint | CheckpointId:
    """The same of one in a folder of any storage."""
    record, extra = read_from(source)
    if _is_at(source, store, record.id) and any(each.id == record.id for each in store.read_checkpoint_log()):
        return record.id
    recovery.refuse_drained(record)
    return ImportedSavepoint(source, record, extra)


def _is_at(source: Store, store: JobStore, number: CheckpointId) -> bool:
    """Whether it is where the job has its own copy of a savepoint."""
    if source.local_root is None or store.local_root is None:
        return source.uri == path_of(store.uri, number)
    return source.local_root.resolve() == (store.local_root / directory_of(number)).resolve()


def foresee(store: JobStore, imported: ImportedSavepoint) -> tuple[Record, ...]:
    """The checkpoint log as it would be with a savepoint from elsewhere. Nothing is written."""
    records = store.read_checkpoint_log()
    epoch_record = _next_epoch_record(records, LeaderId("import"))
    return (*records, epoch_record, imported.behind(epoch_record, records)[0])


def publish(store: JobStore, imported: ImportedSavepoint) -> CheckpointId:
    """Make a savepoint the newest checkpoint of the job: an epoch record, its files, its record, and its manifest last
    of all.

    If that fails, nothing of it is left but the epoch record.
    """
    epoch_record, records = write_epoch_record(store, LeaderId(f"import-{uuid.uuid4().hex[:12]}"))
    _clear_leftovers(store, epoch_record, records)
    record, extra = imported.behind(epoch_record, records)
    prefix = directory_of(record.id)
    try:
        for name in extra["files"]:
            imported.copy(name.removeprefix(f"{prefix}/"), store, name)
    except BaseException:
        _delete_all(store, prefix)
        raise
    found = store.create_record(record, extra)  # If this fails the record may be there all the same: its files stay.
    if found is not None and not checkpoint_log.is_same(found, record):
        _delete_all(store, prefix)
        raise BadStorage(f"job {store.job} was started by another process meanwhile: try again")
    imported.copy(MANIFEST, store, f"{prefix}/{MANIFEST}")
    store.mark_copied(record.id)
    return record.id


def write_epoch_record(
    store: JobStore, leader: LeaderId, change: Callable[[EpochRecord], EpochRecord] = lambda epoch_record: epoch_record
) -> tuple[EpochRecord, tuple[Record, ...]]:
    """Put an epoch record where whoever leads would publish next, and see that it is the last record.

    Returns the checkpoint log.
    """
    for _ in range(EPOCH_RECORDS_MAX):
        epoch_record = change(_next_epoch_record(store.read_checkpoint_log(), leader))
        if store.create_record(epoch_record, {}) is None:
            records = store.read_checkpoint_log()
            if checkpoint_log.is_same(records[-1], epoch_record):
                return epoch_record, records
    raise ExternalError(f"job {store.job}: other processes go on publishing: stop them, and try again")


def _next_epoch_record(records: tuple[Record, ...], leader: LeaderId) -> EpochRecord:
    return checkpoint_log.epoch_record(records, leader, recovery.latest(records), CheckpointId(0))


def _clear_leftovers(store: JobStore, epoch_record: EpochRecord, records: tuple[Record, ...]) -> None:
    """Delete what was copied for savepoints that were never brought in: behind our epoch record, they never will be."""
    known = {record.id for record in records if isinstance(record, CompletedCheckpoint)} | set(store.copied())
    begun = {entry.path.split("/")[1] for entry in store.list("savepoints")}
    for name in begun:
        if name.isdecimal() and int(name) <= epoch_record.id and int(name) not in known:
            _delete_all(store, f"savepoints/{name}")


def _delete_all(store: JobStore, directory: str) -> None:
    """Delete a directory, as far as that goes."""
    with contextlib.suppress(HeadgateError, OSError):
        store.delete(*(entry.path for entry in store.list(directory)))


def _prefixed(extra: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    return {
        "files": {f"{prefix}/{name}": facts for name, facts in extra["files"].items()},
        "segments": {
            channel: [
                [batch, run, [[f"{prefix}/{name}", size] for name, size in files]] for batch, run, files in entries
            ]
            for channel, entries in extra["segments"].items()
        },
    }
