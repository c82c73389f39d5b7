"""Columns of Arrow, what they are inside Spark, and what is refused on the way."""

from datetime import UTC, datetime
from decimal import Decimal
from itertools import groupby
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    CalendarIntervalType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from headgate.errors import InvalidJob
from headgate.job.arrow import arrow_type, as_column, as_table, first_rows, from_internals, internals
from headgate.job.cells import fits
from headgate.job.partition import take_over, whole_keys

WORDS = st.text("aü€", max_size=3)
LONGS = st.integers(-(1 << 50), 1 << 50)
PLAIN: list[tuple[DataType, st.SearchStrategy[Any]]] = [
    (LongType(), LONGS),
    (IntegerType(), st.integers(-(1 << 31), (1 << 31) - 1)),
    (DoubleType(), st.floats(allow_nan=False)),
    (StringType(), WORDS),
    (BooleanType(), st.booleans()),
    (BinaryType(), st.binary(max_size=5)),
    (DecimalType(10, 2), st.integers(-1000, 1000).map(lambda cents: Decimal(cents).scaleb(-2))),
    (TimestampType(), LONGS),
    (TimestampNTZType(), LONGS),
    (DateType(), st.integers(-10_000, 30_000)),
    (DayTimeIntervalType(), LONGS),
]


def nested(inner: st.SearchStrategy[tuple[DataType, st.SearchStrategy[Any]]]) -> st.SearchStrategy[Any]:
    """A type made of others, with its values as they are inside Spark."""

    def struct(parts: list[tuple[DataType, st.SearchStrategy[Any]]]) -> tuple[DataType, st.SearchStrategy[Any]]:
        fields = [StructField(f"f{number}", of) for number, (of, _) in enumerate(parts)]
        return StructType(fields), st.tuples(*(st.none() | values for _, values in parts))

    return st.one_of(
        inner.map(lambda one: (ArrayType(one[0]), st.lists(st.none() | one[1], max_size=3))),
        inner.map(lambda one: (MapType(StringType(), one[0]), st.dictionaries(WORDS, one[1], max_size=3))),
        st.lists(inner, min_size=1, max_size=3).map(struct),
    )


@given(st.recursive(st.sampled_from(PLAIN), nested, max_leaves=4), st.data())
def test_a_column_has_the_values_that_it_was_made_of(typed: tuple[DataType, Any], data: st.DataObject) -> None:
    of, strategy = typed
    values = data.draw(st.lists(st.none() | strategy, max_size=6))
    column = from_internals(values, of, arrow_type(of, "it"))
    column.validate(full=True)
    assert internals(column, of) == values
    for start in range(len(values)):
        assert internals(column.slice(start), of) == values[start:]


WITH_ZONE = pa.timestamp("us", "UTC")


