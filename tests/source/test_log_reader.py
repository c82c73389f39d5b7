"""The planner and the reader of a log directory, as Spark calls them, without Spark."""

import gzip
import json
import os
import pickle
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from pyspark.sql.types import (
    ArrayType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from headgate import files
from headgate.errors import BadStorage, ExternalError, InvalidOption
from headgate.source import listing, logdir, rows
from headgate.source.logdir import LogReader

NUMBERS = StructType().add("n", LongType())
START = {"file": "", "row": 0, "files": 0}


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logdir, "IDLE_WAIT_S", 0.0)


def reader(
    directory: Path, kind: str = "json", schema: StructType = NUMBERS, partitions: int = 2, **form: Any
) -> LogReader:
    written = json.dumps({"kind": kind, **form})
    return LogReader(
        {"directory": str(directory), "form": written, "rows_per_batch": "", "partitions": str(partitions)}, schema
    )


def read(made: LogReader, start: dict[str, Any], end: dict[str, Any]) -> list[dict[str, Any]]:
    """What executors read between two offsets: the reader and its partitions get there pickled."""
    parts = pickle.loads(pickle.dumps((made, made.partitions(start, end))))  # noqa: S301 - our own
    return [row for part in parts[1] for batch in parts[0].read(part) for row in batch.to_pylist()]


def everything(made: LogReader) -> list[dict[str, Any]]:
    return read(made, START, made.latestOffset(START, ReadAllAvailable()))


def put(directory: Path, file: str, *numbers: int) -> None:
    (directory / f".{file}").write_text("".join(f'{{"n": {n}}}\n' for n in numbers), encoding="utf-8")
    (directory / f".{file}").rename(directory / file)


def offsets(made: LogReader, limit: int) -> Iterator[dict[str, Any]]:
    """All offsets from the start, in steps of this many rows."""
    at, after = START, dict[str, Any]()
    while at != after:
        yield at
        at, after = made.latestOffset(at, ReadMaxRows(limit)), at


def test_a_batch_that_sizes_itself_has_a_bound_in_bytes_too(tmp_path: Path) -> None:
    for file in range(3):
        put(tmp_path, f"{file}.json", *range(10 + 10 * file, 20 + 10 * file))
    form = json.dumps({"kind": "json"})
    options = {"directory": str(tmp_path), "form": form, "rows_per_batch": "1000", "partitions": "1"}
    line = len('{"n": 10}\n')
    made = LogReader({**options, "bytes_per_batch": str(4 * line)}, NUMBERS)
    batches = [read(made, start, end) for start, end in pairwise(offsets(made, 1000))]
    assert [row["n"] for batch in batches for row in batch] == list(range(10, 40))
    assert {len(batch) for batch in batches[:2]} == {4}
    assert max(map(len, batches)) <= 5
    whole = LogReader({**options, "bytes_per_batch": str(1 << 20)}, NUMBERS)
    assert len(everything(whole)) == 30


@pytest.mark.parametrize("limit", [1, 3, 4, 100])
def test_batches_of_any_size_are_the_same_rows(tmp_path: Path, limit: int) -> None:
    for file, numbers in (("a", range(5)), ("b", range(0)), ("c", range(5, 6)), ("d", range(6, 12))):
        put(tmp_path, file, *numbers)
    made = reader(tmp_path)
    batches = [read(made, start, end) for start, end in pairwise(offsets(made, limit))]
    assert [row["n"] for batch in batches for row in batch] == list(range(12))
    assert all(len(batch) <= limit for batch in batches)


def test_an_offset_says_how_far_in_which_file(tmp_path: Path) -> None:
    put(tmp_path, "a", 1, 2, 3)
    put(tmp_path, "b", 4, 5)
    found = list(offsets(reader(tmp_path), 2))
    assert found == [
        START,
        {"file": "a", "row": 2, "files": 1},
        {"file": "b", "row": 1, "files": 2},
        {"file": "b", "row": 2, "files": 2},
    ]


