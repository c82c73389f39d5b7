"""What becomes of a planned task, up to where Spark begins: rebuilding, what is remembered of batches, notices."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headgate import layout
from headgate.channel.gates import Gates
from headgate.channel.segments import Segments
from headgate.core import effects as e
from headgate.core.effects import CreateRecord
from headgate.core.events import (
    FailedAttemptsAborted,
    PreCommitFailed,
    Reported,
    SinkFull,
    SinkPreCommitted,
    TaskFailed,
    TransactionCommitted,
)
from headgate.core.graph import Channel, Graph, Task
from headgate.core.ids import NO_BATCH, Batch, ChannelId, CheckpointId, Generation, Run, SinkId, TaskId
from headgate.core.records import CommitPermit, InFlight, TaskSnapshot, Transaction
from headgate.core.restart import FailureClass
from headgate.core.retention import RetainedCheckpoints
from headgate.core.settings import Settings
from headgate.core.state import JobState
from headgate.errors import InternalError
from headgate.job.node import Node, NodeKind
from headgate.job.plan import Plan, PlannedChannel, PlannedTask
from headgate.run.batch_runs import Past
from headgate.run.perform import Performer
from headgate.run.tasks import Tasks
from headgate.sink.api import FailedAttempts, WriteId
from headgate.source.api import Source
from headgate.task.lifecycle import RunEvent
from headgate.task.query import Query, Stopped
from services.server import wait_until
from tests.edges.spark_files import offsets, position, put, run_batches
from tests.edges.stores import DOWN, FIRST, ONE, SECOND, UP, Heard, completed, open_job, segment

OUT, AUDIT = SinkId("out"), SinkId("audit")
GRAPH = Graph(
    (Task(UP, sinks=(OUT, AUDIT), has_source=True), Task(DOWN)),
    (Channel(ONE, UP, DOWN),),
)


class Counting(Source):
    """A source that hears how far checkpoints have come."""

    replayable = True

    def __init__(self) -> None:
        self.heard: list[str] = []

    def load(self, spark: Any, trigger_ms: int | None) -> Any:
        raise ConnectionError(f"{spark} has no such source, at {trigger_ms}")

    def describe(self) -> str:
        return "counting"

    def notify_completed(self, offset: str) -> None:
        if offset == '{"offset":13}':
            raise ConnectionError("the other side is away")
        self.heard.append(offset)


class Staging:
    """A sink that remembers what it was asked to throw away."""

    place = None

    def content_hash(self, _: str) -> None:
        return None

    def __init__(self) -> None:
        self.scope: list[Any] = []
        self.pre_committed: list[list[WriteId]] = []
        self.begun: list[WriteId] = []
        self.room = True

    def has_room(self, write_id: WriteId) -> bool:
        return self.room and write_id.sink in (OUT, AUDIT)

    def begin_transaction(self, write_id: WriteId) -> None:
        self.begun.append(write_id)

    def invoke(self, write_id: WriteId, dataframe: Any) -> None:
        pass

    def pre_commit(self, checkpoint: int, generation: int, write_ids: list[WriteId]) -> str:
        self.pre_committed.append(write_ids)
        return f"{generation}/{checkpoint}"

    def staged(self, _: str) -> tuple[()]:
        return ()

    def commit(self, committable: str) -> None:
        assert committable
        self.room = True

    def abort(self, scope: Any) -> None:
        self.scope.append(scope)


class Process:
    """The tasks and the performer of one process, with serial executors that do everything at once."""

    def __init__(self, place: Path) -> None:
        self.heard = Heard(open_job(place))
        self.told = self.heard.told
        self.source = Counting()
        node = Node("up", NodeKind.SOURCE, what=self.source)
        plan = Plan(
            (
                PlannedTask(UP, (node,), (), True, "append"),
                PlannedTask(DOWN, (Node("down", NodeKind.UNION),), (), False, "append"),
            ),
            (PlannedChannel(ONE, UP, DOWN, "down", 0),),
        )
        self.sinks = {OUT: Staging(), AUDIT: Staging()}
        self.gates = Gates()
        spark: Any = SimpleNamespace(
            streams=SimpleNamespace(addListener=lambda _: None, removeListener=lambda _: None),
            _jvm=SimpleNamespace(org=SimpleNamespace(apache=SimpleNamespace(logging=SimpleNamespace(log4j=None)))),
            conf=SimpleNamespace(get=lambda _, default: default),
        )
        common: dict[str, Any] = {
            "job": "job",
            "graph": GRAPH,
            "sinks": self.sinks,
            "gates": self.gates,
            "storage": self.heard.storage,
            "snapshots": self.heard.snapshots,
            "tell": self.told.append,
        }
        about: Any = {"up": SimpleNamespace(stateful=False), "down": SimpleNamespace(stateful=False)}
        self.tasks = Tasks(
            spark=spark, root=self.heard.root, plan=plan, analysis=about, batch_interval_ms=None, **common
        )
        serial_executors: Any = SimpleNamespace(put=lambda _, job, *arguments: job(*arguments))
        self.performer = Performer(tasks=self.tasks, serial_executors=serial_executors, answer=lambda _: None, **common)

    @property
    def root(self) -> Path:
        return self.heard.root

    def order(self, *orders: Any, base: int | None = None) -> None:
        retained = RetainedCheckpoints(base=None if base is None else CheckpointId(base))
        state = JobState(graph=GRAPH, settings=Settings(), retained=retained)
        for each in orders:
            self.performer.perform(each, state)

    def ran(self, run: int, *batches: int, generation: Generation = FIRST) -> None:
        """A run of ``up`` wrote these batches and Spark committed them."""
        for batch in batches:
            self.tasks.batch_runs.write(generation, UP, Batch(batch), Run(run))
            query = self.root / f"tasks/up/g{generation}"
            offsets(query, batch, json.dumps({"offset": batch}))
            put(query / f"commits/{batch}", "v2\n{}")


@pytest.fixture
def process(tmp_path: Path) -> Iterator[Process]:
    made = Process(tmp_path)
    yield made
    made.gates.close()


# -- what is remembered of batches -------------------------------------------------------------------------------------


def pre_commit(checkpoint: int, sink: SinkId, after: int, through: int) -> e.PreCommitSink:
    return e.PreCommitSink(FIRST, CheckpointId(checkpoint), sink, Batch(after), Batch(through))


def commit(checkpoint: int, sink: SinkId, after: int, through: int) -> e.CommitTransaction:
    transaction = Transaction(sink, FIRST, CheckpointId(checkpoint), Batch(after), Batch(through), "committable")
    return e.CommitTransaction(FIRST, CommitPermit(CheckpointId(checkpoint), FIRST), transaction)


def write_id(batch: int, run: int) -> WriteId:
    return WriteId("job", OUT, FIRST, Batch(batch), Run(run))


def failed_attempts(process: Process, run: int) -> FailedAttempts:
    process.order(e.AbortFailedAttempts(FIRST, OUT, Run(run)))
    assert process.told[-1] == FailedAttemptsAborted(FIRST, OUT, Run(run))
    found = process.sinks[OUT].scope[-1]
    assert isinstance(found, FailedAttempts)
    return found


def test_a_pre_commit_takes_of_each_batch_what_the_run_wrote_that_committed_it(process: Process) -> None:
    process.ran(1, 0, 1)
    process.ran(2, 2)
    process.order(pre_commit(1, OUT, NO_BATCH, 2))
    assert process.sinks[OUT].pre_committed == [[write_id(0, 1), write_id(1, 1), write_id(2, 2)]]
    assert process.told[-1] == SinkPreCommitted(FIRST, CheckpointId(1), OUT, "1/1")


def test_what_is_pre_committed_and_not_committed_yet_is_not_thrown_away_with_a_dead_run(process: Process) -> None:
    """The commit of 1 is slow, or 1 was given up; the next pre-commit begins behind it; then the query dies."""
    process.ran(1, *range(6))
    process.order(pre_commit(1, OUT, NO_BATCH, 2), pre_commit(1, AUDIT, NO_BATCH, 2))
    process.order(pre_commit(2, OUT, 2, 4), pre_commit(2, AUDIT, 2, 4))
    dead = failed_attempts(process, 2)
    assert [batch for batch in range(6) if dead.covers(write_id(batch, 1))] == []
    assert dead.covers(write_id(6, 1)), "it was never committed"


def test_what_both_sinks_have_committed_is_forgotten(process: Process) -> None:
    process.ran(1, *range(6))
    for sink in (OUT, AUDIT):
        process.order(pre_commit(1, sink, NO_BATCH, 2))
    process.order(commit(1, OUT, NO_BATCH, 2))
    assert sorted(process.tasks.committed_runs(FIRST, UP)) == list(range(6)), "the other sink has not"
    process.order(commit(1, AUDIT, NO_BATCH, 2))
    assert process.told[-1] == TransactionCommitted(FIRST, AUDIT, FIRST, CheckpointId(1))
    assert sorted(process.tasks.committed_runs(FIRST, UP)) == [3, 4, 5]


def leading(process: Process, run: int = 1, generation: Generation = FIRST) -> Query:
    """A run of ``up`` that has been created."""
    work: Any = SimpleNamespace(name="job/up", generation=generation, task=UP, run=Run(run), on_stop=lambda: None)
    query = Query(work, None, process.told.append, lambda *_: None)  # type: ignore[arg-type]
    process.tasks._queries[UP] = query
    return query


def test_a_pre_commit_of_a_batch_whose_run_is_unknown_sends_the_whole_job_back(process: Process) -> None:
    """It would leave out the rows of that batch, and the checkpoint would count them as read."""
    leading(process, run=2)
    process.ran(2, 0, 2)
    process.order(pre_commit(1, OUT, NO_BATCH, 2))
    assert process.sinks[OUT].pre_committed == []
    assert [type(fact) for fact in process.told] == [TaskFailed, PreCommitFailed]
    failed, _ = process.told
    assert isinstance(failed, TaskFailed)
    assert (failed.generation, failed.task, failed.run) == (FIRST, UP, 2)
    assert failed.failure.kind is FailureClass.INTERNAL
    assert "batch 1 of task up is committed, and no run is known to have written it" in failed.failure.message


def test_a_run_that_has_ended_cannot_fail_any_more_so_the_process_ends(process: Process) -> None:
    process.ran(1, 0, 2)
    query = leading(process)
    for event in (RunEvent.INTERRUPT, RunEvent.END):
        query._take(event)
    with pytest.raises(InternalError, match="batch 1 of task up"):
        process.order(pre_commit(1, OUT, NO_BATCH, 2))
    assert process.sinks[OUT].pre_committed == []


def test_a_pre_commit_of_a_generation_that_is_over_fails_nobody(process: Process) -> None:
    leading(process, generation=SECOND)
    process.ran(1, 0, 2)
    process.order(pre_commit(1, OUT, NO_BATCH, 2))
    assert [type(fact) for fact in process.told] == [PreCommitFailed]


def test_nothing_is_thrown_away_while_the_run_of_a_committed_batch_is_unknown(process: Process) -> None:
    """What counts of that batch would go as what a dead run left."""
    leading(process, run=2)
    process.ran(1, 0, 1, 2)
    process.tasks.batch_runs.restore(FIRST, UP, Batch(0))
    process.tasks.batch_runs.write(FIRST, UP, Batch(2), Run(1))
    process.order(e.AbortFailedAttempts(FIRST, OUT, Run(2)))
    assert process.sinks[OUT].scope == []
    (failed,) = process.told
    assert isinstance(failed, TaskFailed)
    assert failed.failure.kind is FailureClass.INTERNAL
    assert "batch 1 of task up" in failed.failure.message


def commit_batch(process: Process, batch: int, generation: Generation = FIRST) -> None:
    process.tasks._committed(start(UP, generation), Batch(batch))


def test_a_committed_batch_whose_run_is_unknown_is_not_passed_over(process: Process) -> None:
    """Its segment would stand in no log, and its readers would never see the rows."""
    process.ran(1, 0, 1, 3)
    segment(process.root, 2)
    with pytest.raises(InternalError, match="batch 2 of task up is committed, and no run is known to have written it"):
        commit_batch(process, 2)


def test_the_batch_that_a_generation_began_behind_is_known_to_be_an_earlier_ones(process: Process) -> None:
    process.tasks.batch_runs.restore(SECOND, UP, Batch(6))
    commit_batch(process, 6, SECOND)
    assert process.tasks.run_of(SECOND, UP, Batch(6)) is Past.RESTORED
    with pytest.raises(InternalError, match="batch 7"):
        commit_batch(process, 7, SECOND)


def test_a_batch_that_an_ended_run_wrote_is_entered_for_that_run(process: Process) -> None:
    """It was committed just before the run died: the next one makes it visible, and by whom it was written is known."""
    process.ran(1, 0)
    segment(process.root, 0)
    leading(process, run=2)
    commit_batch(process, 0)
    entry = Segments(process.root / "channels/up/g1", ONE).entry(Batch(0))
    assert entry is not None
    assert entry.run == 1


def test_a_batch_that_all_sinks_have_committed_is_known_to_be_settled(process: Process) -> None:
    process.ran(1, 0, 1)
    for sink in (OUT, AUDIT):
        process.order(pre_commit(1, sink, NO_BATCH, 1), commit(1, sink, NO_BATCH, 1))
    assert process.tasks.run_of(FIRST, UP, Batch(1)) is Past.SETTLED
    commit_batch(process, 1)


# -- rebuilding --------------------------------------------------------------------------------------------------------


def start(task: TaskId, generation: Generation = SECOND, run: int = 1, **how: Any) -> e.StartTask:
    return e.StartTask(generation, task, Run(run), **{"in_place": False, **how})


def failure(process: Process) -> tuple[Run, FailureClass, str]:
    fact = process.told[-1]
    assert isinstance(fact, TaskFailed)
    return fact.run, fact.failure.kind, fact.failure.message


def checkpoint(process: Process) -> TaskSnapshot:
    """Checkpoint 1 of the first generation, with the segments 3 and 4 in flight to ``down``, which had read 2."""
    run_batches(process.root / "tasks/down/g1", 6, position(ONE, 2))
    for batch in range(5):
        segment(process.root, batch, ONE)
    files = tuple(process.heard.snapshots.take(DOWN, FIRST, Batch(6), _never()).files)
    record = completed(1, batches={UP: 4, DOWN: 6}, files={DOWN: files}, in_flight={ONE: (2, 4)})
    process.heard.storage.create_record(CreateRecord(record.leader, record))
    return record.tasks[1]


def _never() -> Any:
    return SimpleNamespace(is_set=lambda: False)


IN_FLIGHT = InFlight(ONE, UP, DOWN, Batch(2), Batch(4))


def test_a_task_is_rebuilt_with_what_is_in_flight_standing_first(process: Process) -> None:
    snapshot = checkpoint(process)
    process.order(start(DOWN, snapshot=snapshot, positions=(Batch(2),), in_flight=(IN_FLIGHT,)), base=1)
    query = process.root / "tasks/down/g2"
    assert layout.committed(query) == 6
    assert layout.read_offsets(query, Batch(6)).positions() == {ONE: 2}
    found = Segments(process.root / "channels/up/g2", ONE).between(Batch(2), Batch(4))
    assert [entry.batch for entry in found] == [3, 4]
    for entry in found:
        for name, _ in entry.files:
            here, there = process.root / "channels/up/g2" / name, process.root / "channels/up/g1" / name
            assert here.samefile(there)


def test_a_channel_that_has_another_name_now_keeps_what_is_in_flight(process: Process) -> None:
    snapshot = checkpoint(process)
    old = ChannelId("before.0")
    run_batches(process.root / "tasks/down/g1", 6, position(old, 2))
    files = tuple(process.heard.snapshots.take(DOWN, FIRST, Batch(6), _never()).files)
    for batch in (3, 4):
        segment(process.root, batch, old)
    record = completed(2, batches={UP: 4, DOWN: 6}, files={DOWN: files}, in_flight={old: (2, 4)})
    process.heard.storage.create_record(CreateRecord(record.leader, record))
    held = InFlight(old, UP, DOWN, Batch(2), Batch(4))
    process.order(start(DOWN, snapshot=snapshot, positions=(Batch(2),), in_flight=(held,)), base=2)
    assert layout.read_offsets(process.root / "tasks/down/g2", Batch(6)).positions() == {ONE: 2}
    assert len(Segments(process.root / "channels/up/g2", ONE).between(Batch(2), Batch(4))) == 2


def test_a_task_that_the_checkpoint_does_not_have_begins_empty(process: Process) -> None:
    put(process.root / "tasks/down/g2/left over")
    process.order(start(DOWN, positions=(Batch(7),)))
    assert list((process.root / "tasks/down/g2").iterdir()) == []


def test_what_only_the_user_can_put_right_ends_the_job(process: Process) -> None:
    snapshot = checkpoint(process)
    (process.root / "tasks/down/g1/commits/6").unlink()
    process.order(start(DOWN, snapshot=snapshot, positions=(Batch(2),), in_flight=(IN_FLIGHT,)), base=1)
    run, kind, message = failure(process)
    assert (run, kind) == (1, FailureClass.USER)
    assert "commits/6 is gone" in message


def test_a_disk_that_is_full_for_a_moment_sends_the_whole_job_back(
    process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "mkdir", full)
    process.order(start(DOWN, positions=(NO_BATCH,)))
    assert failure(process)[1] is FailureClass.INTERNAL


def test_what_was_never_rebuilt_is_not_gone_on_with(process: Process) -> None:
    """At-most-once tries again even after a user's error, and in place: there it would begin at the very beginning."""
    snapshot = checkpoint(process)
    (process.root / "tasks/down/g1/commits/6").unlink()
    process.order(start(DOWN, snapshot=snapshot, positions=(Batch(2),), in_flight=(IN_FLIGHT,)), base=1)
    process.order(start(DOWN, run=2, in_place=True, skip=True), base=1)
    run, kind, message = failure(process)
    assert (run, kind) == (2, FailureClass.INTERNAL)
    assert "never rebuilt" in message


