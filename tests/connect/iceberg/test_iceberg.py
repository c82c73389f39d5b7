"""The Iceberg sink beside other writers, with all kinds of columns, and with things that are broken."""

import datetime as dt
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import IntegerType, LongType, NestedField, StringType
from pyspark.sql import DataFrame, SparkSession

from headgate.connect import iceberg
from headgate.errors import BadStorage, ExternalError, InvalidOption, UserError
from headgate.sink.api import TwoPhaseSink
from headgate.sink.staged import StagedSink
from headgate.testing import compare, pre_commit, rows_of, write_id
from tests.connect.iceberg.test_contract import catalog_in, rows_in
from tests.connect.tables import commit_at_once, opened, pre_committed_batch, pre_committed_by_hand, staged_files

TABLE = "sales.orders"
TYPES = """
    id, cast(id as tinyint) tiny, cast(id as float) single, cast(id as decimal(20, 3)) money,
    timestamp '2026-01-31 10:00:00.123456 UTC' at, timestamp_ntz '2026-01-31 10:00:00.5' local,
    date '2026-01-31' day, id > 0 positive, X'00ff' raw, array(id, null) list, map('k', id) map,
    named_struct('x', id, 'y', array('a')) nested, cast(null as string) nothing
"""


def make(place: Path, **options: Any) -> TwoPhaseSink:
    return opened(iceberg.sink(TABLE, catalog=catalog_in(place), **options), place)


@contextmanager
def catalog(place: Path) -> Iterator[SqlCatalog]:
    found = SqlCatalog("headgate", **catalog_in(place))
    yield found
    found.close()


def write_frame(sink: TwoPhaseSink, frame: DataFrame, batch: int = 0) -> str:
    sink.begin_transaction(write_id(batch))
    sink.invoke(write_id(batch), frame)
    return pre_commit(sink, batch + 1, write_id(batch))


def read(place: Path, **scan: Any) -> list[dict[str, Any]]:
    with catalog(place) as found:
        rows: list[dict[str, Any]] = found.load_table(TABLE).scan(**scan).to_arrow().to_pylist()
    return rows


@pytest.mark.parametrize("age", [None, 0, "1h"])
def test_old_snapshots_of_the_sink_go_if_that_is_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, age: Any
) -> None:
    monkeypatch.setattr("headgate.connect.iceberg.table.EXPIRE_AT_ONCE", 4)
    sink = make(tmp_path, expire_snapshots=age)
    assert isinstance(sink, StagedSink)
    committables = [pre_committed_by_hand(sink, batch) for batch in range(9)]
    sink.commit(committables[0])
    with catalog(tmp_path) as found:
        table = found.load_table(TABLE)
        table.append(pa.table({"number": [-1], "writer": ["somebody"]}))
        foreign = table.current_snapshot()
        assert foreign is not None
    sink.commit(committables[1])
    with catalog(tmp_path) as found:
        table = found.load_table(TABLE)
        tagged = table.current_snapshot()
        assert tagged is not None
        table.manage_snapshots().create_tag(tagged.snapshot_id, "audit").commit()
    for committable in committables[2:]:
        sink.commit(committable)
    with catalog(tmp_path) as found:
        left = [snapshot.snapshot_id for snapshot in found.load_table(TABLE).snapshots()]
    assert {foreign.snapshot_id, tagged.snapshot_id} <= set(left)
    assert len(left) < 9 if age == 0 else len(left) == 10
    assert sorted(row["number"] for row in read(tmp_path)) == [-1, *range(9)]
    sink.commit(committables[3])  # again: the mark does not go with the snapshots
    assert sorted(row["number"] for row in read(tmp_path)) == [-1, *range(9)]
    sink.close()


def test_two_processes_that_commit_the_same_at_once_add_it_once(spark: SparkSession, tmp_path: Path) -> None:
    sink = make(tmp_path)
    sink.commit(pre_committed_batch(sink, spark, 0))
    committable = pre_committed_batch(sink, spark, 1)
    commit_at_once(iceberg.sink(TABLE, catalog=catalog_in(tmp_path)), tmp_path, committable)
    compare(rows_in(tmp_path), rows_of(write_id(0), write_id(1)))
    sink.close()


