"""Savepoints: checkpoints that stand on their own.

One rule: everything a savepoint needs is in its directory, under the names that it had in the job's, and its manifest
comes last. It comes only when all that the savepoint sealed is committed, so nothing outside is owed to it. A directory
with a manifest can be moved, copied, and kept anywhere.

A savepoint from elsewhere is brought in by publishing it: it becomes the newest checkpoint of the chain, in the one
place where whoever leads would create his next record, who is thereby fenced off.
"""

import dataclasses
import tempfile
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headgate.core import chain
from headgate.core.ids import CheckpointId, Generation, LeaderId
from headgate.core.records import CompletedCheckpoint, Fence, Kind, Record
from headgate.errors import BadStorage
from headgate.snapshot.files import check, tables_of
from headgate.store import codec
from headgate.store.jobstore import JobStore

MANIFEST = "manifest.json"


def directory_of(savepoint: CheckpointId) -> str:
    """Where a savepoint's own copy is, in the job's folder."""
    return f"savepoints/{savepoint}"


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
    """Write the manifest. All that the savepoint sealed is committed by now."""
    whole = dataclasses.replace(record, transactions=(), request=None, stop=False)
    store.put(f"{directory_of(record.id)}/{MANIFEST}", codec.encode(whole, extra))


def read(path: Path) -> tuple[CompletedCheckpoint, dict[str, Any]]:
    """The savepoint in a directory, seen to be whole."""
    try:
        data = (path / MANIFEST).read_bytes()
    except OSError as error:
        raise BadStorage(f"{path} is not a savepoint: it has no {MANIFEST}") from error
    record, extra = codec.decode(data, str(path / MANIFEST))
    if not isinstance(record, CompletedCheckpoint):
        raise BadStorage(f"{path / MANIFEST} is not the manifest of a savepoint: give another directory")
    wrong = check(path, tables_of([extra]))
    if wrong:
        raise BadStorage(f"savepoint {path} cannot be restored: {wrong[0]}")
    return record, extra


@dataclass(frozen=True)
class Brought:
    """A savepoint from elsewhere, as it will stand in the chain. Nothing is written yet."""

    path: Path
    record: CompletedCheckpoint
    extra: Mapping[str, Any]


def prepare(store: JobStore, path: Path) -> Brought | CheckpointId:
    """See that a savepoint is whole, and what it would be as the newest checkpoint; or its number, if it is our own."""
    record, extra = read(path)
    records = store.read_chain()
    own = store.local_root is not None and path.resolve() == (store.local_root / directory_of(record.id)).resolve()
    if own and any(each.id == record.id for each in records):
        return record.id
    number, generation = _place(records)
    prefix = directory_of(number)
    newest = next((each for each in reversed(records) if isinstance(each, CompletedCheckpoint)), None)
    brought = dataclasses.replace(
        record,
        id=number,
        generation=generation,
        leader=LeaderId(f"import-{uuid.uuid4().hex[:12]}"),
        kind=Kind.SAVEPOINT,
        tasks=tuple(
            dataclasses.replace(task, generation=generation, files=tuple(f"{prefix}/{name}" for name in task.files))
            for task in record.tasks
        ),
        # What this job had decided to commit stays decided.
        transactions=newest.transactions if newest is not None else (),
    )
    return Brought(path, brought, _prefixed(extra, prefix))


def publish(store: JobStore, brought: Brought) -> CheckpointId:
    """Make a savepoint the newest checkpoint of the job: its files first, then its record.

    Its manifest comes last of all: before there is a record, another savepoint may get the number.
    """
    prefix = directory_of(brought.record.id)
    for name in brought.extra["files"]:
        store.copy_in(brought.path / name.removeprefix(f"{prefix}/"), name)
    if store.create_record(brought.record, brought.extra) is not None:
        raise BadStorage(f"job {store.job} was started by another process meanwhile: try again")
    store.copy_in(brought.path / MANIFEST, f"{prefix}/{MANIFEST}")
    return brought.record.id


def _place(records: tuple[Record, ...]) -> tuple[CheckpointId, Generation]:
    """Where the next record goes, as for a fence, and the generation it counts to."""
    if not records:
        return CheckpointId(0), Generation(1)
    fence: Fence = chain.fence(records, LeaderId("import"), None, CheckpointId(0))
    return fence.id, Generation(fence.generation - 1)


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
