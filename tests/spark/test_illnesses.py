"""Jobs that are really ill, on real Spark: the doctor names what each has, and says nothing of one that is well.

Each test is marked with the rules that must find something in it (``ill``), or must have had facts to judge by and find
nothing (``well``). A test whose mark does not hold fails, and ``tests/doctor/test_marks.py`` sees that each rule is in
both kinds of marks.

A job that is well has an interval of minutes, and is asked for its checkpoints, so that no load makes it slow.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession, functions as F  # noqa: N812 - Spark's custom

import headgate as hg
from headgate import layout
from headgate.doctor.cause import Cause, Diagnosis
from headgate.doctor.diagnosis import diagnose
from headgate.doctor.facts import JobFacts
from headgate.doctor.finding import Severity
from headgate.doctor.gathering import gather
from headgate.job.api import Stream
from headgate.run import loop, stalls, vitals
from headgate.run.control import ControlClient
from headgate.run.past import JobPast
from headgate.run.requests import Reply
from headgate.sink.api import WriteId
from headgate.sink.files import FileSink
from headgate.store.api import open_store
from headgate.store.jobstore import JobStore
from headgate.task import vitals as of_spark
from services.server import wait_until
from tests.mounts import Mount, needs_root, needs_throttle, on_a_slow_disk
from tests.spark.process import JobProcess, completed

ASKED_MAX = 150
"""So many checkpoints are asked for until an illness must have shown."""
WAIT_S = 300
ill, well = pytest.mark.ill, pytest.mark.well
HERE = Path(__file__).parent

LOOKED: list[tuple[JobFacts, Diagnosis]] = []
"""All that was looked at in a test."""
JUDGED: dict[str, Callable[[JobFacts], bool]] = {
    "restart-loop": lambda facts: bool(facts.failures),
    "transactions-near-timeout": lambda facts: any(
        "transaction_timeout_ms" in sink for task in facts.planned.values() for sink in task["sinks"]
    ),
    "clock-skew": lambda facts: len({line["leader"] for line in facts.generations}) > 1,
    "stalled": lambda facts: facts.view["state"] == "running",
    "slow-alignment": lambda facts: any(len(reads) > 1 for reads in facts.upstream.values()),
}
"""Rules that are silent of a job that cannot have their illness: what it needs to have it."""


@pytest.fixture(autouse=True)
def nothing_looked_at() -> None:
    LOOKED.clear()


def hold(test: pytest.Item) -> None:
    """Hold a test that has passed to its marks: see ``conftest``."""
    found = {each.rule for _, seen in LOOKED for each in seen.causes}
    judged = {rule for facts, seen in LOOKED for rule in seen.rules if judged_by(rule, facts, seen)}
    for mark in test.iter_markers("ill"):
        assert set(mark.args) <= found, f"never found here: {set(mark.args) - found}"
    for mark in test.iter_markers("well"):
        assert found.isdisjoint(mark.args), f"found here: {found}"
        assert set(mark.args) <= judged, f"nothing to judge by: {set(mark.args) - judged}"


def judged_by(rule: str, facts: JobFacts, seen: Diagnosis) -> bool:
    needed = JUDGED.get(rule)
    return rule not in seen.unknown and (needed is None or needed(facts))


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
    facts = gather(past, view or past.status(now_ms=now_ms), store.read_description(), store.local_root, now_ms)
    LOOKED.append((facts, diagnose(facts)))
    return LOOKED[-1][1]


def found(seen: Diagnosis, rule: str) -> Cause:
    [cause] = [each for each in seen.causes if each.rule == rule]
    return cause


def started(job: hg.Job, spark: SparkSession) -> hg.JobClient:
    """Begin to run a job, and wait until it does."""
    client = job.start(spark=spark)
    wait_until(lambda: client.status()["state"] == "running" or not client.is_running, 120, "the job to run")
    assert client.is_running, client.status()
    return client


@contextmanager
def running(job: hg.Job, spark: SparkSession) -> Iterator[hg.JobClient]:
    """A job that runs, and does not go on beside other tests whatever comes."""
    client = started(job, spark)
    try:
        yield client
    finally:
        if client.is_running:
            client.cancel()


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


@well("slow-start-delay", "slow-sync", "slow-async", "slow-pre-commit", "slow-publish", "slow-commit")
@well("checkpoints-fail", "stalled", "disk-nearly-full")
@well("batches-longer-than-interval", "too-many-partitions", "skewed-partitions", "watermark-stands-still")
def test_nothing_is_found_with_a_job_that_is_well(spark: SparkSession, tmp_path: Path) -> None:
    job = made(tmp_path, interval="10min")
    source = rows(job)
    source.transform("windows", windows, new_task=True).sink("out", hg.files.sink(tmp_path / "out"))
    source.sink("plain", hg.files.sink(tmp_path / "plain"))
    with running(job, spark) as client:
        for _ in range(8):
            another_batch(client)
            checkpoint(tmp_path)
        alive = look(tmp_path, client.status())
        client.stop()
    ended = look(tmp_path)
    assert (alive.causes, ended.causes) == ((), ())
    assert set(ended.unknown) <= set(alive.unknown), "of a job that has ended as much is known"


def windows(frame: DataFrame) -> DataFrame:
    timely = frame.withWatermark("event_time", "1 second")
    return timely.groupBy("key", F.window("event_time", "1 second")).count()


class PatientSink(FileSink):
    """Another system that keeps transactions for a quarter of an hour."""

    transaction_timeout_ms = 900_000


@pytest.mark.long
@well("restart-loop", "transactions-near-timeout", "clock-skew", "stalled", "slow-alignment", "state-grows")
@well("gc-pressure", "python-bound")
def test_nothing_is_found_with_a_job_that_has_all_that_may_fall_ill(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It forks, joins, has state, Python and transactions; it was stopped and started, and a batch has failed once."""
    monkeypatch.setattr(vitals, "LOOK_S", 0.5)
    monkeypatch.setattr(of_spark, "LOOKS", 240)
    trouble = tmp_path / "trouble"

    def fail_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if trouble.exists():
                trouble.unlink(missing_ok=True)
                raise hg.ExternalError("this batch does not please today")
            yield batch

    def whole() -> hg.Job:
        job = made(tmp_path, interval="10min", restart=hg.restart.fixed_delay(delay="10ms", attempts=3))
        source = rows(job, rows_per_batch=None, rows_per_second=100)
        passed = source.transform("passed", lambda frame: frame.mapInArrow(fail_once, frame.schema))
        left = passed.transform("left", lambda frame: frame.select("key", "event_time"), new_task=True)
        right = passed.transform("right", lambda frame: frame.select("key", "event_time"), new_task=True)
        patient = hg.files.sink(tmp_path / "out")
        patient.__class__ = PatientSink
        left.union("both", right, new_task=True).transform("windows", windows).sink("out", patient)
        return job

    with running(whole(), spark) as client:
        another_batch(client)
        checkpoint(tmp_path)
        client.stop()
    with running(whole(), spark) as client:
        another_batch(client)
        trouble.touch()
        wait_until(lambda: sum(client.status()["restarts"].values()) > 0, WAIT_S, "a failure")
        seen = look(tmp_path, client.status())
        for _ in range(ASKED_MAX):
            if not seen.unknown:
                break
            another_batch(client)
            checkpoint(tmp_path)
            seen = look(tmp_path, client.status())
            assert seen.causes == ()
        client.stop()
    for each in (seen, look(tmp_path)):
        assert (each.causes, each.unknown) == ((), ()), "every rule has looked"


