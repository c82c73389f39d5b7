"""How long each part of a checkpoint took.

One rule: times are taken where the core changes its mind, from the state before a step and the state after it. What
happens inside a task or a sink is measured there and comes as a note.

For each task: ``start_delay_ms`` from the trigger to the order to take the snapshot; ``alignment_ms`` from the first
barrier on one of its inputs to its own cut (0 for a task without inputs); ``snapshot_start_ms`` from the trigger to the
begin of its snapshot; ``sync_ms`` and ``async_ms`` of that;
``total_bytes`` that it names, ``new_bytes`` of files not named before, ``in_flight_bytes`` on its inputs, and
``files``.
For the whole: ``duration_ms`` from the trigger until the record is known to be in the store, ``pre_commit_ms`` of the
slowest sink, and ``pre_commits`` of each (``start_ms`` from the trigger, ``ms``), ``publish_ms`` from ready to
complete, ``commit_ms`` from complete until every sink has committed, the ``retries`` of those commits, and the
``restarts`` since the checkpoint before it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headgate.core.coordinator import GivenUp, overtakes_at_once
from headgate.core.effects import Effect, Notify, Outcome
from headgate.core.events import CommitFailed, Event
from headgate.core.graph import Graph
from headgate.core.ids import NO_GENERATION, ChannelId, CheckpointId, SinkId, TaskId
from headgate.core.records import CompletedCheckpoint, Kind
from headgate.core.state import JobState, Phase, ready
from headgate.view.history import Line

SETTLING = (Phase.RECOVERING, Phase.RUNNING, Phase.CLOSING, Phase.CLOSED)
"""Phases in which the sinks' states tell what is left to commit."""
MEASURED = ("snapshot_start_ms", "sync_ms", "async_ms", "total_bytes", "new_bytes", "files")


@dataclass
class _Timed:
    """One checkpoint under way."""

    kind: Kind
    triggered_ms: int
    unaligned: bool
    cut_ms: dict[TaskId, int] = field(default_factory=dict)
    ready_ms: int | None = None
    pre_commit_ms: float = 0.0
    pre_commits: dict[SinkId, dict[str, float]] = field(default_factory=dict)
    snapshots: dict[TaskId, Mapping[str, Any]] = field(default_factory=dict)
    in_flight: Mapping[ChannelId, int] = field(default_factory=dict)


@dataclass
class _Committing:
    since_ms: int
    recovered: bool
    retries: int = 0


