"""What Arrow has arrives in PostgreSQL as it is, in binary form where there is one. Read back by psql."""

import random
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from uuid import uuid4

import psycopg
import pyarrow as pa
import pytest
from psycopg import sql

from headgate.connect.postgres.copying import copy_rows
from headgate.connect.postgres.fields import encoder
from headgate.connect.postgres.table import PostgresTable, read_table
from headgate.errors import InvalidOption, UserError
from services.postgres import Postgres
from tests.connect.postgres.databases import Database

INSTANT = datetime(2026, 1, 31, 23, 59, 59, 123456, tzinfo=UTC)
OLD = datetime(1969, 7, 20, 20, 17, 40, tzinfo=UTC)


@pytest.fixture(scope="module")
def shared(postgres: Postgres) -> Iterator[Database]:
    made = Database(postgres, f"test_{uuid4().hex[:12]}")
    made.create()
    made.query("CREATE TYPE mood AS ENUM ('sad', 'happy'); CREATE DOMAIN positive AS int CHECK (value > 0)")
    yield made
    made.drop()


@pytest.fixture
def database(shared: Database) -> Database:
    shared.query("DROP TABLE IF EXISTS t")
    return shared


def copied(database: Database, table: str, columns: Sequence[pa.Array], *, binary: bool = True) -> PostgresTable:
    """Write one batch, and once more as a slice of a larger one, so that offsets count."""
    with closing(psycopg.connect(database.dsn, autocommit=True)) as connection:
        read = read_table(connection, table, who="test", rights=("INSERT",))
        batch = pa.RecordBatch.from_arrays(list(columns), names=[column.name for column in read.columns])
        encoders = [encoder(kind, column.type) for kind, column in zip(batch.schema.types, read.columns, strict=True)]
        assert all(encoders) == binary
        larger = pa.Table.from_batches([batch, batch]).combine_chunks().to_batches()[0]
        into = sql.Identifier(read.schema, read.name)
        batches = iter([batch, larger.slice(batch.num_rows)])
        assert copy_rows(connection, into, read.columns, batches) == 2 * batch.num_rows
    return read


