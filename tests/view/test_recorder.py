"""The lines that a job's steps leave behind."""

from headgate.core import events as e
from headgate.core.ids import CheckpointId, Generation, RequestId, SinkId, TaskId
from headgate.core.records import Ending, Restore
from headgate.core.restart import FailureClass, NoRestart
from headgate.core.state import Phase
from tests.helpers import line
from tests.step_helpers import ME, OTHER
from tests.view.watched import Watched, watched

GRAPH = line("a", "b")


def test_a_generation_and_its_tasks_are_told_once() -> None:
    core = watched(GRAPH)
    assert core.events() == ["generation", "task-started", "task-started"]
    assert core.lines[0] == {"at": 0, "event": "generation", "generation": 1, "base": None, "leader": ME}
    assert core.lines[1] == {"at": 0, "event": "task-started", "task": "a", "run": 1, "batch": -1}
    core.tell(core.started("a"))
    assert len(core.lines) == 3


def test_a_checkpoint_is_told_with_what_each_task_spent_on_it() -> None:
    core = watched(GRAPH)
    core.tell(core.committed("a", 0))
    core.wait(100)
    core.ask()
    core.snapshot("a", 1, sync_ms=3, async_ms=4, total_bytes=70, new_bytes=7, files=5)
    core.wait(30)
    core.tell(core.committed("b", 0, 0))
    core.snapshot("b", 1, sync_ms=1, total_bytes=10, files=2)
    core.wait(20)
    core.make_ready(1)
    core.note("pre_commit", checkpoint=1, sink="out", ms=12.5)
    core.wait(6)
    core.note("published", checkpoint=1, ms=5, in_flight_bytes=0, in_flight={"a>b": 0})
    core.create()
    core.wait(9)
    core.tell(core.visible(1))
    triggered, completed, committed = core.lines[3:]
    assert triggered == {
        "at": 100,
        "event": "checkpoint-triggered",
        "id": 1,
        "kind": "checkpoint",
        "unaligned": False,
    }
    tasks = completed.pop("tasks")
    assert completed.pop("pre_commits") == {"out": {"start_ms": 37.5, "ms": 12.5}}
    assert completed == {
        "at": 156,
        "event": "checkpoint-completed",
        "id": 1,
        "kind": "checkpoint",
        "generation": 1,
        "unaligned": False,
        "duration_ms": 56,
        "pre_commit_ms": 12.5,
        "publish_ms": 6,
        "restarts": 0,
    }
    assert tasks["a"].pop("figures") == {
        "rows_in": 0,
        "batches": 0,
        "busy_ratio": 0.0,
        "backpressured_ratio": 0.0,
    }
    assert tasks["a"] == {
        "start_delay_ms": 0,
        "alignment_ms": 0,
        "snapshot_start_ms": 0,
        "sync_ms": 3,
        "async_ms": 4,
        "total_bytes": 70,
        "new_bytes": 7,
        "files": 5,
        "in_flight_bytes": 0,
    }
    assert (tasks["b"]["start_delay_ms"], tasks["b"]["alignment_ms"], tasks["b"]["total_bytes"]) == (30, 30, 10)
    assert committed == {
        "at": 165,
        "event": "checkpoint-committed",
        "id": 1,
        "commit_ms": 9,
        "retries": 0,
        "recovered": False,
    }


def test_data_in_flight_is_counted_with_the_task_that_would_read_it() -> None:
    core = watched(GRAPH, unaligned=True)
    core.tell(core.committed("a", 0))
    core.ask()
    core.note("published", checkpoint=1, ms=1, in_flight_bytes=640, in_flight={"a>b": 640})
    core.complete(1)
    [completed] = core.only("checkpoint-completed")
    assert completed["unaligned"] is True
    assert {task: part["in_flight_bytes"] for task, part in completed["tasks"].items()} == {"a": 0, "b": 640}


def test_a_commit_that_is_tried_again_says_how_often() -> None:
    core = watched(GRAPH)
    core.tell(core.committed("a", 0), core.committed("b", 0, 0))
    core.ask()
    core.make_ready(1)
    core.create()
    for _ in range(2):
        core.tell(core.commit_failed(1))
        core.wait(1000)
    core.tell(core.visible(1), core.visible(1))
    assert [one["text"] for one in core.only("notice")] == [
        "out: commit of checkpoint 1 failed, will be tried again: no answer"
    ] * 2
    [committed] = core.only("checkpoint-committed")
    assert (committed["commit_ms"], committed["retries"]) == (2000, 2)


def test_a_task_that_fails_is_told_with_the_restart_that_follows() -> None:
    core = watched(GRAPH)
    core.tell(core.failed("b", FailureClass.LOST_EXECUTOR), core.failed("b"))
    assert core.lines[3:] == [
        {
            "at": 0,
            "event": "task-failed",
            "task": "b",
            "run": 1,
            "batch": 0,
            "class": "lost-executor",
            "message": "boom",
        },
        {
            "at": 0,
            "event": "restart",
            "level": "task",
            "task": "b",
            "cause": "task b failed: boom",
            "class": "lost-executor",
            "delay_ms": 1000,
        },
    ]
    core.wait(1000)
    core.tell(core.started("b"))
    assert core.only("task-started")[-1] == {"at": 1000, "event": "task-started", "task": "b", "run": 2, "batch": -1}


