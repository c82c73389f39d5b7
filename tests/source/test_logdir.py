"""A directory of files, through Spark: every row once, whatever happens between two batches."""

import gzip
import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from headgate import files
from headgate.errors import BadStorage, InvalidOption
from tests.source.streams import Stream

SCHEMA = "n BIGINT, name STRING, at TIMESTAMP"


def at(n: int) -> datetime:
    return datetime.fromtimestamp(1_700_000_000 + n, UTC)


def put(directory: Path, file: str, kind: str, first: int, end: int) -> None:
    """Add a file with rows ``first`` up to ``end``, as a writer should: under another name first."""
    numbers = range(first, end)
    hidden = directory / f".{file}"
    if kind == "parquet":
        columns = {"name": [f"name {n}" for n in numbers], "at": [at(n) for n in numbers], "n": list(numbers)}
        pq.write_table(pa.table(columns), hidden, row_group_size=7)
    elif kind == "json":
        lines = [json.dumps({"n": n, "other": [n], "name": f"name {n}", "at": at(n).isoformat()}) for n in numbers]
        hidden.write_text("\n".join(lines), encoding="utf-8")
    elif kind == "csv":
        lines = ["at,n,name", *(f'{at(n).isoformat()},{n},"name {n}"' for n in numbers)]
        hidden.write_text("\n".join(lines) + "\n", encoding="utf-8")
    else:
        hidden.write_text("".join(f"{n}\r\n" for n in numbers), encoding="utf-8")
    hidden.rename(directory / file)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    made = tmp_path / "log"
    made.mkdir()
    return made


@pytest.mark.parametrize("kind", ["json", "parquet"])
def test_every_row_comes_once_and_in_order_through_a_crash_and_another_batch_size(
    spark: SparkSession, tmp_path: Path, directory: Path, kind: str
) -> None:
    for file, first, end in (("a", 0, 20), ("b", 20, 20), ("c", 20, 23), ("d", 23, 50)):
        put(directory, file, kind, first, end)
    stream = Stream(spark, tmp_path / "checkpoint")
    stream.run(files.source(directory, format=kind, schema=SCHEMA, rows_per_batch=7), crash_in=2)
    put(directory, "e", kind, 50, 60)
    stream.run(files.source(directory, format=kind, schema=SCHEMA, rows_per_batch=11, bounded=True))
    assert stream.entered == [0, 1, 2, 2, 3, 4, 5, 6]
    assert [len(stream.batches[batch]) for batch in sorted(stream.batches)] == [7, 7, 7, 11, 11, 11, 6]
    assert [(row.n, row.name, row.at.astimezone(UTC)) for row in stream.rows] == [
        (n, f"name {n}", at(n)) for n in range(60)
    ]
    assert json.loads(stream.committed_offset() or "") == {"file": "e", "row": 10, "files": 5}


@pytest.mark.parametrize(("kind", "schema"), [("csv", "n STRING, at TIMESTAMP"), ("text", "n STRING")])
def test_csv_and_text_come_once_and_in_order(
    spark: SparkSession, tmp_path: Path, directory: Path, kind: str, schema: str
) -> None:
    put(directory, "a", kind, 0, 20)
    put(directory, "b", kind, 20, 30)
    stream = Stream(spark, tmp_path / "checkpoint")
    stream.run(files.source(directory, format=kind, schema=schema, rows_per_batch=13, bounded=True))
    assert [row.n for row in stream.rows] == [str(n) for n in range(30)]
    assert kind == "text" or [row.at.astimezone(UTC) for row in stream.rows] == [at(n) for n in range(30)]


def test_a_file_that_comes_while_the_query_waits_is_read_and_a_late_one_stops_it(
    spark: SparkSession, tmp_path: Path, directory: Path
) -> None:
    put(directory, "b", "json", 0, 5)
    (directory / "c.tmp").write_text("not finished", encoding="utf-8")

    def add(stream: Stream) -> bool:
        if len(stream.rows) == 5:
            put(directory, "c", "json", 5, 8)
        elif len(stream.rows) == 8:
            put(directory, "a", "json", 8, 9)
        return False

    source = files.source(directory.as_uri(), schema="n BIGINT")
    stream = Stream(spark, tmp_path / "checkpoint")
    with pytest.raises(StreamingQueryException, match=r"BadStorage: .*'a' came late: it sorts before 'c'"):
        stream.run(source, until=add)
    assert [row.n for row in stream.rows] == list(range(8))
    (directory / "a").rename(directory / "d")
    stream.run(files.source(directory, schema="n BIGINT", bounded=True))
    assert [row.n for row in stream.rows] == list(range(9))


def test_a_row_that_does_not_fit_stops_the_query_by_name_until_it_is_corrected(
    spark: SparkSession, tmp_path: Path, directory: Path
) -> None:
    put(directory, "a", "json", 0, 10)
    good = (directory / "a").read_text(encoding="utf-8")
    (directory / "a").write_text(good.replace('"n": 6', '"n": "six"'), encoding="utf-8")
    stream = Stream(spark, tmp_path / "checkpoint")
    source = files.source(directory, schema="n BIGINT", rows_per_batch=4, bounded=True)
    with pytest.raises(StreamingQueryException, match=r"BadStorage: .*row 7 of 'a' does not fit the schema"):
        stream.run(source)
    (directory / "a").write_text(good, encoding="utf-8")
    stream.run(source)
    assert [row.n for row in stream.rows] == list(range(10))