@pytest.mark.parametrize(
    ("kind", "array", "shown"),
    [
        ("boolean", pa.array([True, None, False]), ["t", "", "f"]),
        ("smallint", pa.array([-32768, None, 32767], pa.int64()), ["-32768", "", "32767"]),
        ("integer", pa.array([-(2**31), None, 2**31 - 1], pa.int32()), ["-2147483648", "", "2147483647"]),
        ("bigint", pa.array([-(2**63), None, 7], pa.int64()), [str(-(2**63)), "", "7"]),
        ("bigint", pa.array([1, None, 7], pa.int8()), ["1", "", "7"]),
        ("real", pa.array([1.5, None, float("-inf")], pa.float32()), ["1.5", "", "-Infinity"]),
        ("double precision", pa.array([0.1, None, float("nan")]), ["0.1", "", "NaN"]),
        ("double precision", pa.array([Decimal("0.25"), None, Decimal(-3)]), ["0.25", "", "-3"]),
        ("text", pa.array(["grün\t\\N", None, ""]), ["grün\t\\N", "", ""]),
        ("text", pa.array(["large", None, ""], pa.large_string()), ["large", "", ""]),
        ("varchar(5)", pa.array(["abc", None, "abcde"]), ["abc", "", "abcde"]),
        ("mood", pa.array(["happy", None, "sad"]), ["happy", "", "sad"]),
        ("bytea", pa.array([b"\x00\xff", None, b""]), ["\\x00ff", "", "\\x"]),
        ("timestamptz", pa.array([INSTANT, None, OLD], pa.timestamp("us", "Asia/Tokyo")),
         ["2026-01-31 23:59:59.123456+00", "", "1969-07-20 20:17:40+00"]),
        ("timestamp", pa.array([INSTANT.replace(tzinfo=None), None, OLD.replace(tzinfo=None)], pa.timestamp("us")),
         ["2026-01-31 23:59:59.123456", "", "1969-07-20 20:17:40"]),
        ("date", pa.array([date(2026, 2, 28), None, date(1, 1, 1)]), ["2026-02-28", "", "0001-01-01"]),
        ("time", pa.array([time(23, 59, 59, 5), None, time(0)], pa.time64("ns")), ["23:59:59.000005", "", "00:00:00"]),
        ("interval", pa.array([timedelta(hours=25), None, timedelta(seconds=-1)], pa.duration("us")),
         ["25:00:00", "", "-00:00:01"]),
        ("numeric", pa.array([Decimal("12345678.90"), None, Decimal("-0.01")], pa.decimal128(10, 2)),
         ["12345678.90", "", "-0.01"]),
        ("numeric", pa.array([0, None, -(2**63)], pa.int64()), ["0", "", str(-(2**63))]),
        ("numeric(6,2)", pa.array([Decimal("1.005"), None, Decimal("9999.99")], pa.decimal128(7, 3)),
         ["1.01", "", "9999.99"]),
        ("json", pa.array(['{"a": 1}', None, "[]"]), ['{"a": 1}', "", "[]"]),
        ("jsonb", pa.array(['{"a":1}', None, "[]"]), ['{"a": 1}', "", "[]"]),
        ("uuid", pa.array(["A0EEBC99-9c0b-4ef8-bb6d-6bb9bd380a11", None, "a0eebc999c0b4ef8bb6d6bb9bd380a12"]),
         ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a12"]),
        ("positive", pa.array([1, None, 2], pa.int64()), ["1", "", "2"]),
        ("integer[]", pa.array([[1, None, 3], None, []], pa.list_(pa.int32())), ["{1,NULL,3}", "", "{}"]),
        ("text[]", pa.array([["a", "b,c"], None, [""]]), ['{a,"b,c"}', "", '{""}']),
    ],
)  # fmt: skip
def test_a_value_arrives_as_it_is_in_binary_form(
    kind: str, array: pa.Array, shown: list[str], database: Database
) -> None:
    database.query(f"CREATE TABLE t (before text, value {kind}, number int)")
    copied(database, "t", [pa.array(["x", "yy", None]), array, pa.array([0, 1, 2])])
    found = database.query("SET timezone = 'UTC'; SELECT value, before, number FROM t ORDER BY number, before")
    expected = [(value, before, str(i)) for i, (value, before) in enumerate(zip(shown, ["x", "yy", ""], strict=True))]
    assert found == [row for row in expected for _ in range(2)]
    assert database.query("SELECT count(*) FROM t WHERE value IS NULL") == [("2",)]


def test_decimals_of_any_precision_and_scale_arrive_exactly(database: Database) -> None:
    chance = random.Random(11)
    for precision, scale in [(1, 0), (4, 4), (5, 1), (9, 9), (15, 3), (18, 18), (19, 1), (38, 0), (38, 18), (38, 38)]:
        edge = 10**precision - 1
        whole = [0, 1, -1, edge, -edge, *(chance.randint(-edge, edge) for _ in range(40))]
        whole += [chance.randint(1 - 10 ** chance.randint(1, precision), edge) for _ in range(40)]
        values = [Decimal(f"{number}E-{scale}") for number in whole]
        name = f"d_{precision}_{scale}"
        database.query(f"CREATE TABLE {name} (value numeric)")
        copied(database, name, [pa.array(values, pa.decimal128(precision, scale))])
        found = sorted(Decimal(value) for (value,) in database.query(f"TABLE {name}"))
        assert found == sorted([*values, *values])
        assert database.query(f"SELECT DISTINCT scale(value) FROM {name}") == [(str(scale),)]  # noqa: S608


def test_a_type_without_a_binary_form_takes_the_whole_copy_to_text(database: Database) -> None:
    database.query("CREATE TABLE t (address inet, note text, data bytea, at timestamptz, price numeric, number int)")
    columns = [
        pa.array(["10.0.0.1", None, "::1"]),
        pa.array(["tab\tline\nback\\slash", None, "\\N"]),
        pa.array([b"\x00\\", None, b""]),
        pa.array([INSTANT, None, OLD], pa.timestamp("us", "UTC")),
        pa.array([0.1, None, 1e30]),
        pa.array([0, 1, 2]),
    ]
    copied(database, "t", columns, binary=False)
    found = database.query(
        "SET timezone = 'UTC'; SELECT DISTINCT host(address), note, data, at, price, number FROM t ORDER BY number"
    )
    assert found == [
        ("10.0.0.1", "tab\tline\nback\\slash", "\\x005c", "2026-01-31 23:59:59.123456+00", "0.1", "0"),
        ("", "", "", "", "", "1"),
        ("::1", "\\N", "\\x", "1969-07-20 20:17:40+00", "1" + "0" * 30, "2"),
    ]
    assert database.query("SELECT count(*) FROM t WHERE note IS NULL AND data IS NULL") == [("2",)]


@pytest.mark.parametrize(
    ("kind", "array", "said"),
    [
        ("smallint", pa.array([40_000]), "column value of type smallint cannot take a value: .*40000"),
        ("real", pa.array([1e300]), "too large for a column of type real"),
        ("uuid", pa.array(["zz"]), "'zz' is not a valid uuid"),
        ("uuid", pa.array(["x" * 32]), "is not a valid uuid"),
    ],
)
def test_a_value_that_does_not_fit_is_refused(kind: str, array: pa.Array, said: str, database: Database) -> None:
    database.query(f"CREATE TABLE t (value {kind})")
    with pytest.raises(UserError, match=said):
        copied(database, "t", [array])
    assert database.query("SELECT * FROM t") == []


def test_what_has_no_form_at_all_is_refused(database: Database) -> None:
    database.query("CREATE TABLE t (value point)")
    with pytest.raises(InvalidOption, match=r"column value: struct<.*turn it into a text or JSON"):
        copied(database, "t", [pa.array([{"x": 1}])], binary=False)


def test_large_batches_are_laid_out_in_pieces(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headgate.connect.postgres.copying.PIECE_BYTES", 1_000)
    database.query("CREATE TABLE t (number bigint, note text)")
    numbers = list(range(1_000))
    copied(database, "t", [pa.array(numbers), pa.array([str(number) if number % 3 else None for number in numbers])])
    found = database.query("SELECT count(*), sum(number), count(note) FROM t WHERE note IS NULL OR note = number::text")
    assert found == [("2000", str(2 * sum(numbers)), str(2 * sum(1 for number in numbers if number % 3)))]