def test_a_query_that_somebody_else_stopped_has_failed() -> None:
    for fact in ("ended", "reported"):
        core = watched(GRAPH)
        core.tell(core.ended("a") if fact == "ended" else core.reported("a", ended=True))
        assert core.only("task-failed")[0]["message"] == "its query was stopped from outside"
        assert core.only("restart")[0]["level"] == "task"


def test_a_job_that_goes_back_gives_up_its_checkpoint_and_the_next_one_counts_the_restart() -> None:
    core = watched(GRAPH)
    core.ask()
    core.tell(core.failed("a", FailureClass.INTERNAL))
    assert core.events()[3:] == ["checkpoint-triggered", "task-failed", "restart", "checkpoint-failed"]
    assert core.only("restart")[0]["level"] == "job"
    assert core.only("checkpoint-failed")[0]["why"] == "checkpoint 1 given up: the job is restarting"
    core.wait(1000)
    core.read()
    core.create()
    core.start_all()
    assert core.only("generation")[1]["generation"] == 2
    core.ask()
    core.complete(core.state.checkpoints.pending[0].id)
    assert core.only("checkpoint-completed")[0]["restarts"] == 1


def test_a_checkpoint_that_was_ready_when_the_job_went_back_is_told_when_it_is_clear() -> None:
    for landed in (True, False):
        core = watched(GRAPH)
        core.tell(core.committed("a", 0), core.committed("b", 0, 0))
        core.ask()
        core.make_ready(1)
        core.tell(core.failed("a", FailureClass.INTERNAL))
        assert core.only("checkpoint-failed") == []
        if landed:
            core.store[1] = (
                core.state.leadership.in_doubt[0]
                if core.state.leadership.in_doubt
                else core.state.checkpoint_log.queue[0]
            )
        core.wait(1000)
        core.read()
        core.create()
        if landed:
            assert core.only("checkpoint-completed")[0]["id"] == 1
            assert core.state.phase is Phase.RECOVERING
            assert core.only("checkpoint-committed") == []
            core.tell(e.TransactionCommitted(Generation(2), SinkId("out"), Generation(1), CheckpointId(1)))
            assert [one["id"] for one in core.only("checkpoint-committed")] == [1]
        else:
            assert core.only("checkpoint-failed")[0]["why"] == "checkpoint 1 given up: the job restarted"


def test_checkpoints_that_fail_too_often_are_a_cause_of_their_own() -> None:
    core = watched(GRAPH)
    core.ask()
    core.tell(e.SnapshotDeclined(Generation(1), CheckpointId(1), TaskId("a"), "no space"))
    assert core.events()[-2:] == ["restart", "checkpoint-failed"]
    [restart] = core.only("restart")
    assert (restart["level"], restart["task"], restart["class"]) == ("job", None, "internal")
    assert restart["cause"] == "more than 0 checkpoints failed in a row"
    assert core.only("checkpoint-failed")[0]["why"].endswith("a part of the job declined it (a: no space)")


def test_a_later_checkpoint_that_is_ready_first_is_why_the_earlier_one_was_given_up() -> None:
    core = watched(line("a"), max_concurrent_checkpoints=2, interval_ms=10)
    core.wait(10)
    core.tell(core.committed("a", 0))
    core.wait(10)
    core.tell(core.acked("a", 2), core.pre_committed(2))
    core.create()
    assert core.only("checkpoint-failed")[0]["why"] == "checkpoint 1 given up: a later one completed first"


def test_an_alignment_timeout_shows_in_the_completed_checkpoint() -> None:
    core = watched(GRAPH, aligned_checkpoint_timeout_ms=50, interval_ms=100)
    core.tell(core.committed("a", 0))
    core.wait(100)
    core.wait(50)
    core.complete(1)
    assert core.only("checkpoint-triggered")[0]["unaligned"] is False
    [completed] = core.only("checkpoint-completed")
    assert completed["unaligned"] is True
    assert completed["tasks"]["b"]["alignment_ms"] == 50


def test_a_savepoint_is_told_when_its_copy_is_complete_and_then_the_end() -> None:
    core = watched(GRAPH)
    core.savepoint(stop=True)
    core.complete(1)
    core.tell(e.SavepointCopied(ME, CheckpointId(1)), e.SavepointCopied(ME, CheckpointId(1)))
    core.write_closing_record()
    core.tell(core.stale_generations_aborted())
    assert core.only("checkpoint-triggered")[0]["kind"] == "savepoint"
    assert core.events()[-2:] == ["savepoint-copied", "ended"]
    assert core.lines[-1]["ending"] == "stopped"
    assert core.lines[-1]["text"] == "the job is stopped; latest checkpoint: 1"


