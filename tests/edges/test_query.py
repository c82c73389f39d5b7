"""One run of a task, over a stand-in for Spark: what it tells, in which order, and that it lets go."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headgate import layout
from headgate.core.events import (
    BatchCommitted,
    BatchEntered,
    OutputsWritten,
    SourceEnded,
    TaskEnded,
    TaskFailed,
    TaskStarted,
)
from headgate.core.ids import NO_BATCH, Batch, ChannelId, Generation, Run, TaskId
from headgate.core.restart import FailureClass
from headgate.errors import InternalError, InvalidOption
from headgate.task import query as under_test
from headgate.task.listener import EARLY_MAX, JsonProgressListener, Listener
from headgate.task.query import Query
from headgate.task.spec import QuerySpec
from tests.edges.mini_spark import WAIT_S, MiniSpark
from tests.edges.spark_files import offsets, position, run_batches

ALL = Batch(1000)


class Running:
    """A run of a task, with all that it tells and does in one list."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.spark = MiniSpark(directory)
        self.listener = Listener(self.spark)  # type: ignore[arg-type]
        self.told: list[Any] = []
        self.write: Callable[[Any, Batch], None] = lambda *_: None
        self.inputs: Callable[[], list[Any]] = list
        self.last_offset: str | None = None
        self.query = self.another()

    def another(self, run: int = 1, **work: Any) -> Query:
        made = QuerySpec(
            **{
                "generation": Generation(1),
                "task": TaskId("t"),
                "run": Run(run),
                "name": f"job/t/g1/r{run}",
                "directory": self.directory,
                "channels": (),
                "begin": (),
                "inputs": lambda: self.inputs(),  # noqa: PLW0108 - a test exchanges it
                "output": lambda _: self.spark,
                "write": lambda frame, batch: self.write(frame, batch),  # noqa: PLW0108 - as above
                "on_commit": lambda batch: self.told.append(("visible", batch)),
                "on_stop": lambda: None,
                "source_ended": lambda found: found.sources[0] == self.last_offset,
                "output_mode": "append",
                "trigger_ms": None,
                "stateful": 0,
                **work,
            }
        )
        self.query = Query(made, self.listener, self.told.append, lambda *_: None)
        return self.query

    def facts(self, *kinds: type) -> list[Any]:
        return [each for each in self.told if isinstance(each, kinds)]

    def wait_for(self, what: Callable[[], bool]) -> None:
        deadline = time.monotonic() + WAIT_S
        while not what():
            assert time.monotonic() < deadline, self.told
            time.sleep(0.002)

    def committed(self, batch: int) -> None:
        """Wait until somebody has heard that a batch is committed, whatever with."""
        self.wait_for(lambda: any(fact.boundary.batch >= batch for fact in self.facts(TaskStarted, BatchCommitted)))

    def visible_before_told(self) -> None:
        """Nobody has heard of a batch that cannot be read."""
        seen = NO_BATCH
        for each in self.told:
            if isinstance(each, tuple):
                seen = max(seen, each[1])
            elif isinstance(each, (TaskStarted, BatchCommitted, TaskEnded)):
                assert each.boundary.batch <= seen, self.told


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    made = Running(tmp_path)
    yield made
    made.query.interrupt()
    made.spark.close()
    made.visible_before_told()


def test_a_batch_is_entered_admitted_written_and_committed(running: Running) -> None:
    running.spark.available = 1
    running.query.start()
    running.wait_for(lambda: bool(running.facts(BatchEntered)))
    assert not running.facts(OutputsWritten)
    running.query.admit(Batch(0))
    running.committed(0)
    assert len(running.facts(TaskStarted)) == 1
    kinds = [type(each) for each in running.told if not isinstance(each, TaskStarted)]
    assert kinds == [BatchEntered, OutputsWritten, tuple, BatchCommitted]


