"""Status and checkpoints of a job.

One rule: one shape, whether the job runs here or not. What a stopped job cannot know (rates) is None, not missing.
What the records say goes before what the history says: a record is the fact, a line is what somebody saw of it.
"""

import copy
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from headgate.core import recovery
from headgate.core.graph import Channel
from headgate.core.ids import NO_GENERATION, CheckpointId, TaskId
from headgate.core.records import CompletedCheckpoint, Ending, EpochRecord, Kind, Record
from headgate.core.state import JobState, PendingCheckpoint, Phase, TaskState
from headgate.view import history as told
from headgate.view.figures import NOT_KNOWN, Figures
from headgate.view.history import JobExecution, Line
from headgate.view.sinks import Sinks
from headgate.view.states import States, downtime_ms

CRASHED = "crashed"
"""No ending, and no process: the next run goes on from the last checkpoint."""
INTERRUPTED = "interrupted"
"""The same, but its process was told to end (Ctrl-C, SIGTERM), and said so."""
UNKNOWN = "unknown"
"""No ending, and a process on another machine, which cannot be asked from here."""
LIVE = ("starting", "running", "restarting", "closing")
"""States of a job that a process runs."""
OVER = (*(ending.value for ending in Ending), INTERRUPTED, CRASHED)
"""States of a job that no process runs, as far as is known."""

TOTALS = ("total_bytes", "new_bytes", "in_flight_bytes", "files")


def running_status(
    job: str, state: JobState, now_ms: int, execution: JobExecution, figures: Figures, sinks: Sinks, states: States
) -> Line:
    """The status of a job that this process runs."""
    last = state.retained.completed[-1] if state.retained.completed else None
    word = state_of(state)
    spells = states.of(now_ms, word)
    return {
        "job": job,
        "state": word,
        "text": execution.ended.get("text") if execution.ended else None,
        "leader": state.leadership.leader or None,
        "generation": None if state.leadership.generation == NO_GENERATION else state.leadership.generation,
        "started_ms": execution.started_ms,
        "uptime_ms": None if execution.started_ms is None else now_ms - execution.started_ms,
        "downtime_ms": downtime_ms(spells, word),
        "states": spells,
        "tasks": [_running_task(state, name, task, figures, now_ms) for name, task in state.execution.tasks.items()],
        "sinks": sinks.of(state),
        "pending": [pending.id for pending in state.checkpoints.pending],
        "in_progress": [_progress(pending) for pending in state.checkpoints.pending],
        "last_checkpoint": None if last is None else _checkpoint(last, execution, now_ms),
        "last_failure": execution.last_failure,
        "restarts": dict(execution.restarts),
        "stalled": [],
    }


def status(
    job: str,
    records: Sequence[Record],
    history: Iterable[Line],
    *,
    now_ms: int,
    elsewhere: bool = False,
    restarts: Mapping[str, int] | None = None,
) -> Line:
    """The status of a job that no process here runs, from its storage alone.

    ``elsewhere`` if a process of another machine was the last to run it, which may well be doing so now. ``restarts``
    as for ``history.execution``.
    """
    execution = told.execution(history, restarts)
    tail = records[-1] if records else None
    ending = tail.ending.value if isinstance(tail, EpochRecord) and tail.ending is not None else None
    base = recovery.latest(tuple(records))
    last = next((one for one in records if isinstance(one, CompletedCheckpoint) and one.id == base), None)
    interrupted = ending is None and bool(execution.ended) and (execution.ended or {}).get("ending") == INTERRUPTED
    ended = execution.ended if interrupted or (execution.ended and execution.ended.get("ending") == ending) else None
    uptime = (
        None if execution.started_ms is None or execution.last_ms is None else execution.last_ms - execution.started_ms
    )
    return {
        "job": job,
        "state": ending or (INTERRUPTED if interrupted else UNKNOWN if elsewhere else CRASHED if records else "new"),
        "text": ended.get("text") if ended else None,
        "leader": tail.leader if tail else None,
        "generation": tail.generation if tail else None,
        "started_ms": execution.started_ms,
        "uptime_ms": uptime,
        "downtime_ms": None,
        "states": {},
        "tasks": [] if last is None else _stored_tasks(last),
        "sinks": [],
        "pending": [],
        "in_progress": [],
        "last_checkpoint": None if last is None else _checkpoint(last, execution, now_ms),
        "last_failure": execution.last_failure,
        "restarts": dict(execution.restarts),
        "stalled": [],
    }


