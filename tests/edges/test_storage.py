"""Orders about the storage: the checkpoint log, publication, holds, collections."""

import errno
import os
import shutil
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from headgate.core import retention
from headgate.core.effects import CreateRecord, DeleteFiles, ListFiles, ReadCheckpointLog, SetHold
from headgate.core.events import (
    CheckpointLogRead,
    CreateUnclear,
    FilesDeleted,
    FilesListed,
    HoldSet,
    LeadershipLost,
    RecordCreated,
    RecordTaken,
)
from headgate.core.ids import Batch, CheckpointId, Generation, LeaderId
from headgate.core.records import AbortedEntry, CompletedCheckpoint, EpochRecord, StoredFile
from headgate.errors import BadStorage, ExternalError
from headgate.run.loop import Observation
from headgate.run.storage import NEWEST
from headgate.snapshot.files import check, tables_of
from headgate.store import local
from headgate.store.jobstore import JobStore
from tests.edges.spark_files import put, rocksdb, uid
from tests.edges.stores import FIRST, ONE, SECOND, TWO, UP, US, Heard, completed, open_job, segment

EPOCH_RECORD = EpochRecord(CheckpointId(0), FIRST, US, CheckpointId(1), None)


def listed(heard: Heard, generation: Generation = FIRST) -> dict[str, StoredFile]:
    heard.storage.list_files(ListFiles(generation))
    fact = heard.last()
    assert isinstance(fact, FilesListed)
    names = [file.name for file in fact.files]
    assert len(names) == len(set(names))
    return {file.name: file for file in fact.files}


def delete(heard: Heard, *files: str, records: tuple[int, ...] = (), generation: Generation = FIRST) -> None:
    heard.storage.delete_files(DeleteFiles(generation, tuple(map(CheckpointId, records)), files))
    assert heard.last() == FilesDeleted(generation, tuple(map(CheckpointId, records)))


def entry(channel: str, batch: int, generation: int = 1) -> str:
    return f"channels/up/g{generation}/log/{channel}/{batch}.json"


# -- the checkpoint log
# ---------------------------------------------------------------------------------------------------------


def test_a_record_is_created_once_and_whoever_comes_second_is_shown_it(tmp_path: Path) -> None:
    heard = Heard(open_job(tmp_path))
    heard.storage.create_record(CreateRecord(US, EPOCH_RECORD))
    assert heard.last() == RecordCreated(US, FIRST, CheckpointId(0))
    aborted_entry = AbortedEntry(CheckpointId(0), SECOND, LeaderId("other"))
    heard.storage.create_record(CreateRecord(LeaderId("other"), aborted_entry))
    assert heard.last() == RecordTaken(LeaderId("other"), EPOCH_RECORD)


def test_the_checkpoint_log_is_read_with_its_holds_and_copies(tmp_path: Path) -> None:
    heard = Heard(open_job(tmp_path))
    heard.storage.create_record(CreateRecord(US, EPOCH_RECORD))
    heard.store.set_hold(CheckpointId(7), held=True)
    heard.storage.read_checkpoint_log(ReadCheckpointLog(US))
    assert heard.last() == CheckpointLogRead(US, (EPOCH_RECORD,), (CheckpointId(7),), ())


def test_a_record_that_cannot_be_read_is_never_passed_over(tmp_path: Path) -> None:
    heard = Heard(open_job(tmp_path))
    heard.storage.create_record(CreateRecord(US, EPOCH_RECORD))
    next((tmp_path / "job/checkpoint-log").iterdir()).write_bytes(b"damaged")
    before = len(heard.told)
    with pytest.raises(BadStorage, match="is damaged"):
        heard.storage.read_checkpoint_log(ReadCheckpointLog(US))
    assert len(heard.told) == before


class Away(JobStore):
    """A storage that is away for a while."""

    away = False

    def read(self, path: str) -> bytes:
        if self.away:
            raise ExternalError("the storage could not be reached")
        return super().read(path)

    def put(self, path: str, data: bytes, *, secret: bool = False) -> None:
        if self.away:
            raise ExternalError("the storage could not be reached")
        super().put(path, data, secret=secret)

    def create_if_absent(self, path: str, data: bytes) -> bool:
        if self.away:
            raise ExternalError("the storage could not be reached")
        return super().create_if_absent(path, data)

    def delete(self, *paths: str) -> None:
        if self.away:
            raise ExternalError("the storage could not be reached")
        super().delete(*paths)


