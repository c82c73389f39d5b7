"""What Spark writes to its log about queries.

One rule: a failure is told once. Spark logs the whole stack of every query that ends in the hook, also of one that is
stopped on purpose; Headgate tells of failures itself, so that one logger of Spark's is silenced.
"""

import contextlib
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # What looks for a PySpark that may be missing logs as well.
    from pyspark.sql import SparkSession

QUERY_LOGGER = "org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution"
logger = logging.getLogger("headgate")
failures = logger.getChild("failures")
"""Whole traces. What they come to is told as an event, in one line."""


def silence(spark: "SparkSession") -> Callable[[], None]:
    """Let Spark not log how queries end. Returns what undoes it, for a session that goes on."""
    log4j = spark._jvm.org.apache.logging.log4j  # type: ignore[union-attr]  # noqa: SLF001 - there is no public way
    with contextlib.suppress(Exception):  # Another logging system: then it is as loud as its user wants it.
        before = log4j.LogManager.getLogger(QUERY_LOGGER).getLevel()
        log4j.core.config.Configurator.setLevel(QUERY_LOGGER, log4j.Level.OFF)

        def undo() -> None:
            with contextlib.suppress(Exception):  # Spark may be gone.
                log4j.core.config.Configurator.setLevel(QUERY_LOGGER, before)

        return undo
    return lambda: None
