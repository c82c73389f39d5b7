"""A savepoint that is written to another place, for whoever asks a running job for it."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headgate.core import events as e
from headgate.core.effects import Outcome
from headgate.core.ids import CheckpointId
from headgate.errors import ExternalError
from headgate.run import exporting, requests, savepoints
from headgate.run.control import ControlClient
from headgate.run.requests import Reply
from headgate.store.api import open_store
from headgate.store.jobstore import JobStore
from tests.cli.live import Job, copied, files_of
from tests.step_helpers import ME


@pytest.fixture
def store(tmp_path: Path) -> JobStore:
    return JobStore.open(open_store(str(tmp_path / "storage")), "orders")


@pytest.fixture
def job(store: JobStore) -> Iterator[Job]:
    found = Job(store)
    yield found
    found.server.close()


@pytest.fixture
def user() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as pool:
        yield pool


def complete(job: Job, store: JobStore) -> dict[str, bytes]:
    """The job takes the savepoint that it was asked for."""
    job.do(lambda: job.core.complete(1))
    made = copied(store, 1)
    job.do(lambda: job.core.tell(e.SavepointCopied(ME, CheckpointId(1))))
    return made


def end(job: Job) -> None:
    job.do(job.core.write_closing_record)
    job.do(lambda: job.core.tell(job.core.stale_generations_aborted()))
    job.server.close()


def test_a_savepoint_is_written_where_the_user_wants_it_and_kept_in_the_storage(
    job: Job, store: JobStore, user: ThreadPoolExecutor, tmp_path: Path
) -> None:
    target = tmp_path / "backup"
    heard: list[str] = []
    asked = user.submit(ControlClient(store).ask, "savepoint", target=str(target), notice=heard.append)
    made = complete(job, store)
    assert asked.result(60) == Reply(Outcome.DONE, "savepoint 1 completed", 1, f"file://{target}")
    assert files_of(target) == made
    assert store.copied() == (1,)
    savepoints.read(target)
    again = ControlClient(store).ask("savepoint", target=str(target))
    assert again.outcome is Outcome.REFUSED
    assert again.text.startswith(f"no savepoint was taken: target {target} is not empty (")
    assert job.core.state.checkpoints.pending == (), "the core did not hear of it"


def test_a_stop_waits_until_its_savepoint_is_written(
    job: Job, store: JobStore, user: ThreadPoolExecutor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, goes_on = tmp_path / "backup", threading.Event()
    write = exporting.Export.write

    def slow(export: exporting.Export, number: CheckpointId, given_up: threading.Event) -> None:
        assert goes_on.wait(60)
        write(export, number, given_up)

    monkeypatch.setattr(exporting.Export, "write", slow)
    asked = user.submit(ControlClient(store).ask, "stop", target=str(target))
    made = complete(job, store)
    job.do(job.core.write_closing_record)
    job.do(lambda: job.core.tell(job.core.stale_generations_aborted()))
    closing = user.submit(job.server.close)
    assert not asked.done()
    goes_on.set()
    assert asked.result(60) == Reply(Outcome.DONE, "savepoint 1 completed", 1, f"file://{target}")
    closing.result(60)
    assert files_of(target) == made


@pytest.mark.parametrize("command", ["savepoint", "stop"])
def test_what_could_not_be_written_says_so_and_where_the_savepoint_is(
    command: str,
    job: Job,
    store: JobStore,
    user: ThreadPoolExecutor,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        raise ExternalError("no space left")

    monkeypatch.setattr(exporting.Export, "_copy", fail)
    target = tmp_path / "backup"
    asked = user.submit(ControlClient(store).ask, command, target=str(target))
    complete(job, store)
    if command == "stop":
        end(job)
    own = f"{store.uri}/savepoints/1"
    text = f"savepoint 1 completed at {own}, but it could not be written to file://{target}: no space left"
    assert asked.result(60) == Reply(Outcome.FAILED, text, 1)
    assert files_of(target) == {}


def test_a_job_that_refuses_gives_the_place_back(job: Job, store: JobStore, tmp_path: Path) -> None:
    job.core.tell(e.LeadershipLost(ME))
    reply = ControlClient(store).ask("savepoint", target=str(tmp_path / "backup"))
    assert reply == Reply(Outcome.REFUSED, "savepoint refused: the job is not running here")
    job.server.close()  # It waits until that is done.
    assert files_of(tmp_path / "backup") == {}


def test_a_process_that_ends_gives_the_place_back(
    job: Job, store: JobStore, user: ThreadPoolExecutor, tmp_path: Path
) -> None:
    asked = user.submit(ControlClient(store).ask, "savepoint", target=str(tmp_path / "backup"))
    assert job.asked.wait(60)
    job.server.close()
    assert asked.result(60) == Reply(Outcome.FAILED, "the job's process is ending")
    assert files_of(tmp_path / "backup") == {}


def test_a_process_that_is_interrupted_does_not_wait_for_what_is_being_written(
    job: Job, store: JobStore, user: ThreadPoolExecutor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writing = threading.Event()

    def slow(_: exporting.Export, _number: CheckpointId, given_up: threading.Event) -> None:
        writing.set()
        assert given_up.wait(60)
        raise exporting.ExportGivenUp("the process that wrote it has ended")

    monkeypatch.setattr(exporting.Export, "write", slow)
    asked = user.submit(ControlClient(store).ask, "savepoint", target=str(tmp_path / "backup"))
    complete(job, store)
    assert writing.wait(60)
    job.server.close(at_once=True)
    assert asked.result(60).text.endswith("the process that wrote it has ended")


def test_only_a_savepoint_and_a_stop_have_a_target(job: Job, tmp_path: Path) -> None:
    asked = job.server.request("checkpoint", target=str(tmp_path))
    assert asked == Reply(Outcome.REFUSED, "checkpoint refused: it has no target directory")
    taken = requests.Requests(job.submit)
    assert taken.ask("savepoint", target=str(tmp_path)).text == "savepoint refused: it has no target directory"


def test_a_running_job_writes_down_what_a_savepoint_is_called(job: Job, store: JobStore) -> None:
    copied(store, 1)
    said = job.server.request("label", checkpoint=1, label=" before  the upgrade")
    assert said == Reply(Outcome.DONE, "savepoint 1 is labelled 'before the upgrade'", 1)
    assert store.labels() == {1: "before the upgrade"}
    refused = job.server.request("label", checkpoint=2, label="x")
    assert refused == Reply(Outcome.REFUSED, "savepoint 2 is not labelled: there is no such savepoint", 2)
    assert job.server.request("label", checkpoint=1).outcome is Outcome.REFUSED
    assert not job.asked.is_set(), "the core need not know"
