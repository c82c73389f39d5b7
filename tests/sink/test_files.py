"""What the file sink does beyond the contract: names, formats, litter, refusals, files that are taken away."""

import json
import os
import re
import shutil
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import col, lit, struct, udf

from headgate import files
from headgate.core.ids import CheckpointId, Generation, Run, SinkId
from headgate.errors import BadStorage, ExternalError, InvalidOption
from headgate.sink.api import FailedAttempts, SinkContext, StaleGenerations, TwoPhaseSink
from headgate.sink.files import Format
from headgate.sink.staging import HIDDEN, Staging
from headgate.testing import CONTEXT, ROWS, compare, pre_commit, rows_of, write, write_id
from tests.sink.readers import read_csv, read_parquet, visible_files

HEADER = {"header": True}


def opened(sink: TwoPhaseSink) -> TwoPhaseSink:
    sink.open(CONTEXT)
    return sink


def staging(place: Path) -> Path:
    return place / HIDDEN / "contract.sink"


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def everything(place: Path) -> list[str]:
    return sorted(str(path.relative_to(place)) for path in place.rglob("*"))


# -- what readers find ---------------------------------------------------------------------------------------------


def test_a_committed_file_is_named_for_its_sink_generation_and_batch_and_nothing_else_lies_around(
    spark: SparkSession, tmp_path: Path
) -> None:
    sink = opened(files.sink(tmp_path))
    write(sink, spark, write_id(7))
    sink.commit(pre_commit(sink, 1, write_id(7)))
    found = everything(tmp_path)
    data = [name for name in found if not name.startswith(HIDDEN)]
    assert [name.split("-")[:5] for name in data] == [
        ["part", "contract.sink", "g1", "b7", "00000"],
        ["part", "contract.sink", "g1", "b7", "00001"],
    ]
    assert all(name.endswith(".parquet") for name in data)
    hidden = f"{HIDDEN}/contract.sink"
    assert [name for name in found if name not in data] == [HIDDEN, hidden, f"{hidden}/committed.json", f"{hidden}/g1"]


def test_rows_that_wait_are_for_their_owner_alone_and_committed_ones_for_whom_the_umask_says(
    spark: SparkSession, tmp_path: Path
) -> None:
    sink, shared = files.sink(tmp_path / "out"), files.sink(tmp_path / "shared")
    before = os.umask(0o022)
    try:
        sink.open(CONTEXT)
        shared.open(replace(CONTEXT, directory_mode=0o777))
        write(sink, spark, write_id(0))
        waits = mode_of(staging(tmp_path / "out"))
        sink.commit(pre_commit(sink, 1, write_id(0)))
    finally:
        os.umask(before)
    assert (waits, mode_of(staging(tmp_path / "shared"))) == (0o700, 0o755)
    committed = [path for path in (tmp_path / "out").iterdir() if path.is_file()]
    assert {mode_of(path) for path in (tmp_path / "out", tmp_path / "out" / HIDDEN)} == {0o755}
    assert {mode_of(path) for path in committed} == {0o644}


def test_spark_and_arrow_see_only_what_is_committed(spark: SparkSession, tmp_path: Path) -> None:
    sink = opened(files.sink(tmp_path, partition_by=("writer",)))
    for batch in (0, 1):
        write(sink, spark, write_id(batch))
    sink.commit(pre_commit(sink, 1, write_id(0)))
    with_spark = [(row["number"], row["writer"]) for row in spark.read.parquet(str(tmp_path)).collect()]
    compare(with_spark, rows_of(write_id(0)))
    assert {file.parent.name for file in visible_files(tmp_path)} == {"writer=generation 1 batch 0 run 1"}


def test_csv_files_each_have_their_header(spark: SparkSession, tmp_path: Path) -> None:
    sink = opened(files.sink(tmp_path, format="csv", options=HEADER))
    write(sink, spark, write_id(0), partitions=3)
    sink.commit(pre_commit(sink, 1, write_id(0)))
    compare(read_csv(tmp_path), rows_of(write_id(0)))
    assert len(visible_files(tmp_path)) == 3


