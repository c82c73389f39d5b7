"""The Delta sink beside other writers, with all kinds of columns, and with things that are broken."""

import datetime as dt
import errno
import json
import os
import pickle
import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import DataFrame, SparkSession

from headgate.connect import delta
from headgate.core.ids import Generation
from headgate.errors import BadStorage, InvalidOption, UserError
from headgate.sink.api import StaleGenerations, TwoPhaseSink
from headgate.sink.staged import StagedSink
from headgate.testing import compare, pre_commit, rows_of, write_id
from tests.connect.delta.test_contract import rows_in
from tests.connect.tables import commit_at_once, opened, pre_committed_batch, pre_committed_by_hand, staged_files

TYPES = """
    id, cast(id as tinyint) tiny, cast(id as float) single, cast(id as decimal(20, 3)) money,
    timestamp '2026-01-31 10:00:00.123456 UTC' at, timestamp_ntz '2026-01-31 10:00:00.5' local,
    date '2026-01-31' day, id > 0 positive, X'00ff' raw, array(id, null) list, map('k', id) map,
    named_struct('x', id, 'y', array('a')) nested, cast(null as string) nothing
"""


def table_of(place: Path) -> Path:
    return place / "table"


def make(place: Path, **options: Any) -> TwoPhaseSink:
    return opened(delta.sink(table_of(place), **options), place)


def write_frame(sink: TwoPhaseSink, frame: DataFrame, batch: int = 0) -> str:
    sink.begin_transaction(write_id(batch))
    sink.invoke(write_id(batch), frame)
    return pre_commit(sink, batch + 1, write_id(batch))


def pre_committed_frame(place: Path, frame: DataFrame, **options: Any) -> None:
    sink = make(place, **options)
    sink.commit(write_frame(sink, frame))


