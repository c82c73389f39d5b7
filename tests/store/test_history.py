"""A history in segments: what is written is found again, whatever happened to the process and to the files."""

import json
import os
import resource
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from headgate.errors import ExternalError
from headgate.store.history import (
    UNREADABLE,
    HistoryBounds,
    HistoryPosition,
    HistoryReader,
    HistoryWriter,
    index,
    lines,
    reader,
)
from headgate.store.history.files import HEAD_BYTES, HistoryFiles
from headgate.store.history.writer import carry_over
from headgate.store.local import LocalStore
from tests.edges.stores import Remote

SMALL = HistoryBounds(segment_bytes=400)


@pytest.fixture(params=[LocalStore, Remote])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> LocalStore:
    made: LocalStore = request.param(tmp_path)
    return made


def told(store: LocalStore) -> list[Any]:
    """The numbers of all lines, in the order in which they are read; what cannot be read as its event."""
    return [line.get("n", line["event"]) for line in HistoryReader(store).lines()]


def event(number: int, **fields: Any) -> dict[str, Any]:
    return {"at": 1_000 + number, "event": "notice", "n": number, **fields}


def files(store: LocalStore) -> list[Path]:
    return sorted(Path(store._root, "history").iterdir())


# -- lines -----------------------------------------------------------------------------------------------------------


@given(st.dictionaries(st.text(), st.none() | st.booleans() | st.integers() | st.text() | st.lists(st.text())))
def test_a_line_reads_back_as_what_it_was(line: dict[str, Any]) -> None:
    data = lines.encode_line(line)
    assert data.endswith(b"\n")
    assert data.count(b"\n") == 1
    if "crc" not in line:
        assert lines.decode_line(data[:-1]) == line
        assert {**line, "crc": json.loads(data)["crc"]} == json.loads(data)


@given(st.data())
def test_no_byte_of_a_line_can_change_unnoticed(data: st.DataObject) -> None:
    good = lines.encode_line(event(7, text="a, b", tasks={"a": {"crc": "00000000"}}))[:-1]
    at = data.draw(st.integers(0, len(good) - 1))
    byte = data.draw(st.integers(0, 255).filter(lambda each: each not in (good[at], 10)))
    assert lines.decode_line(good[:at] + bytes([byte]) + good[at + 1 :]) is None
    assert lines.decode_line(good[:at]) is None


def test_only_lines_of_earlier_releases_may_be_without_a_checksum() -> None:
    assert lines.decode_line(b'{"n":1}') is None
    assert lines.decode_line(b'{"n":1}', unchecked=True) == {"n": 1}
    assert lines.decode_line(b"[1]", unchecked=True) is None
    assert lines.decode_line(b'{"n":1', unchecked=True) is None


# -- runs of ids -----------------------------------------------------------------------------------------------------

ids = st.sets(st.integers(0, 40))


@given(ids, ids, st.integers(1, 50), st.none() | st.integers(0, 45))
def test_runs_are_as_good_as_the_sets_that_they_stand_for(
    one: set[int], two: set[int], limit: int, below: int | None
) -> None:
    a, b = index.runs(one), index.runs(two)
    assert set(index.members(a)) == one
    assert index.length(a) == len(one)
    assert set(index.members(index.union([*a, *b]))) == one | two
    assert set(index.members(index.without(a, b))) == one - two
    wanted = sorted((each for each in one if below is None or each < below), reverse=True)
    assert index.highest(a, limit, below) == wanted[:limit]


# -- writing and reading ---------------------------------------------------------------------------------------------


def test_lines_come_back_in_their_order_over_many_segments(store: LocalStore) -> None:
    writer = HistoryWriter(store, SMALL)
    for number in range(0, 60, 2):
        writer.append([event(number), event(number + 1)])
    assert told(store) == list(range(60))
    assert len(HistoryReader(store).look()) > 5