# -- batches and failures --------------------------------------------------------------------------------------------


@ill("restart-loop")
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


@ill("batches-longer-than-interval", "python-bound")
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
@ill("too-many-partitions")
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


@pytest.mark.long
@ill("gc-pressure")
def test_state_that_hardly_fits_into_the_heap_keeps_garbage_collection_busy(tmp_path: Path) -> None:
    shape = {"directory": str(tmp_path), "memory": "512m", "rows": 20_000, "keys": 700_000}
    process = JobProcess(shape, file=HERE / "crowded.py", variable="HEADGATE_CROWDED")
    try:
        assert process.wait_for(completed) is not None, process.tail()
        seen = look(tmp_path)
        while "gc-pressure" not in {each.rule for each in seen.causes}:
            assert len(LOOKED) < 4 * ASKED_MAX, seen
            assert process.wait_for(completed) is not None, process.tail()
            seen = look(tmp_path)
    finally:
        process.kill()
    cause = found(seen, "gc-pressure")
    assert "spark.driver.memory is 512m" in cause.evidence
    assert (cause.setting, cause.value) == ("spark.driver.memory", "1024m")


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


@ill("watermark-stands-still")
def test_an_input_without_rows_holds_back_the_watermark(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "quiet").mkdir()
    (tmp_path / "quiet" / "one.json").write_text('{"key": "k", "event_time": "2025-01-01T00:00:00Z"}\n')
    quiet = hg.files.source(tmp_path / "quiet", schema="key STRING, event_time TIMESTAMP")
    seen = until(with_two_inputs(tmp_path, quiet), spark, tmp_path, "watermark-stands-still")
    assert [each.rule for each in seen.causes] == ["watermark-stands-still"]
    assert "no rows come from quiet" in found(seen, "watermark-stands-still").evidence