@pytest.fixture
def away(tmp_path: Path) -> Heard:
    store = Away(open_job(tmp_path)._store, "job")
    heard = Heard(store)
    heard.storage.create_record(CreateRecord(US, EPOCH_RECORD))
    heard.told.clear()
    store.away = True
    return heard


def test_a_storage_that_is_away_is_asked_again_and_ends_nothing(away: Heard) -> None:
    away.storage.read_checkpoint_log(ReadCheckpointLog(US))
    away.storage.set_hold(SetHold(US, CheckpointId(0), held=True))
    assert all(isinstance(each, Observation) for each in away.told)
    assert len(away.warnings()) == 2
    away.storage.create_record(CreateRecord(US, AbortedEntry(CheckpointId(1), FIRST, US)))
    assert isinstance(away.last(), CreateUnclear)


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES, errno.ENOSPC])
def test_a_storage_that_is_read_only_or_full_for_a_while_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    heard = Heard(open_job(tmp_path))

    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(local.LocalStore, "_write", refuse)
        heard.storage.create_record(CreateRecord(US, EPOCH_RECORD))
        told = heard.last()
        assert isinstance(told, CreateUnclear)
        assert "checkpoint-log/0000000000.json" in told.why
        assert os.strerror(number).lower() in told.why
    with monkeypatch.context() as patch:
        patch.setattr(local, "_scan", refuse)
        heard.storage.read_checkpoint_log(ReadCheckpointLog(US))
        assert "the checkpoint log could not be read" in heard.warnings()[-1]
    heard.storage.create_record(CreateRecord(US, EPOCH_RECORD))
    assert heard.last() == RecordCreated(US, FIRST, CheckpointId(0))


def test_files_that_went_with_the_whole_storage_are_waited_for(tmp_path: Path) -> None:
    heard = Heard(open_job(tmp_path / "mounted"))
    put(heard.root / "tasks/up/g1/metadata")
    (tmp_path / "mounted").rename(tmp_path / "away")
    order = CreateRecord(US, completed(1, files={UP: ("tasks/up/g1/metadata",)}))
    heard.storage.create_record(order)
    assert isinstance(heard.last(), CreateUnclear)
    assert not (tmp_path / "mounted").exists(), "nothing is written where the storage should be"
    (tmp_path / "away").rename(tmp_path / "mounted")
    heard.storage.create_record(order)
    assert heard.last() == RecordCreated(US, FIRST, CheckpointId(1))


def test_files_stay_when_their_records_could_not_be_deleted(away: Heard, tmp_path: Path) -> None:
    put(tmp_path / "job/tasks/up/g1/metadata")
    away.storage.delete_files(DeleteFiles(FIRST, (CheckpointId(0),), ("tasks/up/g1/metadata",)))
    assert (tmp_path / "job/tasks/up/g1/metadata").exists()
    assert not any(isinstance(each, FilesDeleted) for each in away.told)
    assert len(away.warnings()) == 1


def test_a_hold_is_remembered_and_let_go(tmp_path: Path) -> None:
    heard = Heard(open_job(tmp_path))
    heard.storage.set_hold(SetHold(US, CheckpointId(3), held=True))
    assert heard.last() == HoldSet(US, CheckpointId(3), held=True)
    assert heard.store.held() == (3,)
    heard.storage.set_hold(SetHold(US, CheckpointId(3), held=False))
    assert heard.store.held() == ()


def test_a_hold_that_comes_after_another_leader_is_taken_back(tmp_path: Path) -> None:
    """The other has read which checkpoints are held, and may be deleting this one."""
    heard = Heard(open_job(tmp_path))
    heard.storage.create_record(CreateRecord(US, EPOCH_RECORD))
    heard.storage.set_hold(SetHold(US, CheckpointId(3), held=True))
    assert heard.last() == HoldSet(US, CheckpointId(3), held=True)
    them = LeaderId("them")
    heard.storage.create_record(
        CreateRecord(them, replace(EPOCH_RECORD, id=CheckpointId(8), generation=SECOND, leader=them))
    )
    for number, held in ((4, True), (3, True), (3, False)):
        heard.storage.set_hold(SetHold(US, CheckpointId(number), held=held))
        assert heard.last() == LeadershipLost(US)
        assert heard.store.held() == (3,), "as it was"
    heard.storage.set_hold(SetHold(them, CheckpointId(3), held=False))
    assert heard.store.held() == ()


