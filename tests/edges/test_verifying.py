"""How a checkpoint is checked before a job begins from it: by content, by size, or not at all; beside other things."""

import threading
from pathlib import Path
from typing import Any

import pytest

from headgate.core.effects import CreateRecord
from headgate.errors import BadStorage, InvalidOption
from headgate.run import preflight
from headgate.run.start import Options
from headgate.snapshot import files
from headgate.store.jobstore import JobStore
from tests.edges.spark_files import put
from tests.edges.stores import UP, US, Heard, completed, open_job

WAIT_S = 120.0
GOOD, BAD = "tasks/up/g1/good", "tasks/up/g1/bad"


@pytest.fixture
def heard(tmp_path: Path) -> Heard:
    """A job with two checkpoints. One byte of a file of the second one has changed."""
    found = Heard(open_job(tmp_path))
    put(found.root / GOOD, "as it was")
    put(found.root / BAD, "as it was")
    found.storage.create_record(CreateRecord(US, completed(1, files={UP: (GOOD,)})))
    found.storage.create_record(CreateRecord(US, completed(2, files={UP: (GOOD, BAD)})))
    (found.root / BAD).write_text("as it waS")
    return found


def confirmed(heard: Heard, options: Options, show: Any = lambda _: None) -> int:
    restore_plan = preflight.choose(heard.store, options)
    with preflight.confirming(heard.store, options, restore_plan, show) as result:
        base = result.result(WAIT_S).base
    assert base is not None
    return base.id


def test_what_is_in_the_files_is_read_unless_the_user_says_otherwise(heard: Heard) -> None:
    with pytest.raises(BadStorage, match=r"bad is corrupt: its checksum does not match.*checkpoint 1 is whole"):
        confirmed(heard, Options())
    assert confirmed(heard, Options(fallback=True)) == 1
    assert confirmed(heard, Options(verify="size")) == 2
    assert confirmed(heard, Options(verify="none")) == 2


def test_a_file_that_is_cut_short_is_found_by_its_size_before_anything_else_starts(heard: Heard) -> None:
    (heard.root / BAD).write_text("short")
    for verify in ("full", "size"):
        with pytest.raises(BadStorage, match="has 5 bytes and should have 9"):
            preflight.choose(heard.store, Options(verify=verify))
        assert confirmed(heard, Options(verify=verify, fallback=True)) == 1
    assert confirmed(heard, Options(verify="none")) == 2


def test_a_leader_that_deletes_the_record_meanwhile_is_followed_to_its_newest_checkpoint(heard: Heard) -> None:
    options = Options(takeover=True)
    restore_plan = preflight.choose(heard.store, options)
    assert restore_plan.base is not None
    heard.storage.create_record(CreateRecord(US, completed(3, files={UP: (GOOD,)})))
    (heard.root / "checkpoint-log" / "0000000002.json").unlink()
    with preflight.confirming(heard.store, options, restore_plan, lambda _: None) as result:
        base = result.result(WAIT_S).base
    assert base is not None
    assert (restore_plan.base.id, base.id) == (2, 3)


def test_a_leader_that_goes_on_while_its_newest_checkpoint_is_looked_for_is_followed(
    heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It deletes the record between the moment at which the log is read and that at which the files are looked at."""
    read = JobStore.read_checkpoint_log

    def read_and_lose(store: JobStore) -> Any:
        monkeypatch.setattr(JobStore, "read_checkpoint_log", read)
        records = read(store)
        heard.storage.create_record(CreateRecord(US, completed(3, files={UP: (GOOD,)})))
        (heard.root / "checkpoint-log" / "0000000002.json").unlink()
        return records

    monkeypatch.setattr(JobStore, "read_checkpoint_log", read_and_lose)
    base = preflight.choose(heard.store, Options(takeover=True)).base
    assert base is not None
    assert base.id == 3


def test_another_word_is_refused(heard: Heard) -> None:
    with pytest.raises(InvalidOption, match="verify='quick': give one of full, size, none"):
        preflight.choose(heard.store, Options(verify="quick"))


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Files are read when this is set, and not before."""
    may = threading.Event()
    measure = files.measure

    def wait(path: Path, *, read: Any) -> files.FileFacts:
        read(4)
        assert may.wait(WAIT_S)
        return measure(path, read=read)

    monkeypatch.setattr(files, "measure", wait)
    return may


def test_a_check_that_takes_long_is_shown_and_goes_on_beside_other_things(
    heard: Heard, slow: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preflight, "SHOW_FIRST_S", 0.01)
    (heard.root / BAD).write_text("as it was")
    shown: list[dict[str, Any]] = []
    came = threading.Event()

    def show(line: dict[str, Any]) -> None:
        shown.append(line)
        came.set()

    restore_plan = preflight.choose(heard.store, Options())
    with preflight.confirming(heard.store, Options(), restore_plan, show) as result:
        assert came.wait(WAIT_S)
        assert not result.done(), "Spark would be starting now"
        slow.set()
        base = result.result(WAIT_S).base
    assert base is not None
    assert base.id == 2
    assert {key: shown[0][key] for key in ("event", "checkpoint", "of_bytes")} == {
        "event": "checking",
        "checkpoint": 2,
        "of_bytes": 18,
    }


def test_a_check_is_given_up_when_the_start_fails(heard: Heard, slow: threading.Event) -> None:
    def interrupted() -> None:
        with preflight.confirming(heard.store, Options(), restore_plan, lambda _: None) as result:
            results.append(result)
            raise KeyboardInterrupt

    results: list[Any] = []
    restore_plan = preflight.choose(heard.store, Options())
    threading.Timer(0.2, slow.set).start()  # By then it was given up: nothing more is read.
    with pytest.raises(KeyboardInterrupt):
        interrupted()
    with pytest.raises(files.CheckCancelled):
        results[0].result()