@pytest.mark.long
@ill("watermark-stands-still")
def test_an_input_whose_rows_are_all_left_out_holds_it_back_as_well(spark: SparkSession, tmp_path: Path) -> None:
    quiet = hg.generator.source(rows=1, rows_per_batch=100)
    seen = until(with_two_inputs(tmp_path, quiet), spark, tmp_path, "watermark-stands-still")
    assert "inputs (quick, quiet) do not go on" in found(seen, "watermark-stands-still").evidence


@pytest.mark.long
@ill("state-grows")
def test_state_that_nothing_leaves_grows(spark: SparkSession, tmp_path: Path) -> None:
    job = made(tmp_path, interval="10min")
    once = rows(job, rows_per_batch=10_000).transform("once", lambda frame: frame.dropDuplicates(["n"]))
    once.sink("out", hg.files.sink(tmp_path / "out"))
    seen = until(job, spark, tmp_path, "state-grows")
    assert [each.rule for each in seen.causes] == ["state-grows"]
    assert found(seen, "state-grows").tasks == ("rows",)


@pytest.mark.long
@well("state-grows")
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
@ill("skewed-partitions")
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
@ill("slow-pre-commit", "slow-commit", "transactions-near-timeout")
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
@ill("checkpoints-fail")
def test_checkpoints_that_are_declined_one_after_the_other_are_a_problem(spark: SparkSession, tmp_path: Path) -> None:
    job = made(tmp_path)
    refusing = hg.files.sink(tmp_path / "out")
    refusing.__class__ = RefusingSink
    rows(job).sink("out", refusing)
    seen = until(job, spark, tmp_path, "checkpoints-fail")
    assert "out of order today" in found(seen, "checkpoints-fail").evidence


@pytest.mark.long
@ill("slow-sync", "slow-publish")
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
@needs_root
@needs_throttle
@ill("slow-async")
def test_a_slow_disk_of_the_storage_is_named(spark: SparkSession, tmp_path: Path) -> None:
    with on_a_slow_disk(tmp_path / "slow", bytes_s=100_000) as place:
        job = made(place, settings={"working_directory": str(tmp_path / "work")})
        # A batch a second: more of them would write files faster than they can be copied.
        slowly_made = rows(job, rows_per_batch=None, rows_per_second=1)
        once = slowly_made.transform("once", lambda frame: frame.dropDuplicates(["key"]))
        once.sink("out", hg.files.sink(tmp_path / "out"))
        seen = until(job, spark, place, "slow-async")
    cause = found(seen, "slow-async")
    assert (cause.setting, cause.tasks) == ("Checkpointing.storage", ("rows",))


