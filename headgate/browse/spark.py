"""Reads kept state through Spark's own state data source.

One rule: it is bounded. One question at a time; one task of Spark's at a time for each checkpoint that is read, so that
a running job keeps its other cores; no more rows than are asked for come back; and what takes too long is cancelled.
"""

import json
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession, functions as F  # noqa: N812 - the usual name
from pyspark.sql.types import MapType, StructField, StructType

from headgate import layout
from headgate.browse import kept
from headgate.browse.kept import ALL, JOIN, TIMERS, KeptCheckpoint
from headgate.browse.reader import KeptOperator, StateQuestion, changes, refuse_column
from headgate.errors import ExternalError
from headgate.store.jobstore import JobStore

AS_IT_IS = {"ignoreNullFields": "false"}
PARTITION = "partition_id"


class StateReaderBusy(ExternalError):
    """Somebody else's question is being answered."""


class SparkStateReader:
    """Of one job, with a session that runs. ``scratch`` is a directory that all executors share; None: this
    machine's.
    """

    def __init__(self, spark: SparkSession, store: JobStore, scratch: Path | None = None) -> None:
        """Nothing is read yet."""
        self._spark = spark
        self._store = store
        self._scratch = scratch
        self._one = threading.Lock()

    def operators(self, checkpoint: int) -> Sequence[KeptOperator]:
        """See ``StateReader``. Asks Spark for nothing."""
        return kept.operators(self._store, kept.find(self._store, checkpoint))

    def rows(self, checkpoint: int, question: StateQuestion) -> tuple[list[dict[str, Any]], bool]:
        """See ``StateReader``."""
        with (
            self._asking(question, checkpoint) as go_on,
            self._read(kept.find(self._store, checkpoint), question, go_on) as (frame, _),
        ):
            found = frame.select(PARTITION, _json("key").alias("key"), _value(frame).alias("value"))
            rows = found.limit(question.limit + 1).collect()
        told = [
            {"partition": row[PARTITION], "key": json.loads(row["key"]), "value": json.loads(row["value"])}
            for row in rows[: question.limit]
        ]
        return told, len(rows) > question.limit

    def difference(self, before: int, after: int, question: StateQuestion) -> tuple[list[dict[str, Any]], bool]:
        """See ``StateReader``. Both are read whole."""
        first, second = (kept.find(self._store, number) for number in (before, after))
        with (
            self._asking(question, before, after) as go_on,
            self._read(first, question, go_on) as (was, session),
            self._read(second, question, go_on, session) as (now, _),
        ):
            many = question.operator.kind == JOIN or question.state == TIMERS
            left, right = _by_key(was, "before", many=many), _by_key(now, "after", many=many)
            differ = left.join(right, "key", "full_outer").where(~F.col("before").eqNullSafe(F.col("after")))
            rows = differ.limit(question.limit + 1).collect()
        told = [
            {name: None if row[name] is None else json.loads(row[name]) for name in ("key", "before", "after")}
            for row in rows[: question.limit]
        ]
        return changes(told), len(rows) > question.limit

    @contextmanager
    def _read(
        self,
        checkpoint: KeptCheckpoint,
        question: StateQuestion,
        go_on: Callable[[], None],
        session: SparkSession | None = None,
    ) -> Iterator[tuple[DataFrame, SparkSession]]:
        """Rows of one operator's state in a checkpoint, and the session that reads them."""
        operator = kept.same(self._store, checkpoint, question.operator)
        snapshot = checkpoint.snapshot_of(operator)
        with kept.materialized(self._store, checkpoint, operator, self._scratch, go_on) as query:
            asking = session or self._session(layout.read_offsets(query, snapshot.batch))
            reader = asking.read.format("statestore").option("batchId", int(snapshot.batch))
            for name, value in options_of(operator, question.state).items():
                reader = reader.option(name, value)
            frame = reader.load(str(query)).coalesce(1)
            for column, value in question.keys:
                frame = frame.where(_column_of_key(frame.schema, column).cast("string") == value)
            yield frame, asking

    def _session(self, offsets: layout.Offsets) -> SparkSession:
        """With the settings that the query began with. Times are in UTC."""
        found = self._spark.newSession()
        for name, value in offsets.metadata.get("conf", {}).items():
            found.conf.set(name, str(value))
        found.conf.set("spark.sql.session.timeZone", "UTC")
        found.conf.set("spark.sql.shuffle.partitions", "1")
        found.conf.set("spark.sql.adaptive.enabled", "false")
        return found

    @contextmanager
    def _asking(self, question: StateQuestion, *checkpoints: int) -> Iterator[Callable[[], None]]:
        """Alone, and not for longer than is asked for: what is given raises when that time is over."""
        timeout_s = question.timeout_s
        if not self._one.acquire(blocking=False):
            raise StateReaderBusy("another question about state is being answered: try again when it is done")
        context, group = self._spark.sparkContext, f"headgate-state-{uuid.uuid4().hex}"
        late = threading.Event()
        too_late = ExternalError(
            f"the state was not read within {timeout_s:g} s: ask for fewer rows, or give it longer"
        )

        def go_on() -> None:
            if late.is_set():
                raise too_late

        def cancel() -> None:
            late.set()
            context._jsc.sc().cancelJobGroupAndFutureJobs(group)  # noqa: SLF001 - none may have begun yet

        timer = threading.Timer(timeout_s, cancel)
        timer.daemon = True
        try:
            context.setJobGroup(group, "state of a kept checkpoint", interruptOnCancel=True)
            timer.start()
            yield go_on
        except (PySparkException, Py4JError) as error:
            if late.is_set():
                raise too_late from error
            for number in checkpoints:
                kept.find(self._store, number)  # Or it was subsumed meanwhile, and says so.
            raise ExternalError(f"Spark cannot read the state: {_first_line(error)}") from error
        finally:
            timer.cancel()
            for name in ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel"):
                context._jsc.setLocalProperty(name, None)  # noqa: SLF001 - Spark's way to take one away
            self._one.release()


