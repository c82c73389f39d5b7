"""What rows become in a search index, and that they are written over themselves."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession, functions as F  # noqa: N812 - as everywhere with Spark

from headgate.connect import search
from headgate.errors import FencedOff, InvalidOption, UserError
from headgate.sink.api import TwoPhaseSink
from headgate.testing import CONTEXT, IdempotentContract, Row, context_in, write_id
from services.opensearch import OpenSearch


class TestSearchSink(IdempotentContract):
    @pytest.fixture(autouse=True)
    def server(self, opensearch: OpenSearch) -> None:
        self.opensearch = opensearch

    def make_sink(self, place: Path) -> TwoPhaseSink:
        index = _index(place)
        if self.opensearch.request("HEAD", f"/{index}")[0] == 404:
            self.opensearch.create_index(index)
        return search.sink(self.opensearch.url, index=index, id="number", bulk_rows=3)

    def visible(self, place: Path) -> Sequence[Row]:
        documents = self.opensearch.documents(_index(place))
        return [(int(str(each["number"])), str(each["writer"])) for each in documents.values()]


def _index(place: Path) -> str:
    return f"contract-{hashlib.sha256(str(place).encode()).hexdigest()[:12]}"


def test_a_row_is_a_document_under_the_id_of_its_columns(spark: SparkSession, opensearch: OpenSearch) -> None:
    opensearch.create_index("types")
    sink = search.sink([opensearch.url], index="types", id=["a.b", "at"], routing="number")
    sink.open(CONTEXT)
    rows = spark.range(2).select(
        F.col("id").alias("number"),
        F.concat(F.lit('a:b%\n"ü'), F.col("id")).alias("a.b"),
        F.expr("timestamp'2020-01-01 00:00:00.123456Z'").alias("at"),
        F.expr("array(1.5d, null)").alias("list"),
        F.expr("named_struct('x', 1, 'y', 'z')").alias("nested"),
        F.lit(None).cast("string").alias("nothing"),
    )
    sink.invoke(write_id(0), rows)
    assert opensearch.documents("types") == {
        f'a%3Ab%25\n"ü{number}:1577836800123456': {
            "number": number,
            "a.b": f'a:b%\n"ü{number}',
            "at": "2020-01-01T00:00:00.123456Z",
            "list": [1.5, None],
            "nested": {"x": 1, "y": "z"},
        }
        for number in range(2)
    }


def test_a_row_does_not_replace_a_document_of_a_higher_version(spark: SparkSession, opensearch: OpenSearch) -> None:
    opensearch.create_index("versions")
    sink = search.sink(opensearch.url, index="versions", id="number", version="version")
    sink.open(CONTEXT)
    for batch, (version, text) in enumerate([(2, "second"), (1, "first"), (2, "second again")]):
        rows = spark.range(1).select(
            F.col("id").alias("number"), F.lit(version).alias("version"), F.lit(text).alias("text")
        )
        sink.invoke(write_id(batch), rows)
    assert opensearch.documents("versions") == {"0": {"number": 0, "version": 2, "text": "second again"}}


def test_an_index_that_the_server_has_counted_itself_goes_on_and_says_when_something_newer_is_there(
    spark: SparkSession, opensearch: OpenSearch, tmp_path: Path
) -> None:
    opensearch.create_index("counted")
    rows = spark.range(1).select(F.col("id").alias("number"))
    plain = search.sink(opensearch.url, index="counted", id="number", fenced=False)
    plain.open(context_in(tmp_path))
    for batch in range(3):
        plain.invoke(write_id(batch), rows.withColumn("text", F.lit("before")))
    sink = search.sink(opensearch.url, index="counted", id="number")
    sink.open(context_in(tmp_path))
    sink.invoke(write_id(3, generation=2), rows.withColumn("text", F.lit("new")))
    with pytest.raises(FencedOff, match=r"^sink sink: batch 4 is fenced off: document 0: version_conflict.*current"):
        sink.invoke(write_id(4), rows.withColumn("text", F.lit("late")))
    assert opensearch.documents("counted") == {"0": {"number": 0, "text": "new"}}
    mine = search.sink(opensearch.url, index="counted", id="number", version="number")
    mine.open(context_in(tmp_path))
    with pytest.raises(UserError, match=r"document 0 of index counted has version .* make the index anew"):
        mine.invoke(write_id(5), rows)
    assert not plain.fenced
    assert not mine.fenced


def test_of_two_rows_with_one_id_the_later_one_stays(spark: SparkSession, opensearch: OpenSearch) -> None:
    opensearch.create_index("twice")
    sink = search.sink(opensearch.url, index="twice", id="half", bulk_rows=2)
    sink.open(CONTEXT)
    sink.invoke(write_id(0), spark.range(0, 10, 1, 1).select("id", F.expr("id div 5").alias("half")))
    found = {key: document["id"] for key, document in opensearch.documents("twice").items()}
    assert found == {"0": 4, "1": 9}


def test_a_document_that_the_mapping_refuses_is_named(spark: SparkSession, opensearch: OpenSearch) -> None:
    opensearch.create_index("strict", {"properties": {"number": {"type": "long"}}})
    sink = search.sink(opensearch.url, index="strict", id="number")
    sink.open(CONTEXT)
    rows = spark.range(0, 3, 1, 1).select(
        F.when(F.col("id") == 1, "one").otherwise(F.col("id").cast("string")).alias("number")
    )
    with pytest.raises(UserError, match=r"^sink sink: index strict does not take document one: mapper_parsing.*long"):
        sink.invoke(write_id(0), rows)


def test_an_index_that_must_not_be_written_is_named(spark: SparkSession, opensearch: OpenSearch) -> None:
    opensearch.create_index("blocked")
    sink = search.sink(opensearch.url, index="blocked", id="id")
    sink.open(CONTEXT)
    opensearch.request("PUT", "/blocked/_settings", {"index.blocks.write": True})
    with pytest.raises(UserError, match=r"document 0: cluster_block_exception: .*index write"):
        sink.invoke(write_id(0), spark.range(0, 3, 1, 1))


@pytest.mark.parametrize("value", [None, ""])
def test_a_row_without_an_id_is_refused(spark: SparkSession, opensearch: OpenSearch, value: str | None) -> None:
    sink = search.sink(opensearch.url, index="nowhere", id="text")
    with pytest.raises(UserError, match="a row has no id, text is null or empty"):
        sink.invoke(write_id(0), spark.range(2).select(F.lit(value).cast("string").alias("text")))


def test_columns_that_are_not_there_or_can_be_no_id_are_refused(spark: SparkSession) -> None:
    rows = spark.range(2).select("id", F.array("id").alias("list"))
    for column, message in (("nowhere", "there is no column 'nowhere': the rows have id, list"), ("list", "no key")):
        sink = search.sink("http://127.0.0.1:1", index="i", id=column)
        with pytest.raises(InvalidOption, match=message):
            sink.invoke(write_id(0), rows)