def test_positions_come_from_the_offset_log_and_from_the_beginning_before_there_is_one(running: Running) -> None:
    query = running.another(channels=(ChannelId("a.0"),), begin=(Batch(41),))
    running.spark.line = position("a.0", 44)
    query.start()
    (started,) = running.facts(TaskStarted)
    assert isinstance(started, TaskStarted)
    assert (started.boundary.batch, started.boundary.positions) == (NO_BATCH, (41,))
    running.spark.available = 1
    query.admit(ALL)
    running.committed(0)
    assert query.boundary().positions == (44,)


def test_whoever_hears_that_a_run_is_up_can_read_all_that_it_has_committed(running: Running) -> None:
    """A batch may be committed before the start has been told of, and Spark's own word for it comes late."""
    running.spark.available = 1
    running.spark.hold_events()
    running.spark.after_start = lambda: running.wait_for(lambda: layout.committed(running.directory) == 0)
    running.query.admit(ALL)
    running.query.start()
    (started,) = running.facts(TaskStarted)
    assert isinstance(started, TaskStarted)
    assert started.boundary.batch == 0
    assert running.told.index(("visible", 0)) < running.told.index(started)


def test_a_run_that_is_asked_tells_nothing_that_cannot_be_read(running: Running) -> None:
    running.spark.available = 1
    running.spark.hold_events()
    running.query.admit(ALL)
    running.query.start()
    running.wait_for(lambda: layout.committed(running.directory) == 0)
    report = running.query.report()
    assert report.boundary.batch == 0
    assert ("visible", 0) in running.told


def test_a_new_run_makes_the_last_batch_visible_that_the_old_one_could_not(running: Running) -> None:
    run_batches(running.directory, 4)
    running.another(run=2).start()
    assert [each for each in running.told if isinstance(each, tuple)] == [("visible", 4)]
    running.spark.available = 7
    running.query.admit(ALL)
    running.committed(6)
    assert [each for each in running.told if isinstance(each, tuple)] == [("visible", batch) for batch in (4, 5, 6)]


def test_the_end_of_the_source_is_told_once_by_each_run(running: Running) -> None:
    running.last_offset = '{"offset":1}'
    running.spark.available = 2
    running.query.admit(ALL)
    running.query.start()
    running.wait_for(lambda: bool(running.facts(SourceEnded)))
    assert running.query.report().source_ended
    running.query.stop()
    running.another(run=2).start()
    assert len(running.facts(SourceEnded)) == 2


# -- stopping ----------------------------------------------------------------------------------------------------------


def test_a_run_stops_while_a_batch_waits_in_the_hook(running: Running) -> None:
    running.spark.available = 1
    running.query.start()
    running.wait_for(lambda: bool(running.facts(BatchEntered)))
    running.query.stop()
    running.query.stop()
    (ended,) = running.facts(TaskEnded, TaskFailed)
    assert isinstance(ended, TaskEnded)
    assert ended.boundary.batch == NO_BATCH


def test_a_run_that_is_interrupted_while_it_starts_does_not_come_up(running: Running) -> None:
    def interrupted() -> list[Any]:
        running.query.interrupt()
        return []

    running.inputs = interrupted
    running.query.start()
    assert running.spark.queries == []
    assert running.told == []
    running.query.stop()
    assert [type(each) for each in running.told] == [TaskEnded]


def test_a_run_that_is_interrupted_when_its_query_is_up_tells_of_no_start(running: Running) -> None:
    running.spark.after_start = lambda: running.query.interrupt()  # noqa: PLW0108 - a test makes another
    running.query.start()
    assert running.told == []
    running.query.stop()
    assert [type(each) for each in running.told] == [TaskEnded]
    assert not running.spark.queries[0].isActive


