"""When a checkpoint starts.

One rule: whether to start a checkpoint now, and which, is decided in ``due`` and nowhere else.
"""

from dataclasses import dataclass

from headgate.core import checkpoint_log
from headgate.core.ids import NO_BATCH, NO_CHECKPOINT, RequestId
from headgate.core.records import Kind
from headgate.core.state import JobState, Phase, ready

COMMITS_BEHIND_MAX = 16
"""While a sink has this many commits to catch up with, no further checkpoint starts."""
CATCHING_UP_INTERVALS, CATCHING_UP_MAX_MS = 3, 10_000
"""A checkpoint waits at most this many intervals, and at most this long, for a task that was restarted in place."""


@dataclass(frozen=True)
class Trigger:
    """A checkpoint that should start now."""

    kind: Kind
    request: RequestId | None = None
    stop: bool = False
    early: bool = False
    """A batch waits for it. It waits for none."""
    drained: bool = False
    """All that was read has come out: it is the last one of a job that drains, whoever asked for that."""


def due(state: JobState) -> Trigger | None:
    """The checkpoint to start now: one that makes room in a sink, one that a user asked for, the last one of a
    finished job, the savepoint at the end of a drained one, or the periodic one.
    """
    if _makes_room(state):
        under_way = state.checkpoints.pending or ready(state)
        return Trigger(Kind.CHECKPOINT, early=True) if not under_way and has_room(state) else None
    requests = state.checkpoints.requests
    if not requests:
        deadline = _by_clock(state)
        if deadline is None or state.now_ms < deadline:
            return None
    if not has_room(state):
        return None
    if requests:
        return Trigger(requests[0].kind, requests[0].id, requests[0].stop)
    if state.termination.draining and all(task.ended for task in state.execution.tasks.values()):
        return Trigger(Kind.SAVEPOINT, state.termination.drain, stop=True, drained=True)
    return Trigger(Kind.CHECKPOINT)


def _makes_room(state: JobState) -> bool:
    """Whether a batch waits for a commit, none is under way at its sink, and a checkpoint would bring one."""
    tasks = state.execution.tasks
    return any(
        sink.full
        and not sink.due
        and (sink.pre_committed or sink.pre_committed_through < tasks[state.graph.owner[name]].boundary.batch)
        for name, sink in state.sinks.items()
    )


def has_room(state: JobState) -> bool:
    """Whether another checkpoint may start, whoever wants it."""
    checkpoints = state.checkpoints
    return (
        state.phase is Phase.RUNNING
        and len(checkpoints.pending) < state.settings.max_concurrent_checkpoints
        and checkpoints.stop_after == NO_CHECKPOINT
        and checkpoint_log.may_use(state.checkpoint_log, checkpoints.next_id)
        and all(len(sink.due) < COMMITS_BEHIND_MAX for sink in state.sinks.values())
        and all(task.started or task.ended for task in state.execution.tasks.values())
    )


def clock_deadline(state: JobState) -> int | None:
    """When the next checkpoint that nobody asked for is due, given room. None: not by the clock alone.

    While a batch waits for a commit, the next checkpoint is the one that makes room, and the clock has no say.
    """
    return None if _makes_room(state) else _by_clock(state)


def _by_clock(state: JobState) -> int | None:
    settings, checkpoints, began_ms = state.settings, state.checkpoints, state.execution.began_ms
    ended = [task.ended for task in state.execution.tasks.values()]
    if all(ended):
        return _last_checkpoint(state)
    if settings.interval_ms is None or (any(ended) and not settings.checkpoints_after_tasks_finish):
        return None
    deadline = checkpoints.next_trigger_ms
    if deadline <= began_ms and not _has_moved(state):
        deadline = began_ms + settings.interval_ms
    deadline = max(deadline, _caught_up_ms(state, settings.interval_ms))
    if settings.min_pause_ms == 0:
        return deadline
    if checkpoints.pending or state.checkpoint_log.queue:
        return None
    if checkpoints.last_end_ms is None:
        return deadline
    return max(deadline, checkpoints.last_end_ms + settings.min_pause_ms)


def _caught_up_ms(state: JobState, interval_ms: int) -> int:
    """When a checkpoint waits no longer for tasks that do again what they had begun when they failed.

    What has come in since is in the batch after that: it need not wait for yet another checkpoint.
    """
    tasks = state.execution.tasks.values()
    begun = [task.again_from_ms for task in tasks if task.again_from_ms is not None and task.is_catching_up]
    return max(begun) + min(CATCHING_UP_INTERVALS * interval_ms, CATCHING_UP_MAX_MS) if begun else 0


def _has_moved(state: JobState) -> bool:
    """Whether any task has committed a batch since this generation began.

    A checkpoint that fell due while the job went back waits for that: one that only repeats what the job went back to
    would put the next one off for nothing.
    """
    return any(
        state.execution.tasks[start.task].boundary.batch > (start.snapshot.batch if start.snapshot else NO_BATCH)
        for start in state.execution.starts
    )


def _last_checkpoint(state: JobState) -> int | None:
    """A job whose tasks have all ended takes one more checkpoint at once; after a failed one, at the next tick."""
    if state.checkpoints.pending or state.checkpoint_log.queue:
        return None
    return 0 if state.checkpoints.last_end_ms is None else state.checkpoints.last_end_ms + 1
