"""What must hold in every state.

One rule: one function, ``check``, looks at a whole state, and the driver, the tests and the simulator call the same.
It raises ``ProtocolError`` with the story so far; a state that passes can be stepped from.
"""

from collections.abc import Iterator
from itertools import pairwise

from headgate.core.checkpoint_log import IDS_AHEAD_MAX
from headgate.core.commit import SinkState
from headgate.core.coordinator import REQUESTS_MAX
from headgate.core.errors import ProtocolError
from headgate.core.garbage import HOLDS_MAX
from headgate.core.ids import NO_BATCH, SinkId
from headgate.core.records import CompletedCheckpoint, EpochRecord, Kind
from headgate.core.settings import Mode
from headgate.core.state import STORY_MAX, JobState, PendingCheckpoint, Phase


def check(state: JobState) -> None:
    """Raise unless everything holds that must hold."""
    broken = next(violations(state), None)
    if broken is not None:
        raise ProtocolError(f"invariant broken: {broken}", state.story)


def violations(state: JobState) -> Iterator[str]:
    """Everything that does not hold, in words."""
    yield from _of_bounds(state)
    yield from _of_checkpoint_log(state)
    yield from _of_channels(state)
    yield from _of_batches(state)
    for pending in state.checkpoints.pending:
        yield from _of_checkpoint(state, pending)
    yield from _of_order(state)
    for name, sink in state.sinks.items():
        yield from _of_sink(state, name, sink)


def _of_bounds(state: JobState) -> Iterator[str]:
    pending, allowed = len(state.checkpoints.pending), state.settings.max_concurrent_checkpoints
    if pending > allowed:
        yield f"{pending} checkpoints are under way, {allowed} are allowed"
    if (
        len(state.checkpoints.requests) > REQUESTS_MAX
        or len(state.retained.holding) > HOLDS_MAX
        or len(state.story) > STORY_MAX
    ):
        yield "a queue is longer than its bound"
    if pending and state.phase is not Phase.RUNNING:
        yield f"a checkpoint is under way while the job is {state.phase.value}"


def _of_checkpoint_log(state: JobState) -> Iterator[str]:
    log, next_id = state.checkpoint_log, state.checkpoints.next_id
    numbers = [record.id for record in log.queue]
    if numbers != list(range(log.recorded + 1, log.last + 1)) and state.phase is not Phase.FENCING:
        yield f"records {numbers} wait to be created after {log.recorded}, through {log.last}"
    for record in log.queue:
        if record.leader != state.leadership.leader:
            yield f"record {record.id} in our queue is {record.leader}'s"
        if not isinstance(record, EpochRecord) and record.generation != state.leadership.generation:
            yield f"record {record.id} is of generation {record.generation}, we are {state.leadership.generation}"
    for pending in state.checkpoints.pending:
        if not log.last < pending.id < next_id:
            yield f"checkpoint {pending.id} is under way, but ids {log.last} to {next_id} are not yet settled"
    if state.phase is Phase.RUNNING and next_id > log.recorded + IDS_AHEAD_MAX + 1:
        yield f"id {next_id} is too far past the last record, {log.recorded}"
    completed = [checkpoint.id for checkpoint in state.retained.completed]
    if completed != sorted(set(completed)):
        yield f"completed checkpoints are out of order: {completed}"


def _of_channels(state: JobState) -> Iterator[str]:
    for task in state.execution.tasks:
        inputs = state.graph.inputs[task]
        for channel, consumed in zip(inputs, state.execution.tasks[task].boundary.positions, strict=True):
            gate = state.execution.gates[channel.id]
            committed = state.execution.tasks[channel.upstream].boundary.batch
            if not NO_BATCH <= consumed <= gate <= committed:
                yield f"channel {channel.id}: consumed {consumed}, gate {gate}, committed {committed}"


def _of_batches(state: JobState) -> Iterator[str]:
    for name, task in state.execution.tasks.items():
        if not task.boundary.batch <= task.admitted <= task.entered:
            yield f"{name} has committed {task.boundary.batch}, admitted {task.admitted} and entered {task.entered}"


def _of_checkpoint(state: JobState, pending: PendingCheckpoint) -> Iterator[str]:
    for task, cut in pending.cuts.items():
        if cut.boundary.batch > state.execution.tasks[task].boundary.batch:
            yield f"checkpoint {pending.id} cuts {task} at {cut.boundary.batch}, which is not committed"
        for channel, consumed in zip(state.graph.inputs[task], cut.boundary.positions, strict=True):
            barrier = pending.cuts.get(channel.upstream)
            if barrier is None:
                if not pending.unaligned:
                    yield f"checkpoint {pending.id} cuts {task} before a barrier stands on {channel.id}"
                continue
            stands = barrier.boundary.batch
            if consumed > stands and state.settings.mode is not Mode.AT_LEAST_ONCE:
                yield f"checkpoint {pending.id} cuts {task} at {consumed} of {channel.id}, past barrier {stands}"
            if consumed < stands and not pending.unaligned:
                yield f"checkpoint {pending.id} cuts {task} at {consumed} of {channel.id}, before barrier {stands}"
    for task in pending.acknowledged:
        if task not in pending.cuts:
            yield f"{task} acknowledged checkpoint {pending.id} without having been cut"
    if pending.kind is Kind.SAVEPOINT and pending.unaligned:
        yield f"savepoint {pending.id} is unaligned"


def _of_order(state: JobState) -> Iterator[str]:
    for earlier, later in pairwise(state.checkpoints.pending):
        if earlier.id >= later.id:
            yield f"checkpoints {earlier.id} and {later.id} are out of order"
        for task, cut in later.cuts.items():
            if task not in earlier.cuts:
                yield f"checkpoint {later.id} cuts {task} before checkpoint {earlier.id} does"
            elif earlier.cuts[task].boundary.batch > cut.boundary.batch:
                yield f"checkpoint {later.id} cuts {task} at an earlier batch than checkpoint {earlier.id} does"


def _of_sink(state: JobState, name: SinkId, sink: SinkState) -> Iterator[str]:
    committed = state.execution.tasks[state.graph.owner[name]].boundary.batch
    if sink.pre_committed_through > committed:
        yield f"sink {name} has pre-committed through batch {sink.pre_committed_through}, only {committed} is committed"
    if any(pre_commit.through > committed for pre_commit in sink.wanted):
        yield f"sink {name} is to pre-commit a batch that is not committed"
    line = [transaction for _, transaction in sink.due] + list(sink.pre_committed)
    for earlier, later in pairwise(line):
        if (earlier.generation, earlier.checkpoint) >= (later.generation, later.checkpoint):
            yield f"sink {name}: transactions {earlier.checkpoint} and {later.checkpoint} are out of order"
        if earlier.generation == later.generation and earlier.through != later.after:
            yield f"sink {name}: transaction {later.checkpoint} does not begin where {earlier.checkpoint} ends"
    if state.termination.closing_written and sink.due:
        yield f"the end of the job is written down, and sink {name} still owes a commit"
    waiting = [record.id for record in state.checkpoint_log.queue if isinstance(record, CompletedCheckpoint)]
    for permit, transaction in sink.due:
        if permit.checkpoint in waiting or permit.checkpoint < transaction.checkpoint:
            yield f"sink {name} may commit {transaction.checkpoint} before its checkpoint is published"
