import json
import os
import shutil
from collections.abc import Callable, Iterator
from multiprocessing import get_context
from pathlib import Path

import pytest

from headgate.core.ids import CheckpointId
from headgate.core.records import Record
from headgate.errors import BadStorage, ExternalError, InvalidOption
from headgate.store import codec
from headgate.store.api import Missing, Store
from headgate.store.jobstore import JobStore, jobs
from headgate.store.local import LocalStore
from tests.helpers import ALICE, BOB, aborted_entry, completed, epoch_record, line
from tests.store.contract import paths

GRAPH = line("a", "b")
CHECKPOINT = completed(GRAPH, 1, 5)
ONE = CheckpointId(1)


@pytest.fixture
def storage(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path)


@pytest.fixture
def job(storage: LocalStore) -> JobStore:
    return JobStore.open(storage, "orders")


# -- whose folder it is --------------------------------------------------------------------------------------------


def test_a_new_job_claims_its_folder(job: JobStore, tmp_path: Path) -> None:
    claim = json.loads((tmp_path / "orders" / "job.json").read_bytes())
    assert {name: claim[name] for name in ("format", "job")} == {"format": 3, "job": "orders"}
    assert paths(job) == ["job.json"]
    assert job.uri == f"file://{tmp_path}/orders"
    assert job.local_root == tmp_path / "orders"


def test_a_job_opens_its_folder_again(job: JobStore, storage: LocalStore) -> None:
    job.create_record(CHECKPOINT, {})
    assert JobStore.open(storage, "orders").read_checkpoint_log() == (CHECKPOINT,)
    assert JobStore.find(storage, "orders").read_checkpoint_log() == (CHECKPOINT,)


def test_the_folder_of_another_job_is_refused(job: JobStore, storage: LocalStore, tmp_path: Path) -> None:
    job.create_record(CHECKPOINT, {})
    (tmp_path / "orders").rename(tmp_path / "payments")
    for way in (JobStore.open, JobStore.find):
        with pytest.raises(BadStorage, match="payments is the storage of job 'orders', not 'payments': choose another"):
            way(storage, "payments")


def test_a_storage_inside_the_folder_of_a_job_is_refused(job: JobStore, tmp_path: Path) -> None:
    with pytest.raises(BadStorage, match="orders is the folder of job 'orders', not a storage: give the folder above"):
        JobStore.open(LocalStore(tmp_path / "orders"), "orders")
    assert paths(job) == ["job.json"]


@pytest.mark.parametrize("foreign", ["pictures/cat.jpg", "checkpoint-log/0000000001.json", "job.json.bak", "writables"])
def test_a_folder_with_something_else_in_it_is_refused_and_left_alone(storage: LocalStore, foreign: str) -> None:
    storage.put(path := f"orders/{foreign}", b"cat")
    with pytest.raises(BadStorage, match=rf"has no job.json, and is not empty \({foreign}\): choose another"):
        JobStore.open(storage, "orders")
    assert paths(storage) == [path]


def test_what_a_file_system_leaves_about_is_in_nobodys_way(storage: LocalStore) -> None:
    storage.put("orders/.DS_Store", b"")
    job = JobStore.open(storage, "orders")
    storage.put("orders/checkpoint-log/.nfs0001", b"")
    storage.put("orders/holds/.nfs0001", b"")
    assert (job.read_checkpoint_log(), job.held()) == ((), ())


def test_a_claim_of_an_earlier_release_is_refused_and_nothing_is_begun_beside_it(
    job: JobStore, storage: LocalStore
) -> None:
    job.put("job.json", b'{"format": 1, "job": "orders"}')
    for reach in (JobStore.open, JobStore.find):
        with pytest.raises(BadStorage, match=r"orders/job.json has format 1 of an earlier release"):
            reach(storage, "orders")


def test_a_claim_of_a_newer_format_is_refused(job: JobStore, storage: LocalStore) -> None:
    job.put("job.json", b'{"format": 4, "job": "orders"}')
    for way in (JobStore.open, JobStore.find):
        with pytest.raises(BadStorage, match=r"orders/job.json has the newer format 4, .*: use a newer Headgate"):
            way(storage, "orders")


@pytest.mark.parametrize(
    "claim",
    [
        b"",
        b"{",
        b"[]",
        b"1",
        b"{}",
        b'{"format":1}',
        b'{"format":true,"job":"orders"}',
        b'{"format":1,"job":3}',
        b"\xff",
    ],
)
def test_a_damaged_claim_is_refused(job: JobStore, storage: LocalStore, claim: bytes) -> None:
    job.put("job.json", claim)
    for way in (JobStore.open, JobStore.find):
        with pytest.raises(BadStorage, match=r"job\.json is damaged: it does not say whose folder this is"):
            way(storage, "orders")
    assert job.read("job.json") == claim