def test_large_files_are_split_and_small_ones_packed_into_equal_shares(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logdir, "PARTITION_ROWS", 10)
    monkeypatch.setattr(rows, "MARK_BYTES", 16)
    monkeypatch.setattr(rows, "CHUNK_BYTES", 40)
    for file in range(5):
        put(tmp_path, f"{file}", *range(file * 3, file * 3 + 3))
    put(tmp_path, "5", *range(15, 100))
    made = reader(tmp_path, partitions=4)
    end = made.latestOffset(START, ReadAllAvailable())
    shares = [
        [row["n"] for batch in made.read(part) for row in batch.to_pylist()] for part in made.partitions(START, end)
    ]
    assert [len(share) for share in shares] == [25, 25, 25, 25]
    assert [n for share in shares for n in share] == list(range(100))
    few = made.latestOffset(START, ReadMaxRows(8))
    assert len(made.partitions(START, few)) == 1
    assert len(made.partitions(end, end)) == 0


def test_names_that_are_hidden_or_unfinished_are_not_looked_at(tmp_path: Path) -> None:
    for file in (".a", "_a", "a.tmp", "a.part", "a~", "a._COPYING_"):
        (tmp_path / file).write_text("no rows", encoding="utf-8")
    (tmp_path / "_old").mkdir()
    put(tmp_path, "a", 1)
    assert everything(reader(tmp_path)) == [{"n": 1}]


def test_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "day=1").mkdir()
    with pytest.raises(BadStorage, match="holds the folder 'day=1'"):
        reader(tmp_path).latestOffset(START, ReadAllAvailable())


@pytest.mark.parametrize("restarted", [False, True])
class TestWhatWasReadStaysAsItWas:
    """Once by the planner that saw it, and once by one that starts at the offset."""

    def go_on(self, directory: Path, restarted: bool, change: Any) -> dict[str, Any]:
        for file, numbers in (("a", [1]), ("c", [2, 3]), ("e", [4])):
            put(directory, file, *numbers)
        made = reader(directory)
        at = made.latestOffset(START, ReadMaxRows(2))
        assert at == {"file": "c", "row": 1, "files": 2}
        change(directory)
        return (reader(directory) if restarted else made).latestOffset(at, ReadAllAvailable())

    def test_a_late_file_is_named(self, tmp_path: Path, restarted: bool) -> None:
        with pytest.raises(BadStorage, match="'b' came late: it sorts before 'c'"):
            self.go_on(tmp_path, restarted, lambda directory: put(directory, "b", 9))

    def test_a_file_that_was_read_whole_may_go(self, tmp_path: Path, restarted: bool) -> None:
        end = self.go_on(tmp_path, restarted, lambda directory: (directory / "a").unlink())
        assert end == {"file": "e", "row": 1, "files": 3}

    def test_the_file_it_stands_in_is_missed_by_name(self, tmp_path: Path, restarted: bool) -> None:
        with pytest.raises(BadStorage, match="'c' is gone"):
            self.go_on(tmp_path, restarted, lambda directory: (directory / "c").unlink())

    def test_a_file_that_shrank_is_named(self, tmp_path: Path, restarted: bool) -> None:
        with pytest.raises(BadStorage, match="'c' changed after it was there"):
            self.go_on(tmp_path, restarted, lambda directory: (directory / "c").write_text(""))

    def test_a_new_file_at_the_end_is_welcome(self, tmp_path: Path, restarted: bool) -> None:
        end = self.go_on(tmp_path, restarted, lambda directory: put(directory, "f", 9, 10))
        assert end == {"file": "f", "row": 2, "files": 4}


def test_a_file_that_is_exchanged_for_another_name_is_noticed_by_the_planner_that_saw_it(tmp_path: Path) -> None:
    put(tmp_path, "a", 1)
    put(tmp_path, "c", 2)
    made = reader(tmp_path)
    at = made.latestOffset(START, ReadAllAvailable())
    (tmp_path / "a").rename(tmp_path / "b")
    with pytest.raises(BadStorage, match="'b' came late"):
        made.latestOffset(at, ReadAllAvailable())


def test_a_file_that_grows_after_it_was_read_is_named(tmp_path: Path) -> None:
    put(tmp_path, "a", 1)
    made = reader(tmp_path)
    at = made.latestOffset(START, ReadAllAvailable())
    with (tmp_path / "a").open("a", encoding="utf-8") as stream:
        stream.write('{"n": 2}\n')
    with pytest.raises(BadStorage, match="'a' changed after it was there"):
        made.latestOffset(at, ReadAllAvailable())


