"""What the shell completes, and what a terminal shows of something that is waited for."""

import io
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from headgate.cli import app
from headgate.cli.progress import step_of, waiting
from headgate.core.effects import Outcome
from headgate.run import control
from tests.cli.live import Job, crashed
from tests.cli.test_commands import opened
from tests.view.watched import keep


def completed(typed: str, storage: Path | str = "") -> list[str]:
    """What bash offers for a command line."""
    env = {
        "_HEADGATE_COMPLETE": "complete_bash",
        "COMP_WORDS": typed,
        "COMP_CWORD": str(len(typed.split(" ")) - 1),
        "HEADGATE_STORAGE": str(storage),
    }
    result = CliRunner().invoke(app, prog_name="headgate", env=env)
    return result.stdout.split()


@pytest.fixture
def storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    here = tmp_path / "here"
    (here / "jobs").mkdir(parents=True)
    (here / "orders_job.py").touch()
    (here / "notes.txt").touch()
    (here / "jobs" / "late.py").touch()
    monkeypatch.chdir(here)
    for name in ("orders", "orders-2", "payments"):
        keep(crashed(), opened(tmp_path / "storage", name))
    return tmp_path / "storage"


def test_the_names_of_jobs_and_python_files_are_completed(storage: Path) -> None:
    assert completed("headgate status o", storage) == ["orders", "orders-2", "orders_job.py"]
    assert completed(f"headgate status --storage {storage} p") == ["payments"]
    assert completed("headgate status j", storage) == ["jobs/"]
    assert completed("headgate run jobs/") == ["jobs/late.py"]
    assert completed("headgate run o", storage) == ["orders_job.py"]


def test_what_a_savepoint_is_asked_is_completed(storage: Path) -> None:
    assert completed("headgate savepoint l", storage) == ["list", "label"]
    assert completed("headgate savepoint hold p", storage) == ["payments"]
    assert completed("headgate savepoint hold payments ", storage) == []


def test_a_storage_that_cannot_be_looked_at_completes_to_nothing(storage: Path) -> None:
    assert completed("headgate status p", "s3a://bucket/x") == []
    assert completed("headgate status p", storage / "nowhere") == []
    assert completed("headgate status p", "file://far-away/x") == []


def test_what_is_waited_for_is_shown_step_by_step(tmp_path: Path) -> None:
    job = Job(opened(tmp_path))
    try:
        seen: list[int] = []
        assert step_of("savepoint", job.status(), seen) == ("savepoint: its turn", 0, None)
        job.core.savepoint()
        assert step_of("savepoint", job.status(), seen)[1:] == (1, 2)
        assert step_of("checkpoint", job.status(), []) == ("checkpoint: its turn", 0, None)
        job.core.complete(1)
        assert step_of("stop", job.status(), seen) == ("savepoint 1: commits and its copy", 0, None)
        assert step_of("cancel", job.status(), [])[0] == "cancel: the job finishes what was decided"
    finally:
        job.server.close()


def view(*, cut: tuple[str, ...] = (), acknowledged: tuple[str, ...] = ()) -> dict[str, object]:
    one = {"id": 7, "is_savepoint": True, "cut": list(cut), "acknowledged": list(acknowledged)}
    return {"state": "running", "tasks": [{"task": name} for name in "abcde"], "in_progress": [one]}


def test_it_says_which_tasks_are_waited_for() -> None:
    assert step_of("stop", view(cut=("a",)), []) == ("savepoint 7: barrier at b, c, d and 1 more", 1, 10)
    assert step_of("stop", view(cut=tuple("abcde"), acknowledged=("a",)), []) == (
        "savepoint 7: snapshot of b, c, d and 1 more",
        6,
        10,
    )
    assert step_of("stop", view(acknowledged=tuple("abcde")), []) == (
        "savepoint 7: pre-commits, and its record",
        10,
        10,
    )


def test_whoever_waits_sees_the_status_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "WATCH_S", 0.01)
    store = opened(tmp_path)
    job = Job(store)
    seen = threading.Event()

    def watch(status: Mapping[str, Any]) -> None:
        if status["in_progress"]:
            seen.set()

    try:
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(control.ControlClient(store).ask, "checkpoint", watch=watch)
            assert seen.wait(60)
            job.do(lambda: job.core.complete(1))
            assert asked.result(60).outcome is Outcome.DONE
    finally:
        job.server.close()


def test_only_a_terminal_shows_it() -> None:
    with waiting("savepoint", console=Console(file=io.StringIO())) as watch:
        assert watch is None
    screen = io.StringIO()
    with waiting("savepoint", console=Console(file=screen, force_terminal=True, width=100)) as watch:
        assert watch is not None
        watch(view(cut=("a",)))
    assert "savepoint 7: barrier at b, c, d and 1 more" in screen.getvalue()
