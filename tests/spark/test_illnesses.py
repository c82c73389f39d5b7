"""Jobs that are really ill, on real Spark: the doctor names what each has, and says nothing of one that is well.

A job that is well has an interval of minutes, and is asked for its checkpoints, so that no load makes it slow.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession, functions as F  # noqa: N812 - Spark's custom

import headgate as hg
from headgate import layout
from headgate.doctor.cause import Cause, Diagnosis
from headgate.doctor.diagnosis import diagnose
from headgate.doctor.gathering import gather
from headgate.job.api import Stream
from headgate.run import loop, vitals
from headgate.run.control import ControlClient
from headgate.run.past import JobPast
from headgate.run.requests import Reply
from headgate.sink.api import WriteId
from headgate.sink.files import FileSink
from headgate.store.api import open_store
from headgate.store.jobstore import JobStore
from services.server import wait_until

ASKED_MAX = 150
"""So many checkpoints are asked for until an illness must have shown."""


def made(directory: Path, interval: str = "100ms", **more: Any) -> hg.Job:
    settings: dict[str, Any] = {"storage": str(directory / "storage"), "interval": interval, **more.pop("settings", {})}
    return hg.Job(
        "ill",
        checkpoint=hg.Checkpointing(**{"tolerable_failed_checkpoints": 1_000, **settings}),
        **{"restart": hg.restart.none(), "spark_conf": {"spark.sql.shuffle.partitions": "2"}, **more},
    )


def rows(job: hg.Job, name: str = "rows", **more: Any) -> Stream:
    return job.source(name, hg.generator.source(**{"rows_per_batch": 100, "keys": 5, **more}))


def look(directory: Path, view: dict[str, Any] | None = None) -> Diagnosis:
    store = JobStore.find(open_store(str(directory / "storage")), "ill")
    now_ms = time.time_ns() // 1_000_000
    past = JobPast(store)
    return diagnose(
        gather(past, view or past.status(now_ms=now_ms), store.read_description(), store.local_root, now_ms)
    )


def found(seen: Diagnosis, rule: str) -> Cause:
    [cause] = [each for each in seen.causes if each.rule == rule]
    return cause


def started(job: hg.Job, spark: SparkSession) -> hg.JobClient:
    """Begin to run a job, and wait until it does."""
    client = job.start(spark=spark)
    wait_until(lambda: client.status()["state"] == "running" or not client.is_running, 120, "the job to run")
    assert client.is_running, client.status()
    return client


def checkpoint(directory: Path) -> Reply:
    """Ask a running job for a checkpoint, and wait for it."""
    return ControlClient(JobStore.find(open_store(str(directory / "storage")), "ill")).ask("checkpoint")


def another_batch(client: hg.JobClient) -> None:
    """Wait until the last task of the job has had one more batch."""

    def batches() -> int:
        return int(client.status()["tasks"][-1]["batches"] or 0)

    before = batches()
    wait_until(lambda: batches() > before or not client.is_running, 120, "another batch")
    assert client.is_running, client.status()


def until(job: hg.Job, spark: SparkSession, directory: Path, *wanted: str) -> Diagnosis:
    """Run a job, and look after each checkpoint until all of these rules have found something."""
    client = started(job, spark)
    try:
        for _ in range(ASKED_MAX):
            another_batch(client)
            checkpoint(directory)
            seen = look(directory, client.status())
            if set(wanted) <= {each.rule for each in seen.causes}:
                return seen
        pytest.fail(f"{wanted} after {ASKED_MAX} checkpoints: {look(directory, client.status())}")
    finally:
        client.cancel()


def slowly(frame: DataFrame, ms: int) -> DataFrame:
    """Each batch of Arrow takes this long in Python."""

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            end = time.monotonic() + ms / 1000
            while time.monotonic() < end:
                pass
            yield batch

    return frame.mapInArrow(work, frame.schema)


# -- well ------------------------------------------------------------------------------------------------------------


def test_nothing_is_found_with_a_job_that_is_well(spark: SparkSession, tmp_path: Path) -> None:
    job = made(tmp_path, interval="10min")
    source = rows(job)
    windows = source.transform(
        "windows",
        lambda frame: (
            frame.withWatermark("event_time", "1 second").groupBy("key", F.window("event_time", "1 second")).count()
        ),
        new_task=True,
    )
    windows.sink("out", hg.files.sink(tmp_path / "out"))
    source.sink("plain", hg.files.sink(tmp_path / "plain"))
    client = started(job, spark)
    for _ in range(8):
        another_batch(client)
        checkpoint(tmp_path)
    running = look(tmp_path, client.status())
    client.stop()
    for seen in (running, look(tmp_path)):
        assert seen.causes == ()
        assert {"slow-start-delay", "slow-async", "slow-commit", "restart-loop"}.isdisjoint(seen.unknown)
        assert {"skewed-partitions", "watermark-stands-still", "disk-nearly-full"}.isdisjoint(seen.unknown)


# -- batches and failures --------------------------------------------------------------------------------------------


def test_a_batch_that_always_fails_is_a_loop(spark: SparkSession, tmp_path: Path) -> None:
    def fail(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if 150 in batch.column("n").to_pylist():
                raise hg.ExternalError("row 150 does not please")
            yield batch

    job = made(tmp_path, restart=hg.restart.fixed_delay(delay="10ms", attempts=3))
    source = rows(job).transform("fails", lambda frame: frame.mapInArrow(fail, frame.schema))
    source.sink("out", hg.files.sink(tmp_path / "out"))
    assert job.run(None, spark=spark).ending == "failed"
    cause = found(look(tmp_path), "restart-loop")
    assert "task rows has failed 4 times on batch 1 within" in cause.evidence or "batch 1 within" in cause.evidence
    assert "row 150 does not please" in cause.evidence
    assert cause.setting == "the other system"


def test_slow_python_makes_batches_longer_than_the_interval_and_binds_the_task(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vitals, "LOOK_S", 0.2)
    job = made(tmp_path)
    rows(job).transform("slow", lambda frame: slowly(frame, 300)).sink("out", hg.files.sink(tmp_path / "out"))
    seen = until(job, spark, tmp_path, "batches-longer-than-interval", "python-bound")
    assert found(seen, "batches-longer-than-interval").tasks == ("rows",)
    assert "goes by in Python functions" in found(seen, "python-bound").evidence


@pytest.mark.long
def test_a_function_of_sparks_own_is_not_taken_for_python(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vitals, "LOOK_S", 0.2)
    job = made(tmp_path)
    busy = rows(job, rows_per_batch=20_000).transform(
        "hashed", lambda frame: frame.withColumn("h", F.sha2(F.repeat("key", 500), 512))
    )
    busy.sink("out", hg.files.sink(tmp_path / "out"))
    client = started(job, spark)
    for _ in range(10):
        another_batch(client)
        checkpoint(tmp_path)
    seen = look(tmp_path, client.status())
    client.cancel()
    assert "python-bound" not in {each.rule for each in seen.causes}
    assert "python-bound" in seen.unknown, "no task runs Python"


@pytest.mark.long
def test_forty_partitions_for_a_few_rows_are_too_many(spark: SparkSession, tmp_path: Path) -> None:
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "40")
    try:
        job = made(tmp_path, spark_conf={})
        counted = rows(job).transform(
            "counted", lambda frame: frame.withWatermark("event_time", "1 second").dropDuplicates(["key", "event_time"])
        )
        counted.sink("out", hg.files.sink(tmp_path / "out"))
        cause = found(until(job, spark, tmp_path, "too-many-partitions"), "too-many-partitions")
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", str(before))
    assert "spread over 40 partitions on 2 cores" in cause.evidence
    assert cause.value == "2"


# -- state and watermarks --------------------------------------------------------------------------------------------


def with_two_inputs(directory: Path, quiet: hg.Source) -> hg.Job:
    """Windows over a source that goes on and another one."""
    job = made(directory, interval="10min")
    quick = rows(job, "quick").transform(
        "a", lambda frame: frame.select("key", "event_time").withWatermark("event_time", "1 second")
    )
    still = job.source("quiet", quiet).transform(
        "b", lambda frame: frame.select("key", "event_time").withWatermark("event_time", "1 second")
    )
    counted = quick.union("both", still).transform(
        "counted", lambda frame: frame.groupBy("key", F.window("event_time", "1 second")).count()
    )
    counted.sink("out", hg.files.sink(directory / "out"))
    return job


def test_an_input_without_rows_holds_back_the_watermark(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "quiet").mkdir()
    (tmp_path / "quiet" / "one.json").write_text('{"key": "k", "event_time": "2025-01-01T00:00:00Z"}\n')
    quiet = hg.files.source(tmp_path / "quiet", schema="key STRING, event_time TIMESTAMP")
    seen = until(with_two_inputs(tmp_path, quiet), spark, tmp_path, "watermark-stands-still")
    assert [each.rule for each in seen.causes] == ["watermark-stands-still"]
    assert "no rows come from quiet" in found(seen, "watermark-stands-still").evidence


@pytest.mark.long
def test_an_input_whose_rows_are_all_left_out_holds_it_back_as_well(spark: SparkSession, tmp_path: Path) -> None:
    quiet = hg.generator.source(rows=1, rows_per_batch=100)
    seen = until(with_two_inputs(tmp_path, quiet), spark, tmp_path, "watermark-stands-still")
    assert "inputs (quick, quiet) do not go on" in found(seen, "watermark-stands-still").evidence


@pytest.mark.long
def test_state_that_nothing_leaves_grows(spark: SparkSession, tmp_path: Path) -> None:
    job = made(tmp_path, interval="10min")
    once = rows(job, rows_per_batch=10_000).transform("once", lambda frame: frame.dropDuplicates(["n"]))
    once.sink("out", hg.files.sink(tmp_path / "out"))
    seen = until(job, spark, tmp_path, "state-grows")
    assert [each.rule for each in seen.causes] == ["state-grows"]
    assert found(seen, "state-grows").tasks == ("rows",)


@pytest.mark.long
def test_keys_that_come_again_do_not_grow(spark: SparkSession, tmp_path: Path) -> None:
    job = made(tmp_path, interval="10min")
    once = rows(job, rows_per_batch=10_000, keys=200_000).transform("once", lambda frame: frame.dropDuplicates(["key"]))
    once.sink("out", hg.files.sink(tmp_path / "out"))
    client = started(job, spark)
    for _ in range(60):
        another_batch(client)
        checkpoint(tmp_path)
    seen = look(tmp_path, client.status())
    client.cancel()
    assert seen.causes == ()
    assert "state-grows" not in seen.unknown


@pytest.mark.long
def test_a_partition_that_has_all_keys_is_skewed(spark: SparkSession, tmp_path: Path) -> None:
    job = made(tmp_path, interval="10min")

    def only_one(frame: DataFrame) -> DataFrame:
        long = frame.withColumn(
            "k", F.concat(*[F.sha2(F.concat(F.lit(str(i)), F.col("n").cast("string")), 512) for i in range(4)])
        )
        return long.where(F.pmod(F.hash("k"), F.lit(2)) == 0).dropDuplicates(["k"]).select("n")

    rows(job, rows_per_batch=20_000).transform("once", only_one).sink("out", hg.files.sink(tmp_path / "out"))
    cause = found(until(job, spark, tmp_path, "skewed-partitions"), "skewed-partitions")
    assert "partition 0 of operator once in task rows has" in cause.evidence
    assert "2 times the mean of its 2 partitions" in cause.evidence


# -- checkpoints -----------------------------------------------------------------------------------------------------


class SlowSink(FileSink):
    """Another system that takes its time, and gives up transactions after four seconds."""

    transaction_timeout_ms = 4_000

    def pre_commit(self, checkpoint: Any, generation: Any, write_ids: Sequence[WriteId]) -> str:
        time.sleep(1.2)
        return super().pre_commit(checkpoint, generation, write_ids)

    def commit(self, *arguments: Any) -> Any:
        time.sleep(1.2)
        return super().commit(*arguments)


@pytest.mark.long
def test_a_slow_sink_is_named_in_each_of_its_phases_and_so_is_its_time_out(spark: SparkSession, tmp_path: Path) -> None:
    job = made(tmp_path)
    made_by_hand = hg.files.sink(tmp_path / "out")
    made_by_hand.__class__ = SlowSink
    rows(job).sink("out", made_by_hand)
    seen = until(job, spark, tmp_path, "slow-pre-commit", "slow-commit", "transactions-near-timeout")
    for rule in ("slow-pre-commit", "slow-commit", "transactions-near-timeout"):
        assert "sink out" in found(seen, rule).evidence


class RefusingSink(FileSink):
    """A system that refuses to gather what it was given."""

    def pre_commit(self, *_: Any) -> str:
        raise hg.ExternalError("out of order today")


@pytest.mark.long
def test_checkpoints_that_are_declined_one_after_the_other_are_a_problem(spark: SparkSession, tmp_path: Path) -> None:
    job = made(tmp_path)
    refusing = hg.files.sink(tmp_path / "out")
    refusing.__class__ = RefusingSink
    rows(job).sink("out", refusing)
    seen = until(job, spark, tmp_path, "checkpoints-fail")
    assert "out of order today" in found(seen, "checkpoints-fail").evidence


@pytest.mark.long
def test_a_slow_storage_is_named_in_each_part_that_uses_it(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(function: Callable[..., Any], s: float) -> Callable[..., Any]:
        def called(*arguments: Any, **more: Any) -> Any:
            time.sleep(s)
            return function(*arguments, **more)

        return called

    monkeypatch.setattr(layout, "groups_of", late(layout.groups_of, 1.2))
    monkeypatch.setattr(JobStore, "create_record", late(JobStore.create_record, 1.2))
    job = made(tmp_path)
    rows(job).sink("out", hg.files.sink(tmp_path / "out"))
    seen = until(job, spark, tmp_path, "slow-sync", "slow-publish")
    assert found(seen, "slow-sync").tasks == ("rows",)
    assert str(tmp_path) in found(seen, "slow-publish").evidence


@pytest.mark.long
def test_a_slow_reader_holds_the_barrier(spark: SparkSession, tmp_path: Path) -> None:
    job = made(tmp_path)
    slow = rows(job, rows_per_batch=50).transform("slow", lambda frame: slowly(frame, 700), new_task=True)
    slow.sink("out", hg.files.sink(tmp_path / "out"))
    cause = found(until(job, spark, tmp_path, "slow-start-delay"), "slow-start-delay")
    assert "in task slow" in cause.evidence
    assert cause.tasks == ("slow",)


@pytest.mark.long
def test_a_slow_side_holds_up_alignment(spark: SparkSession, tmp_path: Path) -> None:
    job = made(tmp_path)
    source = rows(job, rows_per_batch=50)
    left = source.transform("left", lambda frame: slowly(frame, 700), new_task=True)
    right = source.transform("right", lambda frame: frame.select("*"), new_task=True)
    left.union("both", right, new_task=True).sink("out", hg.files.sink(tmp_path / "out"))
    cause = found(until(job, spark, tmp_path, "slow-alignment"), "slow-alignment")
    assert cause.evidence.startswith("task both holds its input from right")
    assert "left" in cause.tasks


# -- clocks ----------------------------------------------------------------------------------------------------------


class AheadClock:
    """The clock of another machine: an hour ahead."""

    monotonic = staticmethod(time.monotonic)

    @staticmethod
    def time() -> float:
        return time.time() + 3_600


def test_a_job_that_moves_to_a_machine_with_another_clock_tells(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run() -> None:
        job = made(tmp_path, interval="10min")
        rows(job).sink("out", hg.files.sink(tmp_path / "out"))
        client = started(job, spark)
        checkpoint(tmp_path)
        client.stop()

    with monkeypatch.context() as patched:
        patched.setattr(loop, "time", AheadClock)
        run()
    assert look(tmp_path).causes == ()
    run()
    cause = found(look(tmp_path), "clock-skew")
    assert "their clocks differ by that much at least" in cause.evidence
