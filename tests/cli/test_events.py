"""What happened to a job, and what was written, as a user asks for it."""

import json
import logging
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from headgate.about import about
from headgate.cli import app, events
from headgate.cli.log import LogFormat, log_event, run_log
from headgate.store.api import open_store
from headgate.store.history import HistoryWriter
from headgate.store.jobstore import JobStore
from tests.cli.live import Job, crashed, stopped
from tests.view.watched import keep

WAIT_S = 60


def headgate(*arguments: str | Path, **env: str) -> Result:
    return CliRunner().invoke(app, [str(each) for each in arguments], env={"HEADGATE_STORAGE": "", **env})


def lines(*arguments: str | Path) -> list[dict[str, Any]]:
    result = headgate(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def refused(result: Result) -> str:
    assert (result.exit_code, result.stdout) == (2, "")
    return result.stderr.removeprefix("headgate: ").removesuffix("\n")


@pytest.fixture
def storage(tmp_path: Path) -> Path:
    return tmp_path / "storage"


def opened(storage: Path) -> JobStore:
    return JobStore.open(open_store(str(storage)), "orders")


def many(store: JobStore, count: int) -> None:
    """Completed checkpoints, one each second."""
    part = {"total_bytes": 1000, "new_bytes": 10, "in_flight_bytes": 0, "files": 1}
    figures = {"generation": 1, "unaligned": False, "pre_commit_ms": 1, "publish_ms": 1, "restarts": 0}
    for number in range(1, count + 1):
        store.append_history(
            [
                {
                    "at": number * 1000,
                    "event": "checkpoint-completed",
                    "id": number,
                    "kind": "checkpoint",
                    "duration_ms": number,
                    "tasks": {"a": part},
                    **figures,
                }
            ]
        )


# -- checkpoints -----------------------------------------------------------------------------------------------------


def test_checkpoints_are_shown_page_by_page(storage: Path) -> None:
    many(opened(storage), 120)
    newest = json.loads(headgate("checkpoints", "orders", "--storage", storage, "--json").stdout)
    assert [one["id"] for one in newest] == list(range(71, 121))
    shown = headgate("checkpoints", "orders", "--storage", storage, "--limit", "3", "--before", "71").stdout
    assert [line.split()[0] for line in shown.splitlines()[1:4]] == ["68", "69", "70"]
    assert shown.endswith("\nolder ones: --before 68\n")
    first = headgate("checkpoints", "orders", "--storage", storage, "--before", "3").stdout
    assert "older ones" not in first
    none = headgate("checkpoints", "orders", "--storage", storage, "--before", "1").stdout
    assert none == "there is no checkpoint before 1\n"


def test_checkpoints_are_summed_up(storage: Path) -> None:
    many(opened(storage), 100)
    [seen] = lines("checkpoints", "orders", "--storage", storage, "--summary")
    assert seen["counts"] == {"total": 100, "completed": 100, "failed": 0, "in_progress": 0, "savepoints": 0}
    assert seen["summary"]["duration_ms"]["p99"] == 99
    shown = headgate("checkpoints", "orders", "--storage", storage, "--summary").stdout
    assert shown.startswith("100 checkpoints: 100 completed, 0 failed, 0 in progress, 0 savepoints\n")
    assert [line.split()[0] for line in shown.splitlines()[3:5]] == ["duration", "pre-commit"]
    said = refused(headgate("checkpoints", "orders", "7", "--storage", storage, "--summary"))
    assert said == "checkpoint 7 with --summary or --before: choose one of them"


def test_lines_that_cannot_be_read_do_not_pass_silently(storage: Path) -> None:
    many(opened(storage), 2)
    [path] = (storage / "orders" / "history").iterdir()
    path.write_bytes(path.read_bytes().replace(b'"duration_ms":1,', b'"duration_ms":9,'))
    (storage / "orders" / "history" / "cat.jpg").write_bytes(b"cat")
    result = headgate("checkpoints", "orders", "--storage", storage, "--json")
    assert [one["id"] for one in json.loads(result.stdout)] == [2]
    assert "1 lines of the history cannot be read; see `headgate events orders --type unreadable`" in result.stderr
    assert "history/cat.jpg does not belong there, and is left alone: move it away" in result.stderr
    [bad] = lines("events", "orders", "--storage", storage, "--type", "unreadable")
    assert (bad["event"], bad["where"], bad["offset"]) == ("unreadable", f"history/{path.name}", 0)
    shown = headgate("events", "orders", "--storage", storage).stdout.splitlines()
    assert "cannot be read" in shown[0]


# -- events ----------------------------------------------------------------------------------------------------------


def test_events_are_one_line_each_with_date_and_time(storage: Path) -> None:
    keep(stopped(), opened(storage))
    shown = headgate("events", "orders", "--storage", storage).stdout.splitlines()
    assert any(line.endswith("generation 1 begins from the beginning") for line in shown)
    assert any(line.endswith("checkpoint 1 triggered") for line in shown)
    assert all(line[:2] == "19" and line[10] == " " for line in shown)
    told = lines("events", "orders", "--storage", storage)
    assert len(told) == len(shown)
    assert {"at", "event", "position"} <= set(told[0])


def test_events_are_chosen_by_type_time_number_and_position(storage: Path) -> None:
    many(opened(storage), 80)
    assert len(lines("events", "orders", "--storage", storage)) == 50
    newest = lines("events", "orders", "--storage", storage, "--limit", "2")
    assert [line["id"] for line in newest] == [79, 80]
    older = lines("events", "orders", "--storage", storage, "--limit", "2", "--before", newest[0]["position"])
    assert [line["id"] for line in older] == [77, 78]
    assert lines("events", "orders", "--storage", storage, "--since", "10min") == []
    since = lines("events", "orders", "--storage", storage, "--since", "1970-01-01T00:01:18+00:00")
    assert [line["id"] for line in since] == [78, 79, 80]
    assert lines("events", "orders", "--storage", storage, "--type", "restart") == []
    assert refused(headgate("events", "orders", "--storage", storage, "--since", "soon")).startswith("--since soon: ")
    assert refused(headgate("events", "orders", "--storage", storage, "--before", "7")).startswith("--before 7: write")


def test_who_follows_a_job_that_does_not_run_sees_its_past_and_goes(storage: Path) -> None:
    keep(crashed(), opened(storage))
    shown = headgate("events", "orders", "--storage", storage, "--follow")
    assert shown.exit_code == 0
    assert shown.stdout == headgate("events", "orders", "--storage", storage).stdout


class Rounds:
    """The sleeps of a command that follows: after each something happens, and nobody waits for the clock."""

    def __init__(self, *acts: Callable[[], object]) -> None:
        self._acts = list(acts)

    def __call__(self, _seconds: float) -> None:
        assert self._acts, "it should have ended"
        self._acts.pop(0)()


def test_who_follows_hears_each_event_once_and_goes_with_the_job(
    storage: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = opened(storage)
    job = Job(store)
    writer = HistoryWriter(store)
    writer.append([{"at": 1, "event": "notice", "text": "long ago"}])

    def says(text: str, event: str = "notice") -> Callable[[], None]:
        return lambda: writer.append([{"at": 2, "event": event, "text": text, "ending": "failed"}])

    def goes() -> None:
        job.server.close()

    monkeypatch.setattr(
        events, "wait", Rounds(says("one"), says("two", "warning"), goes, says("the end", "ended"), says("late"))
    )
    result = headgate("events", "orders", "--storage", storage, "--follow", "--limit", "1")
    assert result.exit_code == 0
    assert [line[20:] for line in result.stdout.splitlines()] == ["long ago", "one", "warning: two", "the end"]
    job.server.close()


# -- logs ------------------------------------------------------------------------------------------------------------


def test_the_newest_log_of_a_job_is_shown(tmp_path: Path) -> None:
    env = {"HEADGATE_LOGS": str(tmp_path)}
    for pid, age in ((11, 200), (12, 100)):
        path = tmp_path / f"orders.{pid}.log"
        path.write_text("".join(f"{pid}: line {number}\n" for number in range(300)))
        os.utime(path, (1_000 - age, 1_000 - age))
    (tmp_path / "orders.eu.13.log").write_text("another job's\n")
    shown = headgate("logs", "orders", "--lines", "2", **env)
    assert shown.stdout == "12: line 298\n12: line 299\n"
    assert len(headgate("logs", "orders", **env).stdout.splitlines()) == 100
    assert headgate("logs", "orders", "--path", **env).stdout == f"{tmp_path}/orders.12.log\n"
    assert [each["pid"] for each in json.loads(headgate("logs", "orders", "--json", **env).stdout)] == [12, 11]
    assert refused(headgate("logs", "payments", **env)).startswith("there is no log of job payments on this machine")


def test_lines_that_were_put_aside_are_shown_if_they_are_wanted(tmp_path: Path) -> None:
    (tmp_path / "orders.1.log").write_text("new\n")
    (tmp_path / "orders.1.log.1").write_text("older\nold\n")
    assert headgate("logs", "orders", "-n", "2", HEADGATE_LOGS=str(tmp_path)).stdout == "old\nnew\n"


def test_a_log_is_followed_until_its_process_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / f"orders.{os.getpid()}.log"
    path.write_text("one\n")

    def says(text: str) -> Callable[[], None]:
        def act() -> None:
            with path.open("a") as file:
                file.write(text)

        return act

    def put_aside() -> None:
        says("three\n")()
        path.rename(path.with_name(f"{path.name}.1"))
        path.write_text("four\n")

    monkeypatch.setattr(
        events, "wait", Rounds(says("two\n"), put_aside, says("-- the command has ended --\n"), says("late"))
    )
    shown = headgate("logs", "orders", "--follow", HEADGATE_LOGS=str(tmp_path)).stdout
    assert shown == "one\ntwo\nthree\nfour\n-- the command has ended --\n"


def test_lines_of_a_log_say_what_they_are_about(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADGATE_LOGS", str(tmp_path))
    log = logging.getLogger("headgate")
    with run_log("orders", verbose=False) as path:
        log.info("of the job")
        with about(task="a", checkpoint=None, batch=7):
            log.info("of a batch")
        log_event({"at": 1, "event": "checkpoint-triggered", "id": 3, "kind": "checkpoint", "unaligned": False})
    text = path.read_text()
    assert "INFO [job=orders] of the job\n" in text
    assert "INFO [job=orders task=a batch=7] of a batch\n" in text
    assert "INFO [job=orders checkpoint=3] checkpoint 3 triggered\n" in text


def test_a_log_is_written_as_json_if_it_is_wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADGATE_LOGS", str(tmp_path))
    log = logging.getLogger("headgate")
    with run_log("orders", verbose=False, form=LogFormat.JSON) as path:
        with about(task="a", checkpoint=4, batch=7), ThreadPoolExecutor(1) as pool:
            log.info("password=hunter2\nand more")
            pool.submit(log.info, "on another thread").result(WAIT_S)
            try:
                int("secret=hunter2")
            except ValueError:
                log.exception("it failed")
        log_event({"at": 1, "event": "task-started", "task": "b", "run": 2, "batch": 5})
        os.write(2, b"WARN from Spark\n")
    written = [json.loads(line) for line in path.read_text().splitlines()]
    assert all(
        {"at", "level", "logger", "job", "task", "checkpoint", "batch", "message"} <= set(one) for one in written
    )
    assert all(one["job"] == "orders" for one in written)
    lines = {one["message"]: one for one in written}  # Threads of earlier tests may write between them.
    first, other, failed = lines["password=***\nand more"], lines["on another thread"], lines["it failed"]
    [started] = [one for one in written if one.get("event") == "task-started"]
    assert [first[name] for name in ("task", "checkpoint", "batch")] == ["a", 4, 7]
    assert (other["task"], other["batch"]) == (None, None)
    assert "ValueError" in failed["trace"]
    assert (started["event"], started["task"], started["batch"]) == ("task-started", "b", 5)
    assert any(one["message"] == "WARN from Spark" and one["logger"] == "headgate.jvm" for one in written)
    assert "hunter2" not in path.read_text()
