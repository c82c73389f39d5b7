"""Which checkpoint a job returns to, and how each task and sink begins from it.

One rule: what a published checkpoint decided is finished first, whichever checkpoint the job returns to; everything
else that sinks have open is thrown away. A job that came to its end had finished it, and owes nothing. State is found
by operator uid, so tasks may be renamed and rescaled; a checkpoint for whose state or data in flight the job has no
place is refused before anything starts.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from headgate.core import checkpoint_log
from headgate.core.effects import StartTask
from headgate.core.errors import NotRestorable
from headgate.core.graph import Channel, Graph, Task
from headgate.core.ids import NO_BATCH, Batch, CheckpointId, Generation, OperatorUid, Run, TaskId
from headgate.core.records import (
    CommitPermit,
    CompletedCheckpoint,
    EpochRecord,
    InFlight,
    Record,
    Restore,
    TaskSnapshot,
    Transaction,
)

FIRST_RUN = Run(1)


@dataclass(frozen=True)
class Recovery:
    """What a new generation begins with."""

    base: CompletedCheckpoint | None
    starts: tuple[StartTask, ...]
    """One for each task, in the order of the graph. A finished task's is never ordered."""
    commits: tuple[tuple[CommitPermit, Transaction], ...]
    """What was decided before, in order."""
    abandoned: tuple[Transaction, ...] = ()
    """What was decided before, and the user has given up."""


def plan(graph: Graph, records: tuple[Record, ...], restore: Restore, generation: Generation) -> Recovery:
    """How a new generation begins, given the checkpoint log up to its epoch record."""
    base = choose(records, restore.checkpoint)
    try:
        starts = _starts(graph, base, restore, generation)
    except NotRestorable as error:
        before = _kept_beside(records, base)
        if before is None or not _fits(graph, before, restore):
            raise
        raise NotRestorable(f"{error}; or go back to checkpoint {before.id}, which fits: --from {before.id}") from error
    return Recovery(
        base=base,
        starts=starts,
        commits=_commits(graph, records, restore),
        abandoned=tuple(transaction for _, transaction in owed(records) if transaction.sink in restore.abandon),
    )


def _kept_beside(records: tuple[Record, ...], base: CompletedCheckpoint | None) -> CompletedCheckpoint | None:
    """The checkpoint that the base has not replaced yet: the base may be of a job that never ran."""
    wanted = base.keeps if base is not None else None
    return next((record for record in records if isinstance(record, CompletedCheckpoint) and record.id == wanted), None)


def _fits(graph: Graph, base: CompletedCheckpoint, restore: Restore) -> bool:
    try:
        _starts(graph, base, restore, base.generation)
    except NotRestorable:
        return False
    return True


def choose(records: tuple[Record, ...], wanted: CheckpointId | None) -> CompletedCheckpoint | None:
    """The checkpoint to return to: the one the user named, else the newest, else the last generation's base."""
    completed = {record.id: record for record in records if isinstance(record, CompletedCheckpoint)}
    if wanted is not None and wanted in completed:
        refuse_drained(completed[wanted])
    if wanted is None:
        wanted = latest(records)
    if wanted is None:
        return None
    if wanted not in completed:
        kept = ", ".join(str(number) for number in completed) or "none"
        raise NotRestorable(f"checkpoint {wanted} is not in the storage; there are: {kept}")
    return completed[wanted]


def refuse_drained(base: CompletedCheckpoint) -> None:
    """A job that was being drained can only come to its end from there: nobody means that who names a checkpoint."""
    if base.draining:
        raise NotRestorable(
            f"{base.kind.value} {base.id} is of a job that was being drained: its sources have ended and its windows "
            "are closed; choose an earlier checkpoint, or start the job anew in another storage"
        )


def latest(records: tuple[Record, ...]) -> CheckpointId | None:
    """The checkpoint that the job returns to by itself: the newest, or what the last generation began with."""
    for record in reversed(records):
        if isinstance(record, CompletedCheckpoint):
            return record.id
        if isinstance(record, EpochRecord):
            return record.base
    return None


def owed(records: tuple[Record, ...]) -> tuple[tuple[CommitPermit, Transaction], ...]:
    """All that the newest completed checkpoint pre-committed and that may not be committed yet, in order.

    Nothing if the job has come to its end since: its closing record is written when all is committed, or abandoned.
    """
    abandoned: list[Transaction] = []
    for record in reversed(records):
        if isinstance(record, CompletedCheckpoint):
            permit = checkpoint_log.permit(record)
            return tuple((permit, each) for each in record.transactions if each not in abandoned)
        if isinstance(record, EpochRecord):
            if record.ending is not None:
                return ()
            abandoned += record.abandoned
    return ()


def _commits(
    graph: Graph, records: tuple[Record, ...], restore: Restore
) -> tuple[tuple[CommitPermit, Transaction], ...]:
    """All that is owed, but for what the user gives up. A sink that owes something may not be gone."""
    due = tuple(each for each in owed(records) if each[1].sink not in restore.abandon)
    for permit, transaction in due:
        if transaction.sink not in graph.owner:
            raise NotRestorable(
                f"sink {transaction.sink} is gone from the job, but checkpoint {permit.checkpoint} has output for it "
                "that may not be committed yet: run the job once with the sink, or give that output up with "
                f"--abandon-commits {transaction.sink} --reason TEXT"
            )
    return due


