"""From Spark's columns to the table's, through both sinks. Read back by psql."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import col, lit

from headgate.connect import postgres as connector
from headgate.errors import ExternalError, InvalidOption, UserError
from headgate.testing import context_in, pre_commit, write, write_id
from services.postgres import Postgres
from tests.connect.postgres.databases import TABLE, Database


def test_columns_go_by_name_or_as_told_and_in_the_form_of_the_table(
    spark: SparkSession, database: Database, tmp_path: Path
) -> None:
    database.query(
        'CREATE SCHEMA "Odd"; CREATE TABLE "Odd"."My table" ("a key" int, "Doc" jsonb, at timestamp, day timestamptz, '
        "note text, tags text[], price numeric(10,2), id bigint GENERATED ALWAYS AS IDENTITY)"
    )
    mapping = {"k.ey": "a key", "doc": "Doc", "at": "at", "day": "day", "note": "note", "tags": "tags", "p": "price"}
    sink = connector.sink(database.dsn, table='"Odd"."My table"', columns=mapping, parallelism=1)
    sink.open(context_in(tmp_path))
    frame = spark.sql(
        "SELECT id AS `k.ey`, struct(id AS a, array('x') AS b) AS doc, timestamp'2026-01-31 12:00:00' AS at, "
        "date'2026-02-01' AS day, id * 10 AS note, array('t', null) AS tags, cast(id AS decimal(10, 2)) AS p, "
        "'nobody' AS unused FROM range(0, 4, 1, 2)"
    )
    sink.begin_transaction(write_id(0))
    sink.invoke(write_id(0), frame)
    assert len(database.prepared()) == 1
    sink.commit(pre_commit(sink, 1, write_id(0)))
    sink.close()
    zone = spark.conf.get("spark.sql.session.timeZone")
    database.query(f"ALTER DATABASE {database.name} SET timezone = '{zone}'")
    found = database.query('TABLE "Odd"."My table" ORDER BY 1')
    assert [row[0] for row in found] == ["0", "1", "2", "3"]
    assert found[1][1:7:1] == (
        '{"a": 1, "b": ["x"]}', "2026-01-31 12:00:00", found[1][3], "10", "{t,NULL}", "1.00"
    )  # fmt: skip
    assert found[1][3].startswith("2026-02-01 00:00:00")


def test_rows_that_do_not_match_the_table_are_refused_by_name(
    spark: SparkSession, database: Database, tmp_path: Path
) -> None:
    database.query(
        f"CREATE TABLE {TABLE} (number bigint, writer text NOT NULL, "
        "twice bigint GENERATED ALWAYS AS (number * 2) STORED)"
    )
    sink = database.sink()
    sink.open(context_in(tmp_path))
    rows = spark.range(3).select(col("id").alias("number"), lit("x").alias("writer"))
    for frame, said in (
        (rows.withColumn("colour", lit(1)), "has no column colour: it has number, writer, twice"),
        (rows.withColumn("twice", lit(1)), "column twice of table public.numbers is worked out by PostgreSQL"),
        (rows.drop("writer"), "needs a value in writer, and the rows have none"),
        (rows.select("number", "writer", lit(1).alias("number")), "two columns of the rows have the same name"),
    ):
        sink.begin_transaction(write_id(0))
        with pytest.raises(InvalidOption, match=said):
            sink.invoke(write_id(0), frame)
    with pytest.raises(UserError, match=r'sink sink: cannot write batch 0 .* null value in column "writer"') as refused:
        sink.invoke(write_id(0), rows.withColumn("writer", lit(None).cast("string")))
    assert "\n" not in str(refused.value)
    assert database.prepared() == []
    sink.close()


def test_a_batch_waits_for_room_and_says_what_to_raise(spark: SparkSession, tmp_path: Path) -> None:
    with Postgres(tmp_path / "server", max_prepared_transactions=3) as server:
        database = Database(server, "postgres")
        database.make_table()
        database.query("BEGIN; CREATE TABLE other (x int); PREPARE TRANSACTION 'a foreign one'")
        sink = database.sink(wait="1s")
        context = context_in(tmp_path)
        sink.open(context)
        write(sink, spark, write_id(0), partitions=2)
        committable = pre_commit(sink, 1, write_id(0))
        assert sink.has_room(write_id(0)), "nothing of another batch would make any"
        assert not sink.has_room(write_id(1)), "a commit would make some"
        with pytest.raises(ExternalError, match="no room for another prepared transaction for 1 s: raise max_prepared"):
            write(sink, spark, write_id(1))
        sink.commit(committable)
        assert sink.has_room(write_id(1))
        write(sink, spark, write_id(1), partitions=2)
        with pytest.raises(InvalidOption, match="max_prepared_transactions = 3 is less than parallelism=4"):
            database.sink(parallelism=4).open(context)
        sink.close()


def test_an_upsert_keeps_the_last_row_of_a_key(spark: SparkSession, database: Database, tmp_path: Path) -> None:
    database.make_table(key=True)
    database.query("INSERT INTO numbers VALUES (1, 'older'), (9, 'untouched')")
    sink = connector.sink(database.dsn, table=TABLE, mode="upsert", key=["number"], parallelism=2)
    sink.open(context_in(tmp_path))
    rows = [(2, "first"), (1, "first"), (2, "last"), (1, "last")]
    sink.invoke(write_id(0), spark.createDataFrame(rows, "number long, writer string").coalesce(1))
    assert sorted(database.rows()) == [(1, "last"), (2, "last"), (9, "untouched")]


def test_upserts_that_meet_in_the_table_all_arrive(spark: SparkSession, database: Database, tmp_path: Path) -> None:
    database.make_table(key=True)
    sink = connector.sink(database.dsn, table=TABLE, mode="upsert", key=["number"])
    sink.open(context_in(tmp_path))
    numbers = spark.range(0, 20_000, 1, 2)
    both = numbers.select((col("id") % 10_000).alias("number"), lit("w").alias("writer"))
    sink.invoke(write_id(0), both)
    assert database.query("SELECT count(*), sum(number) FROM numbers") == [("10000", "49995000")]


def test_a_row_without_its_key_is_refused(spark: SparkSession, database: Database, tmp_path: Path) -> None:
    database.query(f"CREATE TABLE {TABLE} (number bigint UNIQUE, writer text)")
    sink = connector.sink(database.dsn, table=TABLE, mode="upsert", key=["number"])
    sink.open(context_in(tmp_path))
    frame = spark.range(3).select(lit(None).cast("long").alias("number"), lit("x").alias("writer"))
    with pytest.raises(UserError, match="a row has no number, which is its key"):
        sink.invoke(write_id(0), frame)
    with pytest.raises(InvalidOption, match="the rows have no number, which is their key"):
        sink.invoke(write_id(0), frame.drop("number"))
    assert database.rows() == []
