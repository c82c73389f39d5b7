"""The driver loop with the real core: a performer of a few lines takes a job from nothing to its end."""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from headgate.core import effects as e
from headgate.core.effects import Effect
from headgate.core.events import (
    BatchCommitted,
    BatchEntered,
    CancelAsked,
    CheckpointLogRead,
    Event,
    FilesDeleted,
    FilesListed,
    LeadershipLost,
    LeadershipWon,
    OutputsWritten,
    RecordCreated,
    RecordTaken,
    SinkPreCommitted,
    SnapshotTaken,
    SourceEnded,
    StaleGenerationsAborted,
    TaskEnded,
    TaskStarted,
    Ticked,
    TransactionCommitted,
)
from headgate.core.graph import Graph, Task
from headgate.core.ids import NO_BATCH, Batch, CheckpointId, Generation, LeaderId, RequestId, Run, SinkId, TaskId
from headgate.core.records import Boundary, CompletedCheckpoint, Ending, EpochRecord, Record, Restore
from headgate.core.settings import Settings
from headgate.core.state import JobState, Phase
from headgate.run.loop import Broken, Loop, Observation

TASK, SINK = TaskId("t"), SinkId("s")
GRAPH = Graph((Task(TASK, sinks=(SINK,), has_source=True),))
US = LeaderId("us")
BATCHES = 3
STEPS_MAX = 5_000


class World:
    """One task with three batches and one sink, in a store that is a dictionary. Answers come from another thread."""

    def __init__(self, settings: Settings, records: dict[CheckpointId, Record] | None = None) -> None:
        self.records: dict[CheckpointId, Record] = {} if records is None else records
        self.seen: list[Event | Observation] = []
        self.orders: list[Effect] = []
        self.times: list[int] = []
        self.boundary = Boundary(NO_BATCH)
        self.endless = False
        self.deaf_to = 0
        self.step_s = 0.0
        self.loop = Loop(GRAPH, settings, self.perform, self.watch)

    def run(self, **restore: Any) -> JobState:
        return self.loop.run(US, Restore(**restore))

    def watch(
        self, now_ms: int, event: Event | Observation, before: JobState, after: JobState, effects: Sequence[Effect]
    ) -> None:
        del before, after
        assert len(self.seen) < STEPS_MAX, "it does not come to its end"
        time.sleep(self.step_s)
        self.seen.append(event)
        self.times.append(now_ms)
        self.orders += effects

    def perform(self, order: Effect, state: JobState) -> None:
        del state
        if self.deaf_to:
            self.deaf_to -= 1
        else:
            threading.Thread(target=self.answer, args=(order,), daemon=True).start()

    def answer(self, order: Effect) -> None:
        tell = self.loop.tell
        match order:
            case e.ReadCheckpointLog():
                tell(CheckpointLogRead(order.leader, tuple(self.records[number] for number in sorted(self.records))))
            case e.CreateRecord(leader, record):
                there = self.records.setdefault(record.id, record)
                tell(
                    RecordCreated(leader, record.generation, record.id)
                    if there is record
                    else RecordTaken(leader, there)
                )
            case e.StartTask(generation, task, run):
                tell(TaskStarted(generation, task, run, self.boundary))
                self.enter(order)
            case e.AdmitBatch(generation, task, run, batch):
                self.boundary = Boundary(batch)
                tell(BatchCommitted(generation, task, run, Boundary(batch)))
                self.enter(order)
            case e.StopTask(generation, task, run):
                tell(TaskEnded(generation, task, run, self.boundary))
            case e.TakeSnapshot(generation, checkpoint, task, batch):
                tell(SnapshotTaken(generation, checkpoint, task, batch))
            case e.PreCommitSink(generation, checkpoint, sink):
                tell(SinkPreCommitted(generation, checkpoint, sink, "committable"))
            case e.CommitTransaction(generation, _, transaction):
                pre_committed_in, checkpoint = transaction.generation, transaction.checkpoint
                tell(TransactionCommitted(generation, transaction.sink, pre_committed_in, checkpoint))
            case e.AbortStaleGenerations(generation, sink, below):
                tell(StaleGenerationsAborted(generation, sink, below))
            case e.ListFiles(generation):
                tell(FilesListed(generation, ()))
            case e.DeleteFiles(generation, records):
                for number in records:
                    del self.records[number]
                tell(FilesDeleted(generation, records))
            case _:
                pass

    def enter(self, order: e.StartTask | e.AdmitBatch) -> None:
        following = Batch(self.boundary.batch + 1)
        if following < BATCHES:
            self.loop.tell(BatchEntered(order.generation, order.task, order.run, Boundary(following)))
        elif not self.endless:
            self.loop.tell(SourceEnded(order.generation, order.task, order.run))


def quiet(**settings: Any) -> Settings:
    return Settings(**{"interval_ms": None, "resend_ms": 60_000, **settings})


