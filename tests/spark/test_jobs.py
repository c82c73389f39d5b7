"""Whole jobs on real Spark, in this process: every shape in every mode, failures that Spark survives, savepoints."""

import inspect
import itertools
import json
import shutil
import stat
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession, functions as F  # noqa: N812 - Spark's custom
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

import headgate as hg
from headgate.browse.kept import newest as newest_kept
from headgate.browse.reader import StateQuestion
from headgate.browse.spark import SparkStateReader
from headgate.core.ids import Batch, Generation, Run, TaskId
from headgate.core.records import CompletedCheckpoint
from headgate.errors import BadStorage, ExternalError, InvalidJob, InvalidOption
from headgate.profile import workers
from headgate.receipts.gather import gather
from headgate.receipts.proof import JobProof, prove
from headgate.run import stalls
from headgate.run.batch_runs import BatchRuns
from headgate.run.control import ControlClient
from headgate.run.requests import Reply
from headgate.store.api import open_store
from headgate.store.jobstore import JobStore
from tests.spark import shapes
from tests.spark.process import completed
from tests.spark.reading import outputs, rows_of, sides, verdict
from tests.spark.shapes import build

Line = dict[str, Any]
ROWS = 6_000
FEW = 3
"""Batches of a job that only has to come to its end: the generator does not mind another size."""


def run(
    spark: SparkSession, shape: str, directory: Path, *, options: hg.Options | None = None, **settings: Any
) -> tuple[hg.Result, list[Line]]:
    lines: list[Line] = []
    job = build(shape, str(directory), **{"rows": ROWS, "batches": 6, **settings})
    return job.run(options, lines.append, spark), lines


def after(count: int) -> Callable[[Line], bool]:
    """Wait for this many checkpoints by which every task has done something, each with something new."""
    seen: list[Line] = []

    def wanted(line: Line) -> bool:
        if completed(line) and any(task["new_bytes"] > 0 for task in line["tasks"].values()):
            seen.append(line)
        return len(seen) >= count

    return wanted


ANSWER_S = 300


def asking(
    directory: Path, command: str, when: Callable[[Line], bool], **arguments: Any
) -> tuple[Callable[[Line], None], Callable[[], list[Reply]]]:
    """Something to be told of events, which asks the running job for something once, and what waits for the answers."""
    heard: list[Reply] = []
    asked = threading.Event()

    def ask() -> None:
        store = JobStore.find(open_store(str(directory / "storage")), "job")
        heard.append(ControlClient(store).ask(command, **arguments))

    asker = threading.Thread(target=ask)

    def on_event(line: Line) -> None:
        if not asked.is_set() and when(line):
            asked.set()
            asker.start()

    def replies() -> list[Reply]:
        asker.join(ANSWER_S)
        return heard

    return on_event, replies


ALWAYS = [("aligned", "diamond"), ("at-least-once", "join")]
"""Every shape and every mode is among them and the tests below, where forks fail and stop and unaligned diamonds are
restored. The other pairs are in ``make prove``."""
PAIRS = [
    pytest.param(*pair, marks=() if pair in ALWAYS else pytest.mark.long)
    for pair in itertools.product(("aligned", "unaligned", "at-least-once"), ("fork", "diamond", "join"))
]


@pytest.mark.parametrize(("mode", "shape"), PAIRS)
def test_every_row_comes_out_once_in_every_shape_and_mode(
    spark: SparkSession, tmp_path: Path, shape: str, mode: str
) -> None:
    settings: dict[str, Any] = {"unaligned": True} if mode == "unaligned" else {}
    if mode == "at-least-once":
        settings = {"mode": "at-least-once"}
    result, lines = run(spark, shape, tmp_path, interval="300ms", **settings)
    assert result.ending == "finished"
    assert verdict(shape, tmp_path, ROWS) == {}
    assert any(line["event"] == "checkpoint-completed" for line in lines)