@pytest.mark.parametrize(
    ("schema", "kind", "message"),
    [
        ("n BIGNUM", "json", "which Spark does not have"),
        ("BIGINT", "json", "has no type"),
        ("n BIGINT NOT NULL", "parquet", "NOT NULL"),
        ("a STRUCT<b: INT NOT NULL>", "json", "NOT NULL"),
        ("n BIGINT", "text", "does not fit text"),
        ("m MAP<STRING, INT>", "json", "json cannot hold the column 'm'"),
        ("b BINARY", "csv", "csv cannot hold the column 'b'"),
        ("a ARRAY<INT>", "csv", "csv cannot hold the column 'a'"),
    ],
)
def test_a_schema_that_cannot_be_read_is_refused_at_the_start(
    spark: SparkSession, tmp_path: Path, schema: str, kind: str, message: str
) -> None:
    with pytest.raises(InvalidOption, match=message):
        files.source(tmp_path, format=kind, schema=schema).load(spark, None)


def test_a_directory_that_is_not_there_or_would_never_end_is_refused_at_the_start(
    spark: SparkSession, tmp_path: Path
) -> None:
    with pytest.raises(BadStorage, match="there is no directory"):
        files.source(tmp_path / "none", schema="n BIGINT").load(spark, None)
    with pytest.raises(BadStorage, match="holds no files"):
        files.source(tmp_path, schema="n BIGINT", bounded=True).load(spark, None)


def test_options_that_cannot_hold_are_refused() -> None:
    with pytest.raises(InvalidOption, match="format is 'xml'"):
        files.source("/data", format="xml", schema="n BIGINT")
    with pytest.raises(InvalidOption, match="rows_per_batch is 0"):
        files.source("/data", schema="n BIGINT", rows_per_batch=0)
    with pytest.raises(InvalidOption, match="not a local directory"):
        files.source("s3a://bucket/data", schema="n BIGINT")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"mode": "LENIENT"}, "mode is 'LENIENT': give one of PERMISSIVE, DROPMALFORMED, FAILFAST"),
        ({"format": "text", "mode": "PERMISSIVE"}, "mode='PERMISSIVE' is for json and csv, not for text: leave it out"),
        ({"format": "json", "header": False}, "header=False is for csv, not for json: leave it out"),
        ({"format": "parquet", "sep": ";"}, "sep=';' is for csv, not for parquet: leave it out"),
        ({"format": "csv", "header": "yes"}, "header is 'yes': give True or False"),
        ({"format": "csv", "sep": "::"}, "sep is '::': give one character of ASCII"),
        ({"format": "csv", "sep": ""}, "sep is '': give one character of ASCII"),
        ({"format": "csv", "sep": '"'}, "give one character of ASCII"),
    ],
)
def test_how_files_are_written_is_judged_where_it_is_said(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidOption, match=re.escape(said)) as error:
        files.source("/data", schema="n BIGINT", **options)
    assert "\n" not in str(error.value)


def test_a_column_for_lines_that_do_not_fit_is_text(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("{}\n", encoding="utf-8")
    source = files.source(tmp_path, schema="n BIGINT, _corrupt_record BIGINT", mode="PERMISSIVE")
    with pytest.raises(InvalidOption, match="declare it as STRING"):
        source.load(spark, None)


def test_forgiving_and_compressed_files_are_read_as_spark_reads_them(
    spark: SparkSession, tmp_path: Path, directory: Path
) -> None:
    """With the same options Spark's own reader gives the same rows, but for the order of its files."""
    lines = [f"{n};name {n}" for n in range(30)]
    lines[7], lines[20] = "seven;name", "a;b;c"
    with gzip.open(directory / "a.csv.gz", "wt", encoding="utf-8") as out:
        out.write("\n".join(lines[:15]) + "\n")
    (directory / "b.csv").write_text("\n".join(lines[15:]) + "\n", encoding="utf-8")
    options: dict[str, Any] = {"header": False, "sep": ";", "mode": "DROPMALFORMED"}
    stream = Stream(spark, tmp_path / "checkpoint")
    source = files.source(
        directory, format="csv", schema="n BIGINT, name STRING", rows_per_batch=4, bounded=True, **options
    )
    stream.run(source)
    theirs = spark.read.schema("n BIGINT, name STRING").csv(str(directory), **options).collect()
    assert sorted(map(tuple, theirs)) == sorted(map(tuple, stream.rows))
    assert len(theirs) == 28


def test_a_source_of_files_says_what_it_is() -> None:
    source = files.source("file:///data/in%20here", schema="n BIGINT", rows_per_batch=5, bounded=True)
    assert source.describe() == "files of /data/in here (json, at most 5 rows a batch, to the end of what is there)"
    assert source.replayable
    assert source.trigger_ms is None