@pytest.mark.parametrize(
    ("format", "options", "partition_by"),
    [
        ("parquet", {}, ()),
        ("parquet", {}, ("writer",)),
        ("json", {}, ()),
        ("csv", {}, ()),
        ("csv", HEADER, ()),
        ("csv", {"Header": "true", "lineSep": "\r\n"}, ()),
    ],
)
def test_where_there_are_no_rows_there_is_no_file(
    format: Format,  # noqa: A002 - the sink's own word
    options: dict[str, Any],
    partition_by: tuple[str, ...],
    spark: SparkSession,
    tmp_path: Path,
) -> None:
    sink = opened(files.sink(tmp_path, format=format, options=options, partition_by=partition_by))
    frame = spark.range(0, ROWS, 1, 2).select(lit("a\nb").alias("writer"), col("id").alias("number"))
    sink.invoke(write_id(0), frame.where("number < 0"))
    sink.commit(pre_commit(sink, 1, write_id(0)))
    assert visible_files(tmp_path) == []
    sink.invoke(write_id(1), frame.where(f"number = {ROWS - 1}"))
    sink.commit(pre_commit(sink, 2, write_id(1)))
    assert len(visible_files(tmp_path)) == 1


@pytest.mark.parametrize("options", [HEADER, {"header": True, "lineSep": "|"}, {"header": True, "compression": "gzip"}])
def test_a_file_with_one_row_is_never_taken_for_an_empty_one(
    options: dict[str, Any], spark: SparkSession, tmp_path: Path
) -> None:
    sink = opened(files.sink(tmp_path, format="csv", options=options))
    sink.invoke(write_id(0), spark.range(0, 1, 1, 1).select(lit("a\nb").alias("text")))
    sink.commit(pre_commit(sink, 1, write_id(0)))
    found = spark.read.csv(str(tmp_path), multiLine=True, header=True, lineSep=options.get("lineSep"))
    assert [row["text"] for row in found.collect()] == ["a\nb"]


def test_a_batch_is_computed_once_and_put_into_the_number_of_files_that_was_asked_for(
    spark: SparkSession, tmp_path: Path
) -> None:
    seen = spark.sparkContext.accumulator(0)

    def look(number: int) -> int:
        seen.add(1)
        return number

    sink = opened(files.sink(tmp_path, files_per_batch=2))
    frame = spark.range(0, 100, 1, 5).select(
        udf(look, "long", useArrow=False)("id").alias("number"), lit("x").alias("writer")
    )
    sink.invoke(write_id(0), frame)
    sink.commit(pre_commit(sink, 1, write_id(0)))
    assert seen.value == 100
    assert len(visible_files(tmp_path)) == 2
    compare(read_parquet(tmp_path), [(number, "x") for number in range(100)])


def test_sinks_whose_names_look_alike_share_a_directory(spark: SparkSession, tmp_path: Path) -> None:
    expected = []
    committables = []
    for number, (job, name) in enumerate((("a.b", "c"), ("a", "b.c"), ("a%2Eb", "c"), ("_a/ü=:1", ".c d"))):
        sink = files.sink(tmp_path)
        sink.open(SinkContext(job, SinkId(name)))
        write(sink, spark, write_id(number))
        committables.append((sink, pre_commit(sink, 1, write_id(number))))
        expected += rows_of(write_id(number))
    for sink, committable in committables:
        sink.abort(FailedAttempts(Generation(1), Run(1)))
        sink.commit(committable)
        sink.abort(StaleGenerations(Generation(2)))
    compare(read_parquet(tmp_path), expected)
    with_spark = [(row["number"], row["writer"]) for row in spark.read.parquet(str(tmp_path)).collect()]
    compare(with_spark, expected)


# -- what stays, and what does not ---------------------------------------------------------------------------------


def test_nothing_grows_with_time(spark: SparkSession, tmp_path: Path) -> None:
    sink = opened(files.sink(tmp_path))
    for batch in range(3):
        for run in (1, 2):
            write(sink, spark, write_id(batch, run=run))
        sink.abort(FailedAttempts(Generation(1), Run(2)))
        sink.commit(pre_commit(sink, batch + 1, write_id(batch, run=2)))
        assert everything(staging(tmp_path)) == ["committed.json", "g1"]
    write(sink, spark, write_id(3))
    (staging(tmp_path) / ".committed-of-a-process-that-died").touch()
    sink.abort(StaleGenerations(Generation(2)))
    assert everything(staging(tmp_path)) == ["committed.json"]