def test_a_run_that_cannot_say_where_it_ended_has_failed(running: Running) -> None:
    running.query.start()
    offsets(running.directory, 0, '{"offset":0}')
    (running.directory / "commits").mkdir()
    (running.directory / "commits" / "0").write_text("v2\n{}", encoding="utf-8")
    (running.directory / "offsets" / "0").write_text("not an entry", encoding="utf-8")
    running.query.stop()
    (failed,) = running.facts(TaskFailed, TaskEnded)
    assert isinstance(failed, TaskFailed)
    assert failed.failure.kind is FailureClass.USER
    assert "offsets/0" in failed.failure.message
    assert str(running.query.error) == failed.failure.message


def test_a_query_that_was_stopped_from_outside_is_told_of(running: Running) -> None:
    running.spark.available = 1
    running.query.admit(ALL)
    running.query.start()
    running.wait_for(lambda: layout.committed(running.directory) == 0)
    running.spark.queries[0].stop()
    running.wait_for(lambda: bool(running.facts(TaskEnded)))
    assert running.query.report().ended


# -- draining ----------------------------------------------------------------------------------------------------------


def test_a_run_with_nothing_left_to_do_ends(running: Running) -> None:
    running.spark.available = 2
    running.query.admit(ALL)
    running.query.start()
    running.committed(1)
    running.query.drain()
    running.query.drain()
    (ended,) = running.facts(TaskEnded, TaskFailed)
    assert isinstance(ended, TaskEnded)
    assert ended.boundary.batch == 1
    assert len(running.spark.queries) == 1


def test_the_batch_under_way_is_run_to_its_end_first(running: Running) -> None:
    running.spark.available = 1
    running.query.start()
    running.wait_for(lambda: bool(running.facts(BatchEntered)))
    draining = threading.Thread(target=running.query.drain)
    draining.start()
    running.wait_for(lambda: len(running.spark.queries) == 2)
    assert not running.facts(TaskEnded)
    running.query.admit(Batch(0))
    draining.join(WAIT_S)
    (ended,) = running.facts(TaskEnded, TaskFailed)
    assert isinstance(ended, TaskEnded)
    assert ended.boundary.batch == 0


def test_late_word_of_the_query_that_was_stopped_is_no_failure_of_the_next(running: Running) -> None:
    """It may come while the next query is being started, and is the only one that this run has by then."""
    running.spark.available = 1
    running.query.start()
    running.wait_for(lambda: bool(running.facts(BatchEntered)))
    running.spark.hold_events()
    running.spark.before_start = running.spark.deliver_events
    running.query.admit(NO_BATCH)
    draining = threading.Thread(target=running.query.drain)
    draining.start()
    running.wait_for(lambda: len(running.spark.queries) == 2)
    running.query.admit(Batch(0))
    draining.join(WAIT_S)
    assert [type(fact) for fact in running.facts(TaskEnded, TaskFailed)] == [TaskEnded]


def test_for_state_time_runs_out_one_operator_after_the_other(running: Running) -> None:
    query = running.another(stateful=2)
    running.spark.available = 3
    query.admit(ALL)
    query.start()
    running.committed(2)
    running.spark.before_start = lambda: setattr(running.spark, "available", 50)  # Once the first query is stopped.
    query.drain()
    assert layout.read_offsets(running.directory, Batch(3)).metadata["batchWatermarkMs"] == layout.FINAL_WATERMARK_MS
    (ended,) = running.facts(TaskEnded, TaskFailed)
    assert isinstance(ended, TaskEnded)
    assert ended.boundary.batch == 4, "the batch of the end, and one more for the second operator"
    assert [made.ran for made in running.spark.queries[1:]] == [[3], [4]]
    ends = [layout.read_offsets(running.directory, Batch(batch)) for batch in (2, 3, 4)]
    assert ends[0].sources == ends[1].sources == ends[2].sources, "no row comes behind the end of time"


FINAL = layout.FINAL_WATERMARK_MS


def ends(running: Running, *batches: int) -> list[bool]:
    """Which of them came at the end of time."""
    found = [layout.read_offsets(running.directory, Batch(batch)) for batch in batches]
    return [each.metadata["batchWatermarkMs"] == FINAL for each in found]


