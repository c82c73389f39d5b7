"""Each case breaks one thing in a healthy state. That every message has a case is a test of its own, at the end."""

import ast
import inspect
import re
from typing import Any

import pytest

from headgate.core import invariants
from headgate.core.checkpoint_log import IDS_AHEAD_MAX, CheckpointLog, permit
from headgate.core.commit import PreCommit, SinkState
from headgate.core.coordinator import REQUESTS_MAX
from headgate.core.errors import ProtocolError
from headgate.core.events import HoldAsked
from headgate.core.evolve import evolve
from headgate.core.garbage import HOLDS_MAX
from headgate.core.ids import Batch, ChannelId, CheckpointId, Generation, RequestId, SinkId, TaskId
from headgate.core.records import Boundary, Kind, Record, Transaction
from headgate.core.settings import Mode, Settings
from headgate.core.state import STORY_MAX, Acknowledgement, Cut, JobState, PendingCheckpoint, Phase, Request
from tests.helpers import BOB, aborted_entry, changed, completed, epoch_record, line, running, transaction

GRAPH = line("a", "b")
A, B, OUT, AB = TaskId("a"), TaskId("b"), SinkId("out"), ChannelId("a>b")


def cut(batch: int, *positions: int) -> Cut:
    return Cut(Boundary(Batch(batch), tuple(Batch(position) for position in positions)), finished=False)


def under_way(number: int, cuts: dict[TaskId, Cut] | None = None, **changes: Any) -> PendingCheckpoint:
    pending = PendingCheckpoint(CheckpointId(number), Kind.CHECKPOINT, 0, unaligned=False, cuts=cuts or {})
    return evolve(pending, **changes)


def sink(
    *, due: tuple[Transaction, ...] = (), pre_committed: tuple[Transaction, ...] = (), **changes: Any
) -> SinkState:
    """A sink whose due transactions were permitted by checkpoint 3."""
    allowed = tuple((permit(completed(GRAPH, 3)), one) for one in due)
    return evolve(SinkState(due=allowed, pre_committed=pre_committed, pre_committed_through=Batch(9)), **changes)


def links(recorded: int, last: int, *queue: Record) -> CheckpointLog:
    return CheckpointLog(recorded=CheckpointId(recorded), queue=queue, last=CheckpointId(last))


EARLIER = under_way(5, {A: cut(8), B: cut(6, 8)}, acknowledged={A: Acknowledgement(("f",), Generation(1))})
LATER = under_way(6, {A: cut(9)})
BUSY = Settings(max_concurrent_checkpoints=3)


def healthy(settings: Settings = BUSY, **changes: Any) -> JobState:
    """Both tasks stand at batch 9. Checkpoints 1 to 3 are complete, 4 waits for the store, 5 and 6 are under way."""
    state = running(
        GRAPH,
        batch=9,
        settings=settings,
        checkpoint_log=links(3, 4, completed(GRAPH, 4, batch=7)),
        completed=(completed(GRAPH, 2, batch=3), completed(GRAPH, 3, batch=5)),
        pending=(EARLIER, LATER),
        next_id=CheckpointId(7),
        sinks={OUT: sink(due=(transaction(2, -1, 3), transaction(3, 3, 5)), pre_committed=(transaction(4, 5, 9),))},
        story=("0 ms: alice leads",),
    )
    return changed(state, **changes)


def at(task: TaskId, boundary: Boundary, **changes: Any) -> JobState:
    """The healthy state without checkpoints under way, and with one task elsewhere."""
    state = healthy(pending=(), **changes)
    tasks = state.execution.tasks
    return changed(state, tasks={**tasks, task: evolve(tasks[task], boundary=boundary)})


def batches(*, entered: int = 9, admitted: int = 9) -> JobState:
    """The healthy state with another batch of the first task in the hook, or let go on from there."""
    state = healthy()
    other = evolve(state.execution.tasks[A], entered=Batch(entered), admitted=Batch(admitted))
    return changed(state, tasks={**state.execution.tasks, A: other})


def with_sink(changed: SinkState) -> JobState:
    return healthy(sinks={OUT: changed})


def asking(count: int) -> tuple[Request, ...]:
    return tuple(Request(RequestId(str(number)), Kind.CHECKPOINT) for number in range(count))


def holding(count: int) -> tuple[HoldAsked, ...]:
    return tuple(HoldAsked(RequestId(str(number)), CheckpointId(2)) for number in range(count))


