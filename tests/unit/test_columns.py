"""Columns as users write them, read before there is a Spark."""

import pytest

from headgate.columns import check_columns
from headgate.errors import InvalidOption


@pytest.mark.parametrize(
    "ddl",
    [
        "user STRING, amount DOUBLE, at TIMESTAMP",
        "a int",
        "a: int, b: decimal(10, 2)",
        "`an odd, name` string NOT NULL COMMENT 'as it, is', b varchar(5)",
        "a array<struct<x: int, y: map<string, array<bigint>>>>, b timestamp_ntz",
        "a STRUCT<x INT, y STRING NOT NULL> COMMENT 'x', b BINARY",
        "a interval day to second, b int",
        "a decimal(10",
    ],
)
def test_what_spark_can_read_and_what_only_spark_can_judge_is_let_through(ddl: str) -> None:
    check_columns(ddl, "schema")


@pytest.mark.parametrize(
    ("ddl", "said"),
    [
        ("a STRIN", "column a has the type STRIN, which Spark does not have: write STRING"),
        ("a int, b array<doubl>", "column b has the type doubl, which Spark does not have: write DOUBLE"),
        ("a struct<x int, y strng>", "column y has the type strng, which Spark does not have: write STRING"),
        ("a map<string, lng>", "which Spark does not have: write LONG"),
        ("a xyzzy", "write STRING, DOUBLE, BIGINT or TIMESTAMP, say"),
        ("user, amount DOUBLE", "column user has no type: write user STRING, say"),
        ("user", "column user has no type"),
        (" ", "names no columns"),
    ],
)
def test_a_type_that_there_is_not_is_refused_by_its_column(ddl: str, said: str) -> None:
    with pytest.raises(InvalidOption) as refused:
        check_columns(ddl, "schema")
    assert said in str(refused.value)
    assert str(refused.value).startswith(f"schema={ddl!r}")