def at_its_end(running: Running, *, stateful: int, last_batches: int | None, **work: Any) -> Query:
    """A run whose source has ended with batch 1."""
    query = running.another(**{"stateful": stateful, "still": lambda _: True, **work})
    running.last_offset = running.spark.line % 1
    running.spark.available, running.spark.last_batches = 2, last_batches
    query.admit(ALL)
    query.start()
    running.wait_for(lambda: bool(running.facts(SourceEnded)))
    return query


@pytest.mark.parametrize("last_batches", [2, None])
def test_time_runs_out_in_the_running_query_if_it_finds_nothing_more(
    running: Running, last_batches: int | None
) -> None:
    query = at_its_end(running, stateful=2, last_batches=last_batches)
    query.drain()
    query.drain()
    (ended,) = running.facts(TaskEnded, TaskFailed)
    assert isinstance(ended, TaskEnded)
    assert len(running.spark.queries) == 1
    # Spark may have planned one before it was asked how far it is.
    assert ended.boundary.batch == 3 or (last_batches is None and ended.boundary.batch in (4, 5))
    assert ends(running, 1, 2, 3) == [False, True, True]


def test_a_batch_that_is_being_planned_when_time_runs_out_is_run_before_the_last_ones(running: Running) -> None:
    query = at_its_end(running, stateful=2, last_batches=2)
    running.spark.being_planned = 1
    query.drain()
    (ended,) = running.facts(TaskEnded, TaskFailed)
    assert isinstance(ended, TaskEnded)
    assert ended.boundary.batch == 4
    assert len(running.spark.queries) == 1
    assert ends(running, 2, 3, 4) == [False, True, True]


def test_what_the_running_query_has_left_of_the_end_of_time_runs_by_itself(running: Running) -> None:
    at_its_end(running, stateful=3, last_batches=1).drain()
    (ended,) = running.facts(TaskEnded, TaskFailed)
    assert isinstance(ended, TaskEnded)
    assert [made.ran for made in running.spark.queries] == [[0, 1, 2], [3], [4]]
    assert ends(running, 1, 2, 3, 4) == [False, True, True, True]


@pytest.mark.parametrize("why", ["this Spark", "a slow trigger", "a source that goes on", "a source without an end"])
def test_else_a_query_is_launched_for_the_end_of_time(running: Running, why: str) -> None:
    works: dict[str, dict[str, Any]] = {
        "a slow trigger": {"trigger_ms": 10_000},
        "a source that goes on": {"still": lambda _: False},
    }
    work = works.get(why, {})
    query = at_its_end(running, stateful=1, last_batches=0 if why == "this Spark" else 1, **work)
    if why == "a source without an end":
        query._progress.source_ended = False
    query.drain()
    assert ends(running, 1, 2) == [False, True]
    assert running.spark.queries[-1].ran == [2]


def test_a_last_batch_that_fails_in_the_running_query_is_a_failure(running: Running) -> None:
    query = at_its_end(running, stateful=1, last_batches=1)
    running.write = _raise(ValueError("a row does not please"))
    query.drain()
    (failed,) = running.facts(TaskEnded, TaskFailed)
    assert isinstance(failed, TaskFailed)
    assert failed.failure.message == "a row does not please"


def test_an_interrupt_while_time_runs_out_lets_the_drain_go(running: Running) -> None:
    query = at_its_end(running, stateful=1, last_batches=1)
    held = threading.Event()

    def hold(*_: object) -> None:
        held.set()
        query.wait_for_news(WAIT_S)

    running.write = hold
    draining = threading.Thread(target=query.drain, daemon=True)
    draining.start()
    assert held.wait(WAIT_S)
    query.interrupt()
    query.tell_news()
    draining.join(WAIT_S)
    assert not draining.is_alive()
    assert running.facts(TaskEnded, TaskFailed) == []


