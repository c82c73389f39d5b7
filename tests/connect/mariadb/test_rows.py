"""What arrives in the table is what was in the rows, by either way in, and with either sink."""

# ruff: noqa: S608 - names of our own

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from headgate.connect import mariadb as connect
from headgate.errors import HeadgateError, InvalidOption, UserError
from headgate.sink.api import TwoPhaseSink
from headgate.testing import context_in, pre_commit, write_id
from services.mariadb import MariaDB
from tests.connect.mariadb.places import DATABASE, build, make_table, xa

Make = Callable[..., TwoPhaseSink]

COLUMNS = (
    "n bigint, small tinyint, flag boolean, bits bit(1), money decimal(20,10), ratio double, single float, "
    "words text CHARACTER SET utf8mb4, latin varchar(20) CHARACTER SET latin1, raw blob, day date, at datetime(6), "
    "moment timestamp(6) NULL, made bigint AS (n + 1) VIRTUAL, other int DEFAULT 7"
)
SELECT = (
    "SELECT n, small, flag, bits + 0, money, ratio, single, words, latin, HEX(raw), day, at, "
    "CONVERT_TZ(moment, @@session.time_zone, '+00:00'), made, other"
)
ROWS = r"""
    SELECT 9223372036854775807L AS n, CAST(-128 AS TINYINT) AS small, true AS flag, true AS bits,
           CAST('-0.0000000001' AS DECIMAL(20,10)) AS money, 1.7976931348623157E308D AS ratio,
           CAST(0.1 AS FLOAT) AS single,
           concat('tab\tline\nback\\slash null\\N quote\' "double" percent%s ', unhex('00'), 'é😀') AS words,
           'naïve' AS latin, unhex('00FF5C090A27E9') AS raw, DATE'1000-01-01' AS day,
           TIMESTAMP'9999-12-31 23:59:59.999999Z' AS at, TIMESTAMP'2024-02-29 12:34:56.123456Z' AS moment
    UNION ALL SELECT 0L, 127Y, false, false, 1234567890.5BD, -0.5D, CAST(-1E10 AS FLOAT), '', '', unhex(''),
           DATE'9999-12-31', TIMESTAMP'1969-12-31 23:59:59Z', TIMESTAMP'2001-01-01 00:00:00+05:00'
    UNION ALL SELECT 1L, null, null, null, null, null, null, null, null, null, null, null, null
"""
EXPECTED = {
    (
        *("9223372036854775807", "-128", "1", "1", "-0.0000000001", "1.7976931348623157e308", "0.1"),
        *('tab\tline\nback\\slash null\\N quote\' "double" percent%s \0é😀', "naïve", "00FF5C090A27E9"),
        *("1000-01-01", "9999-12-31 23:59:59.999999", "2024-02-29 12:34:56.123456"),
    ),
    (
        *("0", "127", "0", "0", "1234567890.5000000000", "-0.5", "-10000000000", "", "", ""),
        *("9999-12-31", "1969-12-31 23:59:59.000000", "2000-12-31 19:00:00.000000"),
    ),
    ("1", *["NULL"] * 12),
}


@pytest.fixture(params=[True, False], ids=["load data", "insert"])
def server(request: pytest.FixtureRequest, mariadb: MariaDB) -> Iterator[MariaDB]:
    mariadb.query(f"SET GLOBAL local_infile = {int(request.param)}")
    yield mariadb
    mariadb.query("SET GLOBAL local_infile = 1")


def write_all(sink: TwoPhaseSink, place: Path, *batches: DataFrame) -> None:
    """Write batches, pre-commit them for one checkpoint, and commit."""
    sink.open(context_in(place))
    for number, batch in enumerate(batches):
        sink.begin_transaction(write_id(number))
        sink.invoke(write_id(number), batch)
    sink.commit(pre_commit(sink, 1, *(write_id(number) for number in range(len(batches)))))


@pytest.mark.parametrize("make", [connect.sink, xa])
def test_values_of_all_types_arrive_as_they_were(
    make: Make, server: MariaDB, spark: SparkSession, tmp_path: Path
) -> None:
    table = make_table(server, tmp_path, COLUMNS)
    write_all(build(make, server, table), tmp_path, spark.sql(ROWS))
    found = server.query(f"{SELECT} FROM {table}", DATABASE)
    assert {row[:13] for row in found} == EXPECTED
    assert {row[14] for row in found} == {"7"}