def test_a_file_that_changes_between_plan_and_read_is_named(tmp_path: Path) -> None:
    put(tmp_path, "a", 1, 2)
    made = reader(tmp_path)
    [part] = made.partitions(START, made.latestOffset(START, ReadAllAvailable()))
    put(tmp_path, "a", 1)
    with pytest.raises(BadStorage, match="'a' changed after it was there"):
        list(made.read(part))


def test_a_batch_is_not_done_again_over_a_file_that_is_gone(tmp_path: Path) -> None:
    for file, number in (("a", 1), ("b", 2), ("c", 3)):
        put(tmp_path, file, number)
    end = reader(tmp_path).latestOffset(START, ReadAllAvailable())
    (tmp_path / "b").unlink()
    with pytest.raises(BadStorage, match="of the 3 files up to 'c', 1 are gone"):
        reader(tmp_path).partitions(START, end)


def test_files_that_were_read_go_one_after_the_other_and_no_row_is_missed(tmp_path: Path) -> None:
    made, seen = reader(tmp_path), list[int]()
    at: dict[str, Any] = dict(START)
    for number in range(6):
        put(tmp_path, f"{number}", number)
        if number == 4:
            made = reader(tmp_path)  # It knows nothing of what was there.
        end = made.latestOffset(at, ReadAllAvailable())
        seen += [row["n"] for row in read(made, at, end)]
        assert [row["n"] for row in read(reader(tmp_path), at, end)] == [number]  # The batch is done again.
        at = end
        for path in tmp_path.iterdir():
            if path.name < str(at["file"]):
                path.unlink()
    assert seen == list(range(6))
    assert at == {"file": "5", "row": 1, "files": 6}


def test_a_batch_needs_all_files_between_its_offsets(tmp_path: Path) -> None:
    for file, number in (("a", 1), ("b", 2), ("c", 3), ("d", 4)):
        put(tmp_path, file, number)
    made = reader(tmp_path)
    start = made.latestOffset(START, ReadMaxRows(2))
    end = made.latestOffset(start, ReadAllAvailable())
    (tmp_path / "a").unlink()
    assert [row["n"] for row in read(reader(tmp_path), start, end)] == [3, 4]
    (tmp_path / "c").unlink()
    with pytest.raises(BadStorage, match="of the 2 files after 'b' up to 'd', 1 are gone"):
        reader(tmp_path).partitions(start, end)


@pytest.mark.parametrize("consumed", ["keep", "delete", "archive"])
def test_files_that_a_completed_checkpoint_has_gone_past_go_where_they_should(tmp_path: Path, consumed: str) -> None:
    directory, archive = tmp_path / "in", tmp_path / "archive"
    directory.mkdir()
    for file, number in (("a", 1), ("b", 2), ("c", 3)):
        put(directory, file, number)
    how = str(archive) if consumed == "archive" else consumed
    source = files.source(directory, schema="n BIGINT", consumed=how)
    made = reader(directory)
    at = made.latestOffset(START, ReadMaxRows(2))
    for _ in range(2):
        source.notify_completed(json.dumps(at))
    gone = [] if consumed == "keep" else ["a"]
    assert sorted(path.name for path in directory.iterdir()) == [name for name in "abc" if name not in gone]
    assert (archive / "a").exists() == (consumed == "archive")
    assert made.latestOffset(at, ReadAllAvailable()) == {"file": "c", "row": 1, "files": 3}
    assert consumed == "keep" or "then" in source.describe()


def test_what_is_in_the_archive_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "archive").mkdir()
    (tmp_path / "archive" / "a").write_text("mine")
    for file in ("a", "b"):
        put(tmp_path / "in", file, 1)
    source = files.source(tmp_path / "in", schema="n BIGINT", consumed=tmp_path / "archive")
    with pytest.raises(BadStorage, match="archive/a is there already"):
        source.notify_completed('{"file": "b", "row": 1, "files": 2}')
    assert ((tmp_path / "archive" / "a").read_text(), (tmp_path / "in" / "a").exists()) == ("mine", True)
    with pytest.raises(InvalidOption, match="which is read: give another"):
        files.source(tmp_path / "in", schema="n BIGINT", consumed=tmp_path / "in")