HEALTHY: dict[str, JobState] = {
    "busy": healthy(),
    "nothing yet": JobState(graph=GRAPH, settings=Settings()),
    "just begun": running(GRAPH),
    "closing record of the generation to come": healthy(checkpoint_log=links(3, 4, epoch_record(4, 2, 7))),
    "our epoch record, far from the tail": healthy(
        phase=Phase.FENCING, pending=(), checkpoint_log=links(3, 9, epoch_record(9, 2, 10))
    ),
    "queues full to the brim": healthy(
        requests=asking(REQUESTS_MAX), holding=holding(HOLDS_MAX), story=("x",) * STORY_MAX
    ),
    "ids as far ahead as may be": healthy(next_id=CheckpointId(3 + IDS_AHEAD_MAX + 1)),
    "ids far ahead of a job that is over": healthy(phase=Phase.CLOSED, pending=(), next_id=CheckpointId(99)),
    "a batch in the hook": batches(entered=10),
    "a batch that writes": batches(entered=10, admitted=10),
    "a reader behind its gate": at(B, Boundary(Batch(9), (Batch(4),)), gates={AB: Batch(6)}),
    "a reader past the barrier, at least once": healthy(
        Settings(mode=Mode.AT_LEAST_ONCE), pending=(under_way(5, {A: cut(6), B: cut(9, 8)}),)
    ),
    "a reader behind the barrier, unaligned": healthy(
        pending=(under_way(5, {A: cut(8), B: cut(9, 4)}, unaligned=True),)
    ),
    "a reader cut before the other side, unaligned": healthy(pending=(under_way(5, {B: cut(9, 4)}, unaligned=True),)),
    "two checkpoints at the same batch": healthy(pending=(EARLIER, under_way(6, {A: cut(8)}))),
    "an aligned savepoint": healthy(pending=(evolve(EARLIER, kind=Kind.SAVEPOINT),)),
    "a pre-commit of all that is committed": with_sink(sink(wanted=(PreCommit(CheckpointId(5), Batch(9)),))),
    "transactions of two generations with a hole between": with_sink(
        sink(due=(transaction(3, 0, 7),), pre_committed=(transaction(4, 5, 9, generation=2),))
    ),
}