def options_of(operator: KeptOperator, state: str) -> dict[str, str]:
    """How Spark's reader calls a state."""
    found = {"operatorId": str(operator.number)}
    if operator.kind == JOIN:
        return {**found, "joinSide": state}
    if state == ALL:
        return found
    if state == TIMERS:
        return {**found, "readRegisteredTimers": "true"}
    return {**found, "stateVarName": state, "flattenCollectionTypes": "false"}


def _value(frame: DataFrame) -> Column:
    """All that is not the key, as JSON: the value alone, if there is nothing else."""
    names = [name for name in frame.columns if name not in ("key", PARTITION)]
    if names == ["value"]:
        return _json("value")
    return F.to_json(F.struct(*(_shown(frame.schema[name]).alias(name) for name in names)), AS_IT_IS)


def _shown(field: StructField) -> Column:
    """A map as its entries in the order of their keys: JSON has no place for keys that are rows."""
    if not isinstance(field.dataType, MapType):
        return F.col(field.name)
    entries = F.map_entries(F.col(field.name))
    return entries if "map<" in field.dataType.valueType.simpleString() else F.sort_array(entries)


def _json(name: str) -> Column:
    return F.to_json(F.col(name), AS_IT_IS)


def _by_key(frame: DataFrame, name: str, *, many: bool) -> DataFrame:
    """The value of each key as JSON; all of them, in a fixed order, where a key may have several."""
    found = frame.select(_json("key").alias("key"), _value(frame).alias(name))
    if not many:
        return found
    together = F.concat_ws(",", F.sort_array(F.collect_list(name)))
    return found.groupBy("key").agg(F.concat(F.lit("["), together, F.lit("]")).alias(name))


def _column_of_key(schema: StructType, name: str) -> Column:
    """A column of the key, which may be inside another: ``window.start``."""
    kind: Any = schema["key"].dataType
    for part in name.split("."):
        if not isinstance(kind, StructType) or part not in kind.names:
            raise refuse_column(name, columns_of(schema["key"].dataType))
        kind = kind[part].dataType
    return F.col(".".join(["key", *(f"`{part}`" for part in name.split("."))]))


def columns_of(kind: Any, under: str = "") -> list[str]:
    """The columns of a key, and those inside them."""
    found: list[str] = []
    for field in kind.fields if isinstance(kind, StructType) else ():
        inner = columns_of(field.dataType, f"{under}{field.name}.")
        found += inner or [f"{under}{field.name}"]
    return found


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:400]