def test_a_batch_is_not_done_again_with_a_file_that_came_late(tmp_path: Path) -> None:
    for file, number in (("a", 1), ("c", 2), ("d", 3)):
        put(tmp_path, file, number)
    made = reader(tmp_path)
    start = made.latestOffset(START, ReadMaxRows(1))
    end = made.latestOffset(start, ReadAllAvailable())
    put(tmp_path, "b", 9)
    for planner in (made, reader(tmp_path)):
        with pytest.raises(BadStorage, match="'b' came late: it sorts before 'd'"):
            planner.partitions(start, end)


def test_an_offset_of_another_source_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadStorage, match=r"not one of files\.source"):
        reader(tmp_path).latestOffset({"offset": 3}, ReadAllAvailable())


TYPES = (
    StructType()
    .add("i", IntegerType())
    .add("d", DoubleType())
    .add("s", StringType())
    .add("day", DateType())
    .add("at", TimestampType())
    .add("wall", TimestampNTZType())
    .add("price", DecimalType(10, 2))
)


def test_json_and_csv_and_parquet_give_the_same_values(tmp_path: Path) -> None:
    texts = {"i": 3, "d": 0.5, "s": "NA", "day": "2024-02-29", "at": "2024-02-29T01:00:00+01:00"}
    texts |= {"wall": "2024-02-29 01:00:00", "price": 1.25}
    for kind in ("json", "csv", "parquet"):
        (tmp_path / kind).mkdir()
    (tmp_path / "json/a").write_text(json.dumps(texts) + "\r\n{}\r\n", encoding="utf-8")
    header, values = ",".join(texts), ",".join(str(value) for value in texts.values())
    (tmp_path / "csv/a").write_text(f"{header}\r\n{values}\r\n,,,,,,\r\n", encoding="utf-8")
    from_json = everything(reader(tmp_path / "json", "json", TYPES))
    pq.write_table(pa.Table.from_pylist(from_json), tmp_path / "parquet/a")
    assert from_json[0]["s"] == "NA"
    assert from_json[0]["at"].isoformat() == "2024-02-29T00:00:00+00:00"
    assert set(from_json[1].values()) == {None}
    assert everything(reader(tmp_path / "csv", "csv", TYPES)) == from_json
    assert everything(reader(tmp_path / "parquet", "parquet", TYPES)) == from_json


def test_json_may_be_nested(tmp_path: Path) -> None:
    schema = StructType().add("days", ArrayType(DateType())).add("who", StructType().add("at", TimestampType()))
    line = '{"days": ["2024-02-29", null], "who": {"at": "2024-02-29T00:00:00Z", "name": "x"}}'
    (tmp_path / "a").write_text(line, encoding="utf-8")
    [found] = everything(reader(tmp_path, "json", schema))
    assert [day and day.isoformat() for day in found["days"]] == ["2024-02-29", None]
    assert found["who"]["at"].isoformat() == "2024-02-29T00:00:00+00:00"


def test_an_empty_text_is_not_null_in_csv(tmp_path: Path) -> None:
    (tmp_path / "a").write_text('n,s\n1,""\n2,\n3,"a ""b"", c"\n', encoding="utf-8")
    found = everything(reader(tmp_path, "csv", StructType().add("s", StringType())))
    assert [row["s"] for row in found] == ["", None, 'a "b", c']


GOOD = b'{"n": 1}\n' * 40