def test_two_processes_that_make_the_table_at_once_make_one(spark: SparkSession, tmp_path: Path) -> None:
    committable = pre_committed_batch(make(tmp_path), spark, 0)
    commit_at_once(iceberg.sink(TABLE, catalog=catalog_in(tmp_path)), tmp_path, committable)
    compare(rows_in(tmp_path), rows_of(write_id(0)))


def test_a_version_that_is_not_the_newest_takes_no_commit(spark: SparkSession, tmp_path: Path) -> None:
    """The table is read, then somebody else commits, then we do: it must not go through unseen."""
    first, second = make(tmp_path), make(tmp_path)
    first.commit(pre_committed_batch(first, spark, 0))
    committable = pre_committed_batch(first, spark, 1)
    reads = 0
    newest = second._table  # type: ignore[attr-defined]

    def read_then_overtaken() -> Any:
        nonlocal reads
        found = newest()
        reads += 1
        if reads == 1:
            first.commit(committable)
        return found

    second._table = read_then_overtaken  # type: ignore[attr-defined]
    second.commit(committable)
    assert reads == 2
    compare(rows_in(tmp_path), rows_of(write_id(0), write_id(1)))


def test_others_may_write_and_expire_snapshots_in_between(spark: SparkSession, tmp_path: Path) -> None:
    sink = make(tmp_path)
    first, second = pre_committed_batch(sink, spark, 0), pre_committed_batch(sink, spark, 1)
    sink.commit(first)
    foreign = {"number": [-1], "writer": ["somebody"]}
    with catalog(tmp_path) as found:
        found.load_table(TABLE).append(pa.table(foreign))
    sink.commit(second)
    with catalog(tmp_path) as found:
        table = found.load_table(TABLE)
        table.append(pa.table(foreign))
        newest = table.current_snapshot()
        assert newest is not None
        gone = [snapshot.snapshot_id for snapshot in table.snapshots() if snapshot.snapshot_id != newest.snapshot_id]
        table.maintenance.expire_snapshots().by_ids(gone).commit()
    sink.commit(first)
    sink.commit(second)
    compare(rows_in(tmp_path), [*rows_of(write_id(0), write_id(1)), (-1, "somebody"), (-1, "somebody")])


def test_a_new_incarnation_of_the_job_writes_beside_the_old_one(spark: SparkSession, tmp_path: Path) -> None:
    for incarnation in ("one", "two"):
        sink = opened(iceberg.sink(TABLE, catalog=catalog_in(tmp_path)), tmp_path / incarnation)
        sink.commit(pre_committed_batch(sink, spark, 0))
    compare(rows_in(tmp_path), [*rows_of(write_id(0)), *rows_of(write_id(0))])


def test_every_kind_of_column_is_read_back_as_it_was(spark: SparkSession, tmp_path: Path) -> None:
    sink = make(tmp_path)
    sink.commit(write_frame(sink, spark.sql(f"select {TYPES} from range(1, 2)")))  # noqa: S608 - our own text
    (row,) = read(tmp_path)
    assert row["id"] == row["tiny"] == row["single"] == 1
    assert row["money"] == Decimal("1.000")
    assert row["at"] == dt.datetime(2026, 1, 31, 10, 0, 0, 123456, tzinfo=dt.UTC)
    assert row["local"] == dt.datetime(2026, 1, 31, 10, 0, 0, 500000)  # noqa: DTZ001 - it has no zone
    assert row["day"] == dt.date(2026, 1, 31)
    assert row["positive"] is True
    assert row["raw"] == b"\x00\xff"
    assert row["list"] == [1, None]
    assert dict(row["map"]) == {"k": 1}
    assert row["nested"] == {"x": 1, "y": ["a"]}
    assert row["nothing"] is None


