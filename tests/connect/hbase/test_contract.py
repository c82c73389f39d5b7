"""What rows become in an HBase table, and that they are put over themselves."""

import hashlib
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession, functions as F  # noqa: N812 - as everywhere with Spark

from headgate.connect import hbase as connector
from headgate.errors import InvalidOption, UserError
from headgate.sink.api import TwoPhaseSink
from headgate.testing import CONTEXT, IdempotentContract, Row, context_in, write_id
from services.hbase import HBase

GOOD: dict[str, Any] = {"url": "https://host:8080", "table": "ns:orders", "row_key": "number", "family": "f"}


class TestHBaseSink(IdempotentContract):
    @pytest.fixture(autouse=True)
    def server(self, hbase: HBase) -> None:
        self.hbase = hbase

    def make_sink(self, place: Path) -> TwoPhaseSink:
        table = _table(place)
        if self.hbase.request("GET", f"/{table}/exists")[0] == 404:
            self.hbase.create_table(table, "f")
        return connector.sink(self.hbase.url, table=table, row_key="number", family="f", bulk_rows=3)

    def visible(self, place: Path) -> Sequence[Row]:
        return [(int(key), row["f:writer"].decode()) for key, row in self.hbase.rows(_table(place)).items()]


def _table(place: Path) -> str:
    return f"contract-{hashlib.sha256(str(place).encode()).hexdigest()[:12]}"


def test_a_row_is_cells_under_the_key_of_its_columns(spark: SparkSession, hbase: HBase) -> None:
    hbase.create_table("types", "f", "g")
    columns = {"text": "f:text", "at": "g:at", "list": "g:", "bytes": "g:bytes", "nothing": "f:nothing"}
    sink = connector.sink(hbase.url, table="types", row_key=["number", "text"], columns=columns)
    sink.open(CONTEXT)
    rows = spark.range(2).select(
        F.col("id").alias("number"),
        F.lit('a:b%\n"ü').alias("text"),
        F.expr("timestamp'2020-01-01 00:00:00.123456Z'").alias("at"),
        F.expr("array(1.5d, null)").alias("list"),
        F.expr("repeat('x', 200)").cast("binary").alias("bytes"),
        F.lit(None).cast("string").alias("nothing"),
    )
    sink.invoke(write_id(0), rows)
    assert hbase.rows("types") == {
        f'{number}:a%3Ab%25\n"ü'.encode(): {
            "f:text": 'a:b%\n"ü'.encode(),
            "g:at": b"1577836800123456",
            "g:": b"[1.5,null]",
            "g:bytes": b"x" * 200,
        }
        for number in range(2)
    }


def test_with_a_timestamp_a_row_that_is_put_again_is_the_same_cells(spark: SparkSession, hbase: HBase) -> None:
    hbase.create_table("stamped", "f", versions=5)
    sink = connector.sink(hbase.url, table="stamped", row_key="id", family="f", timestamp="at")
    sink.open(CONTEXT)
    for batch, (at, text) in enumerate([(7, "new"), (7, "new"), (5, "old")]):
        sink.invoke(write_id(batch), spark.range(1).select("id", F.lit(at).alias("at"), F.lit(text).alias("text")))
    assert list(hbase.cells("stamped")) == [(b"0", "f:text", 7, b"new"), (b"0", "f:text", 5, b"old")]


def test_cells_that_the_server_has_dated_are_covered_and_late_ones_are_hidden(
    spark: SparkSession, hbase: HBase, tmp_path: Path
) -> None:
    hbase.create_table("dated", "f")
    plain = connector.sink(hbase.url, table="dated", row_key="id", family="f", fenced=False)
    sink = connector.sink(hbase.url, table="dated", row_key="id", family="f")
    for each, when, text in (
        (plain, write_id(7), "before"),
        (sink, write_id(3, generation=2), "new"),
        (sink, write_id(8), "late"),
    ):
        each.open(context_in(tmp_path))
        each.invoke(when, spark.range(1).select("id", F.lit(text).alias("text")))
    assert hbase.rows("dated") == {b"0": {"f:text": b"new"}}
    assert not plain.fenced


def test_a_family_whose_cells_expire_is_refused_unless_late_rows_may_be_seen(hbase: HBase, tmp_path: Path) -> None:
    schema = {"name": "brief", "ColumnSchema": [{"name": "f", "TTL": "86400"}]}
    assert hbase.request("PUT", "/brief/schema", schema)[0] in (200, 201)
    with pytest.raises(InvalidOption, match=r"cells of family f in table brief expire after 86400 s.*fenced=False"):
        connector.sink(hbase.url, table="brief", row_key="id", family="f").open(context_in(tmp_path))
    for options in ({"fenced": False}, {"timestamp": "at"}):
        connector.sink(hbase.url, table="brief", row_key="id", family="f", **options).open(context_in(tmp_path))