@pytest.mark.parametrize(
    ("kind", "schema", "data", "message"),
    [
        ("json", NUMBERS, GOOD + b'{"n": "x"}\n' + GOOD, "row 41 of 'a' .*changed from number to string"),
        ("json", NUMBERS, GOOD + b'{"n": 1.5}\n', "row 41 of 'a' .*couldn't parse:1.5"),
        ("json", NUMBERS, GOOD + b"\n" + GOOD, "row 41 of 'a' .*begin with '{'"),
        ("json", NUMBERS, GOOD + b"null\n", "row 41 of 'a' .*begin with '{'"),
        ("json", NUMBERS, GOOD + b'{"n": 1}{"n": 2}\n', "row 41 of 'a' .*more or less than one row"),
        ("json", NUMBERS, GOOD + b'{"n": 1', "row 41 of 'a' "),
        ("json", TYPES, b'{"i": 1}\n{"at": "2024-02-29 00:00:00"}\n', "row 2 of 'a' .*zone offset"),
        ("json", TYPES, b'{"i": 1}\n{"day": 5}\n', "row 2 of 'a' .*changed from string to number"),
        ("json", TYPES, b'{"s": "x"}\n{"s": "\xff"}\n', "row 2 of 'a' .*UTF8"),
        ("csv", NUMBERS, b"n,s\n1,x\n2\n", "row 2 of 'a' .*Expected 2 columns"),
        ("csv", NUMBERS, b"n,s\n1,x\ntwo,x\n", "row 2 of 'a' .*invalid value 'two'"),
        ("csv", NUMBERS, b"n,s\n1,x\n\n2,x\n", "row 2 of 'a' .*blank"),
        ("csv", NUMBERS, b'n,s\n1,x\n2,"x\ny"\n3,x\n', "row 2 of 'a' .*not closed on its line"),
        ("csv", StructType().add("s", StringType()), b'n,s\n1,x\n2,"x\n', "row 2 of 'a' .*not closed on its line"),
        ("csv", NUMBERS, b"1,x\n2,x\n", "first line of 'a' does not name the column 'n'"),
        ("csv", NUMBERS, b"\n2,3\n", "first line of 'a' does not name the column 'n'"),
        ("csv", NUMBERS, b"n,n\n2,3\n", "first line of 'a' does not name the column 'n' once"),
        ("text", StructType().add("line", StringType()), b"good\n\xff\n", "row 2 of 'a' .*UTF8"),
        ("parquet", NUMBERS, b"PAR1 not really", "'a' is broken"),
    ],
)
def test_a_row_that_cannot_be_read_is_named(
    tmp_path: Path, kind: str, schema: StructType, data: bytes, message: str
) -> None:
    (tmp_path / "a").write_bytes(data)
    with pytest.raises(BadStorage, match=message) as raised:
        everything(reader(tmp_path, kind, schema))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pa.array(["1", "2"]), "row 1 of 'a' .*column 'n' is string and not int64"),
        (pa.array([1.0, 2.0]), "row 1 of 'a' .*column 'n' is double and not int64"),
        (pa.array([1, 1 << 63], pa.uint64()), "row 2 of 'a' .*not in range"),
    ],
)
def test_a_parquet_column_of_another_nature_or_out_of_range_is_named(
    tmp_path: Path, column: pa.Array, message: str
) -> None:
    pq.write_table(pa.table({"n": column}), tmp_path / "a")
    with pytest.raises(BadStorage, match=message):
        everything(reader(tmp_path, "parquet"))
    pq.write_table(pa.table({"m": column}), tmp_path / "a")
    with pytest.raises(BadStorage, match="column 'n' is missing"):
        everything(reader(tmp_path, "parquet"))


def test_narrow_and_encoded_parquet_columns_are_fitted(tmp_path: Path) -> None:
    table = pa.table({"s": pa.array(["x", "x"]).dictionary_encode(), "n": pa.array([1, None], pa.int8())})
    pq.write_table(table, tmp_path / "a")
    schema = StructType().add("n", LongType()).add("s", StringType())
    assert everything(reader(tmp_path, "parquet", schema)) == [{"n": 1, "s": "x"}, {"n": None, "s": "x"}]


def test_a_broken_parquet_page_is_named(tmp_path: Path) -> None:
    pq.write_table(pa.table({"n": list(range(1000))}), tmp_path / "a", compression="snappy", use_dictionary=False)
    data = bytearray((tmp_path / "a").read_bytes())
    data[4:200] = b"\xff" * 196
    (tmp_path / "a").write_bytes(data)
    with pytest.raises(BadStorage, match="'a' is broken"):
        everything(reader(tmp_path, "parquet"))


def test_a_file_that_may_not_be_read_is_an_external_error(tmp_path: Path) -> None:
    put(tmp_path, "a", 1)
    made = reader(tmp_path)
    [part] = made.partitions(START, made.latestOffset(START, ReadAllAvailable()))
    (tmp_path / "a").unlink()
    (tmp_path / "a").symlink_to(tmp_path / "a")  # a loop, which even root cannot open
    with pytest.raises(ExternalError, match="'a' cannot be read"):
        list(made.read(part))
    with pytest.raises(ExternalError, match="cannot be listed"):
        reader(tmp_path).latestOffset(START, ReadAllAvailable())


