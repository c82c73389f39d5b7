"""Which batch had which size: batches as Spark tells of them, and times as the test gives them."""

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headgate.core.graph import Channel, Graph, Task
from headgate.core.ids import Batch, ChannelId, TaskId
from headgate.core.sizing import START_ROWS
from headgate.run.sizes import Sizes
from headgate.task.limits import CannotSize
from tests.edges.spark_files import offsets, position

UP, MIDDLE, DOWN = TaskId("up"), TaskId("middle"), TaskId("down")
FIRST, SECOND = ChannelId("middle.0"), ChannelId("down.0")
GRAPH = Graph(
    (Task(UP, has_source=True), Task(MIDDLE), Task(DOWN)), (Channel(FIRST, UP, MIDDLE), Channel(SECOND, MIDDLE, DOWN))
)
ALONE = Graph((Task(UP, has_source=True),))
QUERY: Any = SimpleNamespace()


class Job:
    """Tasks whose batches take as long as the test says."""

    def __init__(self, place: Path, graph: Graph, sources: tuple[bool, ...] = (True,)) -> None:
        self.place = place
        self.handed: list[Sequence[int | None]] = []
        self.warned: list[str] = []
        self.able = True
        self.counts = False
        self.sizes = Sizes(graph, {UP: sources, MIDDLE: ()}, 2_500, self.warned.append, self._hand, self._count)

    def _count(self, task: TaskId, begin: Sequence[str], end: Sequence[str]) -> list[int] | None:
        """An offset of these tests is how many rows its batch has."""
        assert task == UP
        assert len(begin) in (0, len(end))
        return [json.loads(each)["offset"] for each in end] if self.counts else None

    def _hand(self, query: Any, rows: Sequence[int | None]) -> None:
        if not self.able:
            raise CannotSize("no uniqueSources")
        assert query is QUERY
        assert rows[0] is None, "a channel has no limit"
        self.handed.append(tuple(rows[1:]))

    def run(self, batch: int, took_ms: int, *rows: int, waited_ms: float = 0) -> None:
        """A batch of the task with the sources: the hook, then Spark's word."""
        self.sizes.waited(UP, Batch(batch), waited_ms)
        offsets(self.place / UP, batch, position("none", 3), *(f'{{"offset":{count}}}' for count in rows))
        self.sizes.resize(UP, self.place / UP, QUERY, Batch(batch), took_ms)
        self.tell(UP, batch, took_ms, rows)

    def tell(self, task: TaskId, batch: int, took_ms: int, rows: Sequence[int] = ()) -> None:
        sources = [SimpleNamespace(numInputRows=count, endOffset='{"offset":5}') for count in rows]
        channel = SimpleNamespace(numInputRows=7, endOffset=position("none", 3))
        spent = {"triggerExecution": took_ms + 1_000, "latestOffset": 1_000, "addBatch": took_ms}
        about = SimpleNamespace(batchId=batch, durationMs=spent, sources=[channel, *sources])
        self.sizes.progressed(task, self.place / task, about)

    def read(self, task: TaskId, channel: ChannelId, batch: int, through: int, took_ms: int) -> None:
        """A batch of a task behind it."""
        offsets(self.place / task, batch, position(channel, through))
        self.tell(task, batch, took_ms)


def test_a_size_is_handed_over_in_the_hook_and_judged_by_batches_that_had_it(tmp_path: Path) -> None:
    job = Job(tmp_path, ALONE)
    job.run(0, 9_000, START_ROWS)
    assert job.handed == [(START_ROWS,)]
    assert job.sizes.rows(UP) == START_ROWS, "nothing is learned from the first batch"
    job.run(1, 500, START_ROWS)
    assert job.sizes.rows(UP) == 5 * START_ROWS
    job.run(2, 500, START_ROWS)
    assert job.handed == [(START_ROWS,), (5 * START_ROWS,)]
    assert job.sizes.rows(UP) == 5 * START_ROWS, "the second batch had the old size"
    job.run(3, 1_250, 5 * START_ROWS)
    assert job.sizes.rows(UP) == 10 * START_ROWS


def test_where_offsets_tell_rows_each_batch_on_the_way_has_another_size(tmp_path: Path) -> None:
    job = Job(tmp_path, ALONE)
    job.counts = True
    job.run(0, 250, START_ROWS)
    job.run(1, 500, 8 * START_ROWS)
    job.run(2, 1_000, 40 * START_ROWS)
    assert job.handed == [(8 * START_ROWS,), (40 * START_ROWS,), (100 * START_ROWS,)]
    for batch in range(3, 6):
        job.run(batch, 2_500, 100 * START_ROWS)
    assert len(job.handed) == 3
    assert job.sizes.rows(UP) == 100 * START_ROWS
    job.run(6, 7_500, 100 * START_ROWS)
    job.run(7, 7_500, 100 * START_ROWS)
    assert job.sizes.rows(UP) == 100 * START_ROWS, "from here on Spark's own time counts, and once"
    job.run(8, 7_500, 100 * START_ROWS)
    assert (job.sizes.rows(UP) or 0) < 100 * START_ROWS