BROKEN: list[tuple[str, JobState]] = [
    ("2 checkpoints are under way, 1 are allowed", healthy(Settings())),
    ("a queue is longer than its bound", healthy(requests=asking(REQUESTS_MAX + 1))),
    ("a queue is longer than its bound", healthy(holding=holding(HOLDS_MAX + 1))),
    ("a queue is longer than its bound", healthy(story=("x",) * (STORY_MAX + 1))),
    ("a checkpoint is under way while the job is closing", healthy(phase=Phase.CLOSING)),
    (
        "records [2, 1] wait to be created after 0, through 2",
        healthy(pending=(), checkpoint_log=links(0, 2, aborted_entry(2), aborted_entry(1))),
    ),
    (
        "records [1, 1] wait to be created after 0, through 2",
        healthy(pending=(), checkpoint_log=links(0, 2, aborted_entry(1), aborted_entry(1))),
    ),
    (
        "records [3, 4] wait to be created after 3, through 4",
        healthy(checkpoint_log=links(3, 4, aborted_entry(3), aborted_entry(4))),
    ),
    (
        "records [5] wait to be created after 3, through 5",
        healthy(pending=(), checkpoint_log=links(3, 5, aborted_entry(5))),
    ),
    ("records [4] wait to be created after 3, through 3", healthy(checkpoint_log=links(3, 3, aborted_entry(4)))),
    ("records [] wait to be created after 3, through 4", healthy(checkpoint_log=links(3, 4))),
    ("record 4 in our queue is bob's", healthy(checkpoint_log=links(3, 4, aborted_entry(4, leader=BOB)))),
    ("record 4 is of generation 2, we are 1", healthy(checkpoint_log=links(3, 4, aborted_entry(4, generation=2)))),
    (
        "checkpoint 4 is under way, but ids 4 to 7 are not yet settled",
        healthy(pending=(evolve(EARLIER, id=CheckpointId(4)), LATER)),
    ),
    (
        "checkpoint 7 is under way, but ids 4 to 7 are not yet settled",
        healthy(pending=(EARLIER, evolve(LATER, id=CheckpointId(7)))),
    ),
    ("id 13 is too far past the last record, 3", healthy(next_id=CheckpointId(3 + IDS_AHEAD_MAX + 2))),
    (
        "completed checkpoints are out of order: [3, 2]",
        healthy(completed=(completed(GRAPH, 3), completed(GRAPH, 2))),
    ),
    (
        "completed checkpoints are out of order: [2, 2]",
        healthy(completed=(completed(GRAPH, 2), completed(GRAPH, 2))),
    ),
    ("channel a>b: consumed -2, gate 9, committed 9", at(B, Boundary(Batch(9), (Batch(-2),)))),
    ("a has committed 9, admitted 8 and entered 9", batches(admitted=8)),
    ("a has committed 9, admitted 11 and entered 10", batches(entered=10, admitted=11)),
    ("channel a>b: consumed 9, gate 8, committed 9", healthy(pending=(), gates={AB: Batch(8)})),
    ("channel a>b: consumed 9, gate 10, committed 9", healthy(pending=(), gates={AB: Batch(10)})),
    ("checkpoint 5 cuts a at 10, which is not committed", healthy(pending=(under_way(5, {A: cut(10)}),))),
    ("checkpoint 5 cuts b before a barrier stands on a>b", healthy(pending=(under_way(5, {B: cut(6, 8)}),))),
    (
        "checkpoint 5 cuts b at 9 of a>b, past barrier 8",
        healthy(pending=(under_way(5, {A: cut(8), B: cut(6, 9)}),)),
    ),
    (
        "checkpoint 5 cuts b at 9 of a>b, past barrier 8",
        healthy(pending=(under_way(5, {A: cut(8), B: cut(6, 9)}, unaligned=True),)),
    ),
    (
        "checkpoint 5 cuts b at 7 of a>b, before barrier 8",
        healthy(pending=(under_way(5, {A: cut(8), B: cut(6, 7)}),)),
    ),
    (
        "checkpoint 5 cuts b at 7 of a>b, before barrier 8",
        healthy(Settings(mode=Mode.AT_LEAST_ONCE), pending=(under_way(5, {A: cut(8), B: cut(6, 7)}),)),
    ),
    (
        "b acknowledged checkpoint 5 without having been cut",
        healthy(pending=(under_way(5, {A: cut(8)}, acknowledged={B: Acknowledgement((), Generation(1))}),)),
    ),
    ("savepoint 5 is unaligned", healthy(pending=(evolve(EARLIER, kind=Kind.SAVEPOINT, unaligned=True),))),
    ("checkpoints 6 and 5 are out of order", healthy(pending=(under_way(6), under_way(5)))),
    ("checkpoints 5 and 5 are out of order", healthy(pending=(under_way(5), under_way(5)))),
    ("checkpoint 6 cuts a before checkpoint 5 does", healthy(pending=(under_way(5), LATER))),
    (
        "checkpoint 6 cuts a at an earlier batch than checkpoint 5 does",
        healthy(pending=(EARLIER, under_way(6, {A: cut(7)}))),
    ),
    (
        "sink out has pre-committed through batch 10, only 9 is committed",
        with_sink(sink(pre_committed_through=Batch(10))),
    ),
    (
        "sink out is to pre-commit a batch that is not committed",
        with_sink(sink(wanted=(PreCommit(CheckpointId(5), Batch(9)), PreCommit(CheckpointId(6), Batch(10))))),
    ),
    (
        "sink out: transactions 3 and 2 are out of order",
        with_sink(sink(due=(transaction(3, -1, 3), transaction(2, 3, 5)))),
    ),
    (
        "sink out: transactions 3 and 3 are out of order",
        with_sink(sink(due=(transaction(3, -1, 3),), pre_committed=(transaction(3, 3, 5),))),
    ),
    (
        "sink out: transactions 2 and 3 are out of order",
        with_sink(sink(due=(transaction(2, -1, 3, generation=2), transaction(3, 3, 5)))),
    ),
    (
        "sink out: transaction 3 does not begin where 2 ends",
        with_sink(sink(due=(transaction(2, -1, 3), transaction(3, 4, 5)))),
    ),
    (
        "the end of the job is written down, and sink out still owes a commit",
        healthy(pending=(), phase=Phase.CLOSING, closing_written=True, sinks={OUT: sink(due=(transaction(2, -1, 3),))}),
    ),
    (
        "sink out may commit 4 before its checkpoint is published",
        with_sink(sink(due=(transaction(4, -1, 3),))),
    ),
    (
        "sink out may commit 3 before its checkpoint is published",
        healthy(
            pending=(), checkpoint_log=links(2, 3, completed(GRAPH, 3)), sinks={OUT: sink(due=(transaction(3, -1, 3),))}
        ),
    ),
]


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_state_passes(name: str) -> None:
    assert list(invariants.violations(HEALTHY[name])) == []
    invariants.check(HEALTHY[name])


@pytest.mark.parametrize(("message", "state"), BROKEN, ids=[f"{n}: {message}" for n, (message, _) in enumerate(BROKEN)])
def test_a_broken_state_is_named(message: str, state: JobState) -> None:
    assert message in list(invariants.violations(state))
    with pytest.raises(ProtocolError, match=r"^invariant broken: ") as caught:
        invariants.check(state)
    assert caught.value.story == state.story


def test_the_first_thing_that_is_broken_is_told_with_the_story() -> None:
    state = healthy(Settings())
    with pytest.raises(ProtocolError) as caught:
        invariants.check(state)
    assert caught.value.what == "invariant broken: 2 checkpoints are under way, 1 are allowed"
    assert caught.value.story == ("0 ms: alice leads",)


def test_every_message_has_a_state_that_provokes_it() -> None:
    patterns = [
        _pattern(node.value)
        for node in ast.walk(ast.parse(inspect.getsource(invariants)))
        if isinstance(node, ast.Yield) and node.value is not None
    ]
    assert len(patterns) >= 24
    unprovoked = [p for p in patterns if not any(re.fullmatch(p, message) for message, _ in BROKEN)]
    assert unprovoked == []


def _pattern(message: ast.expr) -> str:
    parts = message.values if isinstance(message, ast.JoinedStr) else [message]
    return "".join(re.escape(str(p.value)) if isinstance(p, ast.Constant) else ".*" for p in parts)