@pytest.mark.long
@ill("slow-start-delay")
def test_a_slow_reader_holds_the_barrier(spark: SparkSession, tmp_path: Path) -> None:
    job = made(tmp_path, interval="1s", settings={"max_batches_ahead": 4})
    slow = rows(job, rows_per_batch=50).transform("slow", lambda frame: slowly(frame, 1_000), new_task=True)
    slow.sink("out", hg.files.sink(tmp_path / "out"))
    cause = found(until(job, spark, tmp_path, "slow-start-delay"), "slow-start-delay")
    assert "in task slow" in cause.evidence
    assert cause.tasks == ("slow",)


@pytest.mark.long
@ill("slow-alignment")
def test_a_slow_side_holds_up_alignment(spark: SparkSession, tmp_path: Path) -> None:
    job = made(tmp_path, interval="1s", settings={"max_batches_ahead": 4})
    source = rows(job, rows_per_batch=50)
    left = source.transform("left", lambda frame: slowly(frame, 1_000), new_task=True)
    right = source.transform("right", lambda frame: frame.select("*"), new_task=True)
    left.union("both", right, new_task=True).sink("out", hg.files.sink(tmp_path / "out"))
    cause = found(until(job, spark, tmp_path, "slow-alignment"), "slow-alignment")
    assert cause.evidence.startswith("task both holds its input from right")
    assert "left" in cause.tasks


# -- what stands still, and room -------------------------------------------------------------------------------------


class SilentSink(FileSink):
    """A system that does not answer until it is told to."""

    may = threading.Event()

    def pre_commit(self, checkpoint: Any, generation: Any, write_ids: Sequence[WriteId]) -> str:
        assert self.may.wait(WAIT_S)
        return super().pre_commit(checkpoint, generation, write_ids)


@ill("stalled")
def test_a_sink_that_does_not_answer_is_named_with_the_place(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stalls, "STALLED_S", 2.0)
    monkeypatch.setattr(stalls, "LOOK_S", 0.1)
    SilentSink.may.clear()
    job = made(tmp_path)
    silent = hg.files.sink(tmp_path / "out")
    silent.__class__ = SilentSink
    rows(job).sink("out", silent)
    client = started(job, spark)
    try:
        wait_until(lambda: client.status()["stalled"] != [], WAIT_S, "something that stands still")
        cause = found(look(tmp_path, client.status()), "stalled")
        assert cause.evidence.startswith("sink out: pre commit has been running for ")
        assert f"in pre_commit ({__file__}:" in cause.evidence
        assert cause.tasks == ("rows",)
        SilentSink.may.set()
        wait_until(lambda: client.status()["stalled"] == [], WAIT_S, "what stood still to go on")
        assert look(tmp_path, client.status()).causes == ()
    finally:
        SilentSink.may.set()
        client.cancel()


@needs_root
@ill("disk-nearly-full")
def test_a_disk_that_fills_up_under_a_job_is_named(spark: SparkSession, tmp_path: Path, mount: Mount) -> None:
    small = mount("size=300m")
    job = made(tmp_path, interval="10min", settings={"working_directory": str(small / "work")})
    rows(job).sink("out", hg.files.sink(tmp_path / "out"))
    with running(job, spark) as client:
        checkpoint(tmp_path)
        cause = found(look(tmp_path, client.status()), "disk-nearly-full")
        assert (cause.verdict, cause.setting) == (Severity.WARNING, "Checkpointing.working_directory")
        assert str(small) in cause.evidence
        (small / "rest").write_bytes(bytes(240 << 20))
        another_batch(client)
        checkpoint(tmp_path)
        assert found(look(tmp_path, client.status()), "disk-nearly-full").verdict is Severity.PROBLEM


# -- clocks ----------------------------------------------------------------------------------------------------------


class AheadClock:
    """The clock of another machine: an hour ahead."""

    monotonic = staticmethod(time.monotonic)

    @staticmethod
    def time() -> float:
        return time.time() + 3_600


@ill("clock-skew")
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