def test_an_idle_planner_waits_and_answers_as_soon_as_a_file_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logdir, "IDLE_WAIT_S", 0.3)
    put(tmp_path, "a", 1)
    made = reader(tmp_path)
    at = made.latestOffset(START, ReadMaxRows(5))
    began_s = time.monotonic()
    assert made.latestOffset(at, ReadMaxRows(5)) == at
    assert time.monotonic() - began_s >= 0.3
    looked = []

    def sleep(_: float) -> None:
        looked.append(1)
        put(tmp_path, "b", 2)

    monkeypatch.setattr(time, "sleep", sleep)
    assert made.latestOffset(at, ReadMaxRows(5))["file"] == "b"
    assert looked == [1]


def test_a_directory_that_has_settled_is_not_listed_again_until_it_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, "a", 1)
    now_s = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now_s[0])
    listed: list[str] = []
    really = listing.finished

    def finished(directory: str) -> list[str]:
        listed.append(directory)
        return really(directory)

    monkeypatch.setattr(listing, "finished", finished)
    os.utime(tmp_path, (1_000, 1_000))  # so that the next file surely changes its time stamp
    seen = listing.Listing(str(tmp_path))
    # So soon after a change, another one could have the same time stamp.
    for _ in range(250):
        assert seen.names() == ["a"]
        now_s[0] += listing.LOOK_AGAIN_S
    assert 3 <= len(listed) <= 12
    listed.clear()
    now_s[0] += 100
    assert seen.names() == seen.names() == ["a"]
    assert listed == []
    put(tmp_path, "b", 2)
    assert seen.names() == ["a", "b"]


def test_a_file_behind_the_same_time_stamp_is_found_soon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now_s[0])
    put(tmp_path, "a", 1)
    os.utime(tmp_path, (1_000, 1_000))
    seen = listing.Listing(str(tmp_path))
    assert seen.names() == ["a"]
    put(tmp_path, "b", 2)
    os.utime(tmp_path, (1_000, 1_000))
    assert seen.names() == ["a"]
    now_s[0] += listing.LOOK_AGAIN_S
    assert seen.names() == ["a", "b"]
    now_s[0] += listing.SETTLED_S / 4
    assert seen.names() == ["a", "b"]
    put(tmp_path, "c", 2)
    os.utime(tmp_path, (1_000, 1_000))
    now_s[0] += listing.SETTLED_S
    assert seen.names() == ["a", "b", "c"]


def test_a_bounded_directory_ends_with_the_last_row_of_its_last_file(tmp_path: Path) -> None:
    put(tmp_path, "a", 1, 2)
    put(tmp_path, "b", 3, 4)
    source = files.source(tmp_path, schema="n BIGINT", bounded=True)
    assert not source.ended('{"file": "a", "row": 2, "files": 1}')
    assert not source.ended('{"file": "b", "row": 1, "files": 2}')
    assert source.ended('{"file": "b", "row": 2, "files": 2}')
    put(tmp_path, "c", 5)
    assert not source.ended('{"file": "b", "row": 2, "files": 2}')
    endless = files.source(tmp_path, schema="n BIGINT")
    assert not endless.ended('{"file": "c", "row": 1, "files": 3}')


NAMED = StructType().add("n", LongType()).add("name", StringType())
MARKED = StructType().add("n", LongType()).add("name", StringType()).add("_corrupt_record", StringType())
"""With a column for lines that do not fit."""


def test_csv_may_come_without_its_names_and_with_another_separator(tmp_path: Path) -> None:
    (tmp_path / "a").write_text('1;"x;y"\n2;\n', encoding="utf-8")
    assert everything(reader(tmp_path, "csv", NAMED, header=False, sep=";")) == [
        {"n": 1, "name": "x;y"},
        {"n": 2, "name": None},
    ]
    (tmp_path / "a").write_text("name\tother\tn\nx\ty\t1\n", encoding="utf-8")
    assert everything(reader(tmp_path, "csv", NAMED, sep="\t")) == [{"n": 1, "name": "x"}]


