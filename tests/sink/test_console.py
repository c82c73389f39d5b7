"""The console sink prints each batch as it is written."""

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import lit, udf

from headgate import console
from headgate.errors import InvalidOption
from headgate.sink.api import Guarantee, StaleGenerations
from headgate.testing import CONTEXT, pre_commit, write_id


def test_a_batch_is_computed_once_and_printed_with_its_number_and_its_first_rows(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    seen = spark.sparkContext.accumulator(0)

    def look(number: int) -> str:
        seen.add(1)
        return f"row {number}."

    sink = console.sink(rows=3)
    sink.open(CONTEXT)
    sink.begin_transaction(write_id(4))
    sink.invoke(
        write_id(4),
        spark.range(100, 150, 1, 4).select(udf(look, useArrow=False)("id").alias("what"), lit("[b]").alias("x")),
    )
    printed = capsys.readouterr().out
    assert seen.value == 50
    assert "sink: generation 1, batch 4, run 1: 50 rows\n" in printed
    assert [number for number in range(100, 150) if f"row {number}." in printed] == [100, 101, 102]
    assert printed.count("[b]") == 3
    committable = pre_commit(sink, 1, write_id(4))
    sink.commit(committable)
    sink.abort(StaleGenerations(write_id(4).generation))
    assert capsys.readouterr().out == ""


def test_an_empty_batch_is_printed_too(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    sink = console.sink()
    sink.open(CONTEXT)
    sink.invoke(write_id(0), spark.range(0))
    assert "batch 0, run 1: 0 rows\n" in capsys.readouterr().out


def test_it_promises_no_more_than_it_keeps() -> None:
    assert console.sink().guarantee is Guarantee.AT_LEAST_ONCE
    assert console.sink(5).describe() == "the console, at most 5 rows a batch"


def test_a_negative_number_of_rows_is_refused() -> None:
    with pytest.raises(InvalidOption, match="got -1"):
        console.sink(rows=-1)