@pytest.mark.parametrize("rows", [START_ROWS // 3, START_ROWS + 1])
def test_a_batch_that_is_smaller_or_larger_than_its_size_says_nothing_in_the_hook(tmp_path: Path, rows: int) -> None:
    job = Job(tmp_path, ALONE)
    job.counts = True
    job.run(0, 250, rows)
    assert job.handed == [(START_ROWS,)]


def test_waiting_for_others_is_no_part_of_a_batch(tmp_path: Path) -> None:
    job = Job(tmp_path, ALONE)
    job.run(0, 500, START_ROWS)
    job.run(1, 90_500, START_ROWS, waited_ms=90_000)
    assert job.sizes.rows(UP) == 5 * START_ROWS


def test_a_batch_that_is_not_full_says_nothing(tmp_path: Path) -> None:
    job = Job(tmp_path, ALONE)
    for batch in range(20):
        job.run(batch, 100, START_ROWS // 3)
    assert job.sizes.rows(UP) == START_ROWS


def test_sources_of_one_task_share_its_size_and_a_fixed_one_stays_as_it_is(tmp_path: Path) -> None:
    job = Job(tmp_path, ALONE, (True, False, True))
    job.run(0, 100, 5_000, 70, 5_000)
    job.run(1, 500, 0, 70, 5_000)
    job.run(2, 500, 0, 70, 5_000)
    assert job.handed == [(5_000, None, 5_000), (25_000, None, 25_000)]


def test_a_task_behind_it_is_heard_once_its_rows_came_in_batches_of_that_size(tmp_path: Path) -> None:
    job = Job(tmp_path, GRAPH)
    for batch in range(4):
        job.run(batch, 500, START_ROWS)
    assert job.sizes.rows(UP) == START_ROWS, "the others have not been heard of"
    job.read(MIDDLE, FIRST, 0, 0, 900)
    job.read(DOWN, SECOND, 0, 0, 900)
    job.read(MIDDLE, FIRST, 1, 2, 900)
    job.read(DOWN, SECOND, 1, 1, 1_000)
    assert job.sizes.rows(UP) == int(2.5 * START_ROWS), "as much as the slowest allows"
    job.run(4, 500, START_ROWS)
    job.run(5, 600, 25_000)
    job.read(MIDDLE, FIRST, 2, 4, 800)
    job.read(MIDDLE, FIRST, 3, 5, 800)
    job.read(DOWN, SECOND, 2, 2, 800)
    assert job.sizes.rows(UP) == 25_000, "what the last one read was of the old size"
    job.read(DOWN, SECOND, 3, 3, 800)
    assert (job.sizes.rows(UP) or 0) > 25_000


def test_a_task_that_begins_anew_keeps_the_size_and_forgets_which_batches_had_it(tmp_path: Path) -> None:
    job = Job(tmp_path, ALONE)
    job.run(0, 500, START_ROWS)
    job.run(1, 500, START_ROWS)
    job.sizes.begin(UP)
    job.sizes.begin(DOWN)
    job.run(1, 60_000, START_ROWS)
    assert job.handed[-1] == (5 * START_ROWS,)
    assert job.sizes.rows(UP) == 5 * START_ROWS


def test_a_spark_that_cannot_do_it_is_told_of_once_and_sizes_stay(tmp_path: Path) -> None:
    job = Job(tmp_path, ALONE)
    job.able = False
    for batch in range(3):
        job.run(batch, 500, START_ROWS)
    assert job.sizes.rows(UP) is None
    assert len(job.warned) == 1
    assert "give rows_per_batch" in job.warned[0]


def test_a_query_of_which_a_part_has_no_offset_yet_is_sized_later(tmp_path: Path) -> None:
    job = Job(tmp_path, ALONE)
    offsets(tmp_path / UP, 0, position("none", 3), "-", '{"offset":5}')
    job.sizes.resize(UP, tmp_path / UP, QUERY, Batch(0), 500)
    assert job.handed == []
    job.run(1, 500, START_ROWS)
    assert job.handed == [(START_ROWS,)]


@pytest.mark.parametrize("lines", [("-",), ("-", '{"offset":10000}')])
def test_no_rows_are_counted_where_something_has_no_offset_yet(tmp_path: Path, lines: tuple[str, ...]) -> None:
    job = Job(tmp_path, ALONE)
    job.counts = True
    offsets(tmp_path / UP, 0, position("none", 3), *lines)
    job.sizes.resize(UP, tmp_path / UP, QUERY, Batch(0), 500)
    assert job.sizes.rows(UP) == START_ROWS


def test_nothing_is_asked_of_sources_that_do_not_size_themselves(tmp_path: Path) -> None:
    job = Job(tmp_path, ALONE, (False,))
    job.run(0, 500, START_ROWS)
    assert job.handed == []
    assert job.sizes.rows(UP) is None


@pytest.mark.parametrize("spent", [{"triggerExecution": 3, "latestOffset": 2}, {}])
def test_a_trigger_without_a_batch_says_nothing(tmp_path: Path, spent: dict[str, int]) -> None:
    job = Job(tmp_path, ALONE)
    job.run(0, 500, START_ROWS)
    about = SimpleNamespace(batchId=1, durationMs=spent, sources=[])
    job.sizes.progressed(UP, tmp_path, about)
    assert job.sizes.rows(UP) == START_ROWS