@pytest.mark.parametrize(
    ("values", "to", "says"),
    [
        (pa.array(["12"]), pa.int64(), "it is string"),
        (["12"], pa.int64(), "'12'"),
        (pd.Series(["12"]), pa.int64(), "it is string"),
        (pa.array([1.5]), pa.int64(), "truncated"),
        ([1.5], pa.int64(), "1.5 is not a whole number"),
        (np.array([1.5]), pa.int64(), "truncated"),
        ([1 << 40], pa.int32(), "too large"),
        (pa.array([1 << 40]), pa.int32(), "not in range"),
        (pa.array([True]), pa.int64(), "it is bool"),
        ([datetime(2024, 1, 1)], WITH_ZONE, "one has a zone"),  # noqa: DTZ001 - that is the point
        (pa.array([datetime(2024, 1, 1)]), WITH_ZONE, "one has a zone"),  # noqa: DTZ001 - as above
        ([{"b": 1}], pa.struct([("a", pa.int64())]), "it has no field 'b'"),
        (pa.array([{"b": 1}]), pa.struct([("a", pa.int64())]), "it is struct"),
        ([[0.5]], pa.list_(pa.int64()), "0.5 is not a whole number"),
        ([{"k": 0.5}], pa.map_(pa.string(), pa.int64()), "0.5 is not a whole number"),
        (5, pa.int64(), "not iterable"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_in_one_line(values: Any, to: pa.DataType, says: str) -> None:
    with pytest.raises(InvalidJob, match=r"^state .last. does not fit its type") as refused:
        as_column(values, to, "state 'last'")
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


class Foreign:
    """A column of some library that gives it as Arrow."""

    def __init__(self, column: pa.ChunkedArray) -> None:
        self._column = column

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._column.__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize(
    ("values", "to", "after"),
    [
        (pa.array([1, None], pa.int32()), pa.int64(), [1, None]),
        (pa.chunked_array([[1], [2]]), pa.int64(), [1, 2]),
        (pa.array(["a", "a"]).dictionary_encode(), pa.string(), ["a", "a"]),
        (pa.array(["a"], pa.large_string()), pa.string(), ["a"]),
        (pa.nulls(2), pa.int64(), [None, None]),
        (np.array([1, 2]), pa.float64(), [1.0, 2.0]),
        (pd.Series([1.0, float("nan")]), pa.int64(), [1, None]),
        (pd.Series(["a", None]), pa.string(), ["a", None]),
        (Foreign(pa.chunked_array([[1], [2]])), pa.int64(), [1, 2]),
        ([datetime(2024, 1, 1, tzinfo=UTC)], WITH_ZONE, [datetime(2024, 1, 1, tzinfo=UTC)]),
        ([{"a": 1}, {}], pa.struct([("a", pa.int64())]), [{"a": 1}, {"a": None}]),
        ([{"k": 1}], pa.map_(pa.string(), pa.int64()), [[("k", 1)]]),
        ([], pa.int64(), []),
    ],
)
def test_columns_come_from_whatever_holds_them(values: Any, to: pa.DataType, after: list[Any]) -> None:
    column = as_column(values, to, "it")
    assert (column.type, column.to_pylist()) == (to, after)


def test_tables_come_from_whatever_holds_them() -> None:
    table = pa.table({"a": [1]})
    for held in (table, table.to_batches()[0], table.to_pandas(), Foreign(table)):
        assert as_table(held, "it").to_pydict() == {"a": [1]}
    with pytest.raises(InvalidJob, match="Jumps gave a dict: give a table of Arrow"):
        as_table({"a": [1]}, "Jumps")


def test_a_type_without_a_column_is_refused_by_its_name() -> None:
    with pytest.raises(InvalidJob, match="state 'x' is of type interval, which cannot be a column of Arrow"):
        arrow_type(CalendarIntervalType(), "state 'x'")


KEYS = st.lists(st.tuples(st.none() | st.integers(0, 2), st.none() | st.sampled_from([0.5, float("nan")])), max_size=12)


@given(KEYS, st.integers(1, 5), st.integers(1, 4))
def test_pieces_of_a_partition_have_all_rows_of_their_keys(
    drawn: list[tuple[int | None, float | None]], batch_rows: int, piece_rows: int
) -> None:
    rows = sorted(drawn, key=repr)
    number, part = [one for one, _ in rows], [other for _, other in rows]
    table = pa.table({"a": pa.array(number, pa.int64()), "b": pa.array(part, pa.float64()), "n": range(len(rows))})
    pieces = list(whole_keys(iter(table.to_batches(batch_rows)), table.schema, ["a", "b"], piece_rows))
    assert [row for piece in pieces for row in piece["n"].to_pylist()] == list(range(len(rows)))
    seen: list[list[str]] = []
    for piece in pieces:
        keys = [repr(key) for key in zip(piece["a"].to_pylist(), piece["b"].to_pylist(), strict=True)]
        starts = first_rows([piece[name].combine_chunks() for name in ("a", "b")])
        assert [keys[start] for start in starts.tolist()] == [key for key, _ in groupby(keys)]
        seen.append([key for key, _ in groupby(keys)])
    together = [key for keys in seen for key in keys]
    assert len(together) == len(set(together)), "a key is in one piece"


def test_keys_of_nested_types_are_told_apart_too() -> None:
    assert first_rows([pa.array([[1], [1], [2], None])]).tolist() == [0, 2, 3]


def test_nothing_is_taken_over_where_no_worker_of_spark_is_at_work() -> None:
    assert not take_over(lambda batches, _: batches)

    def read_udfs() -> bool:
        return take_over(lambda batches, _: batches)

    assert not read_udfs(), "a function of the same name in another file"


@pytest.mark.parametrize(
    ("of", "good", "bad"),
    [
        (LongType(), [0, -(1 << 63)], [1 << 63, True, 1.0, None, np.int64(1)]),
        (IntegerType(), [5], [1 << 31, "5"]),
        (DoubleType(), [0.5, float("nan")], [1, None]),
        (TimestampType(), [datetime(2024, 1, 1, tzinfo=UTC)], [pd.Timestamp(0), 5]),
        (ArrayType(LongType()), [[], [1]], [(1,), [None], None]),
        (MapType(StringType(), LongType()), [{"a": 1}], [{"a": "b"}, {1: 1}]),
        (StructType([StructField("n", LongType()), StructField("s", StringType())]), [(1, "a")], [(1,), {"n": 1}]),
        (DecimalType(10, 2), [], [Decimal(1)]),
    ],
)
def test_only_what_spark_takes_for_what_it_is_may_wait(of: DataType, good: list[Any], bad: list[Any]) -> None:
    fit = fits(of)
    assert [fit(value) for value in [*good, *bad]] == [True] * len(good) + [False] * len(bad)
