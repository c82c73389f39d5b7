"""A job's past by pages says just what a walk over all of it says."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from headgate.core.ids import CheckpointId
from headgate.errors import ExternalError
from headgate.run.appending import WAITING_MAX, HistoryAppender
from headgate.run.past import JobPast
from headgate.store.history import HistoryBounds, HistoryWriter
from headgate.store.jobstore import JobStore
from headgate.store.local import LocalStore
from headgate.view import history as told, job as view
from headgate.view.history import LOST
from headgate.view.summary import summary
from tests.helpers import completed, line

NUMBERS = st.integers(1, 12)
PART = {"total_bytes": 10, "new_bytes": 1, "in_flight_bytes": 0, "files": 2}


def triggered(number: int) -> dict[str, Any]:
    return {"event": "checkpoint-triggered", "id": number, "kind": "checkpoint", "unaligned": False}


def done(number: int) -> dict[str, Any]:
    figures = {"generation": 1, "unaligned": False, "duration_ms": number, "pre_commit_ms": 0.5, "publish_ms": 1}
    return {**triggered(number), "event": "checkpoint-completed", **figures, "restarts": 0, "tasks": {"a": PART}}


LINES = st.one_of(
    NUMBERS.map(triggered),
    NUMBERS.map(done),
    NUMBERS.map(lambda number: {"event": "checkpoint-failed", "id": number, "kind": "checkpoint", "why": "slow"}),
    NUMBERS.map(lambda number: {"event": "checkpoint-committed", "id": number, "commit_ms": 3, "retries": 1}),
    NUMBERS.map(lambda number: {"event": "savepoint-copied", "id": number}),
    st.sampled_from(
        [
            {"event": "restart", "level": "task", "task": "a", "cause": "x", "class": "user", "delay_ms": 1},
            {"event": "restart", "level": "job", "task": None, "cause": "y", "class": "user", "delay_ms": 1},
            {"event": "task-failed", "task": "a", "run": 1, "class": "user", "message": "z"},
            {"event": "notice", "text": "n"},
            {"event": "ended", "ending": "failed", "text": "over", "leader": "me"},
            {"event": "what is this", "id": "no number"},
        ]
    ),
)
EXECUTIONS = st.lists(st.lists(st.lists(LINES, max_size=12), min_size=1, max_size=3), min_size=1, max_size=4)
"""For each process the generations that it had, and what happened in each."""


def all_lines(executions: list[list[list[dict[str, Any]]]]) -> list[list[dict[str, Any]]]:
    """What each process wrote."""
    at = 0
    wrote = []
    for leader, generations in enumerate(executions):
        lines: list[dict[str, Any]] = []
        for generation, happened in enumerate(generations):
            begin = {"event": "generation", "generation": 10 * leader + generation, "base": None, "leader": str(leader)}
            for each in (begin, *happened):
                at += 1
                lines.append({"at": at, **each})
        wrote.append(lines)
    return wrote


@settings(max_examples=40, deadline=None)
@given(EXECUTIONS, st.integers(1, 5), st.sampled_from([200, 1_000, 1 << 20]))
def test_pages_status_and_counts_are_those_of_all_lines(
    tmp_path_factory: pytest.TempPathFactory,
    executions: list[list[list[dict[str, Any]]]],
    limit: int,
    segment_bytes: int,
) -> None:
    store = JobStore.open(LocalStore(tmp_path_factory.mktemp("past")), "orders")
    wrote = all_lines(executions)
    for lines in wrote:
        writer = HistoryWriter(store, HistoryBounds(segment_bytes=segment_bytes))
        for begin in range(0, len(lines), 3):
            writer.append(lines[begin : begin + 3])
    everything = [each for lines in wrote for each in lines]
    past = JobPast(store)

    expected = view.checkpoints((), (), everything)
    found: list[dict[str, Any]] = []
    while page := past.checkpoints(limit, found[0]["id"] if found else None):
        assert len(page) <= limit
        found = page + found
    assert found == expected
    assert all(past.checkpoint(one["id"]) == one for one in expected)
    assert past.execution() == told.execution(everything)
    finished = {each["id"] for each in everything if each["event"] == "checkpoint-completed"}
    failed = {each["id"] for each in everything if each["event"] == "checkpoint-failed"} - finished
    counts = past.counts()
    assert (counts["total"], counts["completed"]) == (len(expected), len(finished))
    assert counts["in_progress"] == len([one for one in found if one["state"] == "pending" and one["id"] not in failed])
    assert counts["failed"] == counts["total"] - counts["completed"] - counts["in_progress"]
    durations = sorted(each["duration_ms"] for each in everything if each["event"] == "checkpoint-completed")
    assert past.summary()["duration_ms"] == summary({"x": durations})["x"]


def test_a_checkpoint_whose_record_is_there_is_complete_whatever_was_written(tmp_path: Path) -> None:
    store = JobStore.open(LocalStore(tmp_path), "orders")
    graph = line("a")
    store.create_record(completed(graph, 1, 5), {})
    store.create_record(completed(graph, 2, 5), {})
    store.append_history(
        [{"at": 1, **triggered(2)}, {"at": 2, "event": "checkpoint-failed", "id": 2, "why": "who knows"}]
    )
    past = JobPast(store)
    assert [(one["id"], one["state"], one["kept"], one["why"]) for one in past.checkpoints()] == [
        (1, "completed", True, None),
        (2, "completed", True, None),
    ]
    assert past.counts() == {"total": 2, "completed": 2, "failed": 0, "in_progress": 0, "savepoints": 0}
    assert past.checkpoint(3) is None


def test_an_id_that_a_dead_leader_had_used_is_told_of_once_and_as_it_ended() -> None:
    begin = {"at": 1, "event": "generation", "generation": 2, "leader": "b"}
    seen = told.checkpoints([triggered(3), begin, triggered(3)])
    assert (seen[3]["state"], seen[3]["why"]) == ("pending", None)
    assert told.checkpoints([triggered(3), begin])[3]["why"] == LOST
    assert told.checkpoints([triggered(3), begin, done(3)])[3]["why"] is None


def test_the_status_is_told_from_a_file_of_an_earlier_release_with_several_leaders(tmp_path: Path) -> None:
    store = JobStore.open(LocalStore(tmp_path), "orders")
    restart = {"event": "restart", "level": "task", "task": "a", "cause": "x", "class": "user", "delay_ms": 1}
    begins = [{"event": "generation", "generation": number, "leader": leader} for number, leader in enumerate("aabbc")]
    wrote = [
        {"at": at, **each} for at, each in enumerate(each for begin in begins for each in (begin, restart, done(1)))
    ]
    (tmp_path / "orders" / "history.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in wrote))
    for _ in range(2):  # Where it is, and carried over.
        past = JobPast(store)
        assert past.execution() == told.execution(past.history.lines())
        assert past.execution().leader == "c"
        store.append_history([{"at": 99, **restart}])
    assert JobPast(store).execution().restarts == {"task": 3, "job": 0}


def test_what_is_held_is_on_the_page(tmp_path: Path) -> None:
    store = JobStore.open(LocalStore(tmp_path), "orders")
    store.create_record(completed(line("a"), 1, 5), {})
    store.set_hold(CheckpointId(1), held=True)
    assert JobPast(store).checkpoints()[0]["held"]


def test_percentiles_are_values_that_were_measured() -> None:
    thousand = summary({"x": list(range(1, 1_001))})["x"]
    assert thousand == {
        "min": 1,
        "avg": 500.5,
        "max": 1000,
        "p50": 500,
        "p90": 900,
        "p95": 950,
        "p99": 990,
        "p999": 999,
    }
    assert summary({"x": [7]})["x"] == dict.fromkeys(thousand, 7)
    assert summary({"x": []})["x"] == dict.fromkeys(thousand)


# -- on the way to the storage -----------------------------------------------------------------------------------------


class Later:
    """Work that is done when the test says so."""

    def __init__(self) -> None:
        self.work: list[Any] = []

    def __call__(self, work: Any) -> None:
        self.work.append(work)

    def do(self) -> None:
        work, self.work = self.work, []
        for each in work:
            each()


def note(number: int) -> dict[str, Any]:
    return {"at": number, "event": "notice", "n": number}


def test_lines_that_wait_are_written_in_one_go() -> None:
    later, wrote = Later(), list[list[dict[str, Any]]]()
    appender = HistoryAppender(wrote.append, later)
    for number in range(5):
        appender.put([note(number)])
    assert (len(later.work), wrote) == (1, [])
    later.do()
    assert wrote == [[note(number) for number in range(5)]]
    appender.put([note(5)])
    later.do()
    assert wrote[1:] == [[note(5)]]


def test_lines_that_could_not_be_written_leave_a_line_that_says_so() -> None:
    later, wrote = Later(), list[dict[str, Any]]()
    away = True

    def append(lines: list[dict[str, Any]]) -> None:
        if away:
            raise ExternalError("the storage is away")
        wrote.extend(lines)

    appender = HistoryAppender(append, later)
    for number in range(3):
        appender.put([note(number)])
        later.do()
    away = False
    appender.put([note(3)])
    later.do()
    assert wrote == [{"at": 3, "event": "gap", "lines": 3, "why": "the storage is away"}, note(3)]
    appender.put([note(4)])
    later.do()
    assert wrote[-1] == note(4)
    assert len(wrote) == 3


def test_no_more_lines_wait_than_there_is_room_for() -> None:
    later, wrote = Later(), list[list[dict[str, Any]]]()
    appender = HistoryAppender(wrote.append, later)
    for number in range(0, WAITING_MAX + 500, 100):
        appender.put([note(each) for each in range(number, number + 100)])
    later.do()
    [lines] = wrote
    assert len(lines) == WAITING_MAX + 1
    assert (lines[0]["event"], lines[0]["lines"]) == ("gap", 500)


def test_state_partitions_are_read_from_the_manifest_while_the_checkpoint_is_kept(tmp_path: Path) -> None:
    store = JobStore.open(LocalStore(tmp_path), "orders")
    sizes = {
        "offsets/4": 1,
        "state/0/0/4.zip": 10,
        "state/0/0/b1.sst": 20,
        "state/0/2/4.zip": 5,
        "state/0/_metadata/metadata": 7,
    }
    record = completed(line("a"), 3)
    [part] = record.tasks
    tables = {f"tasks/a/g1/{name}": [size, 0] for name, size in sizes.items()}
    record = replace(record, tasks=(replace(part, files=tuple(tables)),))
    store.create_record(record, {"files": tables, "segments": {}})
    past = JobPast(store)
    assert past.partitions(3, "a") == [
        {"operator": "a-op", "partition": 0, "bytes": 30, "new_bytes": None},
        {"operator": "a-op", "partition": 2, "bytes": 5, "new_bytes": None},
    ]
    assert past.partitions(3, "b") == past.partitions(2, "a") == []
    store.delete_record(record.id)
    assert past.partitions(3, "a") == []


def test_the_new_bytes_of_a_partition_are_those_that_the_kept_checkpoint_before_does_not_name(tmp_path: Path) -> None:
    store = JobStore.open(LocalStore(tmp_path), "orders")
    named = {
        2: {"state/0/0/1.zip": 10, "state/0/1/1.zip": 8},
        3: {"state/0/0/1.zip": 10, "state/0/0/2.zip": 4, "state/0/1/1.zip": 8},
    }
    for number, sizes in named.items():
        record = completed(line("a"), number)
        [part] = record.tasks
        tables = {f"tasks/a/g1/{name}": [size, 0] for name, size in sizes.items()}
        record = replace(record, tasks=(replace(part, files=tuple(tables)),))
        store.create_record(record, {"files": tables, "segments": {}})
    past = JobPast(store)
    assert [each["new_bytes"] for each in past.partitions(3, "a")] == [4, 0]
    assert [each["new_bytes"] for each in past.partitions(2, "a")] == [None, None], "nobody knows what was before"
    store.delete_record(CheckpointId(2))
    assert [each["new_bytes"] for each in past.partitions(3, "a")] == [None, None]