def test_nothing_is_touched_before_the_first_line(store: LocalStore) -> None:
    HistoryWriter(store).append([])
    assert list(store.list()) == []
    assert told(store) == []


def test_history_is_bounded_and_loses_whole_segments_the_oldest_first(store: LocalStore) -> None:
    bounds = HistoryBounds(max_bytes=16_000)
    writer = HistoryWriter(store, bounds)
    kept: list[int] = []
    for number in range(0, 1_000, 10):
        writer.append([event(each) for each in range(number, number + 10)])
        kept = told(store)
        assert kept == list(range(kept[0], number + 10))
    assert kept[0] > 0
    assert sum(path.stat().st_size for path in files(store)) <= bounds.max_bytes * 9 / 8 + 1_000
    assert not [path for path in files(store) if path.name.startswith(".")]


def test_history_keeps_no_more_checkpoints_than_it_is_told_to(store: LocalStore) -> None:
    writer = HistoryWriter(store, HistoryBounds(max_checkpoints=24))
    for number in range(100):
        writer.append([{"at": number, "event": "checkpoint-triggered", "id": number, "kind": "checkpoint"}])
    known = HistoryReader(store).ids(1_000)
    assert known == list(range(99, 99 - len(known), -1))
    assert 24 - 4 <= len(known) <= 24 + 4


def test_a_job_that_is_started_again_and_again_has_no_more_segments_than_it_may(store: LocalStore) -> None:
    bounds = HistoryBounds(max_segments=5)
    for number in range(20):
        HistoryWriter(store, bounds).append([event(number)])
    assert told(store) == [15, 16, 17, 18, 19]


def test_a_segment_that_is_rolled_has_an_index_and_no_parts(store: LocalStore) -> None:
    writer = HistoryWriter(store, SMALL)
    for number in range(20):
        writer.append([event(number)])
    names = [path.name for path in files(store)]
    assert names[:2] == ["000001-000001.index", "000001-000001.jsonl"]
    assert not any(name.startswith("000001-000001.0") for name in names)
    assert HistoryReader(store).look()[0].made is None, "the index was taken as it is"


def test_what_a_process_leaves_without_an_index_gets_one_from_the_next(store: LocalStore) -> None:
    HistoryWriter(store).append([event(1), event(2)])
    HistoryWriter(store).append([event(3)])
    views = HistoryReader(store).look()
    assert [view.made is None for view in views] == [True, False]
    assert told(store) == [1, 2, 3]