# -- publication -------------------------------------------------------------------------------------------------------


def published(heard: Heard, record: CompletedCheckpoint) -> dict[str, object]:
    heard.storage.create_record(CreateRecord(US, record))
    assert heard.last() == RecordCreated(US, record.generation, record.id)
    return heard.store.read_record(record.id)[1]


def test_a_checkpoint_carries_the_facts_of_its_files_and_what_is_in_flight(tmp_path: Path) -> None:
    heard = Heard(open_job(tmp_path))
    put(heard.root / "tasks/up/g1/metadata")
    for batch in range(6):
        segment(heard.root, batch, ONE, TWO)
    record = completed(1, files={UP: ("tasks/up/g1/metadata",)}, in_flight={ONE: (2, 4), TWO: (5, 5)})
    extra = published(heard, record)
    table = tables_of([extra])
    assert sorted(table) == [
        "channels/up/g1/3/r1/part.parquet",
        "channels/up/g1/4/r1/part.parquet",
        entry("one.0", 3),
        entry("one.0", 4),
        "tasks/up/g1/metadata",
    ]
    assert check(heard.root, table) == []
    (found,) = [heard.storage.segments(record.id, held) for held in record.channels if held.channel == ONE]
    assert [each.batch for each in found] == [3, 4]
    assert found[0].files == (("channels/up/g1/3/r1/part.parquet", len("rows of batch 3")),)


@pytest.mark.parametrize("gone", ["tasks/up/g1/metadata", "channels/up/g1/3/r1/part.parquet", entry("one.0", 3)])
def test_a_checkpoint_that_names_what_is_gone_is_never_published(tmp_path: Path, gone: str) -> None:
    heard = Heard(open_job(tmp_path))
    put(heard.root / "tasks/up/g1/metadata")
    segment(heard.root, 3, ONE)
    (heard.root / gone).unlink()
    record = completed(1, files={UP: ("tasks/up/g1/metadata",)}, in_flight={ONE: (2, 3)})
    with pytest.raises(BadStorage, match=r"gone|has no segment"):
        heard.storage.create_record(CreateRecord(US, record))
    assert heard.told == []
    assert heard.store.read_checkpoint_log() == ()


def test_what_is_in_flight_is_in_a_storage_that_is_elsewhere_before_the_record_is(tmp_path: Path) -> None:
    heard = Heard(open_job(tmp_path / "storage"), tmp_path / "work")
    put(heard.root / "tasks/up/g1/metadata")
    segment(heard.root, 3, ONE)
    extra = published(heard, completed(1, files={UP: ("tasks/up/g1/metadata",)}, in_flight={ONE: (2, 3)}))
    shutil.rmtree(heard.root)
    assert len(tables_of([extra])) == 3
    assert check(tmp_path / "storage/job", tables_of([extra])) == []


# -- listing -----------------------------------------------------------------------------------------------------------


def test_a_listing_has_every_file_of_a_task_with_its_age(tmp_path: Path) -> None:
    heard = Heard(open_job(tmp_path))
    rocksdb(heard.root / "tasks/up/g3", 4, snapshots=(2,))
    found = listed(heard)
    assert found["tasks/up/g3/offsets/2"] == StoredFile("tasks/up/g3/offsets/2", Generation(3), UP, Batch(2))
    assert found["tasks/up/g3/metadata"].batch == NEWEST
    assert found[f"tasks/up/g3/state/0/0/SSTs/000002-{uid(0)}.sst"].batch == 1
    assert len(found) == sum(path.is_file() for path in (heard.root / "tasks").rglob("*"))


