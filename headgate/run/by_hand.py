"""What a user does to a transaction by hand, of a job that does not run.

One rule: only what a completed checkpoint has decided is committed, with the hooks that the job itself would call; and
why somebody did so stands in the history, with who gave up what.
"""

import time
from pathlib import Path
from typing import Any

from headgate.core import recovery
from headgate.core.effects import CommitTransaction
from headgate.core.ids import SinkId, TaskId
from headgate.core.records import CommitPermit, CompletedCheckpoint, Transaction
from headgate.errors import InvalidOption
from headgate.run.decisions import COMMIT, decision, note
from headgate.run.past import JobPast
from headgate.run.receipts import Receipts
from headgate.run.staged import StagedFiles
from headgate.sink.api import TwoPhaseSink
from headgate.store.jobstore import JobStore


def commit(store: JobStore, sink: TwoPhaseSink, name: SinkId, task: TaskId, root: Path, reason: str) -> int:
    """Commit what a sink owes. Returns how many transactions. The sink is open. What fails changes nothing else."""
    found = list(store.read_records())
    doubtful = {(one["sink"], one["generation"], one["checkpoint"]) for one in JobPast(store).in_doubt()}
    owed = [
        (permit, each)
        for permit, each in recovery.owed(tuple(record for record, _ in found))
        if each.sink == name and (each.sink, each.generation, each.checkpoint) in doubtful
    ]
    if not owed:
        raise InvalidOption(f"sink {name} of job {store.job} owes no commit")
    receipts = Receipts()
    for record, extra in found:
        if isinstance(record, CompletedCheckpoint):
            receipts.know(extra, f"the record of checkpoint {record.id}")
    note(store, decision(COMMIT, [name], reason, "transactions commit"))
    staged = StagedFiles(store, root)
    for permit, transaction in owed:
        needed = sink.staged(transaction.committable)
        staged.bring(name, transaction.generation, needed, thorough=True)
        sink.recover_and_commit(transaction.committable)
        store.append_history([_line(receipts, permit, transaction, task)])
        staged.drop(name, transaction.generation, needed)
    return len(owed)


def _line(receipts: Receipts, permit: CommitPermit, transaction: Transaction, task: TaskId) -> dict[str, Any]:
    order = CommitTransaction(transaction.generation, permit, transaction)
    fields = receipts.committed(order, task, _now_ms())
    fields["receipt"]["recovered"] = True
    return {"at": _now_ms(), "event": "receipt", **fields}


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
