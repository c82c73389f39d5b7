"""What views know of a job comes out under the names of the API."""

from typing import Any

import pytest

from headgate.core.restart import FailureClass
from headgate.serve import checkpoints, failures, shapes
from headgate.view import job as views
from tests.helpers import line
from tests.serve.described import DESCRIBED
from tests.view.test_recoveries import begin
from tests.view.watched import watched

VIEW: dict[str, Any] = {
    **views.status("orders", (), (), now_ms=0),
    "state": "running",
    "started_ms": 100,
    "uptime_ms": 50,
    "tasks": [
        {
            "task": "a",
            "state": "running",
            "run": 1,
            "batch": 3,
            "lag": {"b.0": 2},
            "rows": 10,
            "rows_per_s": 2.5,
            "wait_ms": 7,
            "batch_rows": 100,
            "busy_ratio": 0.25,
            "idle_ratio": 0.15,
            "backpressured_ratio": 0.6,
            "watermark_ms": 99,
            "state_rows": 4,
            "state_bytes": 400,
            "rows_in": 11,
            "rows_out": 12,
            "gc_ms": 5,
        }
    ],
}


def test_every_word_for_the_state_of_a_job_has_flinks() -> None:
    known = {"starting", "running", "restarting", "closing", "deposed", "finished", "stopped", "cancelled", "failed"}
    known |= {views.CRASHED, views.INTERRUPTED, views.UNKNOWN, "new", "damaged"}
    assert set(shapes.STATES) == known


def test_the_figures_of_a_task_are_taken_by_name_and_others_handed_on() -> None:
    [vertex] = shapes.vertices(VIEW, DESCRIBED, 0)
    counted = {name: vertex["metrics"][name] for name in ("read-records", "write-records", "read-bytes", "write-bytes")}
    assert counted == {"read-records": 11, "write-records": 12, "read-bytes": None, "write-bytes": None}
    assert (vertex["busy_ratio"], vertex["backpressure-level"], vertex["details"]) == (0.25, "high", {"gc_ms": 5})
    metrics = {each["id"]: each["value"] for each in shapes.vertex_metrics(vertex)}
    assert (metrics["busyTimeMsPerSecond"], metrics["currentInputWatermark"], metrics["lag"]) == (250.0, 99, 2)
    known = shapes.backpressure(vertex, 7)
    assert (known["status"], known["ratio"], known["idleRatio"], known["end-timestamp"]) == ("ok", 0.6, 0.15, 7)


def test_the_skew_of_a_task_is_that_of_its_most_uneven_part() -> None:
    sources = [{"source": "orders", "skew": 1.2}, {"source": "b.0", "skew": None}]
    operators = [{"operator": 0, "skew": 3.25}, {"operator": 1, "skew": 2.0}]
    task = {**VIEW["tasks"][0], "sources": sources, "state_operators": operators}
    [vertex] = shapes.vertices({**VIEW, "tasks": [task]}, DESCRIBED, 0)
    assert (vertex["skew"], vertex["skew_of"]) == (3.25, "state 0")
    [vertex] = shapes.vertices({**VIEW, "tasks": [{**task, "state_operators": []}]}, DESCRIBED, 0)
    assert (vertex["skew"], vertex["skew_of"]) == (1.2, "orders")
    [vertex] = shapes.vertices(VIEW, DESCRIBED, 0)
    assert (vertex["skew"], vertex["skew_of"]) == (None, None)


def test_a_task_that_waits_for_its_next_run_says_when_the_last_one_ended() -> None:
    task = {**VIEW["tasks"][0], "run_started_ms": 40, "run_ended_ms": None, "batches_ms": 30, "idle_ms": 9}
    [vertex] = shapes.vertices({**VIEW, "tasks": [task]}, DESCRIBED, 100)
    assert (vertex["start-time"], vertex["end-time"], vertex["duration"]) == (40, None, 60)
    spent = [vertex["metrics"][f"accumulated-{name}-time"] for name in ("backpressured", "busy", "idle")]
    assert spent == [7, 23, 9]
    [vertex] = shapes.vertices({**VIEW, "tasks": [{**task, "run_ended_ms": 70}]}, DESCRIBED, 100)
    assert (vertex["start-time"], vertex["end-time"], vertex["duration"]) == (40, 70, 30)


def test_sparks_own_ui_is_linked_while_the_job_runs_and_has_it_on() -> None:
    on = {**DESCRIBED, "configuration": {**DESCRIBED["configuration"], "spark_ui": "http://127.0.0.1:4040"}}
    for described, live, address in ((on, True, "http://127.0.0.1:4040"), (on, False, None), (DESCRIBED, True, None)):
        assert shapes.details("orders", VIEW, described, "", 0, live=live)["spark_ui"] == address
    assert shapes.details("orders", VIEW, None, "", 0, live=True)["spark_ui"] is None


