"""Jobs that nobody runs: given up for good, or forgotten with all that the storage knows of them.

One rule: what is owed to the outside is never dropped without being named. And nothing is half forgotten: a mark goes
first, and while it is there the job cannot be run; the claim on the folder goes last.
"""

import contextlib
import os
import uuid
from collections.abc import Collection, Sequence
from pathlib import Path

from headgate.core import recovery
from headgate.core.evolve import evolve
from headgate.core.ids import LeaderId, SinkId
from headgate.core.records import Ending, EpochRecord, Record, Transaction
from headgate.errors import InvalidOption
from headgate.run import savepoints
from headgate.run.control import ControlClient
from headgate.store.jobstore import JobStore

AT_ONCE = 1000
"""How many files are deleted in one call."""


def cancel(store: JobStore, abandon: Sequence[str]) -> str:
    """Write down that a job is over. Its checkpoints stay: only its own settings know whether they should go."""
    records = store.read_checkpoint_log()
    tail = records[-1] if records else None
    if isinstance(tail, EpochRecord) and tail.ending is Ending.CANCELLED:
        raise InvalidOption(f"job {store.job} is cancelled already")
    given_up = _given_up(store, records, abandon)

    def close(epoch_record: EpochRecord) -> EpochRecord:
        return evolve(epoch_record, ending=Ending.CANCELLED, abandoned=given_up)

    savepoints.write_epoch_record(store, LeaderId(f"cancel-{uuid.uuid4().hex[:12]}"), close)
    return f"the job is cancelled; its checkpoints are kept: `headgate forget {store.job}` removes them"


def forget(store: JobStore, abandon: Sequence[str], working_directory: Path | None) -> str:
    """Delete all that the storage knows of a job. Returns what that did not reach."""
    records = store.read_checkpoint_log()
    _given_up(store, records, abandon)
    store.begin_forgetting()
    if ControlClient(store).ping() is not None:
        store.end_forgetting()
        raise InvalidOption(f"job {store.job} was started meanwhile: stop it first")
    paths = [entry.path for entry in store.list() if not store.goes_last(entry.path)]
    for first in range(0, len(paths), AT_ONCE):
        store.delete(*paths[first : first + AT_ONCE])
    store.end_forgetting()
    store.give_up_claim()
    if store.local_root is not None:
        _remove(store.local_root, all_of_it=False)
    if working_directory is not None:
        _remove(working_directory, all_of_it=True)
    ended = bool(records) and isinstance(records[-1], EpochRecord) and records[-1].ending is not None
    left = (
        "; it had not come to its end, so its sinks may have left transactions or staged files in other systems, which "
        "are not touched"
    )
    return f"job {store.job} is forgotten{left if records and not ended else ''}"


def _given_up(store: JobStore, records: tuple[Record, ...], abandon: Collection[str]) -> tuple[Transaction, ...]:
    """All that is owed, if every sink that owes it is named."""
    owed = recovery.owed(records)
    owing = dict.fromkeys(transaction.sink for _, transaction in owed)
    for sink in abandon:
        if SinkId(sink) not in owing:
            raise InvalidOption(
                f"--abandon-commits {sink}: that sink owes no commit; those that do: {', '.join(owing) or 'none'}"
            )
    unnamed = [sink for sink in owing if sink not in abandon]
    if unnamed:
        first = owed[0][0].checkpoint
        names = " ".join(f"--abandon-commits {sink}" for sink in unnamed)
        raise InvalidOption(
            f"job {store.job} may still have to commit what checkpoint {first} decided for {', '.join(unnamed)}: run "
            f"it, so that it does, or give those rows up with {names}"
        )
    return tuple(transaction for _, transaction in owed)


def _remove(root: Path, *, all_of_it: bool) -> None:
    """Remove the directories of a job that are left empty; of a working directory the files, too."""
    for below, _, names in os.walk(root, topdown=False):
        with contextlib.suppress(OSError):
            for name in names if all_of_it else ():
                (Path(below) / name).unlink()
            Path(below).rmdir()