def checkpoints(
    records: Sequence[Record],
    held: Sequence[CheckpointId],
    history: Iterable[Line],
    ids: Collection[int] | None = None,
) -> list[Line]:
    """All checkpoints that the storage or the history knows, in the order of ids; or only some.

    ``kept`` says that a checkpoint's record is in the storage, so that the job can return to it.
    """
    found = told.checkpoints(history)
    kept = {
        record.id: record
        for record in records
        if isinstance(record, CompletedCheckpoint) and (ids is None or record.id in ids)
    }
    for record in kept.values():
        one = found.setdefault(record.id, told.unknown(record.id, record.kind.value))
        one.update(state="completed", generation=record.generation, failed_ms=None, why=None)
    for one in found.values():
        one.update(kept=one["id"] in kept, held=one["id"] in held, **_totals(one["tasks"].values()))
    return [found[number] for number in sorted(found) if ids is None or number in ids]


# -- a job that runs -----------------------------------------------------------------------------------------------


def state_of(state: JobState) -> str:
    """The word for the state of a job that this process runs."""
    match state.phase:
        case Phase.RUNNING:
            return "running"
        case Phase.CLOSED if state.termination.ending is not None:
            return state.termination.ending.value
        case Phase.CLOSING:
            return "closing"
        case Phase.DEPOSED:
            return "deposed"
        case _:
            return "restarting" if state.restarts.history.attempts else "starting"


def _progress(pending: PendingCheckpoint) -> Line:
    """A checkpoint under way: through which tasks its barrier has gone, and which have acknowledged it."""
    return {
        "id": pending.id,
        "is_savepoint": pending.kind is Kind.SAVEPOINT,
        "trigger_timestamp": pending.triggered_at_ms,
        "unaligned": pending.unaligned,
        "cut": list(pending.cuts),
        "acknowledged": list(pending.acknowledged),
    }


def _running_task(state: JobState, name: TaskId, task: TaskState, figures: Figures, now_ms: int) -> Line:
    if task.ended:
        doing = "finished"
    elif state.phase is not Phase.RUNNING:
        doing = "stopped"
    elif task.restart_at_ms is not None:
        doing = "restarting"
    else:
        doing = "running" if task.started else "starting"
    lag = {
        channel.id: state.execution.tasks[channel.upstream].boundary.batch - position
        for channel, position in _consumed(state, name, task)
    }
    return {
        "task": name,
        "state": doing,
        "run": task.run,
        "batch": task.boundary.batch,
        "lag": lag,
        **figures.of(name, now_ms),
    }


def _consumed(state: JobState, name: TaskId, task: TaskState) -> list[tuple[Channel, int]]:
    return list(zip(state.graph.inputs[name], task.boundary.positions, strict=True))


# -- a job that does not -------------------------------------------------------------------------------------------


def _stored_tasks(last: CompletedCheckpoint) -> list[Line]:
    """The tasks as they stand in the checkpoint that the job would return to."""
    lag: dict[TaskId, dict[str, int]] = {}
    for flying in last.channels:
        lag.setdefault(flying.downstream, {})[flying.channel] = flying.through - flying.after
    return [
        {
            "task": snapshot.task,
            "state": "finished" if snapshot.finished else "stopped",
            "run": None,
            "batch": snapshot.batch,
            "lag": lag.get(snapshot.task, {}),
            **copy.deepcopy(NOT_KNOWN),
        }
        for snapshot in last.tasks
    ]


# -- both ----------------------------------------------------------------------------------------------------------


def _checkpoint(record: CompletedCheckpoint, execution: JobExecution, now_ms: int) -> Line:
    """A completed checkpoint; when that was, and how long it took, if the history still knows."""
    told_of = execution.last_checkpoint or {}
    known = told_of if told_of.get("id") == record.id else {}
    at = known.get("at")
    return {
        "id": record.id,
        "kind": record.kind.value,
        "completed_ms": at,
        "age_ms": None if at is None else now_ms - at,
        "duration_ms": known.get("duration_ms"),
    }


def _totals(tasks: Iterable[Mapping[str, Any]]) -> Line:
    """Bytes and files over all tasks; None if nobody knows."""
    parts = list(tasks)
    return {name: sum(part.get(name) or 0 for part in parts) if parts else None for name in TOTALS}
