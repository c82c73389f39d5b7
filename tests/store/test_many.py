"""Many records and many files: what need not be read is not, and what is not new is not written."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, strategies as st

from headgate.core.evolve import evolve
from headgate.core.ids import CheckpointId, Generation, LeaderId
from headgate.core.records import CompletedCheckpoint, EpochRecord
from headgate.errors import BadStorage
from headgate.store import codec
from headgate.store.jobstore import JobStore
from headgate.store.local import LocalStore
from headgate.store.manifests import CHANGES_MAX, INLINE_MAX, Changes
from tests.helpers import aborted_entry, completed, line


@pytest.fixture
def storage(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path)


@pytest.fixture
def job(storage: LocalStore) -> JobStore:
    return JobStore.open(storage, "orders")


# -- many records ------------------------------------------------------------------------------------------------------


def epoch_record(number: int, generation: int, **more: Any) -> EpochRecord:
    return EpochRecord(
        CheckpointId(number), Generation(generation), LeaderId("a"), CheckpointId(number + 1), None, **more
    )


def reads(job: JobStore, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths that are read from now on."""
    found: list[str] = []
    read = job.read

    def noted(path: str) -> bytes:
        found.append(path)
        return read(path)

    monkeypatch.setattr(job, "read", noted)
    return found


def test_records_that_an_epoch_record_has_made_superfluous_are_not_read_again(
    job: JobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(50):
        job.create_record(epoch_record(number, number + 1), {})
    everything = job.read_checkpoint_log()
    assert len(everything) == 50
    job.fold(epoch_record(49, 50), [CheckpointId(48)])
    paths = reads(job, monkeypatch)
    assert job.read_checkpoint_log() == everything[48:]
    assert len(paths) <= 4, "the fold, its epoch record, and what is left"
    job.create_record(aborted_entry(50), {})
    assert [record.id for record in job.read_checkpoint_log()] == [48, 49, 50]


def test_a_storage_that_is_elsewhere_is_read_by_many_at_once_and_in_order(
    job: JobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(40):
        job.create_record(epoch_record(number, number + 1), {})
    together = threading.Barrier(8)
    read = job.read

    def slow(path: str) -> bytes:
        if path.startswith("checkpoint-log/") and int(Path(path).stem) < 8:
            together.wait(30)  # Eight are on their way at the same time, or nobody gets on.
        return read(path)

    monkeypatch.setattr(JobStore, "local_root", None)
    monkeypatch.setattr(job, "read", slow)
    assert [record.id for record in job.read_checkpoint_log()] == list(range(40))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda job: job.put("checkpoint-log.json", b"{}"),
        lambda job: job.put("checkpoint-log.json", codec.wrap({"epoch_record": 9})),
        lambda job: job.delete("checkpoint-log/0000000009.json"),
        lambda job: job.fold(epoch_record(9, 77), [CheckpointId(8)]),
        lambda job: job.fold(epoch_record(99, 1), []),
    ],
    ids=[
        "damaged",
        "of something else",
        "the epoch record is gone",
        "of another epoch record",
        "ahead of the checkpoint log",
    ],
)
def test_a_fold_that_does_not_fit_the_checkpoint_log_hides_nothing(
    job: JobStore, spoil: Callable[[JobStore], None]
) -> None:
    for number in range(10):
        job.create_record(epoch_record(number, number + 1), {})
    job.fold(epoch_record(9, 10), [CheckpointId(8)])
    spoil(job)
    assert [record.id for record in job.read_checkpoint_log()][:9] == list(range(9))


# -- many files --------------------------------------------------------------------------------------------------------

SOME = {f"tasks/a/g1/{n}": [n, 7 * n] for n in range(5)}
LOTS = {f"tasks/a/g1/{n}": [n, 7 * n] for n in range(INLINE_MAX + 5)}


def of_files(number: int, files: dict[str, list[int]]) -> tuple[CompletedCheckpoint, dict[str, Any]]:
    record = completed(line("a"), number)
    names = tuple(name for name in files if name.startswith("tasks/"))
    return evolve(record, tasks=(evolve(record.tasks[0], files=names),)), {"files": files, "segments": {}}


def named(job: JobStore, number: int) -> dict[str, list[int]]:
    record, extra = job.read_record(CheckpointId(number))
    assert isinstance(record, CompletedCheckpoint)
    assert set(record.tasks[0].files) == {name for name in extra["files"] if name.startswith("tasks/")}
    return {name: list(facts) for name, facts in extra["files"].items()}


