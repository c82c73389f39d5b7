"""The command line as a user meets it: what it prints, and how it exits."""

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from headgate.cli import app, ask
from headgate.core import events as e, recovery
from headgate.core.effects import Outcome
from headgate.core.ids import CheckpointId, Generation
from headgate.core.records import EpochRecord
from headgate.errors import BadStorage
from headgate.run.control import ControlClient
from headgate.store.api import open_store
from headgate.store.jobstore import JobStore
from tests.cli.live import Job, crashed, stopped
from tests.step_helpers import ME
from tests.view.watched import keep

COMMANDS = (
    "run",
    "plan",
    "list",
    "status",
    "checkpoint",
    "checkpoints",
    "savepoint",
    "stop",
    "cancel",
    "forget",
    "server",
    "ui",
    "events",
    "logs",
    "doctor",
    "demo",
    "sim",
    "story",
)


class Told:
    """What a command was told while it waited."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._changed = threading.Condition()

    def __call__(self, text: str) -> None:
        with self._changed:
            self._texts.append(text)
            self._changed.notify_all()

    def wait(self, word: str) -> None:
        """Until it is told something with this in it. Of two things in a row it may be told the last one only."""
        with self._changed:
            assert self._changed.wait_for(lambda: any(word in text for text in self._texts), 60), self._texts


def headgate(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(each) for each in arguments], env={"HEADGATE_STORAGE": ""})


def refused(result: Result) -> str:
    """The one line of a command that could not be carried out."""
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    [said] = result.stderr.splitlines()
    assert said.startswith("headgate: ")
    return said.removeprefix("headgate: ")


def as_json(*arguments: str | Path) -> Any:
    return json.loads(headgate(*arguments, "--json").stdout)


@pytest.fixture
def storage(tmp_path: Path) -> Path:
    return tmp_path / "storage"


def opened(storage: Path, name: str = "orders") -> JobStore:
    return JobStore.open(open_store(str(storage)), name)


@pytest.fixture
def job(storage: Path) -> Iterator[Job]:
    """A job that runs."""
    found = Job(opened(storage))
    yield found
    found.server.close()


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself_with_an_example_and_exit_codes(command: str) -> None:
    result = headgate(command, "--help")
    assert result.exit_code == 0
    assert f"Example: headgate {command}" in result.stdout
    assert "Exit codes:" in result.stdout


@pytest.mark.parametrize("command", [one for one in COMMANDS if one != "story"])
def test_every_command_prints_json_if_it_is_asked_to(command: str) -> None:
    assert "--json" in headgate(command, "--help").stdout


# -- a storage -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["list", "status", "checkpoints", "checkpoint", "savepoint", "stop", "cancel"])
def test_without_a_storage_a_command_says_how_to_give_one(command: str) -> None:
    arguments = [command] if command == "list" else [command, "orders"]
    assert refused(headgate(*arguments)).startswith("no storage is given: say --storage URI, or set HEADGATE_STORAGE")


@pytest.mark.parametrize("command", ["status", "checkpoints", "checkpoint", "savepoint", "stop", "cancel"])
def test_a_job_that_is_not_there_is_refused_with_those_that_are(command: str, storage: Path) -> None:
    keep(crashed(), opened(storage, "payments"))
    said = refused(headgate(command, "orders", "--storage", storage))
    assert said == f"there is no job 'orders' in file://{storage}: its jobs are payments"


def test_the_storage_may_be_given_by_the_environment(storage: Path) -> None:
    keep(stopped(), opened(storage))
    result = CliRunner().invoke(app, ["status", "orders"], env={"HEADGATE_STORAGE": str(storage)})
    assert result.exit_code == 0
    assert "stopped" in result.stdout


def test_nothing_is_written_by_looking(storage: Path) -> None:
    keep(crashed(), opened(storage))
    before = {path: path.stat().st_mtime_ns for path in storage.rglob("*")}
    for arguments in (["list"], ["status", "orders"], ["checkpoints", "orders"], ["cancel", "orders"]):
        headgate(*arguments, "--storage", storage)
    assert {path: path.stat().st_mtime_ns for path in storage.rglob("*")} == before


# -- list ------------------------------------------------------------------------------------------------------------


def test_a_storage_without_a_job_says_so(storage: Path) -> None:
    storage.mkdir()
    result = headgate("list", "--storage", storage)
    assert (result.exit_code, result.stdout) == (0, f"there is no job in file://{storage} yet\n")
    assert as_json("list", "--storage", storage) == []


def test_a_storage_that_is_not_there_is_refused(storage: Path) -> None:
    assert "there is no such directory" in refused(headgate("list", "--storage", storage))
    assert not storage.exists()


def test_jobs_are_listed_with_their_state_and_last_checkpoint(storage: Path, job: Job) -> None:
    assert job.core.requests == 0
    keep(stopped(), opened(storage, "payments"))
    keep(crashed(), opened(storage, "returns"))
    assert [(one["job"], one["state"]) for one in as_json("list", "--storage", storage)] == [
        ("orders", "running"),
        ("payments", "stopped"),
        ("returns", "crashed"),
    ]
    lines = headgate("list", "--storage", storage).stdout.splitlines()
    assert lines[0].split() == ["job", "state", "generation", "last", "checkpoint"]
    assert lines[1].split()[:2] == ["orders", "running"]
    assert "2 (savepoint)" in lines[2]


def test_only_jobs_that_run_or_only_those_that_have_ended_are_listed(storage: Path, job: Job) -> None:
    assert job.core.requests == 0
    keep(stopped(), opened(storage, "payments"))
    keep(crashed(), opened(storage, "returns"))
    opened(storage, "new")
    assert [one["job"] for one in as_json("list", "--running", "--storage", storage)] == ["orders"]
    assert [one["job"] for one in as_json("list", "--ended", "--storage", storage)] == ["payments", "returns"]
    assert refused(headgate("list", "--running", "--ended", "--storage", storage)).startswith("--running and --ended: ")
    job.server.close()
    none = headgate("list", "-r", "--storage", storage)
    assert (none.exit_code, none.stdout) == (0, f"no job in file://{storage} runs\n")
    assert as_json("list", "-r", "--storage", storage) == []


def test_a_job_whose_storage_is_damaged_does_not_hide_the_others(storage: Path) -> None:
    keep(crashed(), opened(storage, "orders"))
    keep(crashed(), opened(storage, "payments"))
    record = next((storage / "orders" / "checkpoint-log").iterdir())
    record.write_bytes(record.read_bytes()[:-20])
    result = headgate("list", "--storage", storage)
    assert result.exit_code == 0
    assert [line.split()[:2] for line in result.stdout.splitlines()[1:]] == [
        ["orders", "damaged"],
        ["payments", "crashed"],
    ]
    assert record.name in refused(headgate("status", "orders", "--storage", storage))


# -- status and checkpoints ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "state", "code"), [(crashed, "crashed", 1), (crashed, "interrupted", 0), (stopped, "stopped", 0)]
)
def test_the_status_of_a_job_that_does_not_run(make: Any, state: str, code: int, storage: Path) -> None:
    keep(make(), opened(storage))
    if state == "interrupted":
        opened(storage).append_history([{"at": 1, "event": "ended", "ending": "interrupted", "text": "", "leader": ME}])
    result = headgate("status", "orders", "--storage", storage)
    assert result.exit_code == code
    assert state in result.stdout
    seen = as_json("status", "orders", "--storage", storage)
    assert (seen["state"], [task["batch"] for task in seen["tasks"]]) == (state, [0, 0])


def test_the_status_of_a_job_that_runs_is_asked_of_it(storage: Path, job: Job) -> None:
    job.core.tell(job.core.committed("a", 7))
    result = headgate("status", "orders", "--storage", storage)
    assert result.exit_code == 0
    assert "running" in result.stdout
    assert as_json("status", "orders", "--storage", storage) == job.status()
    assert job.status()["tasks"][0]["batch"] == 7


def test_a_job_that_ran_on_another_machine_may_still_run_there(storage: Path) -> None:
    store = opened(storage)
    keep(crashed(), store)
    store.put_control({"pid": 1, "host": "127.0.0.1", "port": 1, "token": "", "machine": "far-away"})
    seen = as_json("status", "orders", "--storage", storage)
    assert (seen["state"], seen["text"]) == ("unknown", "it was last run on far-away: ask there")


def test_checkpoints_are_shown_all_and_one_by_one(storage: Path) -> None:
    keep(stopped(), opened(storage))
    lines = headgate("checkpoints", "orders", "--storage", storage).stdout.splitlines()
    assert [line.split()[:3] for line in lines[1:]] == [["1", "checkpoint", "kept"], ["2", "savepoint", "kept"]]
    assert "1.0 kB" in lines[1]
    one = headgate("checkpoints", "orders", "1", "--storage", storage).stdout
    assert "start delay" in one
    assert "3 ms" in one
    views = as_json("checkpoints", "orders", "--storage", storage)
    assert views[0] == as_json("checkpoints", "orders", "1", "--storage", storage)
    assert views[0]["tasks"]["a"]["sync_ms"] == 3


def test_a_checkpoint_that_is_not_known_is_refused(storage: Path) -> None:
    keep(crashed(), opened(storage))
    said = refused(headgate("checkpoints", "orders", "9", "--storage", storage))
    assert said == "checkpoint 9 is not known; there are: 1"


def test_a_job_without_a_checkpoint_says_so(storage: Path) -> None:
    opened(storage)
    assert headgate("checkpoints", "orders", "--storage", storage).stdout == "there is no checkpoint yet\n"
    assert as_json("checkpoints", "orders", "--storage", storage) == []


# -- asking ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["checkpoint", "savepoint", "stop"])
def test_a_job_that_does_not_run_cannot_be_asked(command: str, storage: Path) -> None:
    keep(crashed(), opened(storage))
    said = refused(headgate(command, "orders", "--storage", storage))
    assert said == "job orders is not running here: start it with `headgate run`"


def test_a_checkpoint_is_taken_and_its_number_printed(storage: Path, job: Job) -> None:
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(as_json, "checkpoint", "orders", "--storage", storage)
        job.do(lambda: job.core.complete(1))
        assert asked.result(60) == {"outcome": "done", "text": "checkpoint 1 completed", "checkpoint": 1}


def test_a_job_is_stopped_with_a_savepoint(storage: Path, job: Job) -> None:
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(headgate, "stop", "orders", "--savepoint", "--storage", storage)
        job.do(lambda: job.core.complete(1))
        job.do(lambda: job.core.tell(e.SavepointCopied(ME, CheckpointId(1))))
        job.do(job.core.write_closing_record)
        job.do(lambda: job.core.tell(job.core.stale_generations_aborted()))
        job.server.close()
        said = f"savepoint 1 completed: file://{storage}/orders/savepoints/1\n"
        assert (asked.result(60).exit_code, asked.result(60).stdout) == (0, said)


def test_a_job_is_drained_and_stopped(storage: Path, job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    store = JobStore.find(open_store(str(storage)), "orders")
    said = Told()
    monkeypatch.setattr(ask, "say", said)
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(headgate, "stop", "orders", "--drain", "--storage", storage)
        job.do(lambda: job.core.tell(job.core.ended("a", 0)))
        said.wait("the job is being drained: its sources have ended, and what was read comes out")
        job.asked.clear()
        another = ControlClient(store).ask("savepoint")  # Not a second command: both would have one standard output.
        job.do(lambda: job.core.complete(1))
        job.do(lambda: job.core.tell(e.SavepointCopied(ME, CheckpointId(1))))
        job.do(job.core.write_closing_record)
        job.do(lambda: job.core.tell(job.core.stale_generations_aborted()))
        job.server.close()
        result = asked.result(60)
    assert (result.exit_code, result.stdout) == (0, f"savepoint 1 completed: file://{storage}/orders/savepoints/1\n")
    assert another.outcome is Outcome.REFUSED
    assert another.text == "savepoint refused: the job is being drained, and ends with a savepoint"


WITHOUT = ("--abandon-commits", "out", "--reason", "its server is gone for good")


def test_who_cancels_hears_what_the_job_waits_for_and_can_end_it_without(storage: Path, job: Job) -> None:
    job.core.tell(job.core.committed("a", 0))
    job.core.ask()
    job.core.make_ready(1)
    job.core.create()
    told = Told()
    with ThreadPoolExecutor(2) as pool:
        asked = pool.submit(ControlClient(opened(storage)).ask, "cancel", notice=told)
        job.do(lambda: job.core.tell(job.core.commit_failed(1)))
        told.wait("`headgate cancel JOB --abandon-commits out --reason TEXT` (out: no answer)")
        said = refused(headgate("cancel", "orders", "--storage", storage))
        assert "already, and waits for sink out to commit checkpoint 1" in said
        job.asked.clear()
        without = pool.submit(headgate, "cancel", "orders", "--storage", storage, *WITHOUT)
        job.do(job.core.write_closing_record)
        job.do(lambda: job.core.tell(e.FilesListed(Generation(1), ())))
        job.do(lambda: job.core.tell(e.FilesDeleted(Generation(1), (CheckpointId(1),))))
        job.server.close()
        assert without.result(60).exit_code == 0
        assert asked.result(60).outcome is Outcome.DONE
    epoch_record = job.core.store[max(job.core.store)]
    assert isinstance(epoch_record, EpochRecord)
    assert [each.sink for each in epoch_record.abandoned] == ["out"]


def test_a_savepoint_is_deleted_by_the_job_that_runs(storage: Path, job: Job) -> None:
    said = refused(headgate("savepoint", "delete", "orders", "5", "--storage", storage))
    assert said == "savepoint 5 is not deleted: there is no such savepoint; there are: none"
    for batch in range(2):
        job.core.tell(job.core.committed("a", batch))
        job.core.savepoint()
        job.core.complete(batch + 1)
        job.core.tell(e.SavepointCopied(ME, CheckpointId(batch + 1)))
    with ThreadPoolExecutor(1) as pool:
        job.asked.clear()
        asked = pool.submit(headgate, "savepoint", "delete", "orders", "1", "--storage", storage)
        job.do(lambda: job.core.tell(e.SavepointDeleted(ME, CheckpointId(1))))
        assert (asked.result(60).exit_code, asked.result(60).stdout) == (0, "savepoint 1 is deleted\n")


def test_a_savepoint_of_a_job_that_does_not_run_is_deleted_in_the_storage(storage: Path) -> None:
    keep(stopped(), opened(storage))
    said = refused(headgate("savepoint", "delete", "orders", "2", "--storage", storage))
    assert said.startswith("savepoint 2 is not deleted: the job would go on from it")
    said = refused(headgate("savepoint", "delete", "orders", "--storage", storage))
    assert said == "savepoint delete orders: write `savepoint delete JOB ID`"


def test_a_job_that_does_not_run_is_cancelled_in_its_storage(storage: Path) -> None:
    store = opened(storage)
    keep(stopped(), store)
    assert headgate("cancel", "orders", "--storage", storage).exit_code == 0
    assert as_json("status", "orders", "--storage", storage)["state"] == "cancelled"
    assert recovery.latest(store.read_checkpoint_log()) == 2
    assert refused(headgate("cancel", "orders", "--storage", storage)) == "job orders is cancelled already"


def test_a_job_that_owes_commits_is_cancelled_and_forgotten_only_without_them_by_name(storage: Path) -> None:
    store = opened(storage)
    keep(crashed(), store)
    for command in (("cancel",), ("forget", "--yes")):
        said = refused(headgate(*command, "orders", "--storage", storage))
        assert said.endswith("give those rows up with --abandon-commits out")
    assert "owes no commit; those that do: out" in refused(
        headgate("cancel", "orders", "--storage", storage, "--abandon-commits", "in", "--reason", "gone")
    )
    said = refused(headgate("cancel", "orders", "--storage", storage, "--abandon-commits", "out"))
    assert said == 'giving up commits is recorded with a reason: say --reason "why"'
    assert headgate("cancel", "orders", "--storage", storage, *WITHOUT).exit_code == 0
    [decided] = [line for line in store.read_history() if line["event"] == "decision"]
    assert (decided["decision"], decided["sinks"]) == ("abandon-commits", ["out"])
    assert decided["reason"] == "its server is gone for good"
    epoch_record = store.read_checkpoint_log()[-1]
    assert isinstance(epoch_record, EpochRecord)
    assert [each.sink for each in epoch_record.abandoned] == ["out"]


def test_a_job_is_forgotten_whole_and_begins_from_nothing(storage: Path) -> None:
    store = opened(storage)
    keep(stopped(), store)
    store.append_history([{"at": 1, "event": "notice", "text": "x"}])
    assert refused(headgate("forget", "orders", "--storage", storage)).endswith("say --yes")
    store.begin_forgetting()  # Somebody was killed half way: nobody runs what is left.
    with pytest.raises(BadStorage, match="is being forgotten"):
        opened(storage)
    result = headgate("forget", "orders", "--storage", storage, "--yes")
    assert (result.exit_code, result.stdout) == (0, "job orders is forgotten\n")
    assert not (storage / "orders").exists()
    assert opened(storage).read_checkpoint_log() == ()


def test_a_job_that_runs_is_not_forgotten(storage: Path, job: Job) -> None:
    assert refused(headgate("forget", "orders", "--storage", storage, "--yes")).startswith("job orders is running")
    assert job.status()["state"] == "running"


def test_what_the_job_refuses_and_what_fails_have_codes_of_their_own(storage: Path, job: Job) -> None:
    late = headgate("checkpoint", "orders", "--storage", storage, "--timeout", "0.1")
    assert late.exit_code == 1
    assert late.stderr == "headgate: checkpoint: no answer within 0.1 s; it may still come\n"
    job.core.tell(e.LeadershipLost(ME))
    said = refused(headgate("savepoint", "orders", "--storage", storage))
    assert said == "savepoint refused: the job is not running here"
    result = headgate("cancel", "orders", "--storage", storage, "--json")
    assert (result.exit_code, json.loads(result.stdout)["outcome"]) == (2, "refused")


# -- options ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("run", "job.py", "--rename", "old"), "--rename old: write --rename OLD=NEW"),
        (("run", "job.py", "--rename", "old="), "--rename old=: write --rename OLD=NEW"),
        (("run", "job.py", "--conf", "=5"), "--conf =5: write --conf KEY=VALUE"),
        (("plan", "job.py", "--json", "--dot"), "--json and --dot: choose one of them"),
        (("status", "orders", "--storage", "file://elsewhere/x"), "storage file://elsewhere/x is on elsewhere"),
        (("status", "a b/..", "--storage", "."), "a b/..: there is no such file"),
        (("run", "nowhere.py"), "nowhere.py: there is no such file"),
        (("plan", "nowhere.py"), "nowhere.py: there is no such file"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(arguments: tuple[str, ...], said: str) -> None:
    assert refused(headgate(*arguments)).startswith(said)
