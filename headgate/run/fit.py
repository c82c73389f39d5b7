"""Whether Spark will go on with the state that a checkpoint has.

One rule: what Spark would refuse is found before a generation begins, by what the checkpoint itself says of its state.
A query has its state as a whole: Spark numbers the operators of a query that keep some, so none can be left out or
added in the middle.
"""

from collections.abc import Callable

from headgate import layout
from headgate.core.graph import Graph
from headgate.core.ids import NO_BATCH, OperatorUid, TaskId
from headgate.core.records import Restore, TaskSnapshot
from headgate.core.recovery import Recovery

CheckSchemas = Callable[[TaskId, TaskSnapshot, Callable[[str], bytes]], str | None]


def refused(
    graph: Graph,
    plan: Recovery,
    restore: Restore,
    backend: str | None,
    read: Callable[[str], bytes],
    schemas: CheckSchemas = lambda *_: None,
) -> str | None:
    """Why Spark would not go on from the checkpoint, and what to do. ``read`` reads a file that it names.

    ``schemas`` says whether what an operator keeps still looks as it did; it is asked of what fits otherwise.
    """
    new_name = dict(restore.renamed)
    for start in plan.starts:
        before = start.snapshot
        if before is None or before.batch == NO_BATCH or before.finished:
            continue
        had = [new_name.get(uid, uid) for uid in before.stateful]
        has = [operator.uid for operator in graph.by_id[start.task].operators if operator.stateful]
        why = _other_operators(start.task, had, has)
        if why is None and has:
            why = other_backend(start.task, _offsets(before, read), backend) or schemas(start.task, before, read)
        if why is not None:
            return why if plan.base is None else f"checkpoint {plan.base.id} does not fit: {why}"
    return None


def _other_operators(task: TaskId, had: list[OperatorUid], has: list[OperatorUid]) -> str | None:
    """Only with leave to go on without some state can they differ at all."""
    gone = [uid for uid in had if uid not in has]
    new = [uid for uid in has if uid not in had]
    if not gone and not new:
        return None
    what = [f"{', '.join(gone)} gone"] * bool(gone) + [f"{', '.join(new)} new"] * bool(new)
    return (
        f"the operators with state of task {task} have changed ({'; '.join(what)}), and Spark goes on with all of a "
        "query's state or with none: keep them as they were, or give every operator of the task a new uid, so that all "
        "of it begins empty"
    )


def other_backend(task: TaskId, offsets: layout.Offsets | None, now: str | None) -> str | None:
    """Spark goes on with the state store that a query began with, whatever the session says, and only warns."""
    began_with = offsets.provider() if offsets is not None else ""
    if not began_with or now is None or began_with == now:
        return None
    return (
        f"the state of task {task} is in {began_with.rpartition('.')[2]}, and the job now wants "
        f"{now.rpartition('.')[2]}: keep the state backend that it began with"
    )


def _offsets(snapshot: TaskSnapshot, read: Callable[[str], bytes]) -> layout.Offsets | None:
    """The entry of the offset log for the batch of a snapshot."""
    name = layout.offsets_among(snapshot.files, snapshot.batch)
    return None if name is None else layout.parse_offsets(read(name), name)