def test_a_full_disk_costs_the_lines_that_did_not_fit_and_no_other(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    writer = HistoryWriter(store)
    writer.append([event(1)])
    path = files(store)[0]
    size = path.stat().st_size
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 10, before[1]))  # As a disk that is nearly full.
    try:
        with pytest.raises(ExternalError, match="make room there"):
            writer.append([event(2)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert path.stat().st_size == size, "what was written in part was taken back"
    writer.append([event(3)])
    assert told(store) == [1, 3]


def test_a_segment_that_was_deleted_or_written_into_is_left_and_another_begun(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    writer = HistoryWriter(store)
    writer.append([event(1)])
    files(store)[0].unlink()
    writer.append([event(2)])
    assert told(store) == [2]
    with files(store)[0].open("ab") as file:
        file.write(b"a cat\n")
    writer.append([event(3)])
    assert told(store) == [2, UNREADABLE, 3]
    assert b"a cat\n" in files(store)[0].read_bytes(), "it is not ours to delete"


class Unsure(Remote):
    """A storage that loses the answer: what it was asked to do, it has done."""

    fails = False

    def put(self, path: str, data: bytes, *, secret: bool = False) -> None:
        super().put(path, data, secret=secret)
        if self.fails and not path.endswith(".index"):
            raise ExternalError("no answer")


def test_a_part_that_may_have_been_written_is_not_written_again(tmp_path: Path) -> None:
    store = Unsure(tmp_path)
    writer = HistoryWriter(store)
    writer.append([event(1)])
    store.fails = True
    with pytest.raises(ExternalError):
        writer.append([event(2)])
    store.fails = False
    writer.append([event(3)])
    assert told(store) == [1, 2, 3]


def test_parts_that_are_left_beside_their_segment_are_not_read_twice(tmp_path: Path) -> None:
    class Dies(Remote):
        def delete(self, *_: str) -> None:
            raise ExternalError("killed")

    writer = HistoryWriter(Dies(tmp_path), SMALL)
    for number in range(12):
        writer.append([event(number)])
    store = Remote(tmp_path)
    names = [path.name for path in files(store)]
    assert {"000001-000001.jsonl", "000001-000001.000001.jsonl"} <= set(names)
    assert told(store) == list(range(12))
    HistoryWriter(store, SMALL).append([event(12)])
    assert told(store) == list(range(13))
    assert "000001-000001.000001.jsonl" not in [path.name for path in files(store)]


# -- two leaders -----------------------------------------------------------------------------------------------------


def test_what_a_leader_wrote_that_had_lost_the_lead_stands_before_its_successor(store: LocalStore) -> None:
    old, new = HistoryWriter(store, SMALL), HistoryWriter(store, SMALL)
    old.append([event(1)])
    new.append([event(10)])
    for number in range(2, 8):  # It wakes, and fills more than one segment.
        old.append([event(number)])
    new.append([event(11)])
    assert told(store) == [*range(1, 8), 10, 11]


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3)), max_size=20), st.sampled_from([LocalStore, Remote]))
def test_writers_in_any_order_lose_nothing_and_double_nothing(
    steps: list[tuple[int, int]], kind: type[LocalStore]
) -> None:
    with tempfile.TemporaryDirectory() as place:
        store = kind(Path(place))
        writers = [HistoryWriter(store, SMALL) for _ in range(3)]
        wrote: dict[int, list[int]] = {}
        number = 0
        for who, many in steps:
            batch = list(range(number, number + many))
            number += many
            writers[who].append([event(each) for each in batch])
            wrote.setdefault(who, []).extend(batch)
        assert told(store) == [each for who in wrote for each in wrote[who]], "in the order in which they began"


# -- damage ----------------------------------------------------------------------------------------------------------


def written(store: LocalStore) -> dict[str, list[int]]:
    """Two processes, some segments each. What each file with lines holds."""
    for begin in (0, 20):
        writer = HistoryWriter(store, SMALL)
        for number in range(begin, begin + 14):
            writer.append([event(number)])
    return {
        path.name: [json.loads(line)["n"] for line in path.read_bytes().splitlines()]
        for path in files(store)
        if path.suffix == ".jsonl"
    }