def test_what_is_not_ours_is_left_alone(spark: SparkSession, tmp_path: Path) -> None:
    sink = opened(files.sink(tmp_path))
    write(sink, spark, write_id(0))
    for name in ("notes.txt", "g1/notes.txt", "g1/b0-r1-copy"):
        (staging(tmp_path) / name).touch()
    sink.abort(StaleGenerations(Generation(2)))
    assert everything(staging(tmp_path)) == ["g1", "g1/b0-r1-copy", "g1/notes.txt", "notes.txt"]


def test_the_directory_may_be_moved_between_pre_commit_and_commit(spark: SparkSession, tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    sink = opened(files.sink(before))
    write(sink, spark, write_id(0))
    committable = pre_commit(sink, 1, write_id(0))
    assert str(tmp_path) not in committable
    before.rename(after)
    opened(files.sink(f"file://{after}")).recover_and_commit(committable)
    compare(read_parquet(after), rows_of(write_id(0)))


def test_a_reader_may_take_files_away_even_between_a_crash_and_the_repeat(spark: SparkSession, tmp_path: Path) -> None:
    sink = opened(files.sink(tmp_path))
    for batch in (0, 1):
        write(sink, spark, write_id(batch))
    first, second = pre_commit(sink, 1, write_id(0)), pre_commit(sink, 2, write_id(1))
    half = tmp_path.parent / "half"
    shutil.copytree(tmp_path, half)
    sink.commit(first)
    for file in visible_files(tmp_path):
        file.unlink()
    sink.commit(first)
    sink.commit(second)
    sink.commit(first)
    compare(read_parquet(tmp_path), rows_of(write_id(1)))
    # The same, cut off after one rename: the reader has that file already, and the other still waits.
    crashed = opened(files.sink(half))
    (staging(half) / "committed.json").write_text('{"version": 1, "generation": 1, "checkpoint": 1}')
    next((staging(half) / "g1" / "b0-r1").glob("part-00000*")).unlink()
    crashed.commit(first)
    compare(read_parquet(half), rows_of(write_id(0))[ROWS // 2 :])


def test_a_job_that_begins_anew_with_lower_numbers_loses_and_overwrites_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    sink = opened(files.sink(tmp_path))
    write(sink, spark, write_id(0))
    sink.commit(pre_commit(sink, 5, write_id(0)))
    for checkpoint in (1, 2):
        write(sink, spark, write_id(0))
        committable = pre_commit(sink, checkpoint, write_id(0))
        sink.commit(committable)
        sink.commit(committable)
    compare(read_parquet(tmp_path), rows_of(write_id(0)) * 3)


def test_a_mark_from_an_earlier_incarnation_does_not_hide_a_loss(spark: SparkSession, tmp_path: Path) -> None:
    sink = opened(files.sink(tmp_path))
    write(sink, spark, write_id(0))
    committable = pre_commit(sink, 1, write_id(0))
    (staging(tmp_path) / "committed.json").write_text('{"version": 1, "generation": 3, "checkpoint": 9}')
    next((staging(tmp_path) / "g1" / "b0-r1").glob("part-00000*")).unlink()
    with pytest.raises(BadStorage, match="neither staged nor committed"):
        sink.commit(committable)
    assert visible_files(tmp_path) == []


# -- what is wrong is said -----------------------------------------------------------------------------------------


def test_a_pre_committed_file_that_is_neither_staged_nor_committed_is_never_passed_over(
    spark: SparkSession, tmp_path: Path
) -> None:
    sink = opened(files.sink(tmp_path))
    write(sink, spark, write_id(0))
    committable = pre_commit(sink, 1, write_id(0))
    lost = next((staging(tmp_path) / "g1" / "b0-r1").glob("part-00001*"))
    saved = lost.rename(tmp_path / "_saved")
    with pytest.raises(
        BadStorage, match="1 of 2 files that checkpoint 1 pre-committed are neither staged nor committed"
    ) as it:
        sink.commit(committable)
    assert "\n" not in str(it.value)
    assert visible_files(tmp_path) == []
    saved.rename(lost)
    sink.commit(committable)
    compare(read_parquet(tmp_path), rows_of(write_id(0)))


def test_a_staged_file_that_was_changed_after_the_pre_commit_is_not_committed(
    spark: SparkSession, tmp_path: Path
) -> None:
    sink = opened(files.sink(tmp_path))
    write(sink, spark, write_id(0))
    committable = pre_commit(sink, 1, write_id(0))
    victim = next((staging(tmp_path) / "g1" / "b0-r1").glob("part-00001*"))
    good = victim.read_bytes()
    flipped = bytearray(good)
    flipped[len(good) // 2] ^= 1
    for bad, what in ((good + b"!", f"has {len(good) + 1} bytes"), (bytes(flipped), "is damaged: its checksum")):
        victim.write_bytes(bad)
        for committer in (sink, opened(files.sink(tmp_path))):
            with pytest.raises(BadStorage, match=f"{re.escape(str(victim))} {what}.*it is not committed; restore it"):
                committer.recover_and_commit(committable)
        assert visible_files(tmp_path) == []
        assert victim.read_bytes() == bad
    victim.write_bytes(good)
    sink.commit(committable)
    compare(read_parquet(tmp_path), rows_of(write_id(0)))


def test_what_an_earlier_version_pre_committed_without_checksums_is_committed(
    spark: SparkSession, tmp_path: Path
) -> None:
    sink = opened(files.sink(tmp_path))
    write(sink, spark, write_id(0))
    fields = json.loads(pre_commit(sink, 1, write_id(0)))
    del fields["pre_committed_ms"]
    for part in fields["parts"]:
        part[2] = [file[:2] for file in part[2]]
    sink.recover_and_commit(json.dumps(fields))
    compare(read_parquet(tmp_path), rows_of(write_id(0)))


def test_output_that_is_gone_before_the_pre_commit_is_not_pre_committed(spark: SparkSession, tmp_path: Path) -> None:
    sink = opened(files.sink(tmp_path))
    write(sink, spark, write_id(0))
    with pytest.raises(BadStorage, match="the output of batch 1 is gone"):
        pre_commit(sink, 1, write_id(0), write_id(1))


def test_a_directory_that_is_away_is_waited_for(spark: SparkSession, tmp_path: Path) -> None:
    place, away = tmp_path / "place", tmp_path / "away"
    sink = opened(files.sink(place))
    write(sink, spark, write_id(0))
    committable = pre_commit(sink, 1, write_id(0))
    place.rename(away)
    with pytest.raises(ExternalError, match="cannot commit checkpoint 1: No such file or directory"):
        sink.commit(committable)
    with pytest.raises(ExternalError, match="cannot begin batch 1"):
        sink.begin_transaction(write_id(1))
    assert not place.exists()
    away.rename(place)
    sink.commit(committable)
    compare(read_parquet(place), rows_of(write_id(0)))


COMMITTABLE = {
    "version": 1,
    "job": "j",
    "sink": "s",
    "generation": 1,
    "checkpoint": 1,
    "parts": [[0, 1, [["part-0", 5]]]],
}


@pytest.mark.parametrize(
    "committable",
    [
        "",
        "{}",
        "[]",
        json.dumps(COMMITTABLE)[:-5],
        json.dumps(COMMITTABLE | {"version": 2}),
        json.dumps(COMMITTABLE | {"job": 1}),
        json.dumps(COMMITTABLE | {"generation": "1"}),
        json.dumps(COMMITTABLE | {"checkpoint": -1}),
        json.dumps(COMMITTABLE | {"parts": [[0, 1]]}),
        json.dumps(COMMITTABLE | {"parts": [[0, 1, [["../../etc/passwd", 5]]]]}),
        json.dumps(COMMITTABLE | {"parts": [[0, 1, [["/etc/passwd", 5]]]]}),
        json.dumps(COMMITTABLE | {"parts": [[0, 1, [["", 5]]]]}),
    ],
)
def test_a_committable_that_is_not_ours_is_refused(committable: str, tmp_path: Path) -> None:
    with pytest.raises(BadStorage, match="pre-committed transaction"):
        opened(files.sink(tmp_path)).commit(committable)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"version": 1}', '{"version": 2, "generation": 1, "checkpoint": 1}'])
def test_a_marker_that_cannot_be_read_is_refused_before_anything_runs(text: str, tmp_path: Path) -> None:
    opened(files.sink(tmp_path))
    (staging(tmp_path) / "committed.json").write_text(text)
    with pytest.raises(BadStorage, match=r"committed\.json"):
        opened(files.sink(tmp_path))


def test_a_marker_with_one_flipped_bit_is_refused_or_means_the_same(tmp_path: Path) -> None:
    place = Staging(tmp_path, "job", SinkId("sink"))
    place.root.mkdir(parents=True)
    mark = (Generation(12), CheckpointId(3456))
    place.remember(mark)
    good = (place.root / "committed.json").read_bytes()
    refused = 0
    for number in range(len(good)):
        bad = bytearray(good)
        bad[number] ^= 1 << number % 7
        (place.root / "committed.json").write_bytes(bad)
        try:
            assert place.newest_commit() == mark, f"{bytes(bad)!r} was taken for another commit"
        except BadStorage as error:
            assert "committed.json" in str(error)  # noqa: PT017 - either is right, and nothing else
            refused += 1
    assert refused > 2 * len("3456")
    (place.root / "committed.json").write_text('{"version": 1, "generation": 12, "checkpoint": 3456}')
    assert place.newest_commit() == mark, "as an earlier version wrote it"


@pytest.mark.parametrize(
    ("path", "options", "what"),
    [
        ("hdfs://host/x", {}, "hdfs is not supported yet"),
        ("s3a://bucket/x", {}, "s3a is not supported yet"),
        ("file://host/x", {}, "write file:///path"),
        ("file:x", {}, "write file:///path"),
        ("/x", {"format": "orc"}, "format 'orc' is unknown: choose parquet, json, csv"),
        ("/x", {"partition_by": "day"}, "partition_by takes column names"),
        ("/x", {"partition_by": ("",)}, "partition_by takes column names"),
        ("/x", {"files_per_batch": 0}, "must be at least 1, got 0"),
        ("/x", {"options": {"PATH": "/y"}}, "option 'PATH' is set by Headgate"),
        ("/x", {"options": {"partitionOverwriteMode": "dynamic"}}, "is set by Headgate"),
    ],
)
def test_an_option_that_cannot_hold_is_refused_when_the_sink_is_made(
    path: str, options: dict[str, Any], what: str
) -> None:
    with pytest.raises(InvalidOption, match=what) as it:
        files.sink(path, **options)
    assert "\n" not in str(it.value)


def test_a_place_that_cannot_be_written_is_refused_when_the_sink_is_opened(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    spark_sink = tmp_path / "spark"
    (spark_sink / "_spark_metadata").mkdir(parents=True)
    for path, what in (
        (file, "is a file: give a directory"),
        (file / "below", "cannot make"),
        (Path("/proc/headgate"), "cannot make"),
        (spark_sink, "remove _spark_metadata"),
    ):
        with pytest.raises(InvalidOption, match=f"sink sink: .*{what}"):
            opened(files.sink(path))
    with pytest.raises(InvalidOption, match="too long"):
        files.sink(tmp_path).open(SinkContext("j" * 100, SinkId("s" * 100)))


@pytest.mark.parametrize(
    ("options", "what"),
    [({"partition_by": ("day",)}, "day"), ({"format": "csv"}, "(?i)csv")],
)
def test_what_spark_cannot_write_is_said_in_one_line(
    options: dict[str, Any], what: str, spark: SparkSession, tmp_path: Path
) -> None:
    sink = opened(files.sink(tmp_path, **options))
    with pytest.raises(InvalidOption, match=what) as it:
        sink.invoke(write_id(0), spark.range(3).select(struct("id").alias("nested")))
    assert "\n" not in str(it.value)


def test_a_sink_says_what_it_is(tmp_path: Path) -> None:
    sink = files.sink(tmp_path, format="json", partition_by=["day", "hour"])
    assert sink.describe() == f"json files in {tmp_path}, by day, hour"
    assert (
        files.sink("file:/data/x").describe() == files.sink("file:///data/x").describe() == "parquet files in /data/x"
    )