def test_partitions_are_told_from_files_and_found_by_readers(spark: SparkSession, tmp_path: Path) -> None:
    values = ["a/b", "50% = x?", "", "é ü", "x" * 300, None]
    frame = spark.createDataFrame(list(enumerate(values)), "id int, name string")
    sink = make(tmp_path, partition_by=("name", "day"))
    first = write_frame(sink, frame.selectExpr("id", "name", "date_add(date '2026-01-31', id) as day"))
    sink.commit(first)
    sink.commit(first)
    assert {row["id"]: row["name"] for row in read(tmp_path)} == dict(enumerate(values))
    for number, value in enumerate(values):
        only = f"name = '{value}'" if value is not None else "name is null"
        assert [row["id"] for row in read(tmp_path, row_filter=only)] == [number], value
    with catalog(tmp_path) as found:
        assert [field.name for field in found.load_table(TABLE).spec().fields] == ["name", "day"]


def test_snapshots_say_who_committed(spark: SparkSession, tmp_path: Path) -> None:
    sink = make(tmp_path)
    sink.commit(pre_committed_batch(sink, spark, 0))
    with catalog(tmp_path) as found:
        table = found.load_table(TABLE)
        snapshot = table.current_snapshot()
        assert snapshot is not None
        assert snapshot.summary is not None
        assert snapshot.summary["headgate.job"] == "contract"
        assert snapshot.summary["headgate.checkpoint"] == "1"
        assert "commit.retry.num-retries" not in table.properties


# -- what cannot work ----------------------------------------------------------------------------------------------


def test_rows_that_the_table_cannot_take_are_refused_before_they_are_staged(
    spark: SparkSession, tmp_path: Path
) -> None:
    schema = Schema(
        NestedField(1, "id", IntegerType(), required=False),
        NestedField(2, "must", StringType(), required=True),
        NestedField(3, "may", StringType(), required=False),
    )
    with catalog(tmp_path) as found:
        found.create_table(TABLE, schema)
    sink = make(tmp_path)
    frame = spark.sql("select id, cast(null as string) as must, 1 as extra from range(3)")
    with pytest.raises(UserError, match=r"id is int there and long in.*must may not be null.*it has no column extra"):
        write_frame(sink, frame)
    assert not staged_files(tmp_path)
    with pytest.raises(UserError, match="does not write its column must"):
        write_frame(sink, spark.sql("select cast(id as int) as id from range(3)"))
    sink.commit(write_frame(sink, spark.sql("select cast(id as int) as id, 'x' as must from range(3)")))
    assert sorted((row["id"], row["must"], row["may"]) for row in read(tmp_path)) == [(n, "x", None) for n in range(3)]


def test_a_column_that_readers_would_not_find_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    sink = make(tmp_path)
    sink.commit(pre_committed_batch(sink, spark, 0))
    with catalog(tmp_path) as found:
        table = found.load_table(TABLE)
        kept = table.properties["schema.name-mapping.default"]
        with table.update_schema() as update:
            update.add_column("more", LongType())
        table = found.load_table(TABLE)
        with table.transaction() as transaction:
            transaction.set_properties({"schema.name-mapping.default": kept})
    with pytest.raises(InvalidOption, match=r"schema.name-mapping.default does not have column more"):
        write_frame(sink, spark.sql("select id as number, 'x' as writer, id as more from range(3)"), batch=1)


def test_a_file_that_is_lost_before_the_commit_is_never_passed_over(spark: SparkSession, tmp_path: Path) -> None:
    sink = make(tmp_path)
    sink.commit(pre_committed_batch(sink, spark, 0))
    committable = pre_committed_batch(sink, spark, 1)
    victim = staged_files(tmp_path)[0]
    copy = victim.read_bytes()
    victim.unlink()
    with pytest.raises(BadStorage, match="is gone, which checkpoint 2 pre-committed"):
        sink.commit(committable)
    compare(rows_in(tmp_path), rows_of(write_id(0)))
    victim.write_bytes(copy)
    sink.commit(committable)
    compare(rows_in(tmp_path), rows_of(write_id(0), write_id(1)))


