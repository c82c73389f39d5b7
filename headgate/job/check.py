"""What Spark would refuse, found before anything starts.

One rule: every task is put to Spark as it will run, with stand-ins for the channels it reads. Spark's own checker
judges it, and the first operator at which it says no is the one that the user is shown.
"""

from collections.abc import Mapping
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession, functions as F  # noqa: N812 - as everybody calls it

from headgate.errors import InvalidJob
from headgate.job.analyse import LOADED, Analysis, children, evaluate, load, one_line, plan_of, stateful_nodes
from headgate.job.node import Node, NodeKind
from headgate.job.plan import Plan, PlannedTask

_WATERMARK = "EventTimeWatermark"


def check(plan: Plan, known: Mapping[str, Analysis], spark: SparkSession) -> None:
    """Refuse a job of which Spark would not run every task. Nothing is started."""
    end = {task.id: task.trunk[-1].uid for task in plan.tasks}
    for task in plan.tasks:
        given = {(node.uid, LOADED): load(node, spark, None) for node in task.trunk if node.kind is NodeKind.SOURCE}
        for channel in plan.channels:
            if channel.downstream == task.id:
                given[channel.consumer, channel.index] = _stand_in(spark, known[end[channel.upstream]])
        _check_task(task, given)


def _check_task(task: PlannedTask, given: Mapping[tuple[str, int], DataFrame]) -> None:
    frames: dict[str, DataFrame] = {}
    keeping: set[str] = set()
    for node in task.trunk:
        frame = frames[node.uid] = evaluate([node], given, frames)
        keeps = node.uid in task.stateful or not keeping.isdisjoint(node.inputs)
        if keeps:
            keeping.add(node.uid)
        if keeps or node is task.trunk[-1]:  # Before there is state, complete mode has nothing to be complete.
            _ask_spark(node, frame, task.output_mode)
        if keeps != any(stateful_nodes(frame, task.output_mode)):
            raise InvalidJob(
                f"{node.where}: {node.kind.value} {node.uid!r} limits a result that comes whole in each batch, which "
                "works only in the task that makes it: give the stream before it no other reader"
            )


def _ask_spark(node: Node, frame: DataFrame, output_mode: str) -> None:
    jvm: Any = frame.sparkSession._jvm  # noqa: SLF001 - the checker has no other door
    modes = jvm.org.apache.spark.sql.streaming.OutputMode
    mode = {"append": modes.Append, "update": modes.Update, "complete": modes.Complete}[output_mode]()
    try:
        jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker.checkForStreaming(plan_of(frame), mode)
    except PySparkException as error:
        raise InvalidJob(f"{node.where}: Spark cannot run {node.kind.value} {node.uid!r}: {one_line(error)}") from error
    if _declared_twice(plan_of(frame)):
        raise InvalidJob(
            f"{node.where}: {node.kind.value} {node.uid!r} declares a watermark on a stream that has one: "
            "declare it once, where the stream begins"
        )


def _stand_in(spark: SparkSession, output: Analysis) -> DataFrame:
    """A stream with the rows of a channel, as far as Spark can tell before it runs."""
    columns = [F.lit(None).cast(field.dataType).alias(field.name) for field in output.schema.fields]
    frame = spark.readStream.format("rate").load().select(*columns)
    if output.watermark is None:
        return frame
    column, delay_ms = output.watermark
    return frame.withWatermark(column, f"{delay_ms} milliseconds")


def _declared_twice(plan: Any) -> bool:
    """Spark finds this out only when a second batch is due."""
    below = children(plan)
    here = plan.nodeName() == _WATERMARK and any(map(_has_watermark, below))
    return here or any(map(_declared_twice, below))


def _has_watermark(plan: Any) -> bool:
    """Whether event time comes through to here: operators that go by the clock end it, and so do groups with state."""
    name = plan.nodeName()
    by_clock = name.startswith("TransformWithState") and plan.timeMode().toString() == "ProcessingTime"
    if by_clock or (name.startswith("FlatMapGroups") and plan.isStateful()):
        return False
    return name == _WATERMARK or any(map(_has_watermark, children(plan)))
