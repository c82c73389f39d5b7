"""Files that are compressed, cut, glued together or something else."""

import bz2
import gzip
import io
import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows

from headgate.errors import BadStorage
from headgate.source import codecs, logdir, rows
from tests.source.test_log_reader import START, everything, no_waiting, offsets, read, reader

__all__ = ["no_waiting"]


def _arrow(codec: str) -> Callable[[bytes], bytes]:
    def compress(data: bytes) -> bytes:
        out = pa.BufferOutputStream()
        with pa.CompressedOutputStream(out, codec) as stream:
            stream.write(data)
        return bytes(out.getvalue())

    return compress


COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".zst": _arrow("zstd"),
    ".zstd": _arrow("zstd"),
    ".lz4": _arrow("lz4"),
}
ENDINGS = sorted(COMPRESS)


def lines(first: int, end: int) -> bytes:
    return b"".join(b'{"n": %d}\n' % n for n in range(first, end))


def test_every_codec_that_there_is_is_tried() -> None:
    assert set(COMPRESS) == set(codecs.KNOWN)


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("limit", [1, 7, 1000])
def test_every_row_comes_once_however_it_is_compressed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str, limit: int
) -> None:
    monkeypatch.setattr(logdir, "PARTITION_ROWS", 10)
    monkeypatch.setattr(rows, "MARK_BYTES", 64)
    monkeypatch.setattr(rows, "CHUNK_BYTES", 50)
    monkeypatch.setattr(codecs, "PASSED_BYTES", 33)
    (tmp_path / f"a{ending}").write_bytes(COMPRESS[ending](lines(0, 40)))
    (tmp_path / "b").write_bytes(lines(40, 50))
    made = reader(tmp_path)
    found = [row["n"] for start, end in pairwise(offsets(made, limit)) for row in read(made, start, end)]
    assert found == list(range(50))


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_new_reader_goes_on_in_the_middle_of_a_compressed_file(tmp_path: Path, ending: str) -> None:
    (tmp_path / f"a{ending}").write_bytes(COMPRESS[ending](lines(0, 100_000)))
    made = reader(tmp_path)
    middle = made.latestOffset(START, ReadMaxRows(61_234))
    assert middle == {"file": f"a{ending}", "row": 61_234, "files": 1}
    again = reader(tmp_path)
    end = again.latestOffset(json.loads(json.dumps(middle)), ReadMaxRows(100_000))
    assert [row["n"] for row in read(made, START, middle)] == list(range(61_234))
    assert [row["n"] for row in read(again, middle, end)] == list(range(61_234, 100_000))


@pytest.mark.parametrize("ending", ENDINGS)
def test_compressed_files_may_be_glued_together(tmp_path: Path, ending: str) -> None:
    compress = COMPRESS[ending]
    (tmp_path / f"a{ending}").write_bytes(compress(lines(0, 7)) + compress(b"") + compress(lines(7, 20)))
    assert [row["n"] for row in everything(reader(tmp_path))] == list(range(20))


def test_what_zstandard_skips_is_skipped(tmp_path: Path) -> None:
    skipped = b"\x50\x2a\x4d\x18" + (5).to_bytes(4, "little") + b"notes"
    compress = COMPRESS[".zst"]
    (tmp_path / "a.zst").write_bytes(skipped + compress(lines(0, 3)) + skipped + compress(lines(3, 5)))
    assert [row["n"] for row in everything(reader(tmp_path))] == list(range(5))


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("cut", [5, 30, -5, -1])
def test_a_compressed_file_that_was_cut_is_named(tmp_path: Path, ending: str, cut: int) -> None:
    (tmp_path / f"a{ending}").write_bytes(COMPRESS[ending](lines(0, 5000))[:cut])
    with pytest.raises(BadStorage, match=rf"'a\{ending}' is broken"):
        everything(reader(tmp_path))


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_file_that_is_not_what_its_name_says_is_named(tmp_path: Path, ending: str) -> None:
    for data in (b'{"n": 1}\n', COMPRESS[ending](lines(0, 5)) + b'{"n": 6}\n'):
        (tmp_path / f"a{ending}").write_bytes(data)
        with pytest.raises(BadStorage, match=rf"'a\{ending}' is broken"):
            everything(reader(tmp_path))


@pytest.mark.parametrize("ending", codecs.UNKNOWN)
def test_a_file_that_is_compressed_in_another_way_is_refused_and_not_taken_for_lines(
    tmp_path: Path, ending: str
) -> None:
    (tmp_path / f"a{ending}").write_bytes(lines(0, 3))
    with pytest.raises(BadStorage, match=r"in a way that is not read: .* one of \.bz2, \.gz, \.lz4, \.zst, \.zstd"):
        everything(reader(tmp_path, mode="PERMISSIVE"))


@pytest.mark.parametrize("ending", ENDINGS)
def test_any_place_of_a_compressed_file_can_be_sought(ending: str) -> None:
    data = lines(0, 3000)
    stream = codecs.content("/data", f"a{ending}", io.BytesIO(COMPRESS[ending](data)))
    for place in (9000, 100, 101, 20_000, 0, len(data), 7):
        assert stream.seek(place) == place
        assert stream.read(11) == data[place : place + 11]
        assert stream.readline() == data[place + 11 :].split(b"\n")[0] + b"\n" * (place + 11 < len(data))
