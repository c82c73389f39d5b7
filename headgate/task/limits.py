"""How many rows the next batch of a running query may have.

One rule: a limit is set between two batches, in the hook, so that it holds from the next batch on. Spark writes down
where a batch ends before it runs, so a batch that is done again has the rows that it had, whatever the limit is then.

Spark keeps a limit for each source of a query and looks at it before every batch, but has no public way to change it.
All that is used of Spark's own is used here; where it is missing, batches keep the size with which the query began.
"""

import json
from collections.abc import Sequence
from typing import Any

from pyspark import SparkContext
from pyspark.sql.streaming.query import StreamingQuery

STREAMING = "org.apache.spark.sql.connector.read.streaming"
PYTHON = "org.apache.spark.sql.execution.datasources.v2.python"


class CannotSize(Exception):
    """This Spark does not let the limit of a running query be changed."""


def set_limits(query: StreamingQuery, rows: Sequence[int | None]) -> None:
    """Let the next batches have at most this many rows of all that the query reads, in its order.

    None: whatever it was. ``CannotSize`` if Spark has no such thing.
    """
    try:
        execution = query._jsq.streamingQuery()  # noqa: SLF001 - PySpark has no other way
        found = execution.sources()
        streams = [found.apply(index) for index in range(found.size())]
        limits = execution.uniqueSources()
        for stream, most in zip(streams, rows, strict=True):
            if most is not None:
                limits = limits.updated(stream, _limit(stream, most))
        getattr(execution, "uniqueSources_$eq")(limits)
    except Exception as error:
        raise CannotSize(f"{type(error).__name__}: {error}") from error


def _limit(stream: Any, rows: int) -> Any:
    """A limit as the stream knows it: one that is written in Python reads it from JSON."""
    jvm: Any = SparkContext._jvm  # noqa: SLF001 - as above
    if str(stream.getClass().getName()).startswith(PYTHON):
        name = f"{PYTHON}.PythonStreamingSourceReadLimit"
        return _class(jvm, name)(json.dumps({"max_rows": rows, "_type": "ReadMaxRows"}))
    return _class(jvm, f"{STREAMING}.ReadLimit").maxRows(rows)


def _class(jvm: Any, name: str) -> Any:
    found = jvm
    for part in name.split("."):
        found = getattr(found, part)
    return found
