"""Savepoints: copied, carried away, brought in."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headgate.core import checkpoint_log, recovery
from headgate.core.effects import CopySavepoint, CreateRecord, DeleteSavepoint, ReadCheckpointLog
from headgate.core.errors import NotRestorable
from headgate.core.events import RecordTaken, SavepointCopied, SavepointDeleted
from headgate.core.ids import Batch, CheckpointId, Generation, LeaderId, SinkId
from headgate.core.records import CompletedCheckpoint, Ending, EpochRecord, Kind, Transaction
from headgate.errors import BadStorage, ExternalError, InvalidOption
from headgate.receipts.receipt import SECTION, bare
from headgate.run import preflight, savepoints
from headgate.run.savepoints import ImportedSavepoint
from headgate.run.start import Options
from headgate.snapshot.files import check, tables_of
from headgate.store import codec
from headgate.store.jobstore import JobStore
from headgate.store.local import LocalStore
from tests.edges.spark_files import put
from tests.edges.stores import FIRST, ONE, UP, US, Heard, Remote, completed, open_job, segment

NUMBER = CheckpointId(5)
FILES = ("tasks/up/g1/metadata", "tasks/up/g1/offsets/3")
OWED = Transaction(SinkId("out"), FIRST, CheckpointId(4), Batch(0), Batch(3), "committable")


@pytest.fixture
def heard(tmp_path: Path) -> Heard:
    """A job with savepoint 5, whose own copy is not made yet."""
    made = Heard(open_job(tmp_path / "storage"))
    for name in FILES:
        put(made.root / name)
    segment(made.root, 3, ONE)
    record = completed(NUMBER, files={UP: FILES}, in_flight={ONE: (2, 3)}, kind=Kind.SAVEPOINT)
    made.storage.receipts.know({SECTION: [bare(OWED, UP).data()]}, "what was pre-committed")
    made.storage.create_record(CreateRecord(US, replace(record, transactions=(OWED,), stop=True)))
    made.told.clear()
    return made


def copy(heard: Heard) -> None:
    heard.storage.copy_savepoint(CopySavepoint(US, NUMBER))


@pytest.fixture
def kept(heard: Heard, tmp_path: Path) -> Path:
    """The savepoint, carried away."""
    copy(heard)
    return Path(shutil.move(heard.root / "savepoints/5", tmp_path / "kept"))


# -- copying -----------------------------------------------------------------------------------------------------------


def test_a_copy_stands_on_its_own_and_owes_nothing(heard: Heard) -> None:
    copy(heard)
    assert heard.told == [SavepointCopied(US, NUMBER)]
    assert heard.store.copied() == (NUMBER,)
    original, extra = heard.store.read_record(NUMBER)
    shutil.rmtree(heard.root / "tasks")
    shutil.rmtree(heard.root / "channels")
    record, found = savepoints.read(heard.root / "savepoints/5")
    assert len(extra.pop(SECTION)) == 1, "receipts, which say where sinks are, are for the job alone"
    assert found == extra
    assert isinstance(original, CompletedCheckpoint)
    assert record == replace(original, transactions=(), stop=False)
    assert len(tables_of([found])) == 4


def test_a_copy_is_made_once_and_told_of_each_time(heard: Heard) -> None:
    copy(heard)
    manifest = heard.root / "savepoints/5/manifest.json"
    before = manifest.stat().st_ino
    copy(heard)
    assert heard.told == [SavepointCopied(US, NUMBER)] * 2
    assert manifest.stat().st_ino == before


def test_the_manifest_waits_until_all_that_was_pre_committed_is_committed(heard: Heard) -> None:
    heard.committed = False
    copy(heard)
    assert heard.told == []
    assert heard.store.copied() == ()
    heard.committed = True
    copy(heard)
    assert heard.store.copied() == (NUMBER,)


def test_what_somebody_else_left_in_its_place_is_not_relied_on(heard: Heard) -> None:
    theirs = put(heard.root / "savepoints/5" / FILES[1], "z" * (heard.root / FILES[1]).stat().st_size)
    copy(heard)
    assert theirs.read_bytes() == (heard.root / FILES[1]).read_bytes()
    savepoints.read(heard.root / "savepoints/5")


def test_a_copy_that_cannot_be_made_is_ordered_again_and_says_why(heard: Heard) -> None:
    gone = heard.root / FILES[0]
    text = gone.read_text(encoding="utf-8")
    gone.unlink()
    copy(heard)
    assert heard.store.copied() == ()
    assert len(heard.warnings()) == 1
    assert "savepoint 5 is not copied yet" in heard.warnings()[0]
    put(gone, text)
    copy(heard)
    assert heard.last() == SavepointCopied(US, NUMBER)


def test_a_storage_elsewhere_gets_a_copy_of_what_it_has(tmp_path: Path) -> None:
    made = Heard(open_job(tmp_path / "storage", remote=True), tmp_path / "work")
    put(made.root / FILES[0])
    record = completed(NUMBER, files={UP: FILES[:1]}, kind=Kind.SAVEPOINT)
    made.storage.create_record(CreateRecord(US, record))
    shutil.rmtree(made.root)
    copy(made)
    assert made.last() == SavepointCopied(US, NUMBER)
    savepoints.read(tmp_path / "storage/job/savepoints/5")


# -- deleting ----------------------------------------------------------------------------------------------------------


def another(heard: Heard, number: int = 6, leader: LeaderId = US) -> None:
    """A later checkpoint, so that the job no longer needs savepoint 5."""
    heard.storage.create_record(CreateRecord(leader, replace(completed(number), leader=leader)))
    heard.told.clear()


def test_a_savepoint_is_deleted_with_its_record_and_its_copy_and_nothing_else(heard: Heard) -> None:
    copy(heard)
    another(heard)
    heard.storage.delete_savepoint(DeleteSavepoint(US, NUMBER))
    assert heard.told == [SavepointDeleted(US, NUMBER)]
    assert [record.id for record in heard.store.read_checkpoint_log()] == [6]
    assert list(heard.store.list("savepoints")) == []
    assert (heard.root / FILES[0]).exists(), "files of tasks go with a collection"
    heard.storage.delete_savepoint(DeleteSavepoint(US, NUMBER))
    assert heard.told == [SavepointDeleted(US, NUMBER)] * 2


def test_who_no_longer_leads_deletes_no_savepoint(heard: Heard) -> None:
    copy(heard)
    another(heard, leader=LeaderId("other"))
    heard.storage.delete_savepoint(DeleteSavepoint(US, NUMBER))
    assert heard.told == []
    assert heard.store.copied() == (NUMBER,)


def test_what_another_checkpoint_names_of_a_savepoint_stays(tmp_path: Path, kept: Path) -> None:
    heard = Heard(open_job(tmp_path / "new"))
    number = savepoints.publish(heard.store, prepare(heard.store, kept))
    name = f"savepoints/{number}/{FILES[0]}"
    record = replace(completed(number + 1, files={UP: (name,)}), leader=US)
    heard.storage.create_record(CreateRecord(US, record))
    heard.storage.delete_savepoint(DeleteSavepoint(US, number))
    assert heard.last() == SavepointDeleted(US, number)
    assert [entry.path for entry in heard.store.list("savepoints")] == [name]


def test_a_copy_that_somebody_carried_off_is_not_made_again(heard: Heard) -> None:
    copy(heard)
    shutil.rmtree(heard.root / "savepoints/5")
    assert heard.store.copied() == (NUMBER,)
    copy(heard)
    assert not (heard.root / "savepoints/5").exists()
    heard.storage.read_checkpoint_log(ReadCheckpointLog(US))
    assert "headgate savepoint delete job 5" in heard.warnings()[-1]
    another(heard)
    savepoints.delete_at_rest(heard.store, NUMBER)
    assert heard.store.copied() == ()


def test_a_savepoint_of_a_job_at_rest_is_deleted_unless_the_job_would_go_on_from_it(heard: Heard) -> None:
    copy(heard)
    with pytest.raises(InvalidOption, match="the job would go on from it"):
        savepoints.delete_at_rest(heard.store, NUMBER)
    with pytest.raises(InvalidOption, match="there is no such savepoint; there are: 5"):
        savepoints.delete_at_rest(heard.store, CheckpointId(4))
    another(heard)
    heard.store.delete_record(NUMBER)  # A process was killed half way.
    savepoints.delete_at_rest(heard.store, NUMBER)
    assert list(heard.store.list("savepoints")) == []


# -- reading -----------------------------------------------------------------------------------------------------------


def test_a_directory_without_a_manifest_is_no_savepoint(tmp_path: Path) -> None:
    with pytest.raises(BadStorage, match=r"is not a savepoint: it has no manifest\.json"):
        savepoints.read(tmp_path)


def test_a_manifest_of_something_else_is_refused(tmp_path: Path) -> None:
    epoch_record = EpochRecord(CheckpointId(0), FIRST, US, CheckpointId(1), None)
    (tmp_path / "manifest.json").write_bytes(codec.encode(epoch_record, {}))
    with pytest.raises(BadStorage, match="is not the manifest of a savepoint"):
        savepoints.read(tmp_path)


@pytest.mark.parametrize("name", ["manifest.json", *FILES, "channels/up/g1/3/r1/part.parquet"])
@pytest.mark.parametrize("damage", ["a byte is wrong", "it is cut short", "it is gone"])
def test_whatever_is_damaged_is_named_and_left_as_it_is(kept: Path, name: str, damage: str) -> None:
    path = kept / name
    data = path.read_bytes()
    if damage == "it is gone":
        path.unlink()
    else:
        path.write_bytes(data[:-1] if damage == "it is cut short" else bytes([data[0] ^ 1]) + data[1:])
    with pytest.raises(BadStorage, match=path.name):
        savepoints.read(kept)
    assert path.exists() == (damage != "it is gone")


# -- bringing in -------------------------------------------------------------------------------------------------------


def prepare(store: JobStore, path: Path) -> ImportedSavepoint:
    found = savepoints.prepare(store, path)
    assert isinstance(found, ImportedSavepoint)
    return found


def newest(store: JobStore) -> tuple[CompletedCheckpoint, dict[str, Any]]:
    record = store.read_checkpoint_log()[-1]
    assert isinstance(record, CompletedCheckpoint)
    return record, store.read_record(record.id)[1]


@pytest.mark.parametrize("remote", [False, True])
def test_a_savepoint_is_the_first_record_of_an_empty_checkpoint_log(tmp_path: Path, kept: Path, remote: bool) -> None:
    store = open_job(tmp_path / "new", remote=remote)
    imported = prepare(store, kept)
    assert store.read_checkpoint_log() == (), "nothing is written yet"
    assert savepoints.foresee(store, imported)[-1].id == 1
    assert store.read_checkpoint_log() == (), "nothing is written yet"
    assert savepoints.publish(store, imported) == 1
    record, extra = newest(store)
    assert (record.id, record.generation, record.kind) == (1, 1, Kind.SAVEPOINT)
    assert record.tasks[0].files == tuple(f"savepoints/1/{name}" for name in FILES)
    shutil.rmtree(kept)
    assert check(tmp_path / "new/job", tables_of([extra])) == []
    assert extra["segments"][ONE][0][2] == [["savepoints/1/channels/up/g1/3/r1/part.parquet", len("rows of batch 3")]]
    assert store.copied() == (1,)


@pytest.mark.parametrize("kind", [LocalStore, Remote])
def test_a_savepoint_that_is_claimed_is_deleted_and_nothing_beside_it(
    tmp_path: Path, kept: Path, kind: type[LocalStore]
) -> None:
    put(kept / "tasks/up/notes.txt")
    store = open_job(tmp_path / "new")
    imported = savepoints.prepare_from(store, kind(kept))
    assert isinstance(imported, ImportedSavepoint)
    number = savepoints.publish(store, imported)
    imported.delete()
    assert [path.relative_to(kept).as_posix() for path in kept.rglob("*") if path.is_file()] == ["tasks/up/notes.txt"]
    assert check(tmp_path / "new/job", tables_of([store.read_record(number)[1]])) == [], "the job has its own copy"
    imported.delete()  # Once more does no harm.
    (kept / "tasks/up/notes.txt").unlink()
    imported.delete()
    assert kept.exists() == (kind is Remote)


@pytest.mark.parametrize("restore_from", [None, "latest", "5", "own"])
def test_only_a_savepoint_from_elsewhere_can_be_claimed(heard: Heard, restore_from: str | None) -> None:
    copy(heard)
    place = str(heard.root / "savepoints/5") if restore_from == "own" else restore_from
    with pytest.raises(InvalidOption, match="--claim is for a savepoint from elsewhere: give its directory"):
        preflight.choose(heard.store, Options(restore_from=place, claim=True))
    assert (heard.root / "savepoints/5/manifest.json").exists()


def test_an_epoch_record_goes_first_where_whoever_leads_would_put_the_next_record(tmp_path: Path, kept: Path) -> None:
    heard = Heard(open_job(tmp_path / "new"))
    epoch_record = EpochRecord(CheckpointId(0), FIRST, US, CheckpointId(1), None)
    last = replace(completed(1), transactions=(OWED,))
    for record in (epoch_record, last):
        heard.storage.create_record(CreateRecord(US, record))
    savepoints.publish(heard.store, prepare(heard.store, kept))
    record, _ = newest(heard.store)
    closing_written = heard.store.read_checkpoint_log()[-2]
    assert isinstance(closing_written, EpochRecord)
    assert (closing_written.id, closing_written.generation, closing_written.base, closing_written.next_id) == (
        2,
        2,
        1,
        record.id,
    )
    assert recovery.latest(heard.store.read_checkpoint_log()) == record.id
    heard.storage.create_record(CreateRecord(US, completed(2)))
    assert heard.last() == RecordTaken(US, closing_written), "who led before is fenced off"
    assert record.leader == closing_written.leader != US


def test_what_the_job_had_decided_to_commit_stays_decided(tmp_path: Path, kept: Path) -> None:
    heard = Heard(open_job(tmp_path / "new"))
    heard.storage.create_record(CreateRecord(US, replace(completed(0), transactions=(OWED,))))
    heard.storage.create_record(
        CreateRecord(US, EpochRecord(CheckpointId(1), Generation(2), US, CheckpointId(2), None))
    )
    savepoints.publish(heard.store, prepare(heard.store, kept))
    assert newest(heard.store)[0].transactions == (OWED,)


def test_it_goes_behind_the_last_word_of_a_job_that_is_over(tmp_path: Path, kept: Path) -> None:
    store = open_job(tmp_path / "new")
    closing = EpochRecord(CheckpointId(3), Generation(4), US, CheckpointId(9), None, Ending.STOPPED)
    store.create_record(closing, {})
    savepoints.publish(store, prepare(store, kept))
    record, _ = newest(store)
    assert (record.id, record.generation) == (9 + checkpoint_log.IDS_AHEAD_MAX, 5)


def test_the_jobs_own_savepoint_is_found_by_its_number_and_not_brought_in(heard: Heard) -> None:
    copy(heard)
    assert savepoints.prepare(heard.store, heard.root / "savepoints/5") == NUMBER
    copied = Path(shutil.copytree(heard.root / "savepoints/5", heard.root / "savepoints-kept"))
    assert isinstance(savepoints.prepare(heard.store, copied), ImportedSavepoint)


def test_a_savepoint_is_brought_in_again_and_again(tmp_path: Path, kept: Path) -> None:
    store = open_job(tmp_path / "new")
    numbers = [savepoints.publish(store, prepare(store, kept)) for _ in range(3)]
    assert numbers == sorted(set(numbers))
    assert store.copied() == tuple(numbers)


def test_a_job_that_goes_on_publishing_is_fenced_off_and_its_savepoints_stay_as_they_are(
    tmp_path: Path, kept: Path
) -> None:
    """A live leader publishes between the moment when the savepoint was found to be whole and the takeover."""
    heard = Heard(open_job(tmp_path / "new"))
    heard.storage.create_record(CreateRecord(US, EpochRecord(CheckpointId(0), FIRST, US, CheckpointId(1), None)))
    imported = prepare(heard.store, kept)
    for number in (1, 2):
        put(heard.root / FILES[0])
        theirs = completed(number, files={UP: FILES[:1]}, kind=Kind.SAVEPOINT)
        heard.storage.create_record(CreateRecord(US, replace(theirs, transactions=(OWED,))))
        heard.storage.copy_savepoint(CopySavepoint(US, CheckpointId(number)))
    before = {path: path.read_bytes() for path in (heard.root / "savepoints").rglob("*") if path.is_file()}
    number = savepoints.publish(heard.store, imported)
    assert {path: path.read_bytes() for path in before} == before
    assert heard.store.copied() == (1, 2, number)
    record, extra = newest(heard.store)
    assert record.transactions == (OWED,), "what was decided meanwhile stays decided"
    assert check(heard.root, tables_of([extra])) == []


def test_what_an_ended_job_committed_is_not_owed_by_the_savepoint(tmp_path: Path, kept: Path) -> None:
    heard = Heard(open_job(tmp_path / "new"))
    heard.storage.create_record(CreateRecord(US, replace(completed(0), transactions=(OWED,))))
    end = EpochRecord(CheckpointId(1), Generation(2), US, CheckpointId(2), CheckpointId(0), Ending.STOPPED)
    heard.storage.create_record(CreateRecord(US, end))
    savepoints.publish(heard.store, prepare(heard.store, kept))
    assert newest(heard.store)[0].transactions == ()


class Overtaken(LocalStore):
    """A storage in which somebody else takes over while files are copied in."""

    def copy_in(self, local: Path, path: str, *, link: bool = False) -> None:
        super().copy_in(local, path, link=link)
        theirs = JobStore(LocalStore(self.local_root), "job")
        records = theirs.read_checkpoint_log()
        if records[-1].leader != "other":
            theirs.create_record(checkpoint_log.epoch_record(records, LeaderId("other"), None, CheckpointId(0)), {})


class Full(LocalStore):
    """A storage in which there is no more room for the last file."""

    def copy_in(self, local: Path, path: str, *, link: bool = False) -> None:
        if path.endswith(".parquet"):
            raise ExternalError("no space left")
        super().copy_in(local, path, link=link)


@pytest.mark.parametrize("kind", [Overtaken, Full])
def test_a_savepoint_that_could_not_be_brought_in_leaves_no_copy(
    tmp_path: Path, kept: Path, kind: type[LocalStore]
) -> None:
    store = JobStore.open(kind(tmp_path / "new"), "job")
    with pytest.raises((BadStorage, ExternalError), match=r"started by another process|no space left"):
        savepoints.publish(store, prepare(store, kept))
    assert list(store.list("savepoints")) == []
    assert all(isinstance(record, EpochRecord) for record in store.read_checkpoint_log())


def test_what_a_killed_process_left_is_cleared_by_the_next_and_nothing_else_is(tmp_path: Path, kept: Path) -> None:
    store = open_job(tmp_path / "new")
    first = savepoints.publish(store, prepare(store, kept))
    tail = store.read_checkpoint_log()[-1]
    theirs = checkpoint_log.epoch_record((tail,), LeaderId("killed"), first, CheckpointId(0))
    store.create_record(theirs, {})
    left = put(tmp_path / f"new/job/savepoints/{theirs.next_id}/tasks/up/g1/metadata")
    alone = Path(shutil.copytree(kept, tmp_path / "new/job/savepoints/0"))  # Nobody knows it, but it is whole.
    second = savepoints.publish(store, prepare(store, kept))
    assert not left.exists()
    assert alone.is_dir()
    assert store.copied() == (0, first, second)


def test_a_savepoint_of_a_job_that_was_being_drained_is_not_brought_in_and_not_gone_back_to(
    kept: Path, tmp_path: Path
) -> None:
    record, extra = savepoints.read(kept)
    (kept / "manifest.json").write_bytes(codec.encode(replace(record, draining=True), extra))
    store = open_job(tmp_path / "storage")
    with pytest.raises(NotRestorable, match="savepoint 5 is of a job that was being drained"):
        preflight.choose(store, Options(restore_from=str(kept)))
    store = open_job(tmp_path / "other")
    assert store.create_record(replace(record, draining=True), extra) is None
    with pytest.raises(NotRestorable, match="choose an earlier checkpoint, or start the job anew in another storage"):
        preflight.choose(store, Options(restore_from="5", verify="none"))
    base = preflight.choose(store, Options(verify="none")).base
    assert base is not None
    assert base.draining, "who names none comes to the end that was wanted"