def test_a_segment_stands_for_its_entries_and_one_without_an_entry_for_itself(tmp_path: Path) -> None:
    heard = Heard(open_job(tmp_path))
    segment(heard.root, 4, ONE, TWO)
    segment(heard.root, 5, TWO)
    segment(heard.root, 6)
    found = listed(heard)
    assert {name: (file.owner, file.batch) for name, file in found.items()} == {
        entry("one.0", 4): (ONE, 4),
        entry("two.0", 4): (TWO, 4),
        entry("two.0", 5): (TWO, 5),
        "channels/up/g1/6": (UP, NEWEST),
    }


def test_what_does_not_belong_there_is_left_alone(tmp_path: Path) -> None:
    heard = Heard(open_job(tmp_path))
    segment(heard.root, 4, ONE)
    for stray in ("tasks/.DS_Store", "tasks/up/notes", "channels/up/g1/log/one.0/notes.json", "channels/up/gX/4/part"):
        put(heard.root / stray)
    put(heard.root / "savepoints/3/tasks/up/g1/metadata")
    assert list(listed(heard)) == [entry("one.0", 4)]
    assert heard.warnings() == []


def test_a_job_that_has_no_files_yet_lists_none(tmp_path: Path) -> None:
    assert listed(Heard(open_job(tmp_path))) == {}


def test_a_file_in_both_places_is_as_old_as_the_working_directory_says(tmp_path: Path) -> None:
    heard = Heard(open_job(tmp_path / "storage"), tmp_path / "work")
    rocksdb(heard.root / "tasks/up/g1", 7, snapshots=(4, 8))
    shutil.copytree(heard.root / "tasks", tmp_path / "storage/job/tasks")
    (tmp_path / "storage/job/tasks/up/g1/state/0/0" / f"8_{uid(800)}.zip").unlink()
    assert listed(heard)[f"tasks/up/g1/state/0/0/SSTs/000004-{uid(0)}.sst"].batch == 7


# -- deleting ----------------------------------------------------------------------------------------------------------


def test_rows_go_with_the_entry_of_the_last_reader(tmp_path: Path) -> None:
    heard = Heard(open_job(tmp_path))
    rows = segment(heard.root, 4, ONE, TWO)
    delete(heard, entry("one.0", 4))
    assert rows.exists()
    assert not (heard.root / entry("one.0", 4)).exists()
    delete(heard, entry("two.0", 4))
    assert not rows.exists()
    assert not (heard.root / "channels/up/g1/4").exists()


def test_records_go_before_files_and_what_is_gone_already_is_no_error(tmp_path: Path) -> None:
    heard = Heard(open_job(tmp_path))
    put(heard.root / "tasks/up/g1/metadata")
    record = completed(1, files={UP: ("tasks/up/g1/metadata",)})
    heard.storage.create_record(CreateRecord(US, record))
    for _ in range(2):
        delete(heard, "tasks/up/g1/metadata", "tasks/up/g1/offsets/3", entry("one.0", 9), records=(1,))
    assert heard.store.read_checkpoint_log() == ()
    assert not (heard.root / "tasks/up/g1/metadata").exists()


def test_a_deleted_file_is_deleted_in_the_storage_and_in_the_working_directory(tmp_path: Path) -> None:
    heard = Heard(open_job(tmp_path / "storage"), tmp_path / "work")
    for root in (heard.root, tmp_path / "storage/job"):
        put(root / "tasks/up/g1/offsets/3")
        segment(root, 4, ONE)
    delete(heard, "tasks/up/g1/offsets/3", entry("one.0", 4))
    for root in (heard.root, tmp_path / "storage/job"):
        assert not (root / "tasks/up/g1/offsets/3").exists()
        assert not (root / "channels/up/g1/4").exists()


def test_empty_directories_go_once_their_generation_is_over(tmp_path: Path) -> None:
    heard = Heard(open_job(tmp_path))
    for generation in (1, 2):
        put(heard.root / f"tasks/up/g{generation}/state/0/0/1.delta")
    put(heard.root / "tasks/up/g1/offsets/0")
    delete(heard, *(f"tasks/up/g{n}/state/0/0/1.delta" for n in (1, 2)), generation=SECOND)
    assert not (heard.root / "tasks/up/g1/state").exists()
    assert (heard.root / "tasks/up/g1/offsets/0").exists()
    assert (heard.root / "tasks/up/g2/state/0/0").is_dir(), "its query is running"