def test_a_run_that_is_exhausted_has_no_query_before_it_is_drained(running: Running) -> None:
    """A run before it has planned batch 1 and not committed it: that is the last one."""
    query = running.another(stateful=1)
    running.spark.available = 2
    query.admit(Batch(0))
    query.start()
    running.wait_for(lambda: len(running.facts(BatchEntered)) == 2)
    query.stop()
    launched = len(running.spark.queries)
    running.told.clear()
    running.spark.available = 50
    again = running.another(stateful=1)
    again.admit(ALL)
    again.start(exhausted=True)
    again.relaunch(lambda: None)
    (started,) = running.facts(TaskStarted)
    assert isinstance(started, TaskStarted)
    assert started.boundary.batch == 0
    assert len(running.spark.queries) == launched
    again.drain()
    (ended,) = running.facts(TaskEnded, TaskFailed)
    assert isinstance(ended, TaskEnded)
    assert ended.boundary.batch == 1
    assert layout.read_offsets(running.directory, Batch(1)).metadata["batchWatermarkMs"] == layout.FINAL_WATERMARK_MS


def test_an_interrupt_that_comes_between_two_queries_is_not_lost(running: Running) -> None:
    """Else the last batch would wait in the hook for somebody who has long gone, and the task's partition with it."""
    running.spark.available = 1
    running.query.start()
    running.wait_for(lambda: bool(running.facts(BatchEntered)))

    def interrupted() -> list[Any]:
        running.query.interrupt()
        return []

    running.inputs = interrupted
    draining = threading.Thread(target=running.query.drain, daemon=True)
    draining.start()
    draining.join(WAIT_S)
    assert not draining.is_alive()
    assert running.facts(TaskEnded, TaskFailed) == []
    running.query.stop()
    assert [type(fact) for fact in running.facts(TaskEnded, TaskFailed)] == [TaskEnded]


def test_an_interrupt_during_the_last_batch_lets_the_drain_go(running: Running) -> None:
    running.spark.available = 1
    running.query.start()
    running.wait_for(lambda: bool(running.facts(BatchEntered)))
    draining = threading.Thread(target=running.query.drain, daemon=True)
    draining.start()
    running.wait_for(lambda: len(running.facts(BatchEntered)) == 2)
    running.query.interrupt()
    draining.join(WAIT_S)
    assert not draining.is_alive()
    assert running.facts(TaskEnded, TaskFailed) == []


def test_a_last_batch_that_fails_is_a_failure(running: Running) -> None:
    running.spark.available = 1
    running.query.admit(ALL)
    query = running.another(stateful=1)
    query.admit(ALL)
    query.start()
    running.committed(0)
    running.write = _raise(ValueError("a row does not please"))
    query.drain()
    (failed,) = running.facts(TaskEnded, TaskFailed)
    assert isinstance(failed, TaskFailed)
    assert failed.failure.message == "a row does not please"


# -- failing -----------------------------------------------------------------------------------------------------------


def _raise(error: Exception) -> Callable[..., None]:
    def write(*_: object) -> None:
        raise error

    return write


@pytest.mark.parametrize(
    ("error", "kind"),
    [(ValueError("a row does not please"), FailureClass.EXTERNAL), (InvalidOption("no column x"), FailureClass.USER)],
)
def test_a_batch_that_fails_is_told_once_with_its_cause(running: Running, error: Exception, kind: FailureClass) -> None:
    running.write = _raise(error)
    running.spark.available = 1
    running.query.admit(ALL)
    running.query.start()
    running.wait_for(lambda: bool(running.facts(TaskFailed)))
    running.spark.deliver_events()
    running.query.stop()
    (failed,) = running.facts(TaskFailed, TaskEnded)
    assert isinstance(failed, TaskFailed)
    assert (failed.failure.kind, failed.failure.message) == (kind, str(error))
    report = running.query.report()
    assert (report.failure, report.ended) == (failed.failure, False)