def _starts(
    graph: Graph, base: CompletedCheckpoint | None, restore: Restore, generation: Generation
) -> tuple[StartTask, ...]:
    if base is None:
        return tuple(
            StartTask(
                generation, task.id, FIRST_RUN, in_place=False, positions=(NO_BATCH,) * len(graph.inputs[task.id])
            )
            for task in graph.tasks
        )
    matched = match_tasks(graph, base, restore)
    held = _match_channels(graph, base, matched, allow=restore.allow_non_restored)
    return tuple(_start(graph, task, matched, held, generation) for task in graph.tasks)


def _start(
    graph: Graph,
    task: Task,
    matched: Mapping[TaskId, TaskSnapshot],
    held: Mapping[Channel, InFlight],
    generation: Generation,
) -> StartTask:
    """One task's beginning. A channel that the checkpoint did not have begins where its upstream task begins."""
    positions: list[Batch] = []
    for channel in graph.inputs[task.id]:
        upstream = matched.get(channel.upstream)
        where = held[channel].after if channel in held else upstream.batch if upstream else NO_BATCH
        positions.append(where)
    return StartTask(
        generation,
        task.id,
        FIRST_RUN,
        in_place=False,
        snapshot=matched.get(task.id),
        positions=tuple(positions),
        in_flight=tuple(held[channel] for channel in graph.inputs[task.id] if channel in held),
    )


def match_tasks(graph: Graph, base: CompletedCheckpoint, restore: Restore) -> Mapping[TaskId, TaskSnapshot]:
    """Which snapshot each task continues from, by operator uid. A task without one begins empty."""
    new_name = dict(restore.renamed)
    known = {uid for snapshot in base.tasks for uid in snapshot.operators}
    for old, new in new_name.items():
        if old not in known and new not in known:
            raise NotRestorable(f"operator {old} cannot be renamed: checkpoint {base.id} does not have it")
    _refuse_shared_names(base, new_name)
    home = {uid: task.id for task in graph.tasks for uid in _uids(task.id, tuple(o.uid for o in task.operators))}
    matched: dict[TaskId, TaskSnapshot] = {}
    for snapshot in base.tasks:
        uids = _uids(snapshot.task, _renamed(snapshot.operators, new_name))
        places = {home[uid]: None for uid in uids if uid in home}
        if len(places) > 1:
            raise NotRestorable(
                f"the operators of task {snapshot.task} are now in several tasks ({', '.join(places)}): "
                "keep them together"
            )
        for place in places:
            if place in matched:
                raise NotRestorable(
                    f"tasks {matched[place].task} and {snapshot.task} are now one task ({place}): keep them apart"
                )
            matched[place] = snapshot
    if not restore.allow_non_restored:
        _refuse_gone_and_new(graph, base, matched, new_name)
    return matched


def _refuse_gone_and_new(
    graph: Graph,
    base: CompletedCheckpoint,
    matched: Mapping[TaskId, TaskSnapshot],
    new_name: Mapping[OperatorUid, OperatorUid],
) -> None:
    before = {uid: None for snapshot in base.tasks for uid in _renamed(snapshot.stateful, new_name)}
    now = {operator.uid: None for task in graph.tasks for operator in task.operators if operator.stateful}
    claimed = {snapshot.task for snapshot in matched.values()}
    gone: list[str] = [uid for uid in before if uid not in now]
    gone += [snapshot.task for snapshot in base.tasks if snapshot.task not in claimed and not snapshot.stateful]
    new: list[str] = [uid for uid in now if uid not in before]
    new += [task.id for task in graph.tasks if task.id not in matched and not any(o.stateful for o in task.operators)]
    if gone:
        raise NotRestorable(
            f"checkpoint {base.id} has state for {', '.join(gone)}, which the job no longer has: "
            "name the new uid if it was renamed, or allow non-restored state"
        )
    if new:
        raise NotRestorable(
            f"checkpoint {base.id} has no state for {', '.join(new)}: "
            "name the old uid if it was renamed, or allow non-restored state"
        )


def _match_channels(
    graph: Graph, base: CompletedCheckpoint, matched: Mapping[TaskId, TaskSnapshot], *, allow: bool
) -> Mapping[Channel, InFlight]:
    """What the checkpoint holds of each channel, found by the tasks at its ends."""
    left = list(base.channels)
    found: dict[Channel, InFlight] = {}
    for channel in graph.channels:
        up, down = matched.get(channel.upstream), matched.get(channel.downstream)
        if up is None or down is None:
            continue
        same_ends = [held for held in left if (held.upstream, held.downstream) == (up.task, down.task)]
        same_name = [held for held in same_ends if held.channel == channel.id]
        if same_ends:
            found[channel] = (same_name or same_ends)[0]
            left.remove(found[channel])
    for held in left:
        if held.after < held.through and not allow:
            raise NotRestorable(
                f"checkpoint {base.id} has data in flight from {held.upstream} to {held.downstream}, "
                "which the job no longer connects: take a savepoint first, or allow non-restored state"
            )
    return found


def _refuse_shared_names(base: CompletedCheckpoint, new_name: Mapping[OperatorUid, OperatorUid]) -> None:
    taken: dict[OperatorUid, None] = {}
    for uid in (uid for snapshot in base.tasks for uid in _renamed(snapshot.operators, new_name)):
        if uid in taken:
            raise NotRestorable(f"two operators of checkpoint {base.id} would be called {uid}: give each its own name")
        taken[uid] = None


def _uids(task: TaskId, operators: tuple[OperatorUid, ...]) -> tuple[OperatorUid, ...]:
    """What a task is found by: its operators, or, where it has none, its own name."""
    return operators or (OperatorUid(task),)


def _renamed(uids: tuple[OperatorUid, ...], new_name: Mapping[OperatorUid, OperatorUid]) -> tuple[OperatorUid, ...]:
    return tuple(new_name.get(uid, uid) for uid in uids)
