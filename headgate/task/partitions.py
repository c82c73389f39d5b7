"""How many partitions the state of a new job gets.

One rule: as many as the master has cores, unless the user says otherwise. Spark's own 200 make a stateful batch on a
small machine 200 small pieces of work with as many files. Spark writes the number into each query's offset log with its
first batch, so it is in every checkpoint, and a task that is restored keeps it, whatever the machine has by then.
"""

import re
from collections.abc import Mapping

from pyspark.sql import SparkSession

SHUFFLE = "spark.sql.shuffle.partitions"
SPARKS_OWN = "200"
FAR_OFF = 8
"""A number is far off if it is more than this times the number of cores, or the other way round."""

_LOCAL = re.compile(r"local\[(\d+|\*)(?:,\s*\d+)?\]")
_LOCAL_CLUSTER = re.compile(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,\s*\d+\s*\]")


def choose(spark: SparkSession, conf: Mapping[str, str]) -> None:
    """Set the number in a session, unless the user said one, in the job or where the session was made."""
    said = SHUFFLE in conf or SHUFFLE in dict(spark.sparkContext.getConf().getAll())
    if not said and spark.conf.get(SHUFFLE) == SPARKS_OWN:
        spark.conf.set(SHUFFLE, str(cores_of(spark)))


def chosen(spark: SparkSession) -> int:
    """The number that tasks without a checkpoint begin with."""
    return int(spark.conf.get(SHUFFLE) or SPARKS_OWN)


def cores_of(spark: SparkSession) -> int:
    """How many cores the master of a session has, or was asked for."""
    context = spark.sparkContext
    named = cores(str(context.master), dict(context.getConf().getAll()))
    if named is not None:
        return named
    if _LOCAL.fullmatch(str(context.master)):
        return int(context._jvm.java.lang.Runtime.getRuntime().availableProcessors())  # type: ignore[union-attr]  # noqa: SLF001
    return max(1, int(context.defaultParallelism))


def cores(master: str, conf: Mapping[str, str]) -> int | None:
    """How many cores are named by a master and Spark's settings. None if only the machines themselves can say."""
    if master == "local":
        return 1
    if found := _LOCAL.fullmatch(master):
        return None if found[1] == "*" else max(1, int(found[1]))
    if found := _LOCAL_CLUSTER.fullmatch(master):
        return max(1, int(found[1]) * int(found[2]))
    if most := conf.get("spark.cores.max"):
        return max(1, int(most))
    executors, each = conf.get("spark.executor.instances"), conf.get("spark.executor.cores")
    return max(1, int(executors) * int(each)) if executors and each else None


def advice(partitions: int, cores: int) -> str | None:
    """What to say of a number that a new job is given."""
    if not _far_off(partitions, cores):
        return None
    return (
        f"{SHUFFLE}={partitions} is far off {_cores(cores)}: {_consequence(partitions, cores)}: leave it out to have "
        f"{cores}; a job keeps the number that it began with"
    )


def advice_on_restored(task: str, partitions: int, cores: int) -> str | None:
    """What to say of a number that a checkpoint holds."""
    if not _far_off(partitions, cores):
        return None
    return (
        f"task {task} keeps the {partitions} state partitions that it began with, far off {_cores(cores)}: "
        f"{_consequence(partitions, cores)}: for another number, begin anew under another job name"
    )


def _far_off(partitions: int, cores: int) -> bool:
    return partitions > cores * FAR_OFF or cores > partitions * FAR_OFF


def _cores(cores: int) -> str:
    return "1 core" if cores == 1 else f"{cores} cores"


def _consequence(partitions: int, cores: int) -> str:
    if partitions > cores:
        return f"every batch does {partitions} small pieces of work for each operator with state"
    return f"operators with state use {partitions} of them"
