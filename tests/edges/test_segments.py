"""Segments and their log."""

import json
from pathlib import Path

import pytest

from headgate.channel import segments
from headgate.channel.reader import PARTITION_BYTES, ChannelReader, Files, pack
from headgate.channel.segments import SegmentEntry, Segments
from headgate.core.ids import Batch, ChannelId, Run
from headgate.errors import BadStorage

ONE, TWO = ChannelId("one.0"), ChannelId("two.0")


def write(directory: Path, batch: int, run: int, **files: str) -> None:
    """What one run of a batch leaves: the files of its rows, and what Spark puts beside them."""
    where = segments.segment_directory(directory, Batch(batch), Run(run))
    where.mkdir(parents=True)
    for name, text in {**files, "_SUCCESS": "", ".part.crc": "x"}.items():
        (where / name).write_text(text, encoding="utf-8")


def enter(directory: Path, batch: int, *channels: ChannelId) -> None:
    write(directory, batch, 1, part="rows")
    for channel in channels:
        Segments(directory, channel).commit(Batch(batch), Run(1))


def test_an_entry_names_the_run_that_committed_and_the_files_with_rows(tmp_path: Path) -> None:
    write(tmp_path, 4, 1, part1="of a run that died")
    write(tmp_path, 4, 2, part2="rows", part1="more")
    log = Segments(tmp_path, ONE)
    log.commit(Batch(4), Run(2))
    assert log.entry(Batch(4)) == SegmentEntry(Batch(4), Run(2), (("4/r2/part1", 4), ("4/r2/part2", 4)))
    assert log.between(Batch(3), Batch(4))[0].size == 8


def test_a_batch_counts_only_once_it_is_entered(tmp_path: Path) -> None:
    write(tmp_path, 0, 1, part="rows")
    assert Segments(tmp_path, ONE).entry(Batch(0)) is None
    enter(tmp_path, 1, TWO)
    assert Segments(tmp_path, ONE).entry(Batch(1)) is None
    assert Segments(tmp_path, TWO).entry(Batch(1)) is not None


def test_a_repeat_leaves_the_entry_as_it_is(tmp_path: Path) -> None:
    enter(tmp_path, 0, ONE)
    path = tmp_path / "log/one.0/0.json"
    before = path.stat().st_ino
    Segments(tmp_path, ONE).commit(Batch(0), Run(1))
    assert path.stat().st_ino == before


def test_an_entry_from_an_earlier_incarnation_of_the_job_is_replaced(tmp_path: Path) -> None:
    log = Segments(tmp_path, ONE)
    log.write(SegmentEntry(Batch(0), Run(1), (("0/r1/part-of-long-ago", 77),)))
    write(tmp_path, 0, 1, part="rows")
    log.commit(Batch(0), Run(1))
    assert log.between(Batch(-1), Batch(0)) == [SegmentEntry(Batch(0), Run(1), (("0/r1/part", 4),))]


def test_a_batch_without_rows_has_an_entry_without_files(tmp_path: Path) -> None:
    write(tmp_path, 0, 1)
    log = Segments(tmp_path, ONE)
    log.commit(Batch(0), Run(1))
    assert log.entry(Batch(0)) == SegmentEntry(Batch(0), Run(1), ())


def test_a_segment_that_is_gone_is_not_entered_as_an_empty_one(tmp_path: Path) -> None:
    log = Segments(tmp_path, ONE)
    log.commit(Batch(0), Run(1))
    with pytest.raises(BadStorage, match=r"has no segment of one\.0 for batch 0"):
        log.between(Batch(-1), Batch(0))


def test_a_gap_is_an_error_and_not_a_loss(tmp_path: Path) -> None:
    for batch in (2, 3, 5):
        enter(tmp_path, batch, ONE)
    log = Segments(tmp_path, ONE)
    assert [entry.batch for entry in log.between(Batch(1), Batch(3))] == [2, 3]
    assert log.between(Batch(3), Batch(3)) == []
    with pytest.raises(BadStorage, match=r"has no segment of one\.0 for batch 4"):
        log.between(Batch(3), Batch(5))


@pytest.mark.parametrize("text", ["", "[]", '{"run": 1}', '{"run": 1, "files": [["name"]]}', '{"run":1,"files":5}'])
def test_an_entry_that_cannot_be_read_is_named(tmp_path: Path, text: str) -> None:
    enter(tmp_path, 0, ONE)
    (tmp_path / "log/one.0/0.json").write_text(text, encoding="utf-8")
    with pytest.raises(BadStorage, match=r"log/one\.0/0\.json is not an entry"):
        Segments(tmp_path, ONE).entry(Batch(0))


def test_the_files_go_with_the_last_entry_that_names_them(tmp_path: Path) -> None:
    enter(tmp_path, 0, ONE, TWO)
    enter(tmp_path, 1, ONE, TWO)
    segments.drop(tmp_path, ONE, Batch(0))
    assert (tmp_path / "0/r1/part").exists()
    segments.drop(tmp_path, ONE, Batch(0))
    assert (tmp_path / "0/r1/part").exists()
    segments.drop(tmp_path, TWO, Batch(0))
    assert not (tmp_path / "0").exists()
    assert [entry.batch for entry in Segments(tmp_path, ONE).between(Batch(0), Batch(1))] == [1]


def test_an_entry_is_never_seen_half_written(tmp_path: Path) -> None:
    log = Segments(tmp_path, ONE)
    log.write(SegmentEntry(Batch(0), Run(1), ()))
    names = [path.name for path in (tmp_path / "log/one.0").iterdir()]
    assert names == ["0.json"]
    assert json.loads((tmp_path / "log/one.0/0.json").read_text(encoding="utf-8")) == {"run": 1, "files": []}


# -- how a reader packs what it reads ----------------------------------------------------------------------------------


def test_small_files_are_packed_together_and_large_ones_shared_out() -> None:
    assert pack([(f"f{n}", 10) for n in range(25)], 8) == [[f"f{n}" for n in range(25)]]
    shared = pack([(f"f{n}", PARTITION_BYTES) for n in range(6)], 4)
    assert sorted(len(heap) for heap in shared) == [1, 1, 2, 2]
    assert sorted(name for heap in shared for name in heap) == [f"f{n}" for n in range(6)]
    assert pack([], 4) == []


def test_a_reader_plans_by_position_and_finds_the_files_of_the_range(tmp_path: Path) -> None:
    for batch in range(4):
        enter(tmp_path, batch, ONE)
    options = {"directory": str(tmp_path), "channel": ONE, "position": "1", "partitions": "2"}
    reader = ChannelReader(options, None)  # type: ignore[arg-type]  # only a read needs the schema
    assert reader.initialOffset() == {"channel": "one.0", "batch": 1}
    (piece,) = reader.partitions({"channel": "one.0", "batch": 1}, {"channel": "one.0", "batch": 3})
    assert isinstance(piece, Files)
    assert piece.paths == tuple(str(tmp_path / f"{batch}/r1/part") for batch in (2, 3))