def test_a_claim_that_is_cut_short_anywhere_is_refused(job: JobStore, storage: LocalStore) -> None:
    claim = job.read("job.json").rstrip()
    for length in range(len(claim)):
        job.put("job.json", claim[:length])
        with pytest.raises(BadStorage, match=r"job\.json is damaged"):
            JobStore.open(storage, "orders")


@pytest.mark.parametrize("name", ["", ".", "..", ".orders", "a/b", "/", "a\0b"])
def test_a_name_that_is_no_folder_is_refused(storage: LocalStore, name: str) -> None:
    with pytest.raises(InvalidOption):
        JobStore.open(storage, name)
    assert paths(storage) == []


@pytest.mark.parametrize("file", ["storage", "storage/orders"])
def test_a_file_in_the_place_of_a_folder_is_refused(tmp_path: Path, file: str) -> None:
    path = tmp_path / file
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"mine")
    with pytest.raises(BadStorage, match="cannot be used: a file is where a folder should be"):
        JobStore.open(LocalStore(tmp_path / "storage"), "orders")
    assert path.read_bytes() == b"mine"


def test_a_place_that_cannot_be_written_is_refused(job: JobStore, storage: LocalStore, tmp_path: Path) -> None:
    assert job.read_checkpoint_log() == ()
    # As good as read-only, for root too: the test file cannot get its name.
    (tmp_path / "orders" / "writable").mkdir()
    with pytest.raises(BadStorage, match="orders/writable cannot be used"):
        JobStore.open(storage, "orders")


def test_a_job_that_is_not_there_is_not_made_by_looking_for_it(job: JobStore, storage: LocalStore) -> None:
    with pytest.raises(BadStorage, match=r"there is no job 'ordres' in file://.*: its jobs are orders$"):
        JobStore.find(storage, "ordres")
    assert jobs(storage) == [job.job]


def test_jobs_are_listed_by_name(storage: LocalStore) -> None:
    assert jobs(storage) == []
    for name in ("b", "a", "job.json"):
        JobStore.open(storage, name)
    storage.put("other/file", b"")
    storage.put("deep/er/job.json", b"")
    assert jobs(storage) == ["a", "b", "job.json"]


def _open_and_go_on(root: str) -> str:
    job = JobStore.open(LocalStore(Path(root)), "orders")
    job.set_hold(CheckpointId(os.getpid()), held=True)
    return job.job


def test_processes_that_open_a_new_job_at_once_all_may(tmp_path: Path) -> None:
    with get_context("forkserver").Pool(4) as pool:
        for number in range(10):
            assert pool.map(_open_and_go_on, [str(tmp_path / str(number))] * 4, chunksize=1) == ["orders"] * 4


# -- the checkpoint log
# -----------------------------------------------------------------------------------------------------


def test_records_come_back_in_the_order_of_their_ids(job: JobStore) -> None:
    records: list[Record] = [
        epoch_record(0, 1, 1),
        *(aborted_entry(number) for number in range(1, 12)),
        epoch_record(10**10, 2, 10**10 + 1),
    ]
    for record in reversed(records):
        assert job.create_record(record, {}) is None
    assert job.read_checkpoint_log() == tuple(records)
    assert paths(job, "checkpoint-log")[:2] == ["checkpoint-log/0000000000.json", "checkpoint-log/0000000001.json"]


def test_a_record_carries_its_sections(job: JobStore) -> None:
    extra = {"files": {"a": [1, 2]}, "segments": {}}
    job.create_record(CHECKPOINT, extra)
    assert job.read_record(ONE) == (CHECKPOINT, extra)
    assert list(job.read_records()) == [(CHECKPOINT, extra)]


def test_who_comes_second_is_shown_the_first(job: JobStore) -> None:
    assert job.create_record(aborted_entry(1, leader=ALICE), {}) is None
    assert job.create_record(aborted_entry(1, leader=BOB), {}) == aborted_entry(1, leader=ALICE)
    assert job.create_record(aborted_entry(1, leader=ALICE), {}) == aborted_entry(1, leader=ALICE)
    assert job.read_checkpoint_log() == (aborted_entry(1, leader=ALICE),)


def test_a_record_can_be_deleted_twice(job: JobStore) -> None:
    job.create_record(aborted_entry(1), {})
    job.create_record(aborted_entry(2), {})
    job.delete_record(ONE)
    job.delete_record(ONE)
    assert job.read_checkpoint_log() == (aborted_entry(2),)
    with pytest.raises(Missing, match=r"checkpoint-log/0000000001\.json"):
        job.read_record(ONE)