def test_what_was_deleted_is_read_again_if_it_comes_back(tmp_path: Path) -> None:
    heard = Heard(open_job(tmp_path))
    segment(heard.root, 3, ONE)
    before = published(heard, completed(1, in_flight={ONE: (2, 3)}))
    delete(heard, entry("one.0", 3))
    rows = segment(heard.root, 3, ONE)
    rows.write_text("others of batch", encoding="utf-8")
    after = published(heard, completed(2, in_flight={ONE: (2, 3)}))
    assert (
        tables_of([before])["channels/up/g1/3/r1/part.parquet"]
        != tables_of([after])["channels/up/g1/3/r1/part.parquet"]
    )


# -- a whole collection ----------------------------------------------------------------------------------------------


def collect(heard: Heard, kept: CompletedCheckpoint, generation: Generation, *candidates: str) -> tuple[str, ...]:
    plan = retention.collect(
        tuple(listed(heard, generation).values()), (kept,), generation, live=True, candidates=frozenset(candidates)
    )
    delete(heard, *plan.files, generation=generation)
    return plan.candidates


@pytest.mark.parametrize("where", ["one place", "two directories", "a storage elsewhere"])
def test_a_collection_leaves_what_the_checkpoint_the_task_and_each_reader_need(tmp_path: Path, where: str) -> None:
    store = open_job(tmp_path / "storage", remote=where == "a storage elsewhere")
    heard = Heard(store, None if where == "one place" else tmp_path / "work")
    old, query = heard.root / "tasks/up/g1", heard.root / "tasks/up/g2"
    rocksdb(old, 9, snapshots=(4,))
    segment(heard.root, 9, ONE, generation=1)
    rocksdb(query, 9, snapshots=(4, 8))
    for batch in range(10):
        segment(heard.root, batch, ONE, TWO, generation=2)
    files = tuple(heard.snapshots.take(UP, SECOND, Batch(8), threading.Event()).files)
    # One reader has read through 8, the other through 5: for it 6 to 8 are in flight.
    record = completed(1, generation=2, batches={UP: 8}, files={UP: files}, in_flight={ONE: (8, 8), TWO: (5, 8)})
    extra = published(heard, record)
    candidates = collect(heard, record, SECOND)
    assert not old.exists()
    assert (heard.root / entry("two.0", 0, 2)).exists(), "so far it is only a candidate"
    collect(heard, record, SECOND, *candidates)
    left = {path.relative_to(heard.root).as_posix() for path in (heard.root / "channels").rglob("*.json")}
    assert left == {entry("one.0", 9, 2), *(entry("two.0", batch, 2) for batch in range(6, 10))}
    assert sorted(path.name for path in (heard.root / "channels/up/g2").iterdir()) == ["6", "7", "8", "9", "log"]
    assert {path.name for path in (query / "offsets").iterdir()} == {"7", "8", "9"}
    assert not (query / f"state/0/0/4_{uid(400)}.zip").exists()
    assert (query / f"state/0/0/10_{uid(1000)}.changelog").exists()
    assert check(tmp_path / "storage/job", tables_of([extra])) == []


def test_a_storage_elsewhere_is_deleted_too(tmp_path: Path) -> None:
    heard = Heard(open_job(tmp_path / "storage", remote=True), tmp_path / "work")
    there = tmp_path / "storage/job"
    put(there / "tasks/up/g1/state/0/0/1.delta")
    for channel in (ONE, TWO):
        segment(there, 3, channel)
    segment(there, 4, ONE)
    assert {name: (file.owner, file.batch) for name, file in listed(heard).items()} == {
        "tasks/up/g1/state/0/0/1.delta": (UP, NEWEST),
        entry("one.0", 3): (ONE, 3),
        entry("two.0", 3): (TWO, 3),
        entry("one.0", 4): (ONE, 4),
    }
    delete(heard, "tasks/up/g1/state/0/0/1.delta", entry("one.0", 3), entry("one.0", 4))
    assert list(listed(heard)) == [entry("two.0", 3)]
    assert (there / "channels/up/g1/3/r1/part.parquet").exists()
    assert not (there / "channels/up/g1/4/r1/part.parquet").exists()
