"""What Spark says of operators, and what it would refuse. Nothing is started."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession, functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.types import LongType, StructField, StructType, TimestampType

from headgate.errors import InvalidJob
from headgate.job.analyse import LOADED, Analysis, analyse, evaluate
from headgate.job.api import Job, Stream, Transform
from headgate.job.check import check
from headgate.job.keyed import KeyedState
from headgate.job.plan import plan
from headgate.job.processor import Processor
from headgate.job.settings import Checkpointing
from tests.job.helpers import NullSink, RateSource, drawn


class Echo(Processor):
    output = "value long, at timestamp"

    def process(self, key: Any, rows: Any, context: Any) -> Any:
        raise AssertionError(key, rows, context)


class ByClock(Echo):
    time = "processing"


class ByEvent(Echo):
    time = "event"
    event_time = "at"


def marked(frame: DataFrame) -> DataFrame:
    return frame.withWatermark("timestamp", "10 seconds")


def windows(frame: DataFrame) -> DataFrame:
    return frame.groupBy(F.window("timestamp", "5 seconds")).count()


def counts(frame: DataFrame) -> DataFrame:
    return frame.groupBy("value").count()


def grouped(frame: DataFrame) -> DataFrame:
    return frame.groupBy("value").applyInPandasWithState(
        lambda _key, frames, _state: frames, "value long", "n long", "append", "NoTimeout"
    )


def static(frame: DataFrame) -> DataFrame:
    return frame.sparkSession.range(5)


def build(build_streams: Callable[[Stream], Stream]) -> Job:
    job = Job("orders", checkpoint=Checkpointing(storage="/data"))
    build_streams(job.source("in", RateSource())).sink("out", NullSink())
    return job


def of_one(fn: Transform, spark: SparkSession, **options: Any) -> Analysis:
    job = build(lambda source: source.transform("marked", marked).transform("x", fn, **options))
    return analyse(job.freeze(), spark)["x"]


def tasks(job: Job, spark: SparkSession) -> list[str]:
    """The plan, after Spark has agreed to it."""
    nodes = job.freeze()
    known = analyse(nodes, spark)
    made = plan(nodes, {uid: a.stateful for uid, a in known.items()}, [uid for uid, a in known.items() if a.alone])
    check(made, known, spark)
    return drawn(made)


STATELESS: dict[str, Transform] = {
    "where": lambda f: f.where("value > 1"),
    "with static": lambda f: f.join(static(f).groupBy("id").count(), f.value == F.col("id")),
    "union": lambda f: f.union(f),
    "each batch": lambda f: f.groupBy("value").applyInPandas(lambda pdf: pdf, "timestamp timestamp, value long"),
}
STATEFUL: dict[str, Transform] = {
    "window": windows,
    "session": lambda f: f.groupBy(F.session_window("timestamp", "5 seconds")).count(),
    "distinct": lambda f: f.distinct(),
    "duplicates": lambda f: f.dropDuplicates(["value"]),
    "late duplicates": lambda f: f.dropDuplicatesWithinWatermark(["value"]),
    "limit": lambda f: f.limit(3),
    "except": lambda f: f.select("value").subtract(static(f)),
    "with itself": lambda f: f.join(f.select(F.col("value").alias("v")), F.expr("value = v")),
    "SQL": lambda f: f.sparkSession.sql("SELECT value, count(*) FROM {f} GROUP BY value", f=f),
    "groups": grouped,
}


@pytest.mark.parametrize("name", STATELESS)
def test_an_operator_without_state_is_known_for_it(spark: SparkSession, name: str) -> None:
    assert not of_one(STATELESS[name], spark).stateful


@pytest.mark.parametrize("name", STATEFUL)
def test_an_operator_with_state_is_known_for_it_and_so_is_who_comes_after(spark: SparkSession, name: str) -> None:
    job = build(
        lambda source: (
            source.transform("marked", marked)
            .transform("x", STATEFUL[name])
            .transform("after", lambda f: f.select("*"))
        )
    )
    known = analyse(job.freeze(), spark)
    assert {uid: found.stateful for uid, found in known.items()} == {
        "in": False,
        "marked": False,
        "x": True,
        "after": False,
    }
    assert known["x"].alone == (name == "groups")
    assert not known["after"].alone


def test_joins_of_streams_and_processors_keep_state_and_unions_do_not(spark: SparkSession) -> None:
    job = Job("orders", checkpoint=Checkpointing(storage="/data"))
    left, right = job.source("left", RateSource()), job.source("right", RateSource())
    left.union("union", right).sink("one", NullSink())
    left.join("join", right, on="value").sink("two", NullSink())
    left.join("by-function", right, lambda a, b: a.join(b, "value")).sink("three", NullSink())
    left.process("process", Echo(), key="value").sink("four", NullSink())
    known = analyse(job.freeze(), spark)
    assert [uid for uid, found in known.items() if found.stateful] == ["join", "by-function", "process"]
    assert known["join"].schema.names == ["value", "timestamp", "timestamp"]
    assert known["process"].schema.names == ["value", "at"]


def test_the_schema_and_the_watermark_of_the_output_are_known(spark: SparkSession) -> None:
    assert of_one(lambda f: f.select("value"), spark) == Analysis(
        stateful=False, schema=StructType([StructField("value", LongType())])
    )
    renamed = of_one(lambda f: f.select(F.col("timestamp").alias("at")), spark)
    assert renamed.watermark == ("at", 10_000)
    assert renamed.schema["at"].dataType == TimestampType()
    assert of_one(windows, spark).watermark == ("window", 10_000)
    assert of_one(counts, spark, output_mode="update").watermark is None


def test_a_limit_on_a_whole_result_needs_no_state(spark: SparkSession) -> None:
    job = build(
        lambda source: (
            source.transform("counts", counts, output_mode="complete")
            .transform("named", lambda f: f.withColumnRenamed("count", "n"))
            .transform("top", lambda f: f.orderBy(F.desc("n")).limit(3))
        )
    )
    assert tasks(job, spark) == ["in counts named top (complete) > out"]


def test_a_limit_on_a_whole_result_in_another_task_is_refused(spark: SparkSession) -> None:
    job = Job("orders", checkpoint=Checkpointing(storage="/data"))
    whole = job.source("in", RateSource()).transform("counts", counts, output_mode="complete")
    top = whole.transform("top", lambda f: f.limit(3))
    whole.union("both", top).sink("out", NullSink())
    with pytest.raises(
        InvalidJob, match=r"^test_analyse.py:\d+: transform 'top' limits a result that comes whole in each"
    ):
        tasks(job, spark)


@pytest.mark.parametrize(
    ("fn", "options", "message"),
    [
        (lambda f: f.where("nothing > 1"), {}, r"transform 'x' failed: AnalysisException: \[UNRESOLVED_COLUMN"),
        (lambda _: 1 / 0, {}, "transform 'x' failed: ZeroDivisionError: division by zero$"),
        (lambda _: None, {}, "transform 'x' returned NoneType: it must return a DataFrame$"),
        (
            static,
            {},
            "transform 'x' returned a DataFrame that does not stream: it must be made from the one that came in",
        ),
        (
            lambda f: f.where("value > 1"),
            {"output_mode": "update"},
            "transform 'x' keeps no state, so output_mode='update' means nothing: leave it out",
        ),
    ],
)
def test_a_function_that_does_not_do_its_part_is_refused_with_its_line(
    spark: SparkSession, fn: Transform, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidJob, match=rf"^test_analyse.py:\d+: {message}") as refused:
        of_one(fn, spark, **options)
    assert "\n" not in str(refused.value)


def test_a_source_that_fails_is_refused_with_its_line(spark: SparkSession) -> None:
    class Broken(RateSource):
        def load(self, spark: SparkSession, trigger_ms: int | None) -> DataFrame:
            raise OSError(f"no broker for {spark.version} {trigger_ms}")

    job = Job("orders", checkpoint=Checkpointing(storage="/data"))
    job.source("in", Broken()).sink("out", NullSink())
    with pytest.raises(InvalidJob, match=r"^test_analyse.py:\d+: source 'in' failed: OSError: no broker for 4"):
        analyse(job.freeze(), spark)


class NoColumns(Echo):
    output = "double"


class NoType(ByClock):
    def open(self, state: KeyedState) -> None:
        self.last = state.value("last", "duble")


class NoClock(Echo):
    def open(self, state: KeyedState) -> None:
        self.last = state.map("last", "string", "double", ttl="1h")


class Twice(ByClock):
    def open(self, state: KeyedState) -> None:
        self.last = state.value("last", LongType(), ttl="1h")
        self.again = state.list("last", "double")


@pytest.mark.parametrize(
    ("processor", "message"),
    [
        (NoType(), r"ParseException: .*Unsupported data type \"DUBLE\""),
        (NoClock(), "state 'last' has a ttl, which goes by the clock: set time = 'processing'"),
        (Twice(), "state 'last' is asked for twice: give each a name of its own"),
    ],
)
def test_a_processor_that_cannot_be_opened_is_refused_with_its_line(
    spark: SparkSession, processor: Processor, message: str
) -> None:
    job = build(lambda source: source.process("x", processor, key="value"))
    with pytest.raises(InvalidJob, match=rf"^test_analyse.py:\d+: process 'x' failed: {message}"):
        analyse(job.freeze(), spark)
    assert vars(processor) == {}, "only a copy was opened"


def test_a_processor_whose_output_names_no_columns_is_refused_where_it_is_written() -> None:
    with pytest.raises(
        InvalidJob, match=r"^test_analyse.py:\d+: NoColumns.output='double': column double has no type: "
    ):
        build(lambda source: source.process("x", NoColumns(), key="value"))


@pytest.mark.parametrize(
    ("build_streams", "expected"),
    [
        (lambda s: s.transform("m", marked).transform("w", windows), ["in m w > out"]),
        (lambda s: s.transform("m", marked).transform("w", windows, new_task=True), ["in m >> w.0", "w > out"]),
        # A window is a watermark too, and travels through a channel.
        (
            lambda s: (
                s.transform("m", marked)
                .transform("w", windows)
                .transform("v", lambda f: f.groupBy("window").count(), new_task=True)
            ),
            ["in m w >> v.0", "v > out"],
        ),
        # Spark runs groups with state beside nothing else that keeps state.
        (lambda s: s.transform("g", grouped).transform("h", grouped), ["in g >> h.0", "h > out"]),
        # After the clock there is no event time, and a new watermark may be declared.
        (
            lambda s: (
                s.transform("m", marked)
                .process("p", ByClock(), key="value")
                .transform("n", lambda f: f.withWatermark("at", "1 second"))
            ),
            ["in m p n > out"],
        ),
        (
            lambda s: (
                s.transform("m", marked)
                .process("p", ByEvent(), key="value")
                .transform("w", lambda f: f.groupBy(F.window("at", "5 seconds")).count())
            ),
            ["in m p w > out"],
        ),
    ],
)
def test_spark_agrees_to_every_task_of_a_good_job(
    spark: SparkSession, build_streams: Callable[[Stream], Stream], expected: list[str]
) -> None:
    assert tasks(build(build_streams), spark) == expected


@pytest.mark.parametrize(
    ("build_streams", "message"),
    [
        (
            lambda s: s.transform("w", windows),
            "Spark cannot run transform 'w': .* not supported for streaming aggregations without",
        ),
        (
            lambda s: s.transform("w", windows, new_task=True),
            "Spark cannot run transform 'w': .* aggregations without watermark",
        ),
        (
            lambda s: s.transform("o", lambda f: f.orderBy("value")),
            "Spark cannot run transform 'o': .*Sorting is not supported",
        ),
        (
            lambda s: s.transform("d", STATEFUL["duplicates"], output_mode="complete"),
            "Spark cannot run transform 'd': .* no streaming aggregations",
        ),
        (
            lambda s: s.transform("m", marked).transform("n", marked),
            "transform 'n' declares a watermark on a stream that has one: declare it once, where the stream begins",
        ),
        (
            lambda s: s.transform("m", marked).transform("n", marked, new_task=True),
            "transform 'n' declares a watermark",
        ),
    ],
)
def test_what_spark_would_refuse_is_refused_before_it_starts(
    spark: SparkSession, build_streams: Callable[[Stream], Stream], message: str
) -> None:
    with pytest.raises(InvalidJob) as refused:
        tasks(build(build_streams), spark)
    assert re.match(rf"test_analyse\.py:\d+: {message}", str(refused.value)), str(refused.value)
    assert "\n" not in str(refused.value)


def test_operators_are_evaluated_on_what_comes_from_outside(spark: SparkSession) -> None:
    job = Job("orders", checkpoint=Checkpointing(storage="/data"))
    source = job.source("in", RateSource())
    more = source.transform("more", lambda f: f.withColumn("value", F.col("value") + 1))
    source.union("both", more).transform("twice", lambda f: f.select((F.col("value") * 2).alias("value"))).sink(
        "out", NullSink()
    )
    _, plus, both, twice, _ = job.freeze()
    one, two = spark.range(1).toDF("value"), spark.range(1, 2).toDF("value")
    assert evaluate([], {}, {"both": one}) is one
    assert evaluate([plus], {}, {"in": one}).collect() == [Row(value=1)]
    assert evaluate([both, twice], {("both", 0): one, ("both", 1): two}).collect() == [Row(value=0), Row(value=2)]
    assert evaluate([job.freeze()[0], plus], {("in", LOADED): two}).collect() == [Row(value=2)]