@pytest.mark.parametrize("files", [{}, SOME, {**SOME, "channels/a/g1/0/r1/x": [1, 2]}, LOTS])
def test_files_are_named_once_and_come_back(job: JobStore, files: dict[str, list[int]]) -> None:
    record, extra = of_files(1, files)
    job.create_record(record, extra)
    assert named(job, 1) == files
    texts = [job.read(entry.path).decode() for kind in ("checkpoint-log", "manifests") for entry in job.list(kind)]
    assert sum(text.count('tasks/a/g1/3"') for text in texts) == (1 if files else 0)


def test_a_record_of_an_earlier_release_is_read_as_it_is(job: JobStore) -> None:
    record, extra = of_files(1, SOME)
    job.put("checkpoint-log/0000000001.json", codec.encode(record, extra))
    assert named(job, 1) == SOME
    assert job.read_checkpoint_log() == (record,)


def test_a_record_of_many_files_says_what_is_new_and_stands_without_the_others(
    job: JobStore, storage: LocalStore
) -> None:
    files = dict(LOTS)
    for number in range(1, 8):
        files = {**files, f"tasks/a/g1/new-{number}": [number, 1], "channels/x": [number, 2]}
        del files[f"tasks/a/g1/{number}"]
        job.create_record(*of_files(number, files))
    assert [entry.path for entry in job.list("manifests")] == ["manifests/0000000001.json"]
    assert len(job.read("checkpoint-log/0000000007.json")) < 2_000
    job.delete_record(*(CheckpointId(number) for number in range(1, 7)))
    assert named(JobStore.find(storage, "orders"), 7) == files


def test_when_much_has_changed_there_is_a_new_manifest_and_the_old_one_goes_with_its_last_record(
    job: JobStore, storage: LocalStore
) -> None:
    files = dict(LOTS)
    numbers = range(1, 6)
    for number in numbers:
        files = {**files, **{f"tasks/a/g1/{number}-{n}": [n, n] for n in range(CHANGES_MAX // 2)}}
        job.create_record(*of_files(number, files))
    there = sorted(int(entry.path[10:20]) for entry in job.list("manifests"))
    assert there == [1, 4]
    job.delete_record(CheckpointId(1), CheckpointId(2))
    assert len(list(job.list("manifests"))) == 2, "3 needs the first"
    again = JobStore.open(storage, "orders")
    assert named(again, 5) == files
    assert len(again.read_checkpoint_log()) == 3
    again.delete_record(CheckpointId(3))
    assert [entry.path for entry in again.list("manifests")] == ["manifests/0000000004.json"]
    again.create_record(*of_files(6, SOME))
    again.delete_record(CheckpointId(4), CheckpointId(5))
    assert list(again.list("manifests")) == []
    assert named(again, 6) == SOME


def test_a_manifest_that_is_gone_or_damaged_is_named_and_its_checkpoint_not_passed_over(job: JobStore) -> None:
    job.create_record(*of_files(1, LOTS))
    good = job.read("manifests/0000000001.json")
    job.put("manifests/0000000001.json", good.replace(b"tasks/a/g1/3", b"tasks/a/g1/4", 1))
    fresh = JobStore.open(LocalStore(cast("Path", job.local_root).parent), "orders")
    with pytest.raises(
        BadStorage, match=r"checkpoint-log/0000000001.json names manifests/0000000001.json, which is damaged"
    ):
        fresh.read_checkpoint_log()
    job.delete("manifests/0000000001.json")
    with pytest.raises(BadStorage, match=r"0000000001.json names .*manifests/0000000001.json, which is gone"):
        fresh.read_checkpoint_log()


@given(st.lists(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 2)), max_size=12), min_size=1, max_size=8))
def test_changes_always_tell_what_there_is_now(steps: list[list[tuple[int, int]]]) -> None:
    groups = [{f"{place}/{name}": (size,) for name, size in step} for place, step in enumerate(steps)]
    changes = Changes(groups[:3])
    whole = {name: facts for group in groups[:3] for name, facts in group.items()}
    for turn in range(len(groups)):
        standing = groups[turn : turn + 3] + [dict(group) for group in groups[:turn:2]]
        now = {name: facts for group in standing for name, facts in group.items()}
        changes.follow(standing)
        rebuilt = {name: facts for name, facts in whole.items() if name not in changes.dropped}
        assert {**rebuilt, **changes.added} == now
