"""Snapshots by reference: taken, checked, rebuilt."""

import json
import os
import threading
from pathlib import Path

import pytest

from headgate import layout
from headgate.core.ids import Batch, ChannelId, Generation, TaskId
from headgate.errors import BadStorage
from headgate.snapshot import take
from headgate.snapshot.files import FileFacts, check, measure, tables_of
from headgate.snapshot.rebuild import Sources, rebuild
from headgate.snapshot.take import SnapshotCancelled, Snapshots, Taken, task_directory
from tests.edges.spark_files import offsets, position, put, rocksdb, run_batches, uid

TASK, FIRST, SECOND = TaskId("t"), Generation(1), Generation(2)
NEVER = threading.Event()


def directory(root: Path, generation: Generation = FIRST) -> Path:
    return root / task_directory(TASK, generation)


def names(taken: Taken) -> set[str]:
    return {name.removeprefix("tasks/t/g1/") for name in taken.files}


class Reads:
    """Which files were read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.paths: list[Path] = []
        monkeypatch.setattr(take, "measure", self._measure)

    def _measure(self, path: Path) -> FileFacts:
        self.paths.append(path)
        return measure(path)

    def since(self) -> set[str]:
        found, self.paths = self.paths, []
        assert len(found) == len(set(found)), "a file was read twice"
        return {path.as_posix().split("/tasks/t/g1/")[1] for path in found}


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Reads:
    return Reads(monkeypatch)


# -- taking ------------------------------------------------------------------------------------------------------------


def test_a_snapshot_names_every_file_with_its_size_and_checksum(tmp_path: Path) -> None:
    rocksdb(directory(tmp_path), 5, snapshots=(4,))
    taken = Snapshots(tmp_path, None).take(TASK, FIRST, Batch(5), NEVER)
    assert names(taken) == set(layout.files_of(directory(tmp_path), Batch(5)))
    assert all(facts == measure(tmp_path / name) for name, facts in taken.files.items())
    assert taken.total_bytes == taken.new_bytes == sum((tmp_path / name).stat().st_size for name in taken.files)
    assert taken.new_files == len(taken.files)


def test_a_second_snapshot_reads_only_what_is_new(tmp_path: Path, reads: Reads) -> None:
    rocksdb(directory(tmp_path), 5, snapshots=(4,))
    snapshots = Snapshots(tmp_path, None)
    snapshots.take(TASK, FIRST, Batch(5), NEVER)
    reads.since()
    rocksdb_more(directory(tmp_path), 6)
    taken = snapshots.take(TASK, FIRST, Batch(6), NEVER)
    assert reads.since() == {"offsets/6", "commits/6", f"state/0/0/7_{uid(700)}.changelog"}
    assert taken.new_files == 3
    assert taken.new_bytes < taken.total_bytes


def test_the_bytes_of_state_are_known_by_operator_and_partition(tmp_path: Path) -> None:
    rocksdb(directory(tmp_path), 5, snapshots=(4,), partitions=3)
    put(directory(tmp_path) / "state" / "1" / "0" / "left" / "6_x.note", "12345")
    taken = Snapshots(tmp_path, None).take(TASK, FIRST, Batch(5), NEVER)
    seen = taken.state_bytes()
    assert list(seen) == [0, 1]
    assert sorted(seen[0]) == [0, 1, 2]
    assert seen[1] == {0: 5}
    below = {name: facts.size for name, facts in taken.files.items() if "/state/0/1/" in name}
    assert seen[0][1] == sum(below.values()) > 0
    assert any("/SSTs/" in name for name in below), "tables of a snapshot count with their partition"


def test_a_task_without_state_has_no_bytes_of_state(tmp_path: Path) -> None:
    run_batches(directory(tmp_path), 2)
    assert Snapshots(tmp_path, None).take(TASK, FIRST, Batch(2), NEVER).state_bytes() == {}


def rocksdb_more(query: Path, batch: int) -> None:
    """One more batch of ``rocksdb``, without touching the files of those before it."""
    version = batch + 1
    offsets(query, batch, '{"offset":0}')
    put(query / f"state/0/0/{version}_{uid(100 * version)}.changelog")
    put(query / "commits" / str(batch), "v2\n" + json.dumps({"stateUniqueIds": {"0": [[uid(100 * version)]]}}))


def test_a_file_that_is_another_by_now_is_read_again(tmp_path: Path, reads: Reads) -> None:
    run_batches(directory(tmp_path), 2)
    snapshots = Snapshots(tmp_path, None)
    before = snapshots.take(TASK, FIRST, Batch(2), NEVER)
    reads.since()
    path = directory(tmp_path) / "offsets/2"
    other = put(path.with_name("other"), path.read_text(encoding="utf-8").replace("0", "9"))
    other.replace(path)
    after = snapshots.take(TASK, FIRST, Batch(2), NEVER)
    assert reads.since() == {"offsets/2"}
    assert before.files["tasks/t/g1/offsets/2"].size == after.files["tasks/t/g1/offsets/2"].size
    assert after.files["tasks/t/g1/offsets/2"] == measure(path)


def test_a_known_file_that_is_gone_is_not_published(tmp_path: Path) -> None:
    run_batches(directory(tmp_path), 2)
    snapshots = Snapshots(tmp_path, None)
    taken = snapshots.take(TASK, FIRST, Batch(2), NEVER)
    (directory(tmp_path) / "commits/2").unlink()
    with pytest.raises(FileNotFoundError):
        snapshots.groups(TASK, taken.names)


def test_new_files_are_carried_into_a_storage_that_is_elsewhere_each_once(tmp_path: Path) -> None:
    carried: list[str] = []
    run_batches(directory(tmp_path), 1)
    snapshots = Snapshots(tmp_path, lambda _, name: carried.append(name))
    first = snapshots.take(TASK, FIRST, Batch(0), NEVER)
    assert sorted(carried) == sorted(first.files)
    snapshots.take(TASK, FIRST, Batch(1), NEVER)
    assert sorted(carried) == sorted(f"tasks/t/g1/{each}" for each in ("metadata", *both(0), *both(1)))


def both(batch: int) -> tuple[str, str]:
    return f"offsets/{batch}", f"commits/{batch}"


def test_what_is_known_to_be_in_the_storage_is_not_carried_even_if_it_is_not_here(tmp_path: Path) -> None:
    carried: list[str] = []
    snapshots = Snapshots(tmp_path, lambda _, name: carried.append(name))
    facts = {"tasks/t/g1/metadata": FileFacts(3, 4)}
    snapshots.know(facts)
    assert snapshots.make_durable(list(facts), NEVER) == (facts, [])
    assert carried == []


def test_a_snapshot_is_given_up_at_any_file_and_what_was_read_is_not_read_again(tmp_path: Path, reads: Reads) -> None:
    run_batches(directory(tmp_path), 2)
    given_up = threading.Event()

    def carry(_: Path, name: str) -> None:
        if name.endswith("offsets/2"):
            given_up.set()

    snapshots = Snapshots(tmp_path, carry)
    with pytest.raises(SnapshotCancelled):
        snapshots.take(TASK, FIRST, Batch(2), given_up)
    assert reads.since() == {"metadata", "offsets/2"}
    snapshots.take(TASK, FIRST, Batch(2), NEVER)
    assert reads.since() == {"offsets/1", "commits/2"}


def test_what_is_known_needs_no_time_even_when_it_is_given_up(tmp_path: Path) -> None:
    run_batches(directory(tmp_path), 0)
    snapshots = Snapshots(tmp_path, None)
    taken = snapshots.take(TASK, FIRST, Batch(0), NEVER)
    given_up = threading.Event()
    given_up.set()
    assert snapshots.make_durable(list(taken.files), given_up) == (taken.files, [])


def test_what_was_deleted_is_forgotten(tmp_path: Path, reads: Reads) -> None:
    run_batches(directory(tmp_path), 0)
    snapshots = Snapshots(tmp_path, None)
    snapshots.take(TASK, FIRST, Batch(0), NEVER)
    reads.since()
    snapshots.forget(["tasks/t/g1/metadata"], below=["tasks/t/g1/offsets"])
    snapshots.take(TASK, FIRST, Batch(0), NEVER)
    assert reads.since() == {"metadata", "offsets/0"}


def test_new_files_and_their_directories_are_on_the_disk_before_anybody_hears_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forced: set[str] = set()

    def fsync(committable: int) -> None:
        forced.add(Path(f"/proc/self/fd/{committable}").readlink().relative_to(tmp_path).as_posix())

    monkeypatch.setattr(os, "fsync", fsync)
    run_batches(directory(tmp_path), 0)
    taken = Snapshots(tmp_path, None).take(TASK, FIRST, Batch(0), NEVER)
    ways = {"tasks/t/g1/offsets", "tasks/t/g1/commits", "tasks/t/g1", "tasks/t", "tasks", "."}
    assert forced == set(taken.files) | ways


# -- checking ----------------------------------------------------------------------------------------------------------


def test_what_is_wrong_with_a_file_is_said_of_it(tmp_path: Path) -> None:
    table = {name: measure(put(tmp_path / name, "rows " * 9)) for name in ("good", "gone", "cut", "bad")}
    assert check(tmp_path, table) == []
    (tmp_path / "gone").unlink()
    (tmp_path / "cut").write_text("rows", encoding="utf-8")
    (tmp_path / "bad").write_text("rowz " * 9, encoding="utf-8")
    (tmp_path / "folder").mkdir()
    wrong = check(tmp_path, {**table, "folder": FileFacts((tmp_path / "folder").stat().st_size, 0)})
    assert wrong == [
        f"{tmp_path}/gone is gone",
        f"{tmp_path}/cut has 4 bytes and should have 45",
        f"{tmp_path}/bad is corrupt: its checksum does not match",
        f"{tmp_path}/folder cannot be read: Is a directory",
    ]


def test_facts_come_back_from_a_manifest_as_they_went_in() -> None:
    facts = FileFacts(12, 0xFFFF_FFFF)
    assert tables_of([{"files": {"a": json.loads(json.dumps(facts))}}, {"files": {"b": [1, 2]}}, {}]) == {
        "a": facts,
        "b": FileFacts(1, 2),
    }
    with pytest.raises(BadStorage, match="not a list of files"):
        tables_of([{"files": ["a"]}])


# -- rebuilding --------------------------------------------------------------------------------------------------------


def taken_at(root: Path, batch: int) -> dict[str, FileFacts]:
    return Snapshots(root, None).take(TASK, FIRST, Batch(batch), NEVER).files


def test_a_directory_is_rebuilt_from_links_and_goes_on_as_the_old_one_would(tmp_path: Path) -> None:
    old, new = directory(tmp_path), directory(tmp_path, SECOND)
    rocksdb(old, 6, snapshots=(4,))
    files = taken_at(tmp_path, 5)
    put(new / "left over by a try that died")
    known = rebuild(Sources(tmp_path, None), new, files, Batch(5), {}, {})
    assert sorted(known) == sorted(layout.files_of(new, Batch(5))) == sorted(layout.files_of(old, Batch(5)))
    assert all((new / name).samefile(old / name) for name in known)
    assert not (new / "left over by a try that died").exists()
    assert layout.committed(new) == 5


def test_what_is_rewritten_is_not_known_and_the_old_file_stays(tmp_path: Path) -> None:
    old, new = directory(tmp_path), directory(tmp_path, SECOND)
    run_batches(old, 2, position("a.0", 8))
    about = {"stateSchemaFilePaths": [f"file:{old}/state/0/_stateSchema/default/0_x"]}
    put(old / "state/0/_metadata/v2/0", "v2\n" + json.dumps(about))
    files = taken_at(tmp_path, 2)
    known = rebuild(Sources(tmp_path, None), new, files, Batch(2), {ChannelId("a.0"): Batch(3)}, {})
    assert set(files) - {f"tasks/t/g1/{name}" for name in known} == {
        "tasks/t/g1/offsets/2",
        "tasks/t/g1/state/0/_metadata/v2/0",
    }
    assert layout.read_offsets(new, Batch(2)).positions() == {"a.0": 3}
    assert str(new) in (new / "state/0/_metadata/v2/0").read_text(encoding="utf-8")
    assert check(tmp_path, files) == [], "the checkpoint itself has changed"


def test_a_copy_in_a_savepoint_is_rebuilt_under_the_names_it_had(tmp_path: Path) -> None:
    kept = tmp_path / "savepoints/9" / task_directory(TASK, FIRST)
    run_batches(kept, 1)
    files = {f"savepoints/9/tasks/t/g1/{name}": measure(kept / name) for name in layout.files_of(kept, Batch(1))}
    new = directory(tmp_path, SECOND)
    assert sorted(rebuild(Sources(tmp_path, None), new, files, Batch(1), {}, {})) == sorted(
        layout.files_of(kept, Batch(1))
    )


def test_a_file_that_is_gone_or_cut_short_is_named_and_nothing_starts(tmp_path: Path) -> None:
    run_batches(directory(tmp_path), 1)
    files = taken_at(tmp_path, 1)
    sources, new = Sources(tmp_path, None), directory(tmp_path, SECOND)
    (directory(tmp_path) / "commits/1").write_text("v2", encoding="utf-8")
    with pytest.raises(BadStorage, match=r"g1/commits/1 has 2 bytes and should have \d+"):
        rebuild(sources, new, files, Batch(1), {}, {})
    (directory(tmp_path) / "commits/1").unlink()
    with pytest.raises(BadStorage, match=r"g1/commits/1 is gone"):
        rebuild(sources, new, files, Batch(1), {}, {})


def test_a_file_of_the_working_directory_is_used_only_if_it_is_the_one_in_the_storage(tmp_path: Path) -> None:
    run_batches(directory(tmp_path), 1)
    files = taken_at(tmp_path, 1)
    good = {name: (tmp_path / name).read_bytes() for name in files}
    fetched: list[str] = []

    def fetch(name: str, target: Path) -> None:
        fetched.append(name.removeprefix("tasks/t/g1/"))
        target.write_bytes(good[name])

    (directory(tmp_path) / "metadata").unlink()
    spoiled = directory(tmp_path) / "offsets/1"
    spoiled.write_bytes(bytes(len(spoiled.read_bytes())))
    new = directory(tmp_path, SECOND)
    rebuild(Sources(tmp_path, fetch), new, files, Batch(1), {}, {})
    assert sorted(fetched) == ["metadata", "offsets/1"]
    assert {name: (new / name.removeprefix("tasks/t/g1/")).read_bytes() for name in files} == good


def test_a_file_system_without_links_gets_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    run_batches(directory(tmp_path), 1)
    files = taken_at(tmp_path, 1)
    monkeypatch.setattr(os, "link", refuse)
    new = directory(tmp_path, SECOND)
    known = rebuild(Sources(tmp_path, None), new, files, Batch(1), {}, {})
    assert check(new, known) == []
    assert not (new / "metadata").samefile(directory(tmp_path) / "metadata")