def test_a_job_goes_from_nothing_to_its_end() -> None:
    world = World(quiet())
    state = world.run()
    assert (state.phase, state.termination.ending) == (Phase.CLOSED, Ending.FINISHED)
    epoch_record, checkpoint, closing = (world.records[number] for number in sorted(world.records))
    assert isinstance(epoch_record, EpochRecord)
    assert isinstance(checkpoint, CompletedCheckpoint)
    assert isinstance(closing, EpochRecord)
    assert (checkpoint.tasks[0].batch, checkpoint.tasks[0].finished) == (BATCHES - 1, True)
    assert closing.ending is Ending.FINISHED
    (committed,) = [order for order in world.orders if isinstance(order, e.CommitTransaction)]
    assert (committed.transaction.after, committed.transaction.through) == (NO_BATCH, BATCHES - 1)


def test_every_step_is_watched_in_order_and_time_does_not_go_back() -> None:
    world = World(quiet())
    world.run()
    assert isinstance(world.seen[0], LeadershipWon)
    assert world.times == sorted(world.times)
    clocks = [event.now_ms for event in world.seen if isinstance(event, Ticked)]
    assert clocks == sorted(clocks)
    assert abs(world.times[-1] - time.time() * 1000) < 60_000, "the clock is the wall's"


def test_a_job_that_is_over_is_left_where_it_is_unless_the_user_starts_it_again() -> None:
    first = World(quiet())
    first.run()
    again = World(quiet(), dict(first.records))
    assert again.run().termination.ending is Ending.FINISHED
    assert again.records == first.records
    assert not any(isinstance(order, e.StartTask) for order in again.orders)
    third = World(quiet(), dict(first.records))
    third.run(again=True)
    assert len(third.records) > len(first.records)


def test_checkpoints_come_by_the_clock_without_anybody_telling() -> None:
    world = World(quiet(interval_ms=20))
    world.endless = True
    _cancel_once(
        world, lambda: sum(isinstance(each, CompletedCheckpoint) for each in list(world.records.values())) >= 1
    )
    state = world.run()
    assert state.termination.ending is Ending.CANCELLED
    assert any(isinstance(order, e.NotifyCompleted) for order in world.orders)


def _cancel_once(world: World, ready: Callable[[], bool]) -> None:
    def wait() -> None:
        deadline = time.monotonic() + 60
        while not ready() and time.monotonic() < deadline:
            time.sleep(0.005)
        world.loop.tell(CancelAsked(RequestId("r")))

    threading.Thread(target=wait, daemon=True).start()


def test_an_order_that_nobody_answers_is_given_again() -> None:
    world = World(quiet(resend_ms=20))
    world.deaf_to = 2
    assert world.run().termination.ending is Ending.FINISHED
    assert sum(isinstance(order, e.ReadCheckpointLog) for order in world.orders) >= 3


def test_who_loses_leadership_stops_and_orders_nothing_but_to_stop() -> None:
    world = World(quiet())
    world.endless = True
    world.loop.tell(LeadershipLost(US))
    state = world.run()
    assert state.phase is Phase.DEPOSED
    assert not any(isinstance(order, (e.DeleteFiles, e.CommitTransaction, e.CreateRecord)) for order in world.orders)


def test_what_must_not_fail_and_does_ends_the_loop() -> None:
    world = World(quiet())
    world.endless = True
    world.loop.tell(Broken(OSError("the disk is gone")))
    with pytest.raises(OSError, match="the disk is gone"):
        world.run()


def test_a_note_is_watched_and_changes_nothing() -> None:
    world = World(quiet())
    note = Observation("warning", {"text": "mind the gap"})
    world.loop.tell(note)
    assert world.run().termination.ending is Ending.FINISHED
    assert note in world.seen


@pytest.mark.parametrize("step_s", [0.0, 0.002])
def test_messages_are_heard_although_a_deadline_is_always_due(step_s: float) -> None:
    world = World(quiet(resend_ms=1))
    world.step_s = step_s
    assert world.run().termination.ending is Ending.FINISHED


def test_the_clock_is_heard_although_frequent_facts_keep_coming() -> None:
    world = World(quiet(interval_ms=20))
    world.endless = True
    again = OutputsWritten(Generation(0), TASK, Run(0), Batch(0))  # of nobody who runs

    def watch(
        now_ms: int, event: Event | Observation, before: JobState, after: JobState, effects: Sequence[Effect]
    ) -> None:
        del before, after, effects
        if event != again:
            world.seen.append(event)
        elif any(isinstance(each, CompletedCheckpoint) for each in list(world.records.values())):
            world.loop.tell(CancelAsked(RequestId("r")))
        else:
            assert now_ms < begun_ms + 60_000, "the clock is not heard"
            world.loop.tell(again)

    world.loop = Loop(GRAPH, quiet(interval_ms=20), world.perform, watch)
    begun_ms = world.loop.now_ms()
    world.loop.tell(again)
    assert world.run().termination.ending is Ending.CANCELLED