def test_a_failure_that_ends_the_job_is_the_text_of_its_end() -> None:
    core = watched(GRAPH, restart=NoRestart())
    core.tell(core.failed("a"))
    core.write_closing_record()
    core.tell(core.stale_generations_aborted())
    assert core.events()[3:] == ["task-failed", "ended"]
    assert core.lines[-1]["ending"] == "failed"
    assert core.lines[-1]["text"] == "the job is failed; latest checkpoint: none; task a failed: boom"


def test_a_process_that_no_longer_leads_says_so() -> None:
    core = watched(GRAPH)
    core.ask()
    core.tell(e.LeadershipLost(ME))
    assert core.events()[-2:] == ["checkpoint-failed", "ended"]
    assert (core.lines[-1]["ending"], core.lines[-1]["leader"]) == ("deposed", ME)


def test_a_job_that_cannot_return_to_its_checkpoint_ends_with_the_reason() -> None:
    core = Watched(GRAPH)
    core.lead(restore=Restore(checkpoint=CheckpointId(7)))
    core.read()
    assert core.events() == ["ended"]
    assert core.lines[0]["ending"] == Ending.FAILED.value
    assert "checkpoint 7 is not in the storage" in core.lines[0]["text"]


def test_commits_that_another_process_left_are_told_as_recovered() -> None:
    first = watched(GRAPH)
    first.tell(first.committed("a", 0), first.committed("b", 0, 0))
    first.ask()
    first.make_ready(1)
    first.create()
    second = Watched(GRAPH)
    second.store = first.store
    second.lead(OTHER)
    second.read()
    second.create()
    second.tell(e.TransactionCommitted(Generation(2), SinkId("out"), Generation(1), CheckpointId(1)))
    [committed] = second.only("checkpoint-committed")
    assert (committed["id"], committed["recovered"]) == (1, True)
    assert second.only("generation")[0]["base"] == 1


def test_a_job_that_had_finished_takes_its_last_checkpoint_as_it_begins() -> None:
    core = watched(line("a"))
    core.tell(e.SourceEnded(*core.whose("a")), core.ended("a"))
    core.complete(1)
    again = Watched(line("a"))
    again.store = core.store
    again.lead(OTHER, Restore(again=True))
    again.read()
    again.create()
    [triggered] = again.only("checkpoint-triggered")
    assert triggered["id"] == again.state.checkpoints.next_id - 1
    again.tell(again.stale_generations_aborted())
    again.create()
    assert again.only("checkpoint-completed")[0]["tasks"]["a"]["files"] == 0


def test_the_guarantee_is_a_line() -> None:
    core = watched(GRAPH)
    core.note("guarantee", guarantee="effectively-once", because=["sink out is effectively-once"])
    said = {"guarantee": "effectively-once", "because": ["sink out is effectively-once"]}
    assert core.lines[-1] == {"at": 0, "event": "guarantee", **said}


def test_a_warning_from_the_edges_is_a_line() -> None:
    core = watched(GRAPH)
    core.note("warning", text="no driver for jdbc:mysql://etl:x@hunter2@db/shop")
    assert core.lines[-1] == {"at": 0, "event": "warning", "text": "no driver for jdbc:mysql://db/shop"}
    core.note("warning", text="the disk is nearly full")
    assert core.lines[-1] == {"at": 0, "event": "warning", "text": "the disk is nearly full"}


def test_measurements_of_a_checkpoint_that_is_over_are_let_go() -> None:
    core = watched(GRAPH)
    core.snapshot("a", 9, total_bytes=1)
    core.note("commit", checkpoint=9, sink="out", ms=1)
    assert len(core.lines) == 3


def test_progress_comes_once_a_second_at_most_with_rates_and_lag() -> None:
    core = watched(GRAPH)
    assert len(core.progress) == 1
    core.now_ms = 999
    core.note("progress", task="a", value=500.0, about=None)
    assert len(core.progress) == 1
    core.now_ms = 1000
    core.tell(core.committed("a", 0), core.committed("a", 1))
    assert len(core.progress) == 2
    core.now_ms = 2000
    core.note("wait_ms", task="a", value=20.4, about=1)
    core.note("progress", task="a", value=1500.0, about=None)
    core.now_ms = 3000
    core.note("write_ms", task="a", value=1.0, about=1)
    assert len(core.progress) == 4
    a, b = core.progress[-1]["tasks"]
    assert (a["rows"], a["rows_per_s"], a["wait_ms"], a["batch"], a["lag"]) == (2000, 750.0, 20, 1, {})
    assert (b["rows"], b["rows_per_s"], b["batch"], b["lag"]) == (0, 0.0, -1, {"a>b": 2})


def test_a_request_that_is_answered_is_no_news_for_everybody() -> None:
    core = watched(GRAPH)
    core.tell(e.HoldAsked(RequestId("mine"), CheckpointId(5)))
    assert len(core.lines) == 3