class Timing:
    """The checkpoints of one process that are under way, or not committed everywhere."""

    def __init__(self) -> None:
        """Nothing is under way."""
        self._open: dict[CheckpointId, _Timed] = {}
        self._committing: dict[CheckpointId, _Committing] = {}
        self._restarts = 0

    def restarted(self) -> None:
        """A task or the job goes back: the next checkpoint to complete says how often."""
        self._restarts += 1

    def measured(self, now_ms: int, kind: str, fields: Mapping[str, Any]) -> None:
        """Something was measured. What is measured of a checkpoint that is over does not count."""
        timed = self._open.get(fields.get("checkpoint", -1))
        if timed is None:
            return
        if kind == "snapshot":
            begun_ms = now_ms - fields["sync_ms"] - fields["async_ms"] - timed.triggered_ms
            timed.snapshots.setdefault(fields["task"], {**fields, "snapshot_start_ms": max(0, begun_ms)})
        elif kind == "pre_commit":
            timed.pre_commit_ms = max(timed.pre_commit_ms, fields["ms"])
            begun_ms = max(0.0, now_ms - fields["ms"] - timed.triggered_ms)
            timed.pre_commits[fields["sink"]] = {"start_ms": round(begun_ms, 1), "ms": round(fields["ms"], 1)}
        elif kind == "published":
            timed.in_flight = fields["in_flight"]

    def watch(
        self, now_ms: int, event: Event, before: JobState, after: JobState, effects: Sequence[Effect]
    ) -> list[Line]:
        """What a step did to checkpoints."""
        if after.leadership.generation == NO_GENERATION:  # Begun anew: what an earlier leadership left is nobody's.
            self._open.clear()
            self._committing.clear()
            return []
        lines: list[Line] = []
        if not _same_checkpoints(before, after):
            lines += self._triggered(now_ms, before, after)
            self._follow(now_ms, after)
            lines += self._over(now_ms, before, after, effects)
        if self._committing or before.sinks is not after.sinks or before.phase is not after.phase:
            lines += self._committed(now_ms, event, before, after)
        return lines

    def _triggered(self, now_ms: int, before: JobState, after: JobState) -> list[Line]:
        first = before.checkpoints.next_id
        if before.leadership.generation != after.leadership.generation:
            opened = before.leadership.epoch_record
            first = opened.next_id if opened is not None else after.checkpoints.next_id
        lines: list[Line] = []
        kinds = _under_way(after)
        for number in range(first, after.checkpoints.next_id):
            checkpoint = CheckpointId(number)
            kind = kinds.get(checkpoint, Kind.CHECKPOINT)
            unaligned = kind is Kind.CHECKPOINT and overtakes_at_once(after.settings)
            self._open[checkpoint] = _Timed(kind, now_ms, unaligned)
            lines.append(
                {"event": "checkpoint-triggered", "id": checkpoint, "kind": kind.value, "unaligned": unaligned}
            )
        return lines

    def _follow(self, now_ms: int, after: JobState) -> None:
        """Note when each task was cut, and when all had done their part."""
        for pending in after.checkpoints.pending:
            timed = self._open[pending.id]
            timed.unaligned = pending.unaligned
            for task in pending.cuts:
                timed.cut_ms.setdefault(task, now_ms)
        for record in ready(after):
            if record.id in self._open and self._open[record.id].ready_ms is None:
                timed = self._open[record.id]
                timed.ready_ms = now_ms
                for task in after.graph.by_id:
                    timed.cut_ms.setdefault(task, now_ms)

    def _over(self, now_ms: int, before: JobState, after: JobState, effects: Sequence[Effect]) -> list[Line]:
        under_way = _under_way(after)
        completed = {record.id: record for record in after.retained.completed}
        lines: list[Line] = []
        for checkpoint in [one for one in self._open if one not in under_way]:
            timed = self._open.pop(checkpoint)
            if checkpoint in completed:
                lines.append(self._completed(now_ms, timed, completed[checkpoint], after.graph))
                self._committing[checkpoint] = _Committing(now_ms, recovered=False)
            else:
                why = _why(checkpoint, before, after, effects)
                lines.append({"event": "checkpoint-failed", "id": checkpoint, "kind": timed.kind.value, "why": why})
        return lines

    def _completed(self, now_ms: int, timed: _Timed, record: CompletedCheckpoint, graph: Graph) -> Line:
        ready_ms = now_ms if timed.ready_ms is None else timed.ready_ms
        restarts, self._restarts = self._restarts, 0
        return {
            "event": "checkpoint-completed",
            "id": record.id,
            "kind": record.kind.value,
            "generation": record.generation,
            "unaligned": timed.unaligned,
            "duration_ms": now_ms - timed.triggered_ms,
            "pre_commit_ms": round(timed.pre_commit_ms, 1),
            "publish_ms": now_ms - ready_ms,
            "restarts": restarts,
            "tasks": {task: _of_task(timed, graph, task) for task in graph.by_id},
            "pre_commits": timed.pre_commits,
        }

    def _committed(self, now_ms: int, event: Event, before: JobState, after: JobState) -> list[Line]:
        if after.phase not in SETTLING:
            return []
        due = {permit.checkpoint: None for sink in after.sinks.values() for permit, _ in sink.due}
        for checkpoint in due:
            self._committing.setdefault(checkpoint, _Committing(now_ms, recovered=True))
        if isinstance(event, CommitFailed) and event.sink in before.sinks:
            stood, stands = before.sinks[event.sink], after.sinks[event.sink]
            if stands.tries > stood.tries:
                self._committing[stands.due[0][0].checkpoint].retries += 1
        lines: list[Line] = []
        for checkpoint in [one for one in self._committing if one not in due]:
            done = self._committing.pop(checkpoint)
            lines.append(
                {
                    "event": "checkpoint-committed",
                    "id": checkpoint,
                    "commit_ms": now_ms - done.since_ms,
                    "retries": done.retries,
                    "recovered": done.recovered,
                }
            )
        return lines


def _same_checkpoints(before: JobState, after: JobState) -> bool:
    """Whether a step left all checkpoints alone. Cheap: asked after every step."""
    return (
        before.checkpoints.pending is after.checkpoints.pending
        and before.checkpoint_log is after.checkpoint_log
        and before.retained.completed is after.retained.completed
        and before.leadership.in_doubt is after.leadership.in_doubt
        and before.checkpoints.next_id == after.checkpoints.next_id
        and before.leadership.generation == after.leadership.generation
    )


def _under_way(state: JobState) -> dict[CheckpointId, Kind]:
    """The checkpoints that have neither completed nor been given up."""
    kinds = {pending.id: pending.kind for pending in state.checkpoints.pending}
    return kinds | {record.id: record.kind for record in ready(state)}


def _of_task(timed: _Timed, graph: Graph, task: TaskId) -> Line:
    """One task's part. A task that had finished before takes no snapshot, and has nothing measured."""
    cut_ms = timed.cut_ms.get(task, timed.triggered_ms)
    inputs = graph.inputs[task]
    barrier_ms = min((timed.cut_ms.get(channel.upstream, cut_ms) for channel in inputs), default=cut_ms)
    measured = timed.snapshots.get(task, {})
    return {
        "start_delay_ms": cut_ms - timed.triggered_ms,
        "alignment_ms": cut_ms - barrier_ms,
        **{name: round(measured.get(name, 0), 1) for name in MEASURED},
        "in_flight_bytes": sum(timed.in_flight.get(channel.id, 0) for channel in inputs),
    }


def _why(checkpoint: CheckpointId, before: JobState, after: JobState, effects: Sequence[Effect]) -> str:
    """Why a checkpoint came to nothing. What nobody needs to be told is seen from what the job does now."""
    for effect in effects:
        if isinstance(effect, Notify) and effect.outcome is Outcome.FAILED and effect.checkpoint == checkpoint:
            return effect.text
    match after.phase:
        case Phase.RUNNING if before.leadership.generation == after.leadership.generation:
            reason = GivenUp.SUBSUMED.value
        case Phase.CLOSING:
            reason = GivenUp.CLOSED.value
        case Phase.DEPOSED:
            reason = "this process no longer leads the job"
        case _:
            reason = GivenUp.RESTARTED.value
    return f"checkpoint {checkpoint} given up: {reason}"