def read(place: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = DeltaTable(str(table_of(place))).to_pyarrow_table().to_pylist()
    return rows


def test_the_log_is_read_whole_once_and_then_only_what_is_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = make(tmp_path)
    assert isinstance(sink, StagedSink)
    sink.commit(pre_committed_by_hand(sink, 0))
    read_whole: list[str] = []
    really = deltalake.DeltaTable

    class Counted(really):  # type: ignore[misc, valid-type]
        def __init__(self, place: str, **options: Any) -> None:
            read_whole.append(place)
            super().__init__(place, **options)

    monkeypatch.setattr(deltalake, "DeltaTable", Counted)
    for batch in range(1, 15):  # across a checkpoint of the log
        sink.commit(pre_committed_by_hand(sink, batch))
        write_deltalake(str(table_of(tmp_path)), pa.table({"number": [-1], "writer": ["somebody"]}), mode="append")
    assert len(read_whole) <= 1
    found = [row["number"] for row in read(tmp_path)]
    assert sorted(found) == [-1] * 14 + list(range(15))


def test_a_table_that_was_made_anew_is_read_anew(tmp_path: Path) -> None:
    sink = make(tmp_path)
    assert isinstance(sink, StagedSink)
    for batch in range(3):
        sink.commit(pre_committed_by_hand(sink, batch))
    shutil.rmtree(table_of(tmp_path))
    sink.commit(pre_committed_by_hand(sink, 3))
    assert [row["number"] for row in read(tmp_path)] == [3]
    assert DeltaTable(str(table_of(tmp_path))).version() == 1


def test_two_processes_that_commit_the_same_at_once_add_it_once(spark: SparkSession, tmp_path: Path) -> None:
    sink = make(tmp_path)
    sink.commit(pre_committed_batch(sink, spark, 0))
    committable = pre_committed_batch(sink, spark, 1)
    commit_at_once(delta.sink(table_of(tmp_path)), tmp_path, committable)
    compare(rows_in(table_of(tmp_path)), rows_of(write_id(0), write_id(1)))


def test_two_processes_that_make_the_table_at_once_make_one(spark: SparkSession, tmp_path: Path) -> None:
    committable = pre_committed_batch(make(tmp_path), spark, 0)
    commit_at_once(delta.sink(table_of(tmp_path)), tmp_path, committable)
    compare(rows_in(table_of(tmp_path)), rows_of(write_id(0)))


def test_others_may_write_compact_and_vacuum_in_between(spark: SparkSession, tmp_path: Path) -> None:
    sink = make(tmp_path)
    first, second = pre_committed_batch(sink, spark, 0), pre_committed_batch(sink, spark, 1)
    sink.commit(first)
    write_deltalake(str(table_of(tmp_path)), pa.table({"number": [-1], "writer": ["somebody"]}), mode="append")
    sink.commit(second)
    table = DeltaTable(str(table_of(tmp_path)))
    table.optimize.compact()
    table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    sink.commit(first)
    sink.commit(second)
    compare(rows_in(table_of(tmp_path)), [*rows_of(write_id(0), write_id(1)), (-1, "somebody")])


def test_a_new_incarnation_of_the_job_writes_beside_the_old_one(spark: SparkSession, tmp_path: Path) -> None:
    for incarnation in ("one", "two"):
        sink = opened(delta.sink(table_of(tmp_path)), tmp_path / incarnation)
        sink.commit(pre_committed_batch(sink, spark, 0))
    compare(rows_in(table_of(tmp_path)), [*rows_of(write_id(0)), *rows_of(write_id(0))])


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


def test_partition_values_are_read_back_whatever_is_in_them(spark: SparkSession, tmp_path: Path) -> None:
    values = ["a/b", "50% = x?", "é ü", "..", "x" * 60, None]
    frame = spark.createDataFrame(list(enumerate(values)), "id int, name string")
    frame = frame.selectExpr("id", "name", "date_add(date '2026-01-31', id) as day")
    pre_committed_frame(tmp_path, frame, partition_by=("name", "day"))
    assert {row["id"]: row["name"] for row in read(tmp_path)} == dict(enumerate(values))
    assert {row["day"] for row in read(tmp_path)} == {
        dt.date(2026, 1, 31) + dt.timedelta(days=days) for days in range(len(values))
    }
    assert DeltaTable(str(table_of(tmp_path))).metadata().partition_columns == ["name", "day"]


def test_where_no_second_name_can_be_given_executors_copy(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EXDEV, "another file system")

    monkeypatch.setattr(os, "link", refuse)
    sink = make(tmp_path)
    first = pre_committed_batch(sink, spark, 0)
    sink.commit(first)
    sink.commit(first)
    sink.commit(pre_committed_batch(sink, spark, 1))
    sink.abort(StaleGenerations(Generation(2)))
    compare(rows_in(table_of(tmp_path)), rows_of(write_id(0), write_id(1)))
    assert not list((table_of(tmp_path) / "_headgate").rglob("copy-*"))


def test_the_history_says_who_committed(spark: SparkSession, tmp_path: Path) -> None:
    sink = make(tmp_path)
    sink.commit(pre_committed_batch(sink, spark, 0))
    newest = DeltaTable(str(table_of(tmp_path))).history(1)[0]
    assert (newest["headgate.job"], newest["headgate.sink"], newest["headgate.checkpoint"]) == ("contract", "sink", "1")
    assert "headgate.incarnation" not in newest


# -- what cannot work ----------------------------------------------------------------------------------------------


def test_rows_that_the_table_cannot_take_are_refused_before_they_are_staged(
    spark: SparkSession, tmp_path: Path
) -> None:
    fields = [pa.field("id", pa.int32()), pa.field("must", pa.string(), nullable=False), pa.field("may", pa.string())]
    DeltaTable.create(str(table_of(tmp_path)), pa.schema(fields))
    sink = make(tmp_path)
    frame = spark.sql("select id, cast(null as string) as must, 1 as extra from range(3)")
    with pytest.raises(UserError, match=r"id is .*there and .*must may not be null there.*it has no column extra"):
        write_frame(sink, frame)
    assert not staged_files(tmp_path)
    with pytest.raises(UserError, match="does not write its column must"):
        write_frame(sink, spark.sql("select cast(id as int) as id from range(3)"))
    sink.commit(write_frame(sink, spark.sql("select cast(id as int) as id, 'x' as must from range(3)")))
    assert sorted((row["id"], row["must"], row["may"]) for row in read(tmp_path)) == [(n, "x", None) for n in range(3)]


def test_a_table_that_was_made_with_other_columns_since_the_pre_commit_is_named(
    spark: SparkSession, tmp_path: Path
) -> None:
    sink = make(tmp_path)
    committable = pre_committed_batch(sink, spark, 0)
    DeltaTable.create(str(table_of(tmp_path)), pa.schema([pa.field("number", pa.string())]))
    with pytest.raises(UserError, match="it has no column writer"):
        sink.commit(committable)
    assert staged_files(tmp_path)


def test_a_file_that_is_lost_before_the_commit_is_never_passed_over(spark: SparkSession, tmp_path: Path) -> None:
    sink = make(tmp_path)
    sink.commit(pre_committed_batch(sink, spark, 0))
    committable = pre_committed_batch(sink, spark, 1)
    victim = staged_files(tmp_path)[0]
    copy = victim.read_bytes()
    victim.unlink()
    with pytest.raises(BadStorage, match="is gone, which checkpoint 2 pre-committed"):
        sink.commit(committable)
    compare(rows_in(table_of(tmp_path)), rows_of(write_id(0)))
    victim.write_bytes(copy[:-1])
    with pytest.raises(BadStorage, match=r"bytes and should have \d+, as checkpoint 2 pre-committed it"):
        sink.commit(committable)
    victim.write_bytes(copy[:90] + bytes([copy[90] ^ 1]) + copy[91:])
    with pytest.raises(BadStorage, match="is damaged: its checksum does not match, as checkpoint 2 pre-committed it"):
        sink.commit(committable)
    compare(rows_in(table_of(tmp_path)), rows_of(write_id(0)))
    victim.write_bytes(copy)
    sink.commit(committable)
    compare(rows_in(table_of(tmp_path)), rows_of(write_id(0), write_id(1)))


def test_a_log_that_is_damaged_is_refused_before_anything_runs(spark: SparkSession, tmp_path: Path) -> None:
    sink = make(tmp_path)
    sink.commit(pre_committed_batch(sink, spark, 0))
    (table_of(tmp_path) / "_delta_log" / f"{0:020}.json").write_text("{]")
    with pytest.raises(BadStorage, match=r"the log of the Delta table in .* cannot be read"):
        make(tmp_path)


def test_a_directory_with_other_things_in_it_is_no_table(tmp_path: Path) -> None:
    table_of(tmp_path).mkdir()
    (table_of(tmp_path) / "photos").mkdir()
    with pytest.raises(InvalidOption, match="is not a Delta table and not empty, it has photos"):
        make(tmp_path)


def test_a_file_is_no_table(tmp_path: Path) -> None:
    table_of(tmp_path).write_text("")
    with pytest.raises(InvalidOption, match="is a file"):
        make(tmp_path)


def test_a_table_that_is_partitioned_otherwise_is_refused(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("number", pa.int64()), pa.field("day", pa.string())])
    DeltaTable.create(str(table_of(tmp_path)), schema, partition_by=["day"])
    with pytest.raises(InvalidOption, match=r"give partition_by=\('day',\)"):
        make(tmp_path)


