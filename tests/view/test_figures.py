"""The figures of tasks, from steps of the core and reports of real batches."""

import json
from typing import Any

from headgate.core.graph import Channel, Graph
from headgate.core.ids import Batch, ChannelId, Generation, TaskId
from headgate.view.batches import report
from headgate.view.figures import NOT_KNOWN, NOTED, PARTITIONS_MAX, SEGMENTS_MAX, Figures
from headgate.view.rocksdb import ROCKSDB
from tests.helpers import line, task
from tests.view.reports import said
from tests.view.test_job import live, status
from tests.view.watched import Watched, watched

ROWS, WINDOWS = TaskId("rows"), TaskId("windows")
CHANNEL = ChannelId("windows.0")
GRAPH = Graph(
    (task("rows", source=True), task("windows", sinks=("out",))),
    (Channel(CHANNEL, ROWS, WINDOWS),),
)


def batch(core: Watched, name: str, number: int, **changes: Any) -> None:
    """Spark tells of a batch, as the listener hands it on."""
    told = {**said(name, number), **changes}
    core.note("progress", task=name, value=float(told["numInputRows"]), about=None, said=told, sources=("rows-in",))


def task_of(core: Watched, name: str) -> dict[str, Any]:
    return next(each for each in live(core)["tasks"] if each["task"] == name)


def test_a_task_shows_what_spark_said_of_its_last_batch() -> None:
    core = watched(GRAPH)
    core.now_ms = 60_000
    batch(core, "windows", 1)
    batch(core, "windows", 4)
    seen = task_of(core, "windows")
    assert (seen["rows"], seen["rows_in"], seen["batches"], seen["batches_ms"]) == (1200, 1200, 2, 3776 + 1099)
    assert (seen["batch_ms"], seen["batch_parts_ms"]["add_batch"]) == (1099, 795)
    assert (seen["watermark_ms"], seen["event_time_max_ms"]) == (1_735_689_630_785, 1_735_689_647_956)
    assert seen["watermark_lag_ms"] == 60_000 - 1_735_689_630_785
    assert (seen["late_rows"], seen["state_rows"], seen["state_memory_bytes"]) == (0, 20, 2_101_440)
    assert (seen["lag_records"], seen["state_bytes"]) == (None, None)


def test_rows_out_are_what_the_readers_of_the_channels_have_read() -> None:
    core = watched(GRAPH)
    batch(core, "rows", 1)
    assert task_of(core, "rows")["rows_out"] is None
    batch(core, "windows", 4)
    batch(core, "windows", 5)
    assert (task_of(core, "rows")["rows_in"], task_of(core, "rows")["rows_out"]) == (600, 1200)
    assert task_of(core, "windows")["rows_out"] is None, "nobody counts what a sink is given"


def test_bytes_are_those_of_the_segments_and_are_counted_once() -> None:
    core = watched(GRAPH)

    def segment(number: int, size: int, generation: int = 1) -> None:
        core.note("segment", generation=generation, task="rows", channel=CHANNEL, batch=number, bytes=size)

    segment(2, 10)
    segment(3, 100)
    segment(3, 100)
    segment(4, 1_000)
    assert (task_of(core, "rows")["bytes_out"], task_of(core, "rows")["bytes_in"]) == (1_110, None)
    batch(core, "windows", 4)
    assert task_of(core, "windows")["bytes_in"] == 100, "what stands after batch 2, through batch 3"
    batch(core, "windows", 4)
    assert task_of(core, "windows")["bytes_in"] == 100
    segment(2, 7, generation=2)
    assert task_of(core, "rows")["bytes_out"] == 1_117, "another generation counts its batches anew"


def test_sources_have_their_uids_and_their_lag() -> None:
    core = watched(line("in"))
    batch(core, "in", 1)
    seen = task_of(core, "in")
    assert seen["lag_records"] == 100
    assert seen["sources"] == [
        {"source": "rows-in", "channel": False, "rows": 200, "lag_records": 100, "partitions": 2, "skew": 1.6}
    ]


def test_state_is_shown_by_operator_and_by_partition_as_far_as_it_is_known() -> None:
    core = watched(GRAPH)
    batch(core, "windows", 1)
    core.note("state", task="windows", sizes={0: {0: 300, 1: 100}})
    batch(core, "windows", 4)
    [operator] = task_of(core, "windows")["state_operators"]
    assert (operator["operator"], operator["name"], operator["rows"]) == (0, "stateStoreSave", 20)
    assert (operator["bytes"], operator["partition_bytes"], operator["partition_bytes_max"]) == (400, [300, 100], 300)
    assert (operator["skew"], operator["partitions"]) == (1.5, 2)
    assert task_of(core, "windows")["state_bytes"] == 400
    counted = {each.name: each.adds_up for each in ROCKSDB}
    both = [report(said("windows", number)).operators[0].rocksdb for number in (1, 4)]
    assert operator["rocksdb"] == {
        name: both[0][name] + both[1][name] if adds_up else both[1][name] for name, adds_up in counted.items()
    }
    core.note("state", task="windows", sizes={0: dict.fromkeys(range(PARTITIONS_MAX + 1), 5)})
    [operator] = task_of(core, "windows")["state_operators"]
    assert (operator["partition_bytes"], operator["partition_bytes_max"]) == ([], 5)