def test_a_run_in_place_begins_where_the_first_one_would_have(process: Process) -> None:
    process.order(start(DOWN, positions=(Batch(41),)))
    assert failure(process)[0] == 1, "there is no Spark here"
    process.order(start(DOWN, run=2, in_place=True))
    assert process.tasks._queries[DOWN].work.begin == (41,)
    process.order(e.AskTask(SECOND, DOWN, Run(2)))
    report = process.told[-1]
    assert isinstance(report, Reported)
    assert (report.boundary.batch, report.boundary.positions) == (NO_BATCH, (41,))


def test_an_order_that_is_given_twice_starts_one_run(process: Process) -> None:
    first = start(DOWN, positions=(NO_BATCH,))
    process.order(first)
    query = process.tasks._queries[DOWN]
    told = len(process.told)
    process.order(first)
    assert process.tasks._queries[DOWN] is query
    assert len(process.told) == told


# -- orders that must not end the process ------------------------------------------------------------------------------


def test_a_run_that_cannot_say_where_it_stands_is_asked_again(process: Process) -> None:
    process.order(start(DOWN, positions=(NO_BATCH,)))
    query = process.root / "tasks/down/g2"
    process.tasks.batch_runs.write(SECOND, DOWN, Batch(0), Run(1))
    put(query / "commits/0", "v2\n{}")
    put(query / "offsets/0", "not an entry")
    process.order(e.AskTask(SECOND, DOWN, Run(1)))
    assert len(process.heard.warnings()) == 1
    assert "offsets/0" in process.heard.warnings()[0]


