"""Savepoints by command: listed, held, released, labelled and deleted, whether or not the job runs."""

import json
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headgate.core import checkpoint_log, events as e
from headgate.core.ids import CheckpointId, LeaderId
from headgate.errors import InvalidOption
from headgate.run import keeping, requests
from headgate.store.jobstore import JobStore
from tests.cli.live import Job, copied, files_of, stopped
from tests.cli.test_commands import as_json, headgate, opened, refused
from tests.step_helpers import ME
from tests.view.watched import keep


@pytest.fixture
def storage(tmp_path: Path) -> Path:
    return tmp_path / "storage"


@pytest.fixture
def job(storage: Path) -> Iterator[Job]:
    """A job that runs."""
    found = Job(opened(storage))
    yield found
    found.server.close()


@pytest.fixture
def at_rest(storage: Path) -> JobStore:
    """A job that was stopped with savepoint 2, after checkpoint 1."""
    store = opened(storage)
    keep(stopped(), store)
    copied(store, 2)
    return store


def test_savepoints_are_listed_with_what_they_are_called(at_rest: JobStore, storage: Path) -> None:
    at_rest.set_label(CheckpointId(2), "before the upgrade")
    lines = headgate("savepoint", "list", "orders", "--storage", storage).stdout.splitlines()
    assert lines[0].split() == ["id", "state", "taken", "took", "bytes", "label", "path"]
    assert lines[1].split()[:2] == ["2", "kept"]
    assert lines[1].split("  ")[-1] == f"{at_rest.uri}/savepoints/2"
    assert "before the upgrade" in lines[1]
    [one] = as_json("savepoint", "list", "orders", "--storage", storage)
    assert (one["id"], one["label"], one["held"]) == (2, "before the upgrade", False)
    assert one["path"] == f"{at_rest.uri}/savepoints/2"
    shutil.rmtree(storage / "orders/savepoints/2")  # Somebody has carried it off.
    [gone] = as_json("savepoint", "list", "orders", "--storage", storage)
    assert (gone["id"], gone["carried_off"], gone["path"]) == (2, True, None)
    assert "carried off" in headgate("savepoint", "list", "orders", "--storage", storage).stdout


def test_a_job_without_a_savepoint_says_so(storage: Path) -> None:
    opened(storage)
    assert headgate("savepoint", "list", "orders", "--storage", storage).stdout == "there is no savepoint yet\n"
    assert as_json("savepoint", "list", "orders", "--storage", storage) == []


def test_a_savepoint_of_a_job_at_rest_is_held_and_released_in_the_storage(at_rest: JobStore, storage: Path) -> None:
    held = headgate("savepoint", "hold", "orders", "2", "--storage", storage)
    assert (held.exit_code, held.stdout) == (0, "checkpoint 2 is held\n")
    assert at_rest.held() == (2,)
    assert as_json("savepoint", "hold", "orders", "1", "--storage", storage)["outcome"] == "done"
    assert at_rest.held() == (1, 2)
    released = headgate("savepoint", "release", "orders", "2", "--storage", storage)
    assert (released.exit_code, released.stdout) == (0, "checkpoint 2 is no longer held\n")
    assert at_rest.held() == (1,)
    said = refused(headgate("savepoint", "hold", "orders", "9", "--storage", storage))
    assert said == "checkpoint 9 cannot be held or released: it is not there; there are: 1, 2"


@pytest.mark.parametrize("held", [True, False])
def test_a_hold_is_taken_back_if_somebody_leads_meanwhile(at_rest: JobStore, held: bool) -> None:
    """Whoever leads has read which checkpoints are held, and deletes by that."""

    class Overtaken(JobStore):
        def set_hold(self, number: CheckpointId, *, held: bool) -> None:
            super().set_hold(number, held=held)
            records = self.read_checkpoint_log()
            if records[-1].leader != "other":
                epoch_record = checkpoint_log.epoch_record(records, LeaderId("other"), CheckpointId(2), CheckpointId(0))
                self.create_record(epoch_record, {})

    at_rest.set_hold(CheckpointId(2), held=not held)
    before = at_rest.held()
    with pytest.raises(InvalidOption, match="job orders was started meanwhile: ask again"):
        keeping.hold_at_rest(Overtaken(at_rest._store, "orders"), CheckpointId(2), held=held)
    assert at_rest.held() == before


def test_a_job_that_runs_is_asked_to_hold_and_to_release(storage: Path, job: Job) -> None:
    job.core.ask()
    job.core.complete(1)
    said = refused(headgate("savepoint", "hold", "orders", "9", "--storage", storage))
    assert said == "checkpoint 9 cannot be held or released: it is not there"
    with ThreadPoolExecutor(1) as pool:
        for verb, held in (("hold", True), ("release", False)):
            job.asked.clear()
            asked = pool.submit(headgate, "savepoint", verb, "orders", "1", "--storage", storage)
            job.do(lambda held=held: job.core.tell(e.HoldSet(ME, CheckpointId(1), held)))  # type: ignore[misc]
            said = f"checkpoint 1 is {'held' if held else 'no longer held'}\n"
            assert (asked.result(60).exit_code, asked.result(60).stdout) == (0, said)


