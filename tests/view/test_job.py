"""Status and checkpoints, of a job that runs and of one that does not."""

from typing import Any

from headgate.core import events as e
from headgate.core.ids import CheckpointId, Generation, TaskId
from headgate.core.records import Record
from headgate.core.restart import FailureClass, NoRestart
from headgate.view import history, job
from tests.helpers import line
from tests.step_helpers import ME, OTHER
from tests.view.watched import Watched, watched

GRAPH = line("a", "b")


def records(core: Watched) -> tuple[Record, ...]:
    return tuple(core.store[number] for number in sorted(core.store))


def status(core: Watched, *, now_ms: int | None = None, elsewhere: bool = False) -> dict[str, Any]:
    """What a command says that finds no process."""
    now_ms = core.now_ms if now_ms is None else now_ms
    return job.status("orders", records(core), core.lines, now_ms=now_ms, elsewhere=elsewhere)


def live(core: Watched) -> dict[str, Any]:
    return core.recorder.status(core.now_ms, core.state)


def checkpoints(core: Watched, held: tuple[int, ...] = ()) -> dict[int, dict[str, Any]]:
    found = job.checkpoints(records(core), tuple(map(CheckpointId, held)), core.lines)
    return {one["id"]: one for one in found}


def test_a_running_job_shows_its_tasks_its_checkpoint_and_its_age() -> None:
    core = watched(GRAPH)
    core.tell(core.committed("a", 0), core.committed("b", 0, 0), core.committed("a", 1))
    core.wait(100)
    core.ask()
    core.tell(core.committed("b", 1, 1))
    core.complete(1)
    core.wait(400)
    core.ask()
    seen = live(core)
    assert (seen["job"], seen["state"], seen["generation"], seen["leader"]) == ("orders", "running", 1, ME)
    assert (seen["started_ms"], seen["uptime_ms"]) == (0, 500)
    assert seen["pending"] == [2]
    assert seen["last_checkpoint"] == {
        "id": 1,
        "kind": "checkpoint",
        "completed_ms": 100,
        "age_ms": 400,
        "duration_ms": 0,
    }
    assert [(task["task"], task["state"], task["run"], task["batch"]) for task in seen["tasks"]] == [
        ("a", "running", 1, 1),
        ("b", "running", 1, 1),
    ]
    assert (seen["last_failure"], seen["restarts"], seen["text"]) == (None, {"task": 0, "job": 0}, None)


def test_a_job_that_does_not_run_is_shown_in_the_same_shape() -> None:
    core = watched(GRAPH, unaligned=True)
    core.tell(core.committed("a", 0), core.committed("a", 1), core.committed("b", 0, 0))
    core.ask()
    core.complete(1)
    core.now_ms = 700
    stopped, running = status(core), live(core)
    assert list(stopped) == list(running)
    assert [list(task) for task in stopped["tasks"]] == [list(task) for task in running["tasks"]]
    assert list(stopped["last_checkpoint"]) == list(running["last_checkpoint"])
    assert stopped["state"] == "crashed"
    assert stopped["last_checkpoint"]["age_ms"] == 700
    assert [(task["batch"], task["state"], task["lag"]) for task in stopped["tasks"]] == [
        (1, "stopped", {}),
        (0, "stopped", {"a>b": 1}),
    ]
    assert stopped["tasks"][0]["rows_per_s"] is None


def test_a_task_shows_what_it_is_doing() -> None:
    core = Watched(GRAPH)
    core.lead()
    assert live(core)["state"] == "starting"
    core.read()
    core.create()
    assert {task["state"] for task in live(core)["tasks"]} == {"starting"}
    core.start_all()
    core.tell(e.SourceEnded(*core.whose("a")), core.ended("a"), core.failed("b"))
    assert [task["state"] for task in live(core)["tasks"]] == ["finished", "restarting"]
    assert live(core)["state"] == "running"


def test_a_job_that_goes_back_is_restarting_until_its_tasks_may_start() -> None:
    core = watched(GRAPH)
    core.tell(core.failed("a", FailureClass.INTERNAL))
    assert live(core)["state"] == "restarting"
    assert live(core)["tasks"][0]["state"] == "stopped"
    core.wait(1000)
    assert live(core)["state"] == "restarting"
    core.read()
    core.create()
    assert live(core)["state"] == "running"
    assert live(core)["restarts"] == {"task": 0, "job": 1}
    assert live(core)["last_failure"] == {"at": 0, "task": "a", "class": "internal", "message": "boom"}


def test_an_ending_is_what_the_record_says_with_the_text_of_the_line() -> None:
    core = watched(GRAPH, restart=NoRestart())
    core.tell(core.failed("a"))
    assert live(core)["state"] == "closing"
    core.write_closing_record()
    core.tell(core.stale_generations_aborted())
    for seen in (live(core), status(core)):
        assert seen["state"] == "failed"
        assert seen["text"] == "the job is failed; latest checkpoint: none; task a failed: boom"
    core.lines.append({"at": 5, "event": "ended", "ending": "stopped", "text": "no"})
    assert (status(core)["state"], status(core)["text"]) == ("failed", None)