def test_late_rows_add_up_over_batches() -> None:
    core = watched(GRAPH)
    late = said("windows", 4)["stateOperators"]
    late[0]["numRowsDroppedByWatermark"] = 7
    batch(core, "windows", 1, stateOperators=late)
    batch(core, "windows", 4, stateOperators=late)
    assert task_of(core, "windows")["late_rows"] == 14


def test_a_batch_that_tells_of_no_operator_leaves_the_state_as_it_was() -> None:
    core = watched(GRAPH)
    batch(core, "windows", 4)
    batch(core, "windows", 5, stateOperators=[], eventTime={})
    assert (task_of(core, "windows")["state_rows"], task_of(core, "windows")["watermark_ms"]) == (20, 1_735_689_630_785)


def test_the_end_of_time_has_no_lag() -> None:
    core = watched(GRAPH)
    batch(core, "windows", 8)
    assert task_of(core, "windows")["watermark_lag_ms"] is None


def test_the_history_keeps_with_each_checkpoint_how_the_tasks_did() -> None:
    core = watched(GRAPH)
    core.now_ms = 60_000
    batch(core, "windows", 1)
    batch(core, "windows", 4)
    core.note("state", task="windows", sizes={0: {0: 300, 1: 100}})
    core.tell(core.committed("rows", 0), core.committed("windows", 0, 0))
    core.ask()
    core.complete(1)
    [completed] = core.only("checkpoint-completed")
    seen = task_of(core, "windows")
    kept = completed["tasks"]["windows"]["figures"]
    assert kept == {name: seen[name] for name in NOTED if seen[name] is not None}
    assert (kept["state_bytes"], kept["watermark_ms"], "lag_records" in kept) == (400, 1_735_689_630_785, False)


def test_a_task_that_waits_in_the_hook_is_backpressured() -> None:
    core = watched(GRAPH, max_batches_ahead=1)
    core.tell(core.entered("rows", 0))
    core.tell(core.committed("rows", 0), core.entered("rows", 1))
    assert task_of(core, "rows")["backpressure"] == "ok"
    core.wait(10_000)
    seen = task_of(core, "rows")
    assert (seen["backpressured_ratio"], seen["busy_ratio"], seen["backpressure"]) == (1.0, 0.0, "high")
    core.tell(core.committed("windows", 0, 0))
    core.wait(10_000)
    seen = task_of(core, "rows")
    assert (seen["backpressured_ratio"], seen["busy_ratio"], seen["backpressure"]) == (0.5, 0.5, "low")


def test_a_job_that_does_not_run_shows_the_same_fields_and_knows_none_of_them() -> None:
    core = watched(GRAPH)
    batch(core, "windows", 4)
    core.tell(core.committed("rows", 0), core.committed("windows", 0, 0))
    core.ask()
    core.complete(1)
    stopped = status(core)["tasks"][1]
    assert stopped.keys() == task_of(core, "windows").keys()
    assert {name: stopped[name] for name in NOT_KNOWN} == NOT_KNOWN
    assert all(value in (None, [], {}) for value in NOT_KNOWN.values())


def test_figures_cost_the_same_memory_however_long_a_job_runs() -> None:
    figures = Figures()

    def run(number: int) -> int:
        figures.written(Generation(1), ROWS, CHANNEL, Batch(number), 5)
        figures.entered(number, WINDOWS, Batch(number))
        figures.admitted(number, WINDOWS, Batch(number))
        figures.read(WINDOWS, 600)
        figures.batch(number, WINDOWS, report({**told, "batchId": number}), GRAPH)
        figures.sample(number)
        return len(json.dumps(figures.of(WINDOWS, number)))

    told = said("windows", 4)
    sizes = [run(number) for number in range(3 * SEGMENTS_MAX)]
    assert sizes[-1] < sizes[10] + 100, "only the digits grow"
    assert len(figures._channels[CHANNEL].sizes) <= SEGMENTS_MAX
    assert figures.of(WINDOWS, 10**6)["rows_in"] == 3 * SEGMENTS_MAX * 600