BAD_CSV = "1,a\nx,b\n\n3,c,d\n4,d\n5\n6,f"
BAD_JSON = '{"n": 1, "name": "a"}\n{"n": "x"}\n\n[3]\n{"n": 4, "name": "d"}\nnull\n{"n": 6, "name": "f"}'


@pytest.mark.parametrize(("kind", "text"), [("csv", BAD_CSV), ("json", BAD_JSON)])
@pytest.mark.parametrize("limit", [1, 2, 100])
@pytest.mark.parametrize("chunk", [3, 1 << 20])
def test_lines_that_do_not_fit_are_left_out_where_the_user_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, text: str, limit: int, chunk: int
) -> None:
    monkeypatch.setattr(rows, "CHUNK_BYTES", chunk)
    (tmp_path / "a").write_text(text, encoding="utf-8")
    made = reader(tmp_path, kind, NAMED, header=False, mode="DROPMALFORMED")
    found = [row for start, end in pairwise(offsets(made, limit)) for row in read(made, start, end)]
    assert [(row["n"], row["name"]) for row in found] == [(1, "a"), (4, "d"), (6, "f")]
    assert made.latestOffset(START, ReadAllAvailable())["row"] == 7, "an offset counts every line"


@pytest.mark.parametrize(
    ("kind", "text", "lines"),
    [("csv", BAD_CSV, ["x,b", "3,c,d", "5"]), ("json", BAD_JSON, ['{"n": "x"}', "[3]", "null"])],
)
def test_lines_that_do_not_fit_are_rows_of_nulls_where_the_user_says_so(
    tmp_path: Path, kind: str, text: str, lines: list[str]
) -> None:
    (tmp_path / "a").write_text(text, encoding="utf-8")
    plain = everything(reader(tmp_path, kind, NAMED, header=False, mode="PERMISSIVE"))
    assert [row["n"] for row in plain] == [1, None, None, 4, None, 6]
    marked = everything(reader(tmp_path, kind, MARKED, header=False, mode="PERMISSIVE"))
    assert [row["_corrupt_record"] for row in marked] == [None, lines[0], lines[1], None, lines[2], None]
    assert [(row["n"], row["name"]) for row in marked] == [(row["n"], row["name"]) for row in plain]


def test_a_file_with_a_header_and_lines_that_do_not_fit_keeps_its_header(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"name,n\r\na,1\r\n\xff,2\r\nc,3\r\n")
    found = everything(reader(tmp_path, "csv", MARKED, mode="PERMISSIVE"))
    assert [(row["n"], row["name"]) for row in found] == [(1, "a"), (None, None), (3, "c")]
    assert found[1]["_corrupt_record"] == "\ufffd,2"
    (tmp_path / "a").write_text("other,n\nx,1\n", encoding="utf-8")
    with pytest.raises(BadStorage, match="does not name the column 'name' once"):
        everything(reader(tmp_path, "csv", NAMED, mode="PERMISSIVE"))


@pytest.mark.parametrize("limit", [1, 7, 1000])
def test_what_is_compressed_is_read_as_what_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    monkeypatch.setattr(logdir, "PARTITION_ROWS", 10)
    monkeypatch.setattr(rows, "MARK_BYTES", 64)
    with gzip.open(tmp_path / "a.json.gz", "wt", encoding="utf-8") as out:
        out.writelines(f'{{"n": {n}}}\n' for n in range(40))
    put(tmp_path, "b.json", *range(40, 50))
    made = reader(tmp_path)
    found = [row["n"] for start, end in pairwise(offsets(made, limit)) for row in read(made, start, end)]
    assert found == list(range(50))


@pytest.mark.parametrize("cut", [5, 30, -5])
def test_what_is_compressed_and_broken_is_named(tmp_path: Path, cut: int) -> None:
    whole = gzip.compress(b"".join(b'{"n": %d}\n' % n for n in range(100)))
    (tmp_path / "a.gz").write_bytes(whole[:cut])
    with pytest.raises(BadStorage, match=r"'a\.gz' is broken"):
        everything(reader(tmp_path))
    (tmp_path / "a.gz").write_bytes(b'{"n": 1}\n')
    with pytest.raises(BadStorage, match=r"'a\.gz' is broken"):
        everything(reader(tmp_path))