@pytest.mark.parametrize(
    ("ratio", "word"),
    [(None, None), (0.0, "ok"), (0.1, "ok"), (0.11, "low"), (0.5, "low"), (0.51, "high"), (1.0, "high")],
)
def test_backpressure_in_a_word_is_flinks(ratio: float | None, word: str | None) -> None:
    assert shapes.level(ratio) == word


def test_a_job_that_has_not_run_yet_shows_the_tasks_of_its_plan() -> None:
    found = shapes.vertices({**VIEW, "tasks": []}, DESCRIBED, 0)
    assert [(each["id"], each["status"], each["batch"]) for each in found] == [
        ("a", "CANCELED", -1),
        ("b", "CANCELED", -1),
    ]
    assert shapes.vertices({**VIEW, "tasks": []}, None, 0) == []


def test_when_a_job_ended_is_when_it_was_last_heard_of() -> None:
    over = shapes.summary("orders", {**VIEW, "state": "stopped"}, "file:///data", 999, live=False)
    assert (over["state"], over["end-time"], over["last-modification"]) == ("FINISHED", 150, 150)
    running = shapes.summary("orders", VIEW, "file:///data", 999, live=True)
    assert (running["state"], running["end-time"], running["last-modification"]) == ("RUNNING", None, 999)


def one(**more: Any) -> dict[str, Any]:
    known = views.checkpoints([], [], [{"at": 1, "event": "checkpoint-triggered", "id": 1, "kind": "checkpoint"}])[0]
    return {**known, **more}


def test_a_checkpoint_under_way_says_how_many_have_acknowledged() -> None:
    found = checkpoints.statistics(one(), None, 3, {"acknowledged": ["a", "b"]})
    assert (found["status"], found["num_subtasks"], found["num_acknowledged_subtasks"]) == ("IN_PROGRESS", 3, 2)
    assert found["discarded"] is False


def test_a_failed_checkpoint_says_why_and_when() -> None:
    found = checkpoints.statistics(one(state="failed", why="too slow", failed_ms=9), None)
    assert (found["status"], found["failure_message"], found["failure_timestamp"]) == ("FAILED", "too slow", 9)


def test_what_a_task_took_has_its_wait_between_the_cut_and_the_snapshot() -> None:
    """It waits for another snapshot: that is part of what it took, and of when it acknowledged."""
    part = {"start_delay_ms": 20, "alignment_ms": 5, "snapshot_start_ms": 700.0, "sync_ms": 3.0, "async_ms": 40.5}
    found = checkpoints.task_statistics(one(triggered_ms=1_000, tasks={"a": part}), "a")
    assert (found["end_to_end_duration"], found["latest_ack_timestamp"]) == (743.5, 1_744)
    assert (found["start_delay"], found["snapshot_start"]) == (20, 700.0)


def test_a_task_that_took_no_snapshot_was_done_with_its_cut() -> None:
    finished = {"start_delay_ms": 20, "snapshot_start_ms": 0, "sync_ms": 0, "async_ms": 0}
    found = checkpoints.task_statistics(one(triggered_ms=None, tasks={"a": finished}), "a")
    assert (found["end_to_end_duration"], found["latest_ack_timestamp"]) == (20, None)
    earlier = {"start_delay_ms": 20, "sync_ms": 3, "async_ms": 4}
    found = checkpoints.task_statistics(one(tasks={"a": earlier}), "a")
    assert (found["end_to_end_duration"], found["snapshot_start"]) == (27, None), "of a release that did not say when"
    assert checkpoints.task_statistics(one(tasks={"a": {}}), "a")["end_to_end_duration"] is None


def test_state_partitions_are_shown_with_what_they_come_to() -> None:
    sizes = ((0, 10, 2), (2, 20, 5))
    parts = [
        {"operator": "sums", "partition": index, "bytes": size, "new_bytes": fresh} for index, size, fresh in sizes
    ]
    found = checkpoints.task_details(one(state="completed", tasks={"a": {"total_bytes": 30}}), "a", parts)
    assert [(each["index"], each["operator"], each["state_size"]) for each in found["subtasks"]] == [
        (0, "sums", 10),
        (2, "sums", 20),
    ]
    assert [each["checkpointed_size"] for each in found["subtasks"]] == [2, 5]
    assert found["summary"]["state_size"]["avg"] == 15
    assert found["summary"]["checkpointed_size"]["max"] == 5
    alone = checkpoints.task_details(one(tasks={"a": {}}), "a", [{**parts[0], "new_bytes": None}])
    assert alone["subtasks"][0]["checkpointed_size"] is None
    assert alone["summary"]["checkpointed_size"]["max"] is None
    assert checkpoints.task_details(one(tasks={"a": {}}), "a", [])["summary"]["state_size"]["avg"] is None