@pytest.fixture(scope="module", params=[LocalStore, Remote])
def whole(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[LocalStore, dict[str, Any]]:
    store = request.param(tmp_path_factory.mktemp("whole"))
    return store, written(store)


@contextmanager
def copied(store: LocalStore) -> Iterator[LocalStore]:
    with tempfile.TemporaryDirectory() as place:
        shutil.copytree(store._root, place, dirs_exist_ok=True)
        yield type(store)(Path(place))


@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_any_file_can_be_cut_at_any_byte_and_all_before_and_beside_it_is_read(
    whole: tuple[LocalStore, dict[str, list[int]]], data: st.DataObject
) -> None:
    before, holds = told(whole[0]), whole[1]
    with copied(whole[0]) as store:
        path = data.draw(st.sampled_from(files(store)))
        good = path.read_bytes()
        at = data.draw(st.integers(0, len(good)))
        path.write_bytes(good[:at])
        lost = [] if path.suffix == ".index" else holds[path.name][good[:at].count(b"\n") :]
        expected = [each for each in before if each not in lost]
        assert [each for each in told(store) if each != UNREADABLE] == expected
        HistoryWriter(store).append([event(99)])
        after = told(store)
        assert [each for each in after if each != UNREADABLE] == [*expected, 99]
        torn = path.suffix == ".jsonl" and at > 0 and good[at - 1 : at] != b"\n"
        assert after.count(UNREADABLE) == torn, "what is cut short does not pass silently once somebody goes on"
        assert HistoryReader(store).unreadable() == torn


@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_any_byte_can_be_changed_and_nothing_false_is_told(
    whole: tuple[LocalStore, dict[str, list[int]]], data: st.DataObject
) -> None:
    before, holds = told(whole[0]), whole[1]
    with copied(whole[0]) as store:
        path = data.draw(st.sampled_from(files(store)))
        good = path.read_bytes()
        at = data.draw(st.integers(0, len(good) - 1))
        byte = data.draw(st.integers(0, 255).filter(lambda each: each != good[at]))
        path.write_bytes(good[:at] + bytes([byte]) + good[at + 1 :])
        found = list(HistoryReader(store).lines())
        readable = [line["n"] for line in found if line["event"] != UNREADABLE]
        touched: list[int] = []
        if path.suffix == ".jsonl":
            hit = good[:at].count(b"\n")
            touched = holds[path.name][hit : hit + (2 if good[at] == ord("\n") else 1)]
        assert [each for each in before if each not in touched] == [each for each in readable if each not in touched]
        assert readable == sorted(set(readable) & set(before))
        if len(readable) < len(before) and path.name != max(holds):
            assert any(line["event"] == UNREADABLE for line in found)


def test_an_index_that_says_more_than_its_segment_is_not_believed(store: LocalStore) -> None:
    written(store)
    before = told(store)
    [first, *_] = [path for path in files(store) if path.suffix == ".index"]
    segment = first.with_suffix(".jsonl")
    segment.write_bytes(segment.read_bytes().partition(b"\n")[0] + b"\n")
    assert HistoryReader(store).look()[0].header.lines == 1
    assert told(store)[0] == before[0]


def test_a_file_of_somebody_else_is_named_and_left_alone(store: LocalStore) -> None:
    HistoryWriter(store).append([event(1)])
    store.put("history/cat.jpg", b"cat")
    reader = HistoryReader(store)
    assert [line["n"] for line in reader.lines()] == [1]
    assert reader.listing.foreign == ("history/cat.jpg",)
    HistoryWriter(store, HistoryBounds(max_segments=1)).append([event(2)])
    assert store.read("history/cat.jpg") == b"cat"


# -- what earlier releases wrote ---------------------------------------------------------------------------------------


def test_a_history_of_an_earlier_release_is_read_where_it_is_and_carried_over(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    (tmp_path / "history.old.jsonl").write_text('{"at":1,"event":"notice","n":1}\n{"at":2,"eve\n')
    (tmp_path / "history.jsonl").write_text('{"at":3,"event":"notice","n":3}\n')
    assert told(store) == [1, UNREADABLE, 3]
    HistoryWriter(store).append([event(4)])
    assert told(store) == [1, UNREADABLE, 3, 4]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["history"]
    (tmp_path / "history.jsonl").write_text('{"at":5,"event":"notice","n":5}\n')  # A process of the earlier release.
    assert told(store) == [1, UNREADABLE, 3, 5, 4]
    carry_over(store)
    assert told(store) == [1, UNREADABLE, 3, 5, 4]
    assert [view.made is None for view in HistoryReader(store).look()] == [True, True, False, False]


def test_objects_of_an_earlier_release_are_read_and_go_as_the_oldest(tmp_path: Path) -> None:
    store = Remote(tmp_path)
    for number in (2, 1):
        store.put(f"history/{number:013d}-0123456789ab-000000.jsonl", b'{"at":1,"event":"notice","n":%d}\n' % number)
    assert told(store) == [1, 2]
    HistoryWriter(store).append([event(3)])
    assert told(store) == [1, 2, 3]
    HistoryWriter(store, HistoryBounds(max_segments=2)).append([event(4)])
    assert told(store) == [3, 4]


# -- pages, and what they cost -----------------------------------------------------------------------------------------


SEGMENT = 32 << 10


def checkpoints(writer: HistoryWriter, first: int, last: int) -> None:
    part = {"total_bytes": 1000, "new_bytes": 10, "in_flight_bytes": 0, "files": 3}
    for number in range(first, last + 1):
        writer.append(
            [
                {"at": number, "event": "checkpoint-triggered", "id": number, "kind": "checkpoint"},
                {
                    "at": number,
                    "event": "checkpoint-completed",
                    "id": number,
                    "kind": "checkpoint",
                    "duration_ms": number,
                    "tasks": {"a": part, "b": part},
                },
            ]
        )


def test_a_page_reads_headers_and_its_own_lines_however_long_the_history_is(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    writer = HistoryWriter(store, HistoryBounds(segment_bytes=SEGMENT))
    checkpoints(writer, 1, 3_000)
    total = sum(path.stat().st_size for path in files(store))
    reader = HistoryReader(store)
    segments = len(reader.look())
    reader.files.reads.calls = reader.files.reads.size = 0
    page = reader.ids(50)
    found = reader.lines_of(page)
    assert (page[0], len(page), len(found)) == (3_000, 50, 100)
    assert reader.files.reads.calls <= 100 + 3, "each line, and the rows of the segments that they are in"
    assert reader.files.reads.size < total / 10
    again = HistoryReader(store)
    again.look()
    assert again.files.reads.calls <= segments + 3
    assert again.files.reads.size <= segments * HEAD_BYTES + 3 * SEGMENT


def test_looking_again_reads_only_what_is_new(store: LocalStore) -> None:
    writer = HistoryWriter(store, HistoryBounds())
    checkpoints(writer, 1, 200)
    reader = HistoryReader(store)
    reader.look()
    reads = reader.files.reads
    reads.calls = reads.size = 0
    reader.look()
    assert (reads.calls, reads.size) == (0, 0)
    checkpoints(writer, 201, 201)
    reader.look()
    assert reads.calls == 1
    assert reads.size <= 32 << 10 if isinstance(store, Remote) else reads.size < 1_000
    assert reader.ids(1) == [201]


def test_an_append_is_one_write_and_looks_at_nothing_that_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LocalStore(tmp_path)
    writer = HistoryWriter(store)
    checkpoints(writer, 1, 100)
    writes: list[int] = []
    write = os.write

    def counted(handle: int, data: bytes) -> int:
        writes.append(len(data))
        return write(handle, data)

    monkeypatch.setattr(os, "write", counted)
    monkeypatch.setattr(HistoryFiles, "now", lambda _: pytest.fail("it listed the segments"))
    checkpoints(writer, 101, 102)
    assert len(writes) == 2


def test_events_are_paged_from_the_newest_back(store: LocalStore) -> None:
    for begin in (0, 50):
        writer = HistoryWriter(store, HistoryBounds())
        for number in range(begin, begin + 50):
            writer.append([event(number) if number % 10 else {**event(number), "event": "warning"}])
    reader = HistoryReader(store)
    found: list[int] = []
    before: HistoryPosition | None = None
    while page := reader.events(7, before=before):
        found = [line["n"] for _, line in page] + found
        before = HistoryPosition.parse(str(page[0][0]))
    assert found == list(range(100))
    assert [line["n"] for _, line in reader.events(3, types=["warning"])] == [70, 80, 90]
    assert [line["n"] for _, line in reader.events(100, since_ms=1_097)] == [97, 98, 99]
    assert reader.events(3, types=["no such"]) == []
    assert HistoryPosition.parse("1.2") is None
    assert HistoryPosition.parse("1.2.x") is None


def test_the_newest_events_are_read_from_the_end(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    writer = HistoryWriter(store)
    for number in range(3_000):
        writer.append([event(number, text="x" * 100)])
    reader = HistoryReader(store)
    reader.look()
    reader.files.reads.calls = reader.files.reads.size = 0
    assert [line["n"] for _, line in reader.events(3)] == [2997, 2998, 2999]
    assert (reader.files.reads.calls, reader.files.reads.size) == (1, 64 << 10)


def test_who_follows_is_told_each_line_once_also_of_a_leader_that_wakes(store: LocalStore) -> None:
    old, new = HistoryWriter(store, SMALL), HistoryWriter(store, SMALL)
    old.append([event(1)])
    reader = HistoryReader(store)
    seen = reader.end()
    assert reader.follow(seen) == []
    new.append([event(2)])
    old.append([event(3)])
    assert [line["n"] for _, line in reader.follow(seen)] == [3, 2]
    assert reader.follow(seen) == []
    for number in range(10, 16):
        new.append([event(number)])
        assert [line["n"] for _, line in reader.follow(seen)] == [number]


def test_what_was_pruned_while_it_was_read_is_left_out(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    writer = HistoryWriter(store, SMALL)
    checkpoints(writer, 1, 6)
    reader = HistoryReader(store)
    reader.look()
    first = reader.listing.segments[0]
    store.delete(*first.paths)
    assert {line["id"] for line in reader.lines_of(range(1, 7)) if "id" in line} < set(range(1, 7))
    reader.look()
    assert first.key not in [segment.key for segment in reader.listing.segments]


# -- what all checkpoints come to ------------------------------------------------------------------------------------


def completed(number: int) -> dict[str, Any]:
    return {
        "at": number,
        "event": "checkpoint-completed",
        "id": number,
        "kind": "checkpoint",
        "duration_ms": number,
        "tasks": {},
    }


def test_figures_of_a_long_history_are_put_together_once(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []
    merged = reader.merged

    def counted(parts: Sequence[Mapping[str, list[float]]]) -> dict[str, list[float]]:
        taken.append(len(parts))
        return merged(parts)

    monkeypatch.setattr(reader, "merged", counted)
    writer, past = HistoryWriter(store, SMALL), HistoryReader(store)
    for number in range(1, 101):
        writer.append([completed(number)])
    past.look()
    assert past.figures()["duration_ms"] == list(range(1, 101))
    assert sum(taken) > 20, "as many segments there are"
    for number in range(101, 121):
        taken.clear()
        writer.append([completed(number)])
        past.look()
        assert past.figures()["duration_ms"] == list(range(1, number + 1))
        assert sum(taken) <= 2, "what is new, if a segment has begun"
    store.delete(*(entry.path for entry in store.list("history") if "/000001-000001." in entry.path))
    past.look()
    assert past.figures()["duration_ms"] == HistoryReader(store).figures()["duration_ms"]
    assert past.figures()["duration_ms"][0] > 1


def test_figures_of_a_segment_that_has_grown_are_read_anew(store: LocalStore) -> None:
    HistoryWriter(store).append([completed(1)])
    HistoryWriter(store).append([completed(2)])  # The first segment has an index now.
    past = HistoryReader(store)
    assert past.figures()["duration_ms"] == [1, 2]
    first = next(path for path in files(store) if path.name.startswith("000001-000001") and path.suffix != ".index")
    with first.open("ab") as file:
        file.write(lines.encode_line(completed(3)))
    past.look()
    assert past.figures()["duration_ms"] == [1, 2, 3]


def test_a_position_with_thousands_of_digits_is_none() -> None:
    assert HistoryPosition.parse("1.2.3") == HistoryPosition(1, 2, 3)
    for text in ("9" * 5_000 + ".1.1", "1.1." + "9" * 5_000, "1.1", "1.1.x", "1.1.\u0661"):
        assert HistoryPosition.parse(text) is None
