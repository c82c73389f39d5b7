"""Traces of checkpoints and recoveries, from events."""

from collections.abc import Iterable, Mapping
from typing import Any

from headgate.metrics.spans import OPEN_MAX, Span, Traces
from tests.metrics.facts import eventful


def traces(lines: Iterable[Mapping[str, Any]]) -> list[Span]:
    kept = Traces()
    return [root for line in lines for root in kept.take(line)]


def shape(span: Span) -> Any:
    return span.name, span.start_ms, span.end_ms, [shape(child) for child in span.children]


def names(span: Span) -> list[str]:
    return [child.name for child in span.children]


PART = {
    "start_delay_ms": 30,
    "alignment_ms": 20,
    "snapshot_start_ms": 35,
    "sync_ms": 3.0,
    "async_ms": 7.0,
    "total_bytes": 900,
    "new_bytes": 400,
    "in_flight_bytes": 0,
    "files": 5,
}
TRIGGERED = {"at": 1_000, "event": "checkpoint-triggered", "id": 7, "kind": "checkpoint", "unaligned": False}
COMPLETED = {
    "at": 1_100,
    "event": "checkpoint-completed",
    "id": 7,
    "kind": "checkpoint",
    "generation": 2,
    "unaligned": False,
    "duration_ms": 100,
    "pre_commit_ms": 15.0,
    "pre_commits": {"out": {"start_ms": 60.0, "ms": 15.0}},
    "publish_ms": 20,
    "restarts": 0,
    "tasks": {"a": PART},
}
COMMITTED = {
    "at": 1_140,
    "event": "checkpoint-committed",
    "id": 7,
    "commit_ms": 40,
    "retries": 2,
    "recovered": False,
}


def test_a_checkpoint_is_a_trace_with_a_span_for_each_task_and_phase() -> None:
    [root] = traces([TRIGGERED, COMPLETED, COMMITTED])
    assert shape(root) == (
        "checkpoint",
        1_000,
        1_140,
        [
            (
                "task",
                1_000,
                1_045,
                [
                    ("start delay", 1_000, 1_010, []),
                    ("alignment", 1_010, 1_030, []),
                    ("sync", 1_035, 1_038, []),
                    ("async", 1_038, 1_045, []),
                ],
            ),
            ("pre-commit", 1_060, 1_075, []),
            ("publish", 1_080, 1_100, []),
            ("commit", 1_100, 1_140, []),
        ],
    )
    assert root.attributes["headgate.checkpoint.id"] == 7
    assert (root.attributes["headgate.size_bytes"], root.attributes["headgate.generation"]) == (400, 2)
    assert root.children[0].attributes["headgate.task"] == "a"
    assert root.children[1].attributes == {"headgate.sink": "out"}
    assert root.children[3].attributes == {"headgate.retries": 2}
    assert root.error is None


def test_a_checkpoint_that_fails_is_a_trace_that_says_why() -> None:
    failed = {"at": 1_050, "event": "checkpoint-failed", "id": 7, "kind": "checkpoint", "why": "declined"}
    [root] = traces([TRIGGERED, failed])
    assert (root.start_ms, root.end_ms, root.error, root.children) == (1_000, 1_050, "declined", [])


def test_a_commit_of_a_checkpoint_that_an_earlier_process_took_has_no_trace_here() -> None:
    assert traces([COMMITTED]) == []
    kept = Traces()
    assert [*kept.take(TRIGGERED), *kept.take(COMMITTED)] == []
    assert len([*kept.take(COMPLETED), *kept.take(COMMITTED)]) == 1, "and the one under way with its id is left alone"


def test_what_is_open_when_the_process_ends_is_told_as_it_stands() -> None:
    ended = {"at": 1_200, "event": "ended", "ending": "stopped", "text": "", "leader": "me"}
    [root] = traces([TRIGGERED, COMPLETED, ended])
    assert (root.end_ms, root.error) == (1_100, None)
    [root] = traces([TRIGGERED, ended])
    assert (root.end_ms, root.error) == (1_200, "the process ended")


def test_every_checkpoint_and_every_recovery_of_a_job_has_its_trace() -> None:
    found = traces(eventful().lines)
    assert [(root.name, root.error is None) for root in found] == [
        ("checkpoint", True),
        ("checkpoint", False),
        ("recovery", True),
        ("recovery", True),
    ]
    recoveries = [root for root in found if root.name == "recovery"]
    assert [root.attributes["headgate.level"] for root in recoveries] == ["task", "job"]
    assert names(recoveries[-1]) == ["delay", "restore", "replay"]
    delay, restore, _ = recoveries[-1].children
    assert (delay.end_ms - delay.start_ms, restore.end_ms - restore.start_ms) == (1_000, 80)
    assert recoveries[-1].start_ms == delay.start_ms
    assert restore.start_ms == delay.end_ms


def restart(at: int, level: str, task: str | None) -> dict[str, Any]:
    about = {"level": level, "task": task, "cause": f"task {task} failed", "class": "external", "delay_ms": 50}
    return {"at": at, "event": "restart", **about}


def restored(at: int, level: str, task: str | None, base: int | None = None) -> dict[str, Any]:
    about = {"level": level, "task": task, "generation": 3, "base": base, "delay_ms": 50, "restore_ms": 10}
    return {"at": at, "event": "restored", **about}


def test_tasks_that_recover_beside_each_other_have_traces_of_their_own() -> None:
    caught = [{**restored(200, "task", task), "event": "caught-up", "replay_ms": 5} for task in ("a", "b")]
    found = traces(
        [
            restart(0, "task", "a"),
            restart(5, "task", "b"),
            restored(80, "task", "b"),
            restored(90, "task", "a"),
            *caught,
        ]
    )
    assert [(root.attributes["headgate.task"], root.start_ms, root.end_ms) for root in found] == [
        ("a", 0, 200),
        ("b", 5, 200),
    ]
    assert all(root.error is None for root in found)


def test_a_recovery_that_another_failure_cuts_short_says_so() -> None:
    found = traces([restart(0, "task", "a"), restart(30, "task", "a"), restart(60, "job", "b")])
    assert [(root.end_ms, root.error) for root in found] == [(50, "another failure"), (80, "another failure")]


def test_a_process_that_takes_a_job_over_has_a_trace_of_its_start() -> None:
    begun = {"at": 100, "event": "generation", "generation": 3, "base": 4, "leader": "me"}
    [root] = traces([begun, {**restored(400, "start", None, 4), "restore_ms": 300}])
    assert (root.name, root.start_ms, root.end_ms, names(root)) == ("recovery", 100, 400, ["restore"])
    assert (root.attributes["headgate.level"], root.attributes["headgate.base"]) == ("start", 4)
    assert traces([{**begun, "base": None}]) == []


def test_no_more_are_kept_than_may_be_open() -> None:
    kept = Traces()
    for number in range(10 * OPEN_MAX):
        assert list(kept.take({**TRIGGERED, "id": number})) == []
        assert list(kept.take(restart(number, "task", f"t{number}"))) == []
    assert (len(kept._checkpoints), len(kept._recoveries)) == (OPEN_MAX, OPEN_MAX)
