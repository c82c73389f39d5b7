"""A job's past, by pages: for commands and pages that show it.

One rule: whoever looks back reads what is shown and no more, and holds up nobody. Records say which checkpoints are
kept, the history what became of all of them.
"""

import heapq
from collections.abc import Collection, Mapping
from typing import Any

from headgate import layout
from headgate.core import recovery
from headgate.core.ids import CheckpointId
from headgate.core.records import CompletedCheckpoint, Kind, TaskSnapshot
from headgate.receipts.gather import named_by, of_checkpoint
from headgate.receipts.receipt import EVENT, Receipt
from headgate.snapshot.files import FileFacts, tables_of
from headgate.store.api import Missing
from headgate.store.history import HistoryPosition, HistoryReader
from headgate.store.jobstore import JobStore
from headgate.view import history as told, job as view
from headgate.view.history import JobExecution, Line
from headgate.view.summary import summary

PAGE = 50
"""As many checkpoints or events are on a page, unless somebody wants another number."""


class JobPast:
    """The past of one job, as it was at the last ``look``."""

    def __init__(self, store: JobStore, history: HistoryReader | None = None) -> None:
        """Look once."""
        self._store = store
        self.history = history or store.history()
        self._restored: tuple[int, tuple[int, Line | None]] | None = None
        self.look()

    def look(self) -> None:
        """See what has come since."""
        self.history.look()
        self._records = self._store.read_checkpoint_log()
        self._held = self._store.held()

    def execution(self) -> JobExecution:
        """The latest execution."""
        lines, restarts = self.history.status_lines()
        return told.execution(lines, restarts)

    def status(self, *, now_ms: int, elsewhere: bool = False) -> Line:
        """The status of a job that no process here runs."""
        lines, restarts = self.history.status_lines()
        return view.status(self._store.job, self._records, lines, now_ms=now_ms, elsewhere=elsewhere, restarts=restarts)

    def checkpoints(self, limit: int = PAGE, before: int | None = None) -> list[Line]:
        """The newest checkpoints below an id, in the order of ids."""
        kept = {record.id for record in self._records if isinstance(record, CompletedCheckpoint)}
        below = {each for each in kept if before is None or each < before}
        ids = heapq.nlargest(limit, below.union(self.history.ids(limit, before)))
        return view.checkpoints(self._records, self._held, self.history.lines_of(ids), ids)

    def checkpoint(self, number: int) -> Line | None:
        """One checkpoint, task by task. None if nobody knows it."""
        found = view.checkpoints(self._records, self._held, self.history.lines_of([number]), [number])
        return found[0] if found else None

    def partitions(self, number: int, task: str) -> list[Line]:
        """The state partitions of a task in a checkpoint, from its manifest; none of a checkpoint that is not kept."""
        before = max((each for each in self._kept() if each < number), default=None)
        known = None if before is None else self._files(before, task)
        parts = self.all_partitions(number, task, known)
        return parts.get(task, [])

    def all_partitions(
        self, number: int, task: str | None = None, known: Collection[str] | None = None
    ) -> dict[str, list[Line]]:
        """The same of all tasks that have any, or of one. ``known``: files that are not new; None if nobody knows."""
        try:
            record, extra = self._store.read_record(CheckpointId(number))
        except Missing:
            return {}
        parts = record.tasks if isinstance(record, CompletedCheckpoint) else ()
        table = tables_of([extra])
        found = {part.task: _partitions(part, table, known) for part in parts if task in (None, part.task)}
        return {name: lines for name, lines in found.items() if lines}

    def _kept(self) -> list[CheckpointId]:
        return [record.id for record in self._records if isinstance(record, CompletedCheckpoint)]

    def _files(self, number: CheckpointId, task: str) -> Collection[str] | None:
        """The files of a task in a checkpoint. None if it is not kept any more."""
        try:
            record, _ = self._store.read_record(number)
        except Missing:
            return None
        parts = record.tasks if isinstance(record, CompletedCheckpoint) else ()
        return frozenset(name for part in parts if part.task == task for name in part.files)

    def metadata_bytes(self, number: int) -> int | None:
        """How large the record of a checkpoint is. None if it is not kept any more."""
        try:
            return self._store.record_bytes(CheckpointId(number))
        except Missing:
            return None

    def counts(self) -> dict[str, int]:
        """How many checkpoints there are, by what became of them."""
        kept = self._kept()
        counted, open_ids = self.history.counts(kept), self.history.unresolved(kept)
        there = view.checkpoints(self._records, self._held, self.history.lines_of(open_ids), open_ids)
        pending = sum(one["state"] == "pending" for one in there)
        return {
            "total": counted["completed"] + counted["failed"] + counted["other"],
            "completed": counted["completed"],
            "failed": counted["failed"] + counted["other"] - pending,
            "in_progress": pending,
            "savepoints": counted["savepoints"],
        }

    def newest(self) -> dict[str, Line | None]:
        """The newest checkpoint that completed, the newest savepoint that did, and the newest that failed."""
        kept = self._kept()
        return {name: None if one is None else self.checkpoint(one) for name, one in self.history.newest(kept).items()}

    def restored(self) -> tuple[int, Line | None]:
        """How often the job went on from a checkpoint, and the line that tells of the last time."""
        begun = self.history.count("generation")
        if self._restored is None or self._restored[0] != begun:
            lines = [line for _, line in self.history.events(begun, types=("generation",))]
            from_one = [line for line in lines if line.get("base") is not None]
            self._restored = begun, (len(from_one), from_one[-1] if from_one else None)
        return self._restored[1]

    def newest_generations(self, limit: int) -> list[Line]:
        """The lines that tell of the newest generations, with the process that led each."""
        return [line for _, line in self.history.events(limit, types=("generation",))]

    def receipts(self, number: int) -> list[Line]:
        """What each sink published for one checkpoint; of what the history has not, as its record says."""
        told = of_checkpoint(self.history.lines_of([number]), number)
        found = {each.key: {**each.data(), "in_history": True} for each in told}
        for each in self._named(number):
            if each.checkpoint == number and each.key not in found:
                found[each.key] = {**each.data(), "in_history": False}
        return list(found.values())

    def in_doubt(self) -> list[Line]:
        """What the newest checkpoint decided to commit, and of which nobody has written that it is committed."""
        owed = recovery.owed(self._records)
        if not owed:
            return []
        newest = owed[0][0].checkpoint
        ids = {newest, *(transaction.checkpoint for _, transaction in owed)}
        lines = self.history.lines_of(ids)
        if any(line.get("event") == "checkpoint-committed" and line.get("id") == newest for line in lines):
            return []
        told = {each.key for number in ids for each in of_checkpoint(lines, number)}
        wanted = {(each.sink, each.generation, each.checkpoint) for _, each in owed} - told
        return [each.data() for each in self._named(newest) if each.key in wanted]

    def newest_receipts(self, limit: int, before: HistoryPosition | None) -> list[tuple[HistoryPosition, Line]]:
        """A page of receipts, the oldest of them first."""
        return self.history.events(limit, before=before, types=(EVENT,))

    def _named(self, number: int) -> list[Receipt]:
        """What a checkpoint's record names; nothing of one that is not kept."""
        try:
            record, extra = self._store.read_record(CheckpointId(number))
        except Missing:
            return []
        return list(named_by(record, extra)) if isinstance(record, CompletedCheckpoint) else []

    def savepoints(self) -> tuple[list[Line], set[int]]:
        """The savepoints that are there or were carried off, in the order of ids; and which of them were."""
        kept = {record.id for record in self._records if getattr(record, "kind", None) is Kind.SAVEPOINT}
        ids = sorted({*kept, *self._store.copied()})
        found = view.checkpoints(self._records, self._held, self.history.lines_of(ids), ids)
        return found, set(self._store.carried_off())

    def labels(self) -> dict[CheckpointId, str]:
        """What users call savepoints."""
        return self._store.labels()

    def summary(self) -> dict[str, Any]:
        """Least, mean, greatest and percentiles of what was measured of completed checkpoints."""
        return summary(self.history.figures())


def _partitions(snapshot: TaskSnapshot, table: Mapping[str, FileFacts], known: Collection[str] | None) -> list[Line]:
    """The state partitions of a snapshot."""
    sizes: dict[tuple[int, int], int] = {}
    fresh: dict[tuple[int, int], int] = {}
    for name in snapshot.files:
        place = layout.state_place(name)
        if place is not None:
            sizes[place] = sizes.get(place, 0) + table[name].size
            if known is not None and name not in known:
                fresh[place] = fresh.get(place, 0) + table[name].size
    # Spark numbers operators. Which is whose is certain where there is one for each that keeps state.
    operators = sorted({operator for operator, _ in sizes})
    uids = snapshot.stateful if len(operators) == len(snapshot.stateful) == 1 else operators
    names = {operator: str(uid) for operator, uid in zip(operators, uids, strict=True)}
    return [
        {
            "operator": names[operator],
            "partition": partition,
            "bytes": size,
            "new_bytes": None if known is None else fresh.get((operator, partition), 0),
        }
        for (operator, partition), size in sorted(sizes.items())
    ]