def test_a_process_that_no_longer_leads_says_so() -> None:
    core = watched(GRAPH)
    core.tell(e.LeadershipLost(ME))
    assert live(core)["state"] == "deposed"


def test_a_process_elsewhere_may_be_running_the_job() -> None:
    core = watched(GRAPH)
    assert status(core, elsewhere=True)["state"] == "unknown"
    assert job.status("orders", (), (), now_ms=5)["state"] == "new"


def test_a_new_incarnation_counts_its_restarts_anew_and_remembers_the_last_failure() -> None:
    core = watched(GRAPH)
    core.tell(core.failed("a"))
    again = {"at": 900, "event": "generation", "generation": 2, "base": None, "leader": OTHER}
    told = history.execution([*core.lines, again])
    assert (told.leader, told.generation, told.started_ms) == (OTHER, 2, 900)
    assert told.restarts == {"task": 0, "job": 0}
    assert told.last_failure is not None
    assert told.last_failure["message"] == "boom"


def test_failed_checkpoints_are_the_last_failure_where_no_task_failed() -> None:
    core = watched(GRAPH)
    core.ask()
    core.tell(e.SnapshotDeclined(Generation(1), CheckpointId(1), TaskId("a"), "no space"))
    assert live(core)["last_failure"]["message"] == "more than 0 checkpoints failed in a row"


def test_checkpoints_show_what_was_recorded_and_what_is_kept() -> None:
    core = watched(GRAPH, num_retained=1, tolerable_failed_checkpoints=5)
    core.tell(core.committed("a", 0), core.committed("b", 0, 0))
    core.ask()
    core.snapshot("a", 1, total_bytes=100, new_bytes=10, files=4)
    core.snapshot("b", 1, total_bytes=50, new_bytes=5, files=2)
    core.complete(1)
    core.ask()
    core.tell(e.SnapshotDeclined(Generation(1), CheckpointId(2), TaskId("a"), "no space"))
    core.savepoint()
    core.create()
    core.complete(3)
    core.tell(e.SavepointCopied(ME, CheckpointId(3)))
    core.ask()
    del core.store[1]
    found = checkpoints(core, held=(3,))
    assert {n: (one["state"], one["kept"], one["held"]) for n, one in found.items()} == {
        1: ("completed", False, False),
        2: ("failed", False, False),
        3: ("completed", True, True),
        4: ("pending", False, False),
    }
    first = found[1]
    assert (first["total_bytes"], first["new_bytes"], first["in_flight_bytes"], first["files"]) == (150, 15, 0, 6)
    assert (first["duration_ms"], first["publish_ms"], first["commit_ms"], first["retries"]) == (0, 0, 0, 0)
    assert first["tasks"]["a"]["total_bytes"] == 100
    assert found[2]["why"].endswith("(a: no space)")
    assert (found[3]["kind"], found[3]["copied"]) == ("savepoint", True)
    assert found[4]["total_bytes"] is None


def test_a_checkpoint_that_was_under_way_when_its_process_ended_has_failed() -> None:
    core = watched(GRAPH)
    core.ask()
    core.lines.append({"at": 900, "event": "generation", "generation": 2, "base": None, "leader": OTHER})
    assert (checkpoints(core)[1]["state"], checkpoints(core)[1]["why"]) == ("failed", history.LOST)


def test_the_record_is_believed_before_the_history() -> None:
    core = watched(GRAPH)
    core.ask()
    core.complete(1)
    core.lines = [one for one in core.lines if one["event"] != "checkpoint-completed"]
    core.lines.append({"at": 900, "event": "generation", "generation": 2, "base": 1, "leader": OTHER})
    found = checkpoints(core)[1]
    assert (found["state"], found["kept"], found["why"], found["duration_ms"]) == ("completed", True, None, None)
    core.lines = []
    assert checkpoints(core)[1]["state"] == "completed"
    assert status(core)["last_checkpoint"]["age_ms"] is None


def test_lines_that_say_less_than_they_should_are_no_error() -> None:
    odd: list[dict[str, Any]] = [{}, {"event": "restart"}, {"at": 5, "event": "checkpoint-completed"}, {"event": "x"}]
    odd += [{"event": name, "id": 1} for name in ("checkpoint-completed", "checkpoint-committed", "savepoint-copied")]
    odd += [{"event": name} for name in ("generation", "task-failed", "ended", "checkpoint-failed")]
    seen = job.status("orders", (), odd, now_ms=9)
    assert (seen["restarts"], seen["started_ms"]) == ({"task": 0, "job": 0}, None)
    assert [one["id"] for one in job.checkpoints((), (), odd)] == [1]


def test_the_first_commit_of_a_checkpoint_is_the_one_that_counts() -> None:
    lines: list[dict[str, Any]] = [
        {"at": 1, "event": "checkpoint-triggered", "id": 1, "kind": "checkpoint", "unaligned": False},
        {"at": 2, "event": "checkpoint-committed", "id": 1, "commit_ms": 7, "retries": 1},
        {"at": 3, "event": "checkpoint-committed", "id": 1, "commit_ms": 900, "retries": 0},
    ]
    assert (history.checkpoints(lines)[1]["commit_ms"], history.checkpoints(lines)[1]["retries"]) == (7, 1)