@pytest.mark.parametrize(
    ("columns", "value", "words"),
    [
        ("v tinyint", "300", "Out of range"),
        ("v varchar(3)", "'long'", "Data t"),
        ("v int NOT NULL", "CAST(null AS INT)", "null"),
        ("v int UNIQUE", "1", "Duplicate entry"),
        ("v decimal(5,1)", "1.25BD", "Data truncated"),
        ("v double", "CAST('NaN' AS DOUBLE)", "NaN"),
        ("v varchar(9) CHARACTER SET latin1", "'日本'", "Incorrect string value"),
    ],
    ids=["range", "length", "null", "unique", "digits", "nan", "letters"],
)
def test_a_value_that_does_not_fit_is_refused_and_nothing_is_written(
    columns: str, value: str, words: str, server: MariaDB, spark: SparkSession, tmp_path: Path
) -> None:
    table = make_table(server, tmp_path, columns)
    sink = build(xa, server, table)
    with pytest.raises(UserError, match=f"(?i){words}") as refused:
        write_all(sink, tmp_path, spark.range(0, 2, 1, 1).selectExpr(f"{value} AS v"))
    assert "\n" not in str(refused.value)
    assert server.query(f"SELECT * FROM {table}", DATABASE) == []


def test_staged_rows_that_do_not_fit_wait_until_the_table_takes_them(
    mariadb: MariaDB, spark: SparkSession, tmp_path: Path
) -> None:
    table = make_table(mariadb, tmp_path, "v tinyint")
    sink = build(connect.sink, mariadb, table)
    sink.open(context_in(tmp_path))
    sink.begin_transaction(write_id(0))
    sink.invoke(write_id(0), spark.sql("SELECT 1 AS v UNION ALL SELECT 300").coalesce(1))
    committable = pre_commit(sink, 1, write_id(0))
    with pytest.raises(UserError, match=r"cannot apply checkpoint 1 to table .* Out of range"):
        sink.commit(committable)
    assert mariadb.query(f"SELECT * FROM {table}", DATABASE) == []
    mariadb.query(f"ALTER TABLE {table} MODIFY v int", DATABASE)
    sink.commit(committable)
    assert sorted(mariadb.query(f"SELECT v FROM {table}", DATABASE)) == [("1",), ("300",)]


def test_with_a_key_the_later_row_takes_the_place_of_the_earlier(
    server: MariaDB, spark: SparkSession, tmp_path: Path
) -> None:
    table = make_table(server, tmp_path, "a int, b varchar(9), v int, kept int DEFAULT 5, UNIQUE (a, b)")
    server.query(f"INSERT INTO {table} VALUES (1, 'x', 0, 42), (9, 'z', 0, 9)", DATABASE)
    first = spark.sql("SELECT 1 AS A, 'x' AS b, 10 AS v UNION ALL SELECT 2, 'x', 20 UNION ALL SELECT 3, 'x', 30")
    second = spark.sql("SELECT 2 AS A, 'x' AS b, 21 AS v UNION ALL SELECT 3, 'y', 31")
    sink = build(connect.sink, server, table, key=["b", "a"], parallelism=3)
    write_all(sink, tmp_path, first, second)
    found = server.query(f"SELECT a, b, v, kept FROM {table} ORDER BY a, b", DATABASE)
    assert found == [
        ("1", "x", "10", "42"),
        ("2", "x", "21", "5"),
        ("3", "x", "30", "5"),
        ("3", "y", "31", "5"),
        ("9", "z", "0", "9"),
    ]


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ("SELECT 1 AS id, 2 AS elsewhere", "no column elsewhere that can be written: it has id, v"),
        ("SELECT 1 AS id, 2 AS made", "no column made"),
        ("SELECT 1 AS v", "column id of table .* has no default and the rows lack it"),
        ("SELECT 1 AS id, array(1) AS v", "column v is array<int>, for which MariaDB has no type"),
        ("SELECT 1 AS id, 2 AS v, 3 AS V", "same name"),
    ],
)
@pytest.mark.parametrize("make", [connect.sink, xa])
def test_rows_that_cannot_fit_are_refused_before_any_is_written(
    make: Make, rows: str, words: str, mariadb: MariaDB, spark: SparkSession, tmp_path: Path
) -> None:
    table = make_table(mariadb, tmp_path, "id int PRIMARY KEY, v int, made int AS (id + 1) STORED")
    sink = build(make, mariadb, table)
    sink.open(context_in(tmp_path))
    sink.begin_transaction(write_id(0))
    with pytest.raises(InvalidOption, match=words):
        sink.invoke(write_id(0), spark.sql(rows))


def test_the_key_must_be_one_of_the_table_and_of_the_rows(
    mariadb: MariaDB, spark: SparkSession, tmp_path: Path
) -> None:
    table = make_table(mariadb, tmp_path, "id int PRIMARY KEY, v int DEFAULT 0")
    with pytest.raises(InvalidOption, match=r"no primary key or unique index on \(v\)"):
        build(connect.sink, mariadb, table, key=["v"]).open(context_in(tmp_path))
    sink = build(connect.sink, mariadb, table, key=["id"])
    sink.open(context_in(tmp_path))
    sink.begin_transaction(write_id(0))
    with pytest.raises(HeadgateError, match="no column id, which is in the key"):
        sink.invoke(write_id(0), spark.sql("SELECT 1 AS v"))