@pytest.mark.parametrize(
    ("configuration", "problem"),
    [
        ({"delta.setTransactionRetentionDuration": "interval 1 days"}, "forgets which transactions"),
        ({"delta.constraints.positive": "number > 0"}, "the constraint positive"),
    ],
)
def test_a_table_that_an_append_of_files_would_break_is_refused(
    configuration: dict[str, str], problem: str, tmp_path: Path
) -> None:
    DeltaTable.create(str(table_of(tmp_path)), pa.schema([pa.field("number", pa.int64())]))
    log = table_of(tmp_path) / "_delta_log" / f"{0:020}.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for action in actions:
        if "metaData" in action:
            action["metaData"]["configuration"] = configuration
    log.write_text("\n".join(json.dumps(action) for action in actions))
    with pytest.raises(InvalidOption, match=problem):
        make(tmp_path)


@pytest.mark.parametrize(
    ("select", "options", "message"),
    [
        ("make_interval(1) as span, 1 as id", {}, "cannot have column span"),
        ("1 as `a b`", {}, "cannot have a column named 'a b'"),
        ("1 as id", {"partition_by": ("day",)}, "partition_by names day, the rows have id"),
        ("1 as id, current_timestamp() as at", {"partition_by": ("at",)}, "cannot be partitioned by at"),
        ("1 as id", {"partition_by": ("id",)}, "names every column"),
    ],
)
def test_columns_that_no_table_can_have_are_refused(
    select: str, options: dict[str, Any], message: str, spark: SparkSession, tmp_path: Path
) -> None:
    with pytest.raises(InvalidOption, match=message):
        write_frame(make(tmp_path, **options), spark.sql(f"select {select}"))
    assert not staged_files(tmp_path)


@pytest.mark.parametrize(
    ("path", "options", "message"),
    [
        ("s3://bucket/table", {}, "not a local or mounted directory"),
        ("table", {"partition_by": "day"}, "partition_by takes column names"),
        ("table", {"partition_by": ("day", "day")}, "partition_by takes column names"),
        ("table", {"storage_options": {"timeout": 3}}, "storage_options takes texts, 'timeout' is a int"),
    ],
)
def test_an_option_that_cannot_hold_is_refused_when_the_sink_is_made(
    path: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidOption, match=message):
        delta.sink(path, **options)


def test_a_sink_says_what_it_is_and_can_be_pickled(tmp_path: Path) -> None:
    sink = delta.sink(tmp_path / "t", partition_by=("day",), storage_options={"token": "secret"})
    assert pickle.loads(pickle.dumps(sink)).describe() == f"Delta table in {tmp_path}/t, by day"  # noqa: S301 - ours