@pytest.mark.parametrize("backend", [pytest.param("rocksdb", marks=pytest.mark.long), "hashmap"])
def test_a_batch_that_fails_runs_again_and_nothing_else_moves(
    spark: SparkSession, tmp_path: Path, backend: str
) -> None:
    result, lines = run(spark, "fork", tmp_path, fail_at=ROWS // 2, backend=backend)
    assert result.ending == "finished"
    assert verdict("fork", tmp_path, ROWS) == {}
    # On a machine that is too busy to start Python workers in time there may be others.
    restarts = [line for line in lines if line["event"] == "restart" and "does not please" in line["cause"]]
    assert [(line["level"], line["class"], line["delay_ms"]) for line in restarts] == [("task", "external", 200)]
    assert {line["generation"] for line in lines if line["event"] == "generation"} == {1}


def test_a_batch_of_an_unknown_run_sends_the_job_back_and_every_row_comes_out_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forgotten: list[tuple[TaskId, Batch]] = []
    remember = BatchRuns.write

    def forget_once(runs: BatchRuns, generation: Generation, task: TaskId, batch: Batch, run: Run) -> None:
        if batch == 2 and not forgotten:
            forgotten.append((task, batch))
        else:
            remember(runs, generation, task, batch, run)

    monkeypatch.setattr(BatchRuns, "write", forget_once)
    result, lines = run(spark, "fork", tmp_path, interval="300ms")
    assert result.ending == "finished"
    assert verdict("fork", tmp_path, ROWS) == {}
    restarts = [line for line in lines if line["event"] == "restart" and "no run is known" in line["cause"]]
    assert [(line["level"], line["class"]) for line in restarts] == [("job", "internal")]
    assert {line["generation"] for line in lines if line["event"] == "generation"} == {1, 2}


def test_all_readers_of_an_operator_that_is_not_deterministic_see_the_same(spark: SparkSession, tmp_path: Path) -> None:
    result, _ = run(spark, "random", tmp_path, fail_at=ROWS // 2)
    assert result.ending == "finished"
    assert verdict("random", tmp_path, ROWS) == {}
    one, two, three = (
        {row["n"]: row["drawn"] for row in rows_of(tmp_path / "out" / name)} for name in ("one", "two", "three")
    )
    assert one == two == three


def test_at_most_once_leaves_the_failed_batch_out_and_doubles_nothing(spark: SparkSession, tmp_path: Path) -> None:
    result, _ = run(spark, "fork", tmp_path, fail_at=ROWS // 2, mode="at-most-once")
    assert result.ending == "finished"
    for name, counted in outputs("fork", tmp_path).items():
        assert max(counted.values()) == 1, name
        assert ROWS // 2 not in counted, name
        assert sum(counted.values()) == ROWS - ROWS // 6, name


def test_a_job_stops_with_a_savepoint_and_goes_on_from_it(spark: SparkSession, tmp_path: Path) -> None:
    on_event, replies = asking(tmp_path, "stop", after(2))
    job = build("fork", str(tmp_path), rows=ROWS, batches=30, slow_ms=50, interval="200ms")
    result = job.run(None, on_event, spark)
    assert result.ending == "stopped"
    assert [reply.outcome.value for reply in replies()] == ["done"]
    assert verdict("fork", tmp_path, ROWS) != {}
    result, _ = run(spark, "fork", tmp_path, batches=FEW)
    assert result.ending == "finished"
    assert verdict("fork", tmp_path, ROWS) == {}


@pytest.mark.parametrize("shape", ["fork", "diamond"])
def test_a_job_that_is_drained_gives_all_that_it_has_read_and_nothing_goes_on_from_there(
    spark: SparkSession, tmp_path: Path, shape: str
) -> None:
    on_event, replies = asking(tmp_path, "stop", after(2), drain=True)
    job = build(shape, str(tmp_path), rows=ROWS, batches=60, slow_ms=50, interval="200ms")
    result = job.run(None, on_event, spark)
    assert result.ending == "stopped"
    (reply,) = replies()
    assert reply.outcome.value == "done", reply.text
    counted = outputs(shape, tmp_path)
    read = max(map(len, counted.values()))
    assert 0 < read < ROWS
    assert {name: each == Counter(range(read)) for name, each in counted.items()} == dict.fromkeys(counted, True)

    result, lines = run(spark, shape, tmp_path, batches=FEW)
    assert result.ending == "stopped"
    assert any("the job was drained: nothing is left to do" in str(line.get("text")) for line in lines)
    assert outputs(shape, tmp_path) == counted
    assert reply.checkpoint is not None
    with pytest.raises(InvalidJob, match="was being drained: its sources have ended and its windows are closed"):
        run(spark, shape, tmp_path, options=hg.Options(restore_from=str(reply.checkpoint)))
    moved = shutil.move(tmp_path / "storage" / "job" / "savepoints" / str(reply.checkpoint), tmp_path / "moved")
    with pytest.raises(InvalidJob, match="was being drained: its sources have ended and its windows are closed"):
        run(spark, shape, tmp_path / "elsewhere", options=hg.Options(restore_from=str(moved)))


def test_a_task_that_fails_while_it_is_drained_reads_nothing_more(spark: SparkSession, tmp_path: Path) -> None:
    draining, failed = tmp_path / "draining", tmp_path / "failed"

    def fail_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if draining.exists() and not failed.exists():
                failed.touch()
                raise hg.ExternalError("this window does not please")
            yield batch

    def summed(frame: DataFrame) -> DataFrame:
        one = (
            frame.withWatermark("event_time", "5 seconds")
            .groupBy("key", F.window("event_time", "10 seconds"))
            .agg(F.collect_list("n").alias("numbers"))
        )
        two = one.groupBy(F.window("window", "30 seconds")).agg(F.flatten(F.collect_list("numbers")).alias("numbers"))
        return two.select("numbers").mapInArrow(fail_once, "numbers array<bigint>")

    job = hg.Job(
        "job",
        checkpoint=hg.Checkpointing(storage=str(tmp_path / "storage"), interval="500ms"),
        restart=hg.restart.fixed_delay(delay="200ms"),
        spark_conf={"spark.sql.shuffle.partitions": "2"},
    )
    numbers = job.source("numbers", hg.generator.source(rows_per_batch=100, keys=5, event_step_ms=20))
    numbers.transform("sums", summed).sink("out", hg.files.sink(tmp_path / "out" / "windows"))
    lines: list[Line] = []
    on_event, replies = asking(tmp_path, "stop", after(2), drain=True)

    def listen(line: Line) -> None:
        lines.append(line)
        on_event(line)
        if "the job is being drained" in str(line.get("text")):
            draining.touch()

    assert job.run(None, listen, spark).ending == "stopped"
    assert [reply.outcome.value for reply in replies()] == ["done"]
    assert failed.exists()
    counted = outputs("windows", tmp_path)["windows"]
    assert counted == Counter(range(len(counted)))
    assert len(counted) % 100 == 0, "whole batches"


@pytest.fixture(scope="module")
def savepoint(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The directory of a job that was stopped half way, and its savepoint, moved somewhere else."""
    directory = tmp_path_factory.mktemp("stopped")
    on_event, replies = asking(directory, "stop", after(2))
    job = build("diamond", str(directory), rows=ROWS, batches=30, slow_ms=50, interval="200ms", unaligned=True)
    assert job.run(None, on_event, spark).ending == "stopped"
    made = directory / "storage" / "job" / "savepoints" / str(replies()[0].checkpoint)
    moved = tmp_path_factory.mktemp("elsewhere") / "kept"
    shutil.move(made, moved)
    return directory, moved


def test_a_savepoint_is_restored_twice_and_elsewhere(
    spark: SparkSession, tmp_path: Path, savepoint: tuple[Path, Path]
) -> None:
    before, moved = savepoint
    assert str(before) not in (moved / "manifest.json").read_text(encoding="utf-8")
    first = sides(before / "out" / "totals")
    for name in ("once", "again"):
        result, lines = run(
            spark, "diamond", tmp_path / name, batches=FEW, options=hg.Options(restore_from=str(moved)), unaligned=True
        )
        assert result.ending == "finished"
        assert next(line for line in lines if line["event"] == "generation")["base"] is not None
        for side, counted in sides(tmp_path / name / "out" / "totals").items():
            together = counted + first[side]
            assert set(together.values()) == {1}, (name, side)
            assert len(together) == ROWS, (name, side)


KEYED: dict[str, Any] = {"batches": 15, "keys": 5, "interval": "200ms"}


@pytest.fixture(scope="module")
def kept_keyed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The same of a job with a processor, which has nothing left but what it gave and its savepoint."""
    first, kept = tmp_path_factory.mktemp("first"), tmp_path_factory.mktemp("keyed") / "kept"
    on_event, replies = asking(first, "stop", after(2))
    job = build("keyed", str(first), rows=ROWS, slow_ms=50, **KEYED)
    assert job.run(None, on_event, spark).ending == "stopped"
    shutil.move(first / "storage" / "job" / "savepoints" / str(replies()[0].checkpoint), kept)
    shutil.rmtree(first / "storage")
    return first, kept


def check_places(*directories: Path) -> None:
    """Every row of a job with a processor came out once, with the place that it has by the state of its key."""
    rows = [row for directory in directories for row in rows_of(directory / "out" / "places")]
    assert sorted(row["n"] for row in rows) == list(range(ROWS))
    for key in {row["key"] for row in rows}:
        places = sorted(row["place"] for row in rows if row["key"] == key)
        assert places == list(range(1, ROWS // 5 + 1)), key


def test_keyed_state_is_carried_to_another_place_and_goes_on(
    spark: SparkSession, tmp_path: Path, kept_keyed: tuple[Path, Path]
) -> None:
    first, kept = kept_keyed
    result, _ = run(spark, "keyed", tmp_path, options=hg.Options(restore_from=str(kept)), **{**KEYED, "batches": FEW})
    assert result.ending == "finished"
    check_places(first, tmp_path)
    reader, store = reading(spark, tmp_path)
    newest = newest_kept(store)
    [places] = reader.operators(newest)
    assert (places.name, places.states) == ("places", ("seen",))
    rows, _ = reader.rows(newest, StateQuestion(places, "seen"))
    assert sorted(row["value"]["value"] for row in rows) == [ROWS // 5] * 5
    idle = [each for each in workers.look() if each.process == "Python worker"]  # Spark keeps them for a minute.
    assert idle, "flame graphs know Spark's own workers"
    assert all(each.frames[0].startswith("main (pyspark/worker.py:") for each in idle if each.thread == "MainThread")


def test_a_processor_by_columns_goes_on_with_the_state_of_one_by_keys_and_fails_without_loss(
    spark: SparkSession, tmp_path: Path, kept_keyed: tuple[Path, Path]
) -> None:
    first, kept = kept_keyed
    result, lines = run(spark, "columns", tmp_path, options=hg.Options(restore_from=str(kept)), **KEYED)
    assert result.ending == "finished"
    check_places(first, tmp_path)
    failed = [
        line["message"] for line in lines if line["event"] == "task-failed" and "does not please" in line["message"]
    ]
    assert len(failed) == 1, "it failed in the processor, after state was changed"


def by_window(rows: list[Line]) -> dict[tuple[str, Any], list[int]]:
    """The rows of each window of each key. Each comes out once."""
    found = {(row["key"], row["begins"]): sorted(row["numbers"]) for row in rows}
    assert len(found) == len(rows), "a window came out twice"
    return found


@pytest.mark.long
def test_windows_in_python_have_the_rows_of_sparks_own_after_a_stop_and_a_failure(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Each row is in three windows; the job is stopped half way, and fails in the first windows that close."""
    on_event, _ = asking(tmp_path, "stop", after(2))
    lines: list[Line] = []

    def hear(line: Line) -> None:
        lines.append(line)
        on_event(line)

    job = build("python-windows", str(tmp_path), rows=ROWS, batches=12, slow_ms=50, interval="200ms")
    assert job.run(None, hear, spark).ending == "stopped"
    result, later = run(spark, "python-windows", tmp_path, batches=FEW, interval="200ms")
    assert result.ending == "finished"
    failed = [line["message"] for line in (*lines, *later) if line["event"] == "task-failed"]
    assert len(failed) == 1, failed
    assert "these windows do not please" in failed[0]
    found = by_window(rows_of(tmp_path / "out" / "windows"))
    counted = Counter(number for numbers in found.values() for number in numbers)
    assert counted == dict.fromkeys(range(ROWS), 3)
    plain = spark.read.parquet(*map(str, (tmp_path / "out" / "plain").glob("*.parquet")))
    grouped = plain.groupBy("key", F.window("event_time", "30 seconds", "10 seconds").start.alias("begins"))
    theirs = grouped.agg(F.collect_list("n").alias("numbers")).toArrow().to_pylist()
    assert found == by_window(theirs)


def test_a_savepoint_with_a_corrupt_file_is_refused_and_left_as_it_is(
    spark: SparkSession, tmp_path: Path, savepoint: tuple[Path, Path]
) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(savepoint[1], broken)
    victim = next(broken.rglob("*.changelog"))
    flip(victim)
    damaged = victim.read_bytes()
    with pytest.raises(BadStorage, match=victim.name):
        run(spark, "diamond", tmp_path / "x", options=hg.Options(restore_from=str(broken)))
    assert victim.read_bytes() == damaged


@pytest.fixture(scope="module")
def stopped_windows(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a job that counts in windows and was stopped half way. It stays as it is."""
    directory = tmp_path_factory.mktemp("windows")
    on_event, _ = asking(directory, "stop", after(2))
    more: dict[str, Any] = {"num_retained": 10_000}
    job = build("windows", str(directory), rows=ROWS, batches=30, slow_ms=50, interval="200ms", **more)
    assert job.run(None, on_event, spark).ending == "stopped"
    return directory


def reading(spark: SparkSession, directory: Path) -> tuple[SparkStateReader, JobStore]:
    store = JobStore.find(open_store(str(directory / "storage")), "job")
    return SparkStateReader(spark, store), store


def test_state_of_kept_checkpoints_is_read_by_key_and_compared(spark: SparkSession, stopped_windows: Path) -> None:
    reader, store = reading(spark, stopped_windows)
    before = {path: path.stat().st_mtime_ns for path in stopped_windows.rglob("*")}
    records = [each for each in store.read_checkpoint_log() if isinstance(each, CompletedCheckpoint)]
    first, last = (next(each for each in some if each.tasks[0].files) for some in (records, records[::-1]))
    [windows] = reader.operators(last.id)
    assert (windows.name, windows.kind, windows.states) == ("windows", "stateStoreSave", ("all",))

    def question(**more: Any) -> StateQuestion:
        return StateQuestion(windows, "all", **{"limit": 1000, **more})

    was, is_now = (
        {json.dumps(row["key"]): row["value"] for row in reader.rows(each.id, question())[0]} for each in (first, last)
    )
    assert was != is_now
    assert all(sorted(json.loads(key)) == ["key", "window"] for key in is_now)
    some, more = reader.rows(last.id, question(limit=1))
    assert (len(some), more) == (1, True)
    key = some[0]["key"]
    mine, more = reader.rows(last.id, question(keys=(("key", key["key"]),)))
    assert not more
    assert {json.dumps(row["key"]) for row in mine} == {
        text for text in is_now if json.loads(text)["key"] == key["key"]
    }
    begins = key["window"]["start"].replace("T", " ").partition(".")[0]
    assert reader.rows(last.id, question(keys=(("key", key["key"]), ("window.start", begins))))[0] == some
    with pytest.raises(
        InvalidOption, match=r"^key who: the key has no such column; it has: key, window\.start, window\.end$"
    ):
        reader.rows(last.id, question(keys=(("who", "ann"),)))

    changes, more = reader.difference(first.id, last.id, question())
    assert not more
    found = {json.dumps(one["key"]): (one["change"], one["before"], one["after"]) for one in changes}
    wanted = {
        key: (
            "added" if key not in was else "removed" if key not in is_now else "changed",
            was.get(key),
            is_now.get(key),
        )
        for key in was.keys() | is_now.keys()
        if was.get(key) != is_now.get(key)
    }
    assert found == wanted
    assert reader.difference(last.id, last.id, question()) == ([], False)
    with pytest.raises(ExternalError, match=r"^the state was not read within 1e-06 s: ask for fewer rows"):
        reader.rows(last.id, question(timeout_s=1e-6))
    assert {path: path.stat().st_mtime_ns for path in stopped_windows.rglob("*")} == before


def refusal(spark: SparkSession, shape: str, directory: Path, **settings: Any) -> str:
    """Why a job is not begun. No record, no savepoint, no file of a task comes or changes."""

    def files() -> dict[str, int]:
        return {
            str(path): path.stat().st_mtime_ns for path in (directory / "storage").glob("job/*/**/*") if path.is_file()
        }

    before = files()
    with pytest.raises(InvalidJob) as error:
        run(spark, shape, directory, **{"batches": 30, **settings})
    assert files() == before
    return str(error.value)


def test_another_state_backend_than_the_checkpoint_has_is_refused(spark: SparkSession, stopped_windows: Path) -> None:
    why = refusal(spark, "windows", stopped_windows, backend="hashmap")
    assert "keep the state backend that it began with" in why


def in_windows(key: str, *numbers: str) -> Callable[[DataFrame], DataFrame]:
    """What the shape "windows" does, but for the columns."""

    def change(frame: DataFrame) -> DataFrame:
        windows = frame.withWatermark("event_time", "5 seconds").groupBy(key, F.window("event_time", "30 seconds"))
        return windows.agg(*map(F.expr, numbers))

    return change


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        (in_windows("n", "collect_list(n)"), "column key (now n) of its key was string and is now bigint"),
        (in_windows("key", "sum(n)"), "column buf (now sum) was binary and is now bigint"),
        (in_windows("key", "collect_list(n)", "sum(n) AS total"), "column sum (bigint) is new"),
        (lambda frame: frame.dropDuplicates(["n"]), "it was an aggregation and is now a deduplication"),
    ],
    ids=["key", "value", "more", "operator"],
)
def test_state_that_looks_otherwise_is_refused_with_operator_and_column(
    spark: SparkSession,
    stopped_windows: Path,
    monkeypatch: pytest.MonkeyPatch,
    changed: Callable[[DataFrame], DataFrame],
    what: str,
) -> None:
    monkeypatch.setattr(shapes, "_windows", changed)
    why = refusal(spark, "windows", stopped_windows)
    assert f"the state of operator windows of task rows has changed: {what}" in why
    assert "--allow-non-restored-state" in why


def test_state_of_a_processor_may_be_added_and_must_not_be_changed(
    spark: SparkSession, tmp_path: Path, kept_keyed: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Otherwise(shapes.Counting):
        def open(self, state: Any) -> None:
            self.seen = state.value("seen", "string")

    class Listed(shapes.Counting):
        def open(self, state: Any) -> None:
            self.seen = state.list("seen", "bigint")

    class Evolved(shapes.Counting):
        def open(self, state: Any) -> None:
            super().open(state)
            self.more = state.map("more", "string", "bigint")

    first, kept = kept_keyed
    restore = hg.Options(restore_from=str(kept))
    for changed, what in (
        (Otherwise, "column value of state seen was bigint and is now string"),
        (Listed, "its state seen was a ValueState and is now a ListState"),
    ):
        monkeypatch.setattr(shapes, "Counting", changed)
        why = refusal(spark, "keyed", tmp_path, options=restore, **KEYED)
        assert f"the state of operator places of task rows has changed: {what}" in why
    monkeypatch.setattr(shapes, "Counting", Evolved)
    assert run(spark, "keyed", tmp_path, options=restore, **{**KEYED, "batches": FEW})[0].ending == "finished"
    check_places(first, tmp_path)


def flip(path: Path) -> None:
    """Change one bit in the middle of a file."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.unlink()
    path.write_bytes(bytes(data))


def test_what_is_corrupt_is_named_and_the_checkpoint_before_it_is_taken_on_request(
    spark: SparkSession, tmp_path: Path
) -> None:
    on_event, _ = asking(tmp_path, "cancel", after(6))
    # As many as come while batches are slow: two of them must differ.
    settings: dict[str, Any] = {
        "num_retained": 10_000,
        "externalized_checkpoint_retention": "retain-on-cancellation",
        "batches": 60,
        "interval": "300ms",
    }
    job = build("windows", str(tmp_path), rows=ROWS, slow_ms=60, **settings)
    assert job.run(None, on_event, spark).ending == "cancelled"
    store = JobStore.find(open_store(str(tmp_path / "storage")), "job")
    kept = [(record, extra["files"]) for record, extra in store.read_records() if extra]
    name = max((name for name in kept[-1][1] if name not in kept[0][1]), key=lambda name: "changelog" in name)
    before = next(record for record, files in reversed(kept) if name not in files)
    victim = tmp_path / "storage" / "job" / name
    flip(victim)
    with pytest.raises(BadStorage, match=f"{victim.name}.*checkpoint {before.id} is whole"):
        run(spark, "windows", tmp_path, **settings)
    result, lines = run(spark, "windows", tmp_path, options=hg.Options(fallback=True), **{**settings, "batches": FEW})
    assert result.ending == "finished"
    assert next(line for line in lines if line["event"] == "generation")["base"] == before.id
    # What was committed after the older checkpoint comes out again; nothing is missing.
    assert set(outputs("windows", tmp_path)["windows"]) == set(range(ROWS))


def test_a_session_that_the_process_had_stays_and_is_as_it_was(spark: SparkSession, tmp_path: Path) -> None:
    spark.conf.set("spark.sql.shuffle.partitions", "3")
    before = dict(spark.conf.getAll)
    job = build("windows", str(tmp_path), rows=100, batches=1)  # It sets the same to 2.
    try:
        assert job.run().ending == "finished"
        assert dict(spark.conf.getAll) == before
        assert spark.range(7).count() == 7
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", "2")


def test_a_job_is_restored_after_its_working_directory_was_deleted(spark: SparkSession, tmp_path: Path) -> None:
    work = tmp_path / "work"
    on_event, _ = asking(tmp_path, "cancel", after(4))
    settings: dict[str, Any] = {
        "externalized_checkpoint_retention": "retain-on-cancellation",
        "batches": 40,
        "interval": "200ms",
        "working_directory": str(work),
        "unaligned": True,
    }
    job = build("diamond", str(tmp_path), rows=ROWS, slow_ms=60, **settings)
    assert job.run(None, on_event, spark).ending == "cancelled"
    own = [work, work / "job", *(work / "job" / name for name in ("tasks", "channels", "staged"))]
    assert {path.name: stat.S_IMODE(path.stat().st_mode) for path in own} == {path.name: 0o700 for path in own}
    shutil.rmtree(work)
    result, _ = run(spark, "diamond", tmp_path, **{**settings, "batches": FEW})
    assert result.ending == "finished"
    assert verdict("diamond", tmp_path, ROWS) == {}


def test_a_job_goes_on_after_the_last_commit_of_its_queries_was_lost(spark: SparkSession, tmp_path: Path) -> None:
    """Spark dies between writing a batch's output and its commit: as if the last commit had never been written."""
    on_event, _ = asking(tmp_path, "cancel", after(4))
    settings: dict[str, Any] = {
        "externalized_checkpoint_retention": "retain-on-cancellation",
        "batches": 40,
        "interval": "400ms",
    }
    job = build("fork", str(tmp_path), rows=ROWS, slow_ms=40, **settings)
    assert job.run(None, on_event, spark).ending == "cancelled"
    store = JobStore.find(open_store(str(tmp_path / "storage")), "job")
    named = {name for record, extra in store.read_records() for name in extra.get("files", {})}
    root = tmp_path / "storage" / "job"
    for commits in root.glob("tasks/*/g*/commits"):
        last = max(commits.iterdir(), key=lambda path: int(path.name) if path.name.isdecimal() else -1)
        if last.relative_to(root).as_posix() not in named:
            last.unlink()
    result, _ = run(spark, "fork", tmp_path, **{**settings, "batches": FEW})
    assert result.ending == "finished"
    assert verdict("fork", tmp_path, ROWS) == {}


def test_a_job_that_no_longer_fits_its_checkpoint_is_refused_unless_state_may_be_left(
    spark: SparkSession, stopped_windows: Path
) -> None:
    assert "has state for windows, which the job no longer has" in refusal(spark, "keyed", stopped_windows)


# -- what would only fail again ---------------------------------------------------------------------------------------


class NoMoney(Exception):
    """A user's own, whose name says nothing of errors."""


class Paying(hg.Processor):
    output = "key string, n long"

    def process(self, key: Any, rows: Any, context: hg.Context) -> Any:  # noqa: ARG002 - a processor's
        raise NoMoney(f"{key} has\nnothing left")


def ends_at_once(
    spark: SparkSession, directory: Path, source: Any, processor: Paying | None = None, **more: Any
) -> tuple[list[Line], Any, str, hg.Result]:
    """Run a job that is to be tried again twice: its lines, what it said of its failures and its end, its result."""
    job = hg.Job(
        "job",
        checkpoint=hg.Checkpointing(storage=directory / "storage", interval="500ms"),
        restart=hg.restart.fixed_delay(delay="10ms", attempts=2),
        **more,
    )
    stream = job.source("rows", source)
    if processor is not None:
        stream = stream.process("pay", processor, key="key")
    stream.sink("out", hg.files.sink(directory / "out"))
    lines: list[Line] = []
    result = job.run(None, lines.append, spark)
    failed = [(line["class"], line["message"]) for line in lines if line["event"] == "task-failed"]
    return lines, failed, lines[-1]["text"], result


def test_a_row_that_cannot_be_read_ends_the_job_and_says_why(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("who,amount\nann,1\n")
    source = hg.files.source(tmp_path / "in", format="csv", schema="user STRING, amount DOUBLE")
    lines, failed, ended, result = ends_at_once(spark, tmp_path, source)
    said = f"{tmp_path}/in: the first line of 'a.csv' does not name the column 'user' once: correct the schema"
    assert [line for line in lines if line["event"] == "warning"] == []
    [(kind, message)] = failed
    assert kind == "user"
    assert message.startswith(said)
    assert message in ended
    assert result.text == ended
    assert isinstance(result.failure, hg.UserError)
    assert str(result.failure) == f"task rows failed: {message}"
    assert "BadStorage" in str(result.failure.__cause__), "what was raised, with its traceback"


def test_what_a_users_function_raises_ends_the_job_and_says_where(spark: SparkSession, tmp_path: Path) -> None:
    far_off = {"spark.sql.shuffle.partitions": 17}
    try:
        lines, failed, ended, result = ends_at_once(
            spark, tmp_path, hg.generator.source(rows=10, keys=1), Paying(), spark_conf=far_off
        )
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", "2")
    [warning] = [line["text"] for line in lines if line["event"] == "warning"]
    assert warning.startswith("spark.sql.shuffle.partitions=17 is far off 2 cores: ")
    [(kind, message)] = failed
    line = inspect.getsourcelines(Paying.process)[1] + 1
    assert (kind, message) == ("user", f"NoMoney: key-000000 has nothing left (test_jobs.py:{line}, in process)")
    assert message in ended
    assert str(result.failure).endswith(message)


class Hanging(hg.Source):
    """One row, whose planner does not come back before a file is there."""

    def __init__(self, flag: Path) -> None:
        self.flag = str(flag)

    @property
    def replayable(self) -> bool:
        return True

    def describe(self) -> str:
        return "hanging"

    def ended(self, offset: str) -> bool:
        return '"n": 1' in offset or '"n":1' in offset

    def load(self, spark: SparkSession, trigger_ms: int | None) -> DataFrame:  # noqa: ARG002 - none is wanted
        flag = self.flag

        class Reader(DataSourceStreamReader):
            def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
                return {"n": 0}

            def latestOffset(self, *_: object) -> dict[str, Any]:  # noqa: N802 - Spark's name
                while not Path(flag).exists():
                    time.sleep(0.05)
                return {"n": 1}

            def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Any:
                return [InputPartition(n) for n in range(start["n"], end["n"])]

            def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
                yield (partition.value,)

        class Rows(DataSource):
            @classmethod
            def name(cls) -> str:
                return "hanging"

            def schema(self) -> str:
                return "n bigint"

            def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802, ARG002 - Spark's name
                return Reader()

        spark.dataSource.register(Rows)
        return spark.readStream.format("hanging").load()


def test_a_planner_that_hangs_is_noticed_and_shown_with_where_it_is(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stalls, "STALLED_S", 1.0)
    monkeypatch.setattr(stalls, "USUAL_TIMES", 0)
    monkeypatch.setattr(stalls, "LOOK_S", 0.2)
    flag = tmp_path / "go"
    job = hg.Job("job", checkpoint=hg.Checkpointing(interval="1s", storage=str(tmp_path / "storage")))
    job.source("rows", Hanging(flag)).sink("out", hg.files.sink(str(tmp_path / "out")))
    seen: list[Line] = []
    shown: list[list[str]] = []

    def on_event(line: Line) -> None:
        seen.append(line)
        if line["event"] == "progress" and line["stalled"]:
            shown.append(line["stalled"])
            if "latestOffset" in line["stalled"][0]:
                flag.touch()

    assert job.run(None, on_event, spark).ending == "finished"
    where = next(line["text"] for line in seen if line["event"] == "warning" and "latestOffset" in line["text"])
    assert where.startswith("task rows: no batch has begun, and Spark has not said that there is nothing to do, for ")
    assert "PythonStreamingSourceRunner.latestOffset" in where
    assert any("latestOffset" in text for texts in shown for text in texts)
    assert any(line["event"] == "notice" and line["text"] == "task rows goes on" for line in seen)
    assert rows_of(tmp_path / "out") == [{"n": 0}]


def test_a_job_that_failed_once_is_proven_and_what_is_done_to_its_files_is_named(
    spark: SparkSession, tmp_path: Path
) -> None:
    few = 3_000
    job = build("fork", str(tmp_path), rows=few, batches=6, fail_at=few // 2, interval="500ms")
    heard: list[Line] = []
    assert job.run(None, heard.append, spark).ending == "finished"
    assert verdict("fork", tmp_path, few) == {}
    assert not any(line["event"] == "receipt" for line in heard)
    receipts = gather(JobStore.find(open_store(str(job.checkpoint.storage)), job.name))
    proof = prove(job.name, receipts)
    assert proof.holds, proof.text()
    for sink in proof.sinks:
        assert sink.findings == (), proof.text()
    sinks = {sink.sink: sink for sink in proof.sinks}
    assert sinks["plain"].rows == few, "JSON is counted by its lines"
    assert sinks["once"].rows is None, "a line of CSV need not be a row"
    assert sinks["in-windows"].rows == sinks["in-windows"].found_rows is not None
    for one in receipts.published:
        assert one.pre_committed_ms is not None
        assert one.committed_ms is not None
        assert one.pre_committed_ms <= one.committed_ms
        assert one.channels or one.sources

    one = next(each for each in reversed(receipts.published) if each.rows)
    assert one.place is not None
    files = [path for path in Path(one.place).rglob("part-*") if "_headgate" not in path.parts]
    again = files[0].with_name("copy-" + files[0].name)
    shutil.copy(files[0], again)
    files[-1].unlink()
    found = found_in(prove(job.name, receipts), one.sink)
    assert any(str(again) in text for text in found["foreign"])
    if files[-1] != files[0]:
        assert any(str(files[-1]) in text for text in found["missing"])


def found_in(proof: JobProof, sink: str) -> dict[str, list[str]]:
    [one] = [each for each in proof.sinks if each.sink == sink]
    found: dict[str, list[str]] = {"missing": [], "foreign": [], "changed": [], "doubled": []}
    for each in one.findings:
        found.setdefault(each.kind.value, []).append(each.text)
    return found