def test_a_query_that_cannot_be_started_has_failed_and_can_be_asked(running: Running) -> None:
    running.inputs = _raise(OSError("no such host"))  # type: ignore[assignment]
    running.query.start()
    (failed,) = running.facts(TaskFailed)
    assert isinstance(failed, TaskFailed)
    assert failed.failure.kind is FailureClass.EXTERNAL
    assert running.query.up


def test_a_death_that_spark_did_not_tell_of_is_found_when_the_run_is_asked(running: Running) -> None:
    running.spark.deaf = True
    running.write = _raise(ValueError("a row does not please"))
    running.spark.available = 1
    running.query.admit(ALL)
    running.query.start()
    running.spark.queries[0].wait_end()
    assert running.query.report().failure is not None
    assert len(running.facts(TaskFailed)) == 1


def test_an_end_that_spark_did_not_tell_of_does_not_hold_up_a_drain(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(under_test, "LOOK_S", 0.02)
    query = running.another(stateful=1)
    running.spark.available = 1
    query.admit(ALL)
    query.start()
    running.committed(0)
    running.spark.deaf = True
    draining = threading.Thread(target=query.drain, daemon=True)
    draining.start()
    draining.join(WAIT_S)
    assert [type(fact) for fact in running.facts(TaskEnded, TaskFailed)] == [TaskEnded]


def test_the_cause_of_a_failure_is_not_that_of_the_query_before(running: Running) -> None:
    """The batch under way failed just before the drain, which runs it again; and it fails for another reason."""
    errors = iter([OSError("the first"), OSError("the second")])
    running.write = lambda *_: _raise(next(errors))()
    running.spark.available = 1
    running.spark.hold_events()
    running.query.admit(ALL)
    running.query.start()
    running.spark.queries[0].wait_end()
    running.spark.before_start = running.spark.deliver_events
    running.query.drain()
    (failed,) = running.facts(TaskEnded, TaskFailed)
    assert isinstance(failed, TaskFailed)
    assert failed.failure.message == "the second"


# -- what cannot be ----------------------------------------------------------------------------------------------------


def internal_failure(running: Running) -> str:
    """What the only failure says that was told. It sends the whole job back."""
    (failed,) = running.facts(TaskFailed, TaskEnded)
    assert isinstance(failed, TaskFailed)
    assert failed.failure.kind is FailureClass.INTERNAL
    return failed.failure.message


def of_unknown_run(batch: Batch) -> None:
    raise InternalError(f"batch {batch} is committed, and no run is known to have written it")


def test_a_committed_batch_of_an_unknown_run_fails_the_run_although_no_batch_follows(running: Running) -> None:
    query = running.another(on_commit=of_unknown_run)
    running.spark.available = 1
    query.admit(ALL)
    query.start()
    running.wait_for(lambda: bool(running.facts(TaskFailed)))
    assert "batch 0 is committed, and no run is known" in internal_failure(running)
    query.stop()
    assert running.facts(BatchCommitted, TaskEnded) == []


def test_a_committed_batch_of_an_unknown_run_is_found_when_the_run_is_asked(running: Running) -> None:
    query = running.another(on_commit=of_unknown_run)
    running.spark.deaf = True
    query.admit(ALL)
    query.start()
    running.spark.available = 1
    running.wait_for(lambda: layout.committed(running.directory) == 0)
    assert running.facts(TaskFailed) == [], "nobody has said a word of it"
    with pytest.raises(InternalError):
        query.report()
    assert "batch 0 is committed" in internal_failure(running)


def test_a_run_whose_batches_are_of_an_unknown_run_does_not_start(running: Running) -> None:
    run_batches(running.directory, 2)
    running.another(on_commit=of_unknown_run).start()
    assert "batch 2 is committed" in internal_failure(running)
    assert running.spark.queries == []
    assert running.facts(TaskStarted) == []


def test_a_batch_does_not_go_on_behind_one_of_an_unknown_run(running: Running) -> None:
    query = running.another(on_commit=of_unknown_run)
    running.spark.deaf = True
    running.spark.available = 2
    query.admit(ALL)
    query.start()
    running.spark.queries[0].wait_end()
    assert "batch 0 is committed" in internal_failure(running)
    assert running.spark.queries[0].ran == [0]


def test_a_run_that_has_failed_lets_the_batch_in_its_hook_go(running: Running) -> None:
    running.spark.available = 1
    running.query.start()
    running.wait_for(lambda: bool(running.facts(BatchEntered)))
    assert running.query.fail(InternalError("what it holds is not to be trusted"))
    running.spark.queries[0].wait_end()
    running.spark.deliver_events()
    assert not running.query.fail(OSError("too late"))
    assert internal_failure(running) == "what it holds is not to be trusted"
    assert not running.facts(OutputsWritten)


def test_word_of_a_query_that_the_run_never_launched_sends_the_job_back(running: Running) -> None:
    running.query.start()
    with pytest.raises(InternalError):
        running.query.terminated("another's", None)
    assert "told of Spark's query another's, which it never launched" in internal_failure(running)


def test_a_batch_of_a_query_that_the_run_never_launched_sends_the_job_back(running: Running) -> None:
    running.query.start()
    with pytest.raises(InternalError):
        running.query.progressed(SimpleNamespace(runId="another's", batchId=0, numInputRows=1))
    assert "told of Spark's query another's, which it never launched" in internal_failure(running)
    assert running.facts(BatchCommitted) == []


def test_late_word_of_a_batch_of_the_query_before_is_taken(running: Running) -> None:
    """The query was stopped, and another one of the run follows: it is known, and so is what it committed."""
    query = running.another(stateful=1)
    running.spark.available = 1
    query.admit(ALL)
    query.start()
    running.committed(0)
    query.drain()
    first, last = running.spark.queries
    query.progressed(SimpleNamespace(runId=first.runId, batchId=0, numInputRows=1))
    query.terminated(str(first.runId), "it was stopped")
    query.terminated(str(last.runId), "it had ended")
    assert [type(fact) for fact in running.facts(TaskEnded, TaskFailed)] == [TaskEnded]


@pytest.mark.parametrize("order", ["drain", "start"])
def test_an_order_that_cannot_come_is_told_and_not_carried_out(running: Running, order: str) -> None:
    if order == "start":
        running.query.start()
    getattr(running.query, order)()
    assert f"({order.upper()}) came to a run that was" in internal_failure(running)
    assert len(running.spark.queries) == (order == "start")


# -- leaving out -------------------------------------------------------------------------------------------------------


def test_a_batch_is_left_out_although_nothing_comes_after_it(running: Running) -> None:
    run_batches(running.directory, 2)
    offsets(running.directory, 3, '{"offset":3}')
    query = running.another(run=2)
    starting = threading.Thread(target=query.start, kwargs={"skip": True}, daemon=True)
    starting.start()
    starting.join(WAIT_S)
    assert not starting.is_alive(), "it waits for a batch that may never come"
    (started,) = running.facts(TaskStarted, TaskFailed)
    assert isinstance(started, TaskStarted)
    assert started.boundary.batch == 3
    assert [each.ran for each in running.spark.queries] == [[3], []]
    assert not running.facts(BatchEntered), "nobody is asked about a batch that is left out"


def test_a_batch_that_cannot_be_left_out_is_a_failure(running: Running) -> None:
    run_batches(running.directory, 2)
    offsets(running.directory, 3, '{"offset":3}')
    running.write = _raise(OSError("no room"))
    running.another(run=2).start(skip=True)
    (failed,) = running.facts(TaskStarted, TaskFailed)
    assert isinstance(failed, TaskFailed)
    assert failed.failure.message == "batch 3 could not be left out"
    assert len(running.spark.queries) == 1


def test_an_interrupt_lets_go_of_a_batch_that_is_being_left_out(running: Running) -> None:
    run_batches(running.directory, 2)
    offsets(running.directory, 3, '{"offset":3}')
    query = running.another(run=2)

    def interrupted(*_: object) -> None:
        query.interrupt()
        raise OSError("the executor went with it")

    running.write = interrupted
    query.start(skip=True)
    assert running.facts(TaskStarted, TaskFailed, TaskEnded) == []
    assert len(running.spark.queries) == 1


def test_only_the_batch_under_way_is_left_out(running: Running) -> None:
    run_batches(running.directory, 2)
    offsets(running.directory, 3, '{"offset":3}')
    running.spark.available = 6
    query = running.another(run=2)
    query.admit(ALL)
    query.start(skip=True)
    running.committed(5)
    assert [each.ran for each in running.spark.queries] == [[3], [4, 5]]


def test_nothing_is_left_out_where_nothing_was_under_way(running: Running) -> None:
    run_batches(running.directory, 2)
    running.another(run=2).start(skip=True)
    assert len(running.spark.queries) == 1
    assert not running.spark.queries[0].once


# -- the listener ------------------------------------------------------------------------------------------------------


class Listening:
    def __init__(self) -> None:
        self.heard: list[str] = []

    def progressed(self, progress: Any) -> None:
        self.heard.append(f"batch {progress.batchId}")

    def idled(self) -> None:
        self.heard.append("idle")

    def terminated(self, run_id: str, exception: str | None) -> None:
        self.heard.append(f"{run_id}: {exception}")


def progress(run_id: str, batch: int) -> Any:
    return type("Event", (), {"progress": type("Progress", (), {"runId": run_id, "batchId": batch})})


def end(run_id: str) -> Any:
    return type("Event", (), {"runId": run_id, "exception": "boom"})


def test_events_go_to_the_run_that_they_are_about(running: Running) -> None:
    one, two = Listening(), Listening()
    running.listener.follow("1", one)
    running.listener.follow("2", two)
    running.listener.onQueryProgress(progress("1", 4))
    running.listener.onQueryIdle(SimpleNamespace(runId="1"))
    running.listener.onQueryIdle(SimpleNamespace(runId="nobody's"))
    running.listener.onQueryTerminated(end("2"))
    assert (one.heard, two.heard) == (["batch 4", "idle"], ["2: boom"])


def test_what_spark_says_of_a_batch_comes_as_one_text(running: Running) -> None:
    run_id = "00000000-0000-0000-0000-000000000001"
    said: dict[str, Any] = {
        "id": run_id,
        "runId": run_id,
        "name": None,
        "timestamp": "2026-01-01T00:00:00.000Z",
        "batchId": 7,
        "batchDuration": 12,
        "numInputRows": 500,
        "stateOperators": [],
        "sources": [],
        "sink": {"description": "ForeachBatchSink", "numOutputRows": -1},
    }
    run = Listening()
    running.listener.follow(run_id, run)
    event = SimpleNamespace(progress=lambda: SimpleNamespace(json=lambda: json.dumps(said)))
    JsonProgressListener(running.listener).onQueryProgress(event)
    assert run.heard == ["batch 7"]


def test_a_query_that_died_before_anybody_knew_its_name_is_heard_of(running: Running) -> None:
    late = Listening()
    running.listener.onQueryProgress(progress("1", 0))
    running.listener.onQueryTerminated(end("1"))
    running.listener.follow("1", late)
    assert late.heard == ["1: boom"]


def test_queries_that_nobody_follows_take_no_room(running: Running) -> None:
    for batch in range(10):
        for number in range(EARLY_MAX * 2):
            running.listener.onQueryProgress(progress(f"foreign {number}", batch))
    assert len(running.listener._early) == EARLY_MAX
    ours = Listening()
    running.listener.onQueryTerminated(end("ours"))
    running.listener.follow("ours", ours)
    assert ours.heard == ["ours: boom"]
    assert running.listener._runs == {}