DAMAGES: list[tuple[Callable[[bytes], bytes], str]] = [
    (lambda data: data[:-1], "is damaged: it is cut short"),
    (lambda data: data[: len(data) // 2], "is damaged: it is cut short"),
    (lambda _: b"", "is damaged: it is cut short"),
    (lambda data: data.replace(b'"generation":1', b'"generation":2'), "is damaged: its checksum does not match"),
    (lambda data: data.replace(b'"format":1', b'"format":3'), "has the newer format 3"),
    (lambda data: data.replace(b'"format":1', b'"format":2'), "is damaged: its checksum does not match"),
]


@pytest.mark.parametrize(("damage", "why"), DAMAGES)
def test_a_damaged_record_is_named_and_never_passed_over(
    job: JobStore, damage: Callable[[bytes], bytes], why: str
) -> None:
    for record in (aborted_entry(1), aborted_entry(2), aborted_entry(3)):
        job.create_record(record, {})
    damaged = damage(job.read("checkpoint-log/0000000002.json"))
    job.put("checkpoint-log/0000000002.json", damaged)
    where = rf"orders/checkpoint-log/0000000002\.json {why}"
    for act in (
        job.read_checkpoint_log,
        lambda: job.read_record(CheckpointId(2)),
        lambda: job.create_record(aborted_entry(2), {}),
    ):
        with pytest.raises(BadStorage, match=where):
            act()
    assert job.read("checkpoint-log/0000000002.json") == damaged


def test_a_record_under_the_id_of_another_is_refused(job: JobStore) -> None:
    job.create_record(aborted_entry(1), {})
    job.put("checkpoint-log/0000000002.json", job.read("checkpoint-log/0000000001.json"))
    with pytest.raises(BadStorage, match=r"checkpoint-log/0000000002\.json holds the record of id 1: put back the one"):
        job.read_checkpoint_log()


@pytest.mark.parametrize("name", ["notes.txt", "1.json", "0000000001.json.bak", "000000000x.json", "٠١٢٣٤٥٦٧٨٩.json"])
def test_something_foreign_in_the_checkpoint_log_is_refused(job: JobStore, name: str) -> None:
    job.put(f"checkpoint-log/{name}", b"")
    with pytest.raises(BadStorage, match=rf"checkpoint-log/{name} does not belong there: move it away"):
        job.read_checkpoint_log()


def test_a_folder_in_the_place_of_a_record_leaves_the_answer_open(job: JobStore) -> None:
    job.put("checkpoint-log/0000000001.json/x", b"")
    with pytest.raises(ExternalError, match="nobody can tell whose it was"):
        job.create_record(aborted_entry(1), {})


# -- holds, savepoints, control ------------------------------------------------------------------------------------


def test_holds_are_remembered_until_they_are_taken_back(job: JobStore) -> None:
    assert job.held() == ()
    for number in (10, 9, 9):
        job.set_hold(CheckpointId(number), held=True)
    assert job.held() == (9, 10)
    job.set_hold(CheckpointId(9), held=False)
    job.set_hold(CheckpointId(9), held=False)
    assert job.held() == (10,)


def test_something_foreign_among_the_holds_is_refused(job: JobStore) -> None:
    job.put("holds/mine", b"")
    with pytest.raises(BadStorage, match="holds/mine does not belong there"):
        job.held()


def test_a_savepoint_is_copied_once_it_has_a_manifest(job: JobStore) -> None:
    assert job.copied() == ()
    job.put("savepoints/12/files/manifest.json", b"")
    job.put("savepoints/11/files/a", b"")
    job.put("savepoints/11/manifest.json", b"")
    job.put("savepoints/9/manifest.json", b"")
    assert job.copied() == (9, 11)


def test_control_is_put_read_and_cleared(job: JobStore) -> None:
    assert job.read_control() is None
    job.put_control({"port": 1})
    job.put_control({"port": 2, "host": "ü"})
    assert job.read_control() == {"port": 2, "host": "ü"}
    job.clear_control()
    job.clear_control()
    assert job.read_control() is None


def test_the_beginning_is_noted_once_and_a_changed_digit_is_noticed(job: JobStore) -> None:
    assert job.begun_ms(1_763_300_000_000) == 1_763_300_000_000
    assert job.begun_ms(1_863_300_000_000) == 1_763_300_000_000
    good = job.read("begun.json")
    job.put("begun.json", good.replace(b"17633", b"17733"))
    with pytest.raises(BadStorage, match=r"begun\.json is damaged: its checksum does not match"):
        job.begun_ms(1_863_300_000_000)
    job.put("begun.json", codec.wrap({"begun_ms": "soon"}))
    with pytest.raises(BadStorage, match=r"begun\.json does not say when the storage was begun"):
        job.begun_ms(1_863_300_000_000)


def test_a_damaged_control_is_refused(job: JobStore) -> None:
    job.put_control({"port": 1})
    job.put("control.json", job.read("control.json").replace(b"1}", b"2}"))
    with pytest.raises(BadStorage, match=r"orders/control\.json is damaged"):
        job.read_control()


# -- history -------------------------------------------------------------------------------------------------------


def test_history_comes_back_in_its_order(job: JobStore) -> None:
    assert job.read_history() == []
    job.append_history([{"n": 1}, {"n": 2, "text": "a\nb\u2028c"}])
    job.append_history([])
    job.append_history([{"n": 3}])
    assert job.read_history() == [{"n": 1}, {"n": 2, "text": "a\nb\u2028c"}, {"n": 3}]


def _append(root: str) -> None:
    job = JobStore.find(LocalStore(Path(root)), "orders")
    for number in range(200):
        job.append_history([{"by": os.getpid(), "n": number}, {"by": os.getpid(), "n": number}])


def test_processes_that_append_at_once_do_not_mix_their_lines(job: JobStore, tmp_path: Path) -> None:
    with get_context("forkserver").Pool(3) as pool:
        pool.map(_append, [str(tmp_path)] * 3, chunksize=1)
    events = job.read_history()
    assert len(events) == 3 * 400
    for writer in {event["by"] for event in events}:
        mine = [event["n"] for event in events if event["by"] == writer]
        assert mine == sorted(mine)


def test_a_job_is_a_storage_of_its_own(job: JobStore, tmp_path: Path) -> None:
    store: Store = job
    (tmp_path / "file").write_bytes(b"1")
    store.copy_in(tmp_path / "file", "tasks/a")
    store.copy_out("tasks/a", tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == (tmp_path / "orders" / "tasks" / "a").read_bytes() == b"1"
    assert paths(store) == ["job.json", "tasks/a"]
    assert paths(store, "tasks", depth=1) == ["tasks/a"]


# -- one flipped bit in a small file -----------------------------------------------------------------------------------


def flips(data: bytes) -> Iterator[bytes]:
    """The data with one bit changed, once for every byte of it."""
    for place in range(len(data)):
        yield data[:place] + bytes([data[place] ^ 1 << place % 7]) + data[place + 1 :]


def test_an_incarnation_with_one_flipped_bit_is_refused_by_name_or_means_the_same(
    job: JobStore, tmp_path: Path
) -> None:
    incarnation = job.incarnation()
    assert job.incarnation() == incarnation
    refused = 0
    for damaged in flips(job.read("incarnation")):
        (tmp_path / "orders/incarnation").write_bytes(damaged)
        try:
            assert job.incarnation() == incarnation, f"{damaged!r} was taken for another incarnation"
        except BadStorage as error:
            assert f"{job.uri}/incarnation is damaged" in str(error)  # noqa: PT017 - either is right, and nothing else
            refused += 1
        assert job.read("incarnation") == damaged
    assert refused >= len(incarnation)


def test_an_incarnation_that_an_earlier_version_wrote_is_read(job: JobStore) -> None:
    job.put("incarnation", b"inc_0123456789ab\n")
    assert job.incarnation() == "inc_0123456789ab"


def test_a_claim_with_one_flipped_bit_is_refused_as_damaged_or_means_the_same(
    job: JobStore, storage: LocalStore, tmp_path: Path
) -> None:
    refused = 0
    for damaged in flips(job.read("job.json")):
        (tmp_path / "orders/job.json").write_bytes(damaged)
        try:
            JobStore.find(storage, "orders")
        except BadStorage as error:
            assert "orders/job.json is damaged" in str(error)  # noqa: PT017 - as above
            refused += 1
    assert refused > len("orders")


# -- a storage that is deleted under a process that uses it --------------------------------------------------------


def test_no_record_is_written_into_a_storage_that_was_begun_anew(storage: LocalStore, tmp_path: Path) -> None:
    before = JobStore.open(storage, "orders")
    before.incarnation()
    before.create_record(CHECKPOINT, {})
    shutil.rmtree(tmp_path / "orders")
    with pytest.raises(BadStorage, match="was deleted while the job ran: start the job again"):
        before.create_record(aborted_entry(2), {})
    assert not (tmp_path / "orders").exists()
    after = JobStore.open(storage, "orders")
    after.incarnation()
    with pytest.raises(BadStorage, match="was deleted and created again while the job ran"):
        before.create_record(aborted_entry(2), {})
    assert after.read_checkpoint_log() == ()
    assert after.create_record(CHECKPOINT, {}) is None