def notified(process: Process, batch: int) -> None:
    process.tasks.notify(completed(1, batches={UP: batch}))


def test_sources_hear_where_they_stand_in_a_checkpoint(process: Process) -> None:
    offsets(process.root / "tasks/up/g1", 4, '{"offset":7}')
    notified(process, 4)
    notified(process, NO_BATCH)
    assert process.source.heard == ['{"offset":7}']
    assert process.heard.warnings() == []


@pytest.mark.parametrize("batch", [4, 5])
def test_a_source_that_cannot_be_told_ends_nothing(process: Process, batch: int) -> None:
    offsets(process.root / "tasks/up/g1", 4, json.dumps({"offset": 13}, separators=(",", ":")))
    notified(process, batch)
    assert process.source.heard == []
    assert len(process.heard.warnings()) == 1


# -- a sink without room -----------------------------------------------------------------------------------------------


def waiting(process: Process) -> tuple[threading.Thread, Query, list[BaseException]]:
    """A batch of ``up`` that waits in its hook for room in the sink ``out``, as the core has heard."""
    order = e.StartTask(FIRST, UP, Run(1), in_place=False)
    query = leading(process)
    process.sinks[OUT].room = False
    raised: list[BaseException] = []

    def write() -> None:
        try:
            process.tasks._invoke(order, OUT, None, Batch(1))  # type: ignore[arg-type]
        except Stopped as error:
            raised.append(error)

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    wait_until(lambda: SinkFull(FIRST, OUT) in process.told, 60, "the batch to say that it waits")
    assert process.sinks[OUT].begun == []
    return thread, query, raised


def test_a_batch_for_which_a_sink_has_no_room_says_so_and_waits_for_a_commit(process: Process) -> None:
    thread, _, raised = waiting(process)
    one = Transaction(OUT, FIRST, CheckpointId(1), NO_BATCH, Batch(0), "committable")
    process.order(e.CommitTransaction(FIRST, CommitPermit(CheckpointId(1), FIRST), one))
    thread.join(60)
    assert not thread.is_alive()
    assert raised == []
    assert [write_id.batch for write_id in process.sinks[OUT].begun] == [1]


def test_a_batch_that_waits_for_room_is_stopped_with_its_run(process: Process) -> None:
    thread, query, raised = waiting(process)
    query.interrupt()
    thread.join(60)
    assert [type(error) for error in raised] == [Stopped]
    assert process.sinks[OUT].begun == []


def test_a_batch_of_a_run_that_was_replaced_does_not_wait_for_room(process: Process) -> None:
    thread, _, raised = waiting(process)
    del process.tasks._queries[UP]
    thread.join(60)
    assert [type(error) for error in raised] == [Stopped]