def test_a_return_of_the_whole_job_says_from_where_and_until_when() -> None:
    lines = [
        (
            "1",
            {"at": 10, "event": "restart", "level": "job", "task": None, "cause": "more than 0 failed", "delay_ms": 5},
        ),
        ("2", {"at": 11, "event": "task-started", "task": "a", "run": 9}),
        ("3", {"at": 15, "event": "generation", "generation": 2, "base": 7}),
        ("4", {"at": 20, "event": "task-started", "task": "a", "run": 1}),
        ("5", {"at": 25, "event": "task-started", "task": "b", "run": 1}),
        (
            "6",
            {
                "at": 30,
                "event": "task-failed",
                "task": "b",
                "class": "user",
                "message": "no: colon",
                "trace": "all of it",
            },
        ),
    ]
    [restart] = failures.restarts(lines)
    assert (restart["checkpoint"], restart["running_ms"], restart["failed_ms"]) == (7, 20, 10)
    last, first = failures.exceptions(lines)
    assert (last["exceptionName"], last["stacktrace"], last["failureLabels"]["level"]) == ("no", "all of it", "job")
    assert (first["exceptionName"], first["taskName"], first["failureLabels"]) == ("failure", None, {"level": "job"})


def recovery(event: str, at: int, level: str, task: str | None, **took: int) -> tuple[str, dict[str, Any]]:
    return str(at), {"at": at, "event": event, "level": level, "task": task, "base": None, **took}


def failing(at: int, level: str, task: str) -> list[tuple[str, dict[str, Any]]]:
    about = {"task": task, "class": "external", "message": "gone"}
    failed = {"at": at, "event": "task-failed", "trace": f"the trace of {at}", **about}
    return [
        (f"{at}", failed),
        (f"{at + 1}", {"at": at + 1, "event": "restart", "level": level, "cause": "", "delay_ms": 10, **about}),
    ]


def test_a_restart_says_what_failed_how_long_it_restored_and_how_long_it_replayed() -> None:
    lines = [
        *failing(100, "task", "a"),
        ("112", {"at": 112, "event": "task-started", "task": "a", "run": 2}),
        recovery("restored", 115, "task", "a", restore_ms=4),
        recovery("caught-up", 122, "task", "a", replay_ms=7),
        *failing(200, "job", "b"),
        ("212", {"at": 212, "event": "generation", "generation": 2, "base": 3}),
        ("213", {"at": 213, "event": "task-started", "task": "a", "run": 1}),
        recovery("restored", 220, "job", None, restore_ms=9),
    ]
    job, task = failures.restarts(lines)
    assert (task["stacktrace"], job["stacktrace"]) == ("the trace of 100", "the trace of 200")
    assert (task["running_ms"], task["restore_ms"], task["replay_ms"]) == (115, 4, 7)
    assert (job["running_ms"], job["restore_ms"], job["replay_ms"]) == (220, 9, None), "it has not caught up yet"


def test_what_a_recorder_writes_of_a_recovery_is_what_a_restart_says() -> None:
    core = watched(line("a", "b"))
    core.tell(core.committed("a", 0), core.entered("b", 0, 0))
    core.tell(core.failed("b"))
    core.wait(1_200)
    core.tell(core.started("b"))
    core.wait(40)
    core.tell(core.committed("b", 0, 0))
    core.tell(core.failed("a", FailureClass.INTERNAL))
    core.wait(1_000)
    begin(core)
    core.wait(80)
    core.start_all()
    job, task = failures.restarts([(str(number), each) for number, each in enumerate(core.lines)])
    assert (task["task"], task["delay_ms"], task["restore_ms"], task["replay_ms"]) == ("b", 1_000, 200, 40)
    assert task["running_ms"] - task["failed_ms"] == 1_200
    assert (job["level"], job["delay_ms"], job["restore_ms"], job["replay_ms"]) == ("job", 1_000, 80, None)
    assert job["running_ms"] - job["failed_ms"] == 1_080


def test_a_recovery_that_is_interrupted_leaves_its_times_to_nobody() -> None:
    """Nor are those of a process that takes the job over: no failure that is told began that."""
    lines = [
        *failing(100, "task", "a"),
        *failing(105, "job", "a"),
        recovery("restored", 130, "job", None, restore_ms=14),
        recovery("caught-up", 131, "job", None, replay_ms=1),
        recovery("restored", 140, "start", None, restore_ms=99),
    ]
    job, task = failures.restarts(lines)
    assert (task["restore_ms"], task["replay_ms"]) == (None, None)
    assert (job["restore_ms"], job["replay_ms"]) == (14, 1)


def test_a_job_that_failed_says_of_what() -> None:
    view = {**VIEW, "state": "failed", "text": "gave up", "last_failure": {"at": 5, "task": "a", "class": "user"}}
    assert (failures.root(view) or {})["message"] == "gave up"
    assert failures.root(VIEW) is None