def test_a_null_keeps_what_is_there_or_empties_it(spark: SparkSession, hbase: HBase) -> None:
    hbase.create_table("nulls", "f")
    full = spark.range(2).select("id", F.lit("a").alias("a"), F.lit("b").alias("b"))
    part = full.withColumn("b", F.lit(None).cast("string"))
    keep = connector.sink(hbase.url, table="nulls", row_key="id", family="f")
    keep.open(CONTEXT)
    keep.invoke(write_id(0), full)
    keep.invoke(write_id(1), part.withColumn("a", F.when(F.col("id") == 0, "new")))
    assert hbase.rows("nulls") == {b"0": {"f:a": b"new", "f:b": b"b"}, b"1": {"f:a": b"a", "f:b": b"b"}}
    empty = connector.sink(hbase.url, table="nulls", row_key="id", family="f", nulls="empty")
    empty.invoke(write_id(2), part)
    assert hbase.rows("nulls") == {key: {"f:a": b"a", "f:b": b""} for key in (b"0", b"1")}


def test_a_binary_key_is_taken_as_it_is_also_when_spark_breaks_long_texts(spark: SparkSession, hbase: HBase) -> None:
    hbase.create_table("binary", "f")
    sink = connector.sink(hbase.url, table="binary", row_key="key", family="f")
    spark.conf.set("spark.sql.chunkBase64String.enabled", "true")
    try:
        sink.invoke(
            write_id(0), spark.range(1).select(F.expr("unhex(repeat('00ff', 100))").alias("key"), F.lit(1).alias("v"))
        )
    finally:
        spark.conf.unset("spark.sql.chunkBase64String.enabled")
    assert hbase.rows("binary") == {b"\x00\xff" * 100: {"f:v": b"1"}}


@pytest.mark.parametrize("value", [None, ""])
def test_a_row_without_a_key_is_refused(spark: SparkSession, hbase: HBase, value: str | None) -> None:
    sink = connector.sink(hbase.url, table="nowhere", row_key="text", family="f")
    with pytest.raises(UserError, match="a row has no key, text is null or empty"):
        sink.invoke(write_id(0), spark.range(2).select("id", F.lit(value).cast("string").alias("text")))


def test_rows_that_do_not_fit_are_refused(spark: SparkSession) -> None:
    with pytest.raises(InvalidOption, match="there is no column 'number': the rows have id"):
        connector.sink(**GOOD).invoke(write_id(0), spark.range(2))
    with pytest.raises(InvalidOption, match="no column but their key"):
        connector.sink(**{**GOOD, "row_key": "id"}).invoke(write_id(0), spark.range(2))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"url": "host"}, "is not a valid address of a server"),
        ({"table": ""}, "is not a valid name of a table"),
        ({"table": "a/b"}, "is not a valid name of a table"),
        ({"table": None}, "is not a valid name of a table"),
        ({"row_key": []}, "names no column"),
        ({"family": None}, "give one of them"),
        ({"columns": {"a": "f:a"}}, "give one of them"),
        ({"family": "f:a"}, "is not a valid name of a column family"),
        ({"family": None, "columns": {}}, "says nothing"),
        ({"family": None, "columns": {"a": "f"}}, "is not a place for 'a': write family:qualifier"),
        ({"family": None, "columns": {"a": "f:a", "b": "f:a"}}, "two columns go to the same place"),
        ({"timestamp": ""}, "timestamp=.*names no column"),
        ({"nulls": "drop"}, "nulls='drop' is not known"),
        ({"user": "me"}, "user and password go together"),
        ({"bulk_rows": 0}, "bulk_rows=0 is too few"),
        ({"timeout": 0}, "timeout=0 is too short"),
    ],
)
def test_an_option_that_cannot_hold_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidOption, match=message):
        connector.sink(**{**GOOD, **options})


def test_the_password_is_not_shown_and_the_sink_can_be_pickled() -> None:
    sink = connector.sink(**GOOD, user="me", password="secret")  # noqa: S106 - not one
    again = pickle.loads(pickle.dumps(sink))  # noqa: S301 - our own
    assert again.describe() == "rows in HBase table ns:orders through https://host:8080, by number"
    assert "secret" not in repr(sink._place)