def test_metadata_that_is_gone_or_damaged_is_refused_before_anything_runs(spark: SparkSession, tmp_path: Path) -> None:
    sink = make(tmp_path)
    sink.commit(pre_committed_batch(sink, spark, 0))
    with catalog(tmp_path) as found:
        metadata = Path(found.load_table(TABLE).metadata_location.removeprefix("file://"))
    kept = metadata.read_text()
    metadata.write_text(kept[:100])
    with pytest.raises(BadStorage, match="its metadata is damaged"):
        make(tmp_path)
    metadata.unlink()
    with pytest.raises(BadStorage, match="its metadata is gone"):
        make(tmp_path)
    metadata.write_text(kept)
    make(tmp_path)


def test_a_table_that_is_partitioned_otherwise_is_refused(tmp_path: Path) -> None:
    schema = Schema(NestedField(1, "number", LongType(), required=False))
    with catalog(tmp_path) as found:
        found.create_table(
            TABLE, schema, partition_spec=PartitionSpec(PartitionField(1, 1000, BucketTransform(4), "b"))
        )
    with pytest.raises(InvalidOption, match=r"is partitioned by b \(bucket\[4\]\)"):
        make(tmp_path)
    with catalog(tmp_path) as found:
        found.drop_table(TABLE)
        found.create_table(TABLE, schema)
    with pytest.raises(InvalidOption, match=r"give partition_by=\(\)"):
        make(tmp_path, partition_by=("number",))


def test_a_namespace_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match="has no namespace market: create it"):
        opened(iceberg.sink("market.orders", catalog=catalog_in(tmp_path)), tmp_path)


def test_a_catalog_that_is_not_there_is_named_without_its_password(tmp_path: Path) -> None:
    away = {"type": "sql", "uri": f"sqlite:///{tmp_path}/nowhere/catalog.db", "s3.secret-access-key": "nowhere"}
    with pytest.raises(ExternalError, match=r"catalog headgate \(sql\) answered with") as raised:
        opened(iceberg.sink(TABLE, catalog=away), tmp_path)
    assert "nowhere" not in str(raised.value)
    rest = {"type": "rest", "uri": "http://someone:hidden@127.0.0.1:9"}
    with pytest.raises(ExternalError) as raised:
        opened(iceberg.sink(TABLE, catalog=rest), tmp_path)
    assert "hidden" not in str(raised.value)


def test_a_catalog_that_cannot_be_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match="cannot be used"):
        opened(iceberg.sink(TABLE, catalog={"type": "telepathy"}), tmp_path)


@pytest.mark.parametrize(
    ("select", "options", "message"),
    [
        ("make_interval(1) as span, 1 as id", {}, "cannot have column span"),
        ("1 as id", {"partition_by": ("day",)}, "partition_by names day, the rows have id"),
        ("1 as id, current_timestamp() as at", {"partition_by": ("at",)}, "cannot be partitioned by at"),
    ],
)
def test_columns_that_no_table_can_have_are_refused(
    select: str, options: dict[str, Any], message: str, spark: SparkSession, tmp_path: Path
) -> None:
    with pytest.raises(InvalidOption, match=message):
        write_frame(make(tmp_path, **options), spark.sql(f"select {select}"))
    assert not staged_files(tmp_path)


@pytest.mark.parametrize(
    ("table", "options", "message"),
    [
        ("orders", {}, "write namespace and name"),
        (TABLE, {"catalog": {}}, "catalog takes a name, or properties"),
        (TABLE, {"catalog": {"type": 3}}, "a catalog's properties are texts, 'type' is a int"),
        (TABLE, {"partition_by": "day"}, "partition_by takes column names"),
    ],
)
def test_an_option_that_cannot_hold_is_refused_when_the_sink_is_made(
    table: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidOption, match=message):
        iceberg.sink(table, **{"catalog": "production", **options})


def test_a_sink_says_what_it_is_and_can_be_pickled() -> None:
    properties = {"type": "rest", "uri": "http://127.0.0.1", "token": "secret"}
    sink = iceberg.sink(TABLE, catalog=properties, partition_by=("day",))
    described = pickle.loads(pickle.dumps(sink)).describe()  # noqa: S301 - ours
    assert described == "Iceberg table sales.orders in catalog headgate (rest), by day"