def test_a_savepoint_is_called_something_until_it_is_deleted(at_rest: JobStore, storage: Path) -> None:
    said = headgate("savepoint", "label", "orders", "2", "before", "the upgrade", "--storage", storage)
    assert (said.exit_code, said.stdout) == (0, "savepoint 2 is labelled 'before the upgrade'\n")
    assert at_rest.labels() == {2: "before the upgrade"}
    assert (
        headgate("savepoint", "label", "orders", "2", "", "--storage", storage).stdout == "savepoint 2 has no label\n"
    )
    assert at_rest.labels() == {}
    for number in ("1", "9"):
        said_of = refused(headgate("savepoint", "label", "orders", number, "x", "--storage", storage))
        assert said_of == f"savepoint {number} is not labelled: there is no such savepoint"
    for wrong in ("x" * 201, "a\x1b[31m"):
        assert "give at most 200 printable characters" in refused(
            headgate("savepoint", "label", "orders", "2", wrong, "--storage", storage)
        )
    keeping.label(at_rest, CheckpointId(2), "x")
    at_rest.create_record(
        checkpoint_log.epoch_record(at_rest.read_checkpoint_log(), ME, CheckpointId(1), CheckpointId(0)), {}
    )
    assert headgate("savepoint", "delete", "orders", "2", "--storage", storage).exit_code == 0
    assert at_rest.labels() == {}


def test_a_label_that_is_damaged_hides_no_savepoint(at_rest: JobStore, storage: Path) -> None:
    at_rest.put("savepoints/labels/2", b"?")
    assert as_json("savepoint", "list", "orders", "--storage", storage)[0]["label"] == "(damaged)"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["list"], "savepoint list: write `savepoint list JOB`"),
        (["hold", "orders"], "savepoint hold orders: write `savepoint hold JOB ID`"),
        (["release", "orders", "x"], "savepoint release orders x: write `savepoint release JOB ID`"),
        (["label", "orders", "2"], "savepoint label orders 2: write `savepoint label JOB ID TEXT`"),
        (["list", "orders", "2"], "savepoint list orders 2: write `savepoint list JOB`"),
        (["keep", "orders", "2"], "savepoint keep orders 2: write `savepoint JOB`, `savepoint list JOB`"),
        (["list", "orders", "--target", "/x"], "--target and --detach are for `savepoint JOB` alone"),
        (["hold", "orders", "2", "--detach"], "--target and --detach are for `savepoint JOB` alone"),
    ],
)
def test_what_is_not_understood_is_told_how_to_write_it(words: list[str], said: str, storage: Path) -> None:
    opened(storage)
    assert refused(headgate("savepoint", *words, "--storage", storage)).startswith(said)


def test_a_job_may_be_called_what_a_command_is_called(storage: Path) -> None:
    opened(storage, "list")
    said = refused(headgate("savepoint", "list", "--storage", storage))
    assert said == "job list is not running here: start it with `headgate run`"


# -- asking without waiting, and where to ----------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["savepoint", "stop"])
def test_who_does_not_wait_gets_the_name_of_the_request(
    command: str, storage: Path, monkeypatch: pytest.MonkeyPatch, job: Job
) -> None:
    monkeypatch.setattr(requests, "LAST_WORDS_S", 0.0)  # Nobody comes back for the answer.
    seen = as_json(command, "orders", "--detach", "--storage", storage)
    assert job.asked.wait(60)
    assert seen["text"] == f"{command} is asked for: request {seen['request']}"
    assert (seen["outcome"], seen["checkpoint"]) == (None, None)
    operation = job.server._requests.find(seen["request"])
    assert operation is not None
    assert (operation.command, operation.reply) == (command, None)
    job.core.tell(e.LeadershipLost(ME))


def test_who_does_not_wait_still_hears_that_nobody_is_there(storage: Path) -> None:
    opened(storage)
    said = refused(headgate("savepoint", "orders", "--detach", "--storage", storage))
    assert said == "job orders is not running here: start it with `headgate run`"


def test_a_savepoint_is_written_to_a_directory(
    storage: Path, job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(headgate, "savepoint", "orders", "--target", "backup", "--storage", storage, "--json")
        job.do(lambda: job.core.complete(1))
        made = copied(opened(storage), 1)
        job.do(lambda: job.core.tell(e.SavepointCopied(ME, CheckpointId(1))))
        done = json.loads(asked.result(60).stdout)
    assert (done["outcome"], done["path"]) == ("done", f"file://{tmp_path}/backup")
    assert files_of(tmp_path / "backup") == made
    said = refused(headgate("stop", "orders", "--target", "backup", "--storage", storage))
    assert said.startswith(f"no savepoint was taken: target {tmp_path}/backup is not empty")
