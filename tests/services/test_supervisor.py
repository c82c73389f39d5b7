"""A command under a supervisor runs as it should, and is never left alone."""

import random
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from services import supervisor
from services.processes import Process, family, kill_family, kill_group
from services.server import ROOT, wait_until
from services.supervisor import Supervisor
from tests.services.processes import processes_that_know

ROUNDS = 12
WAIT = "import time; time.sleep(600)"
LEAVE = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', '{WAIT}', sys.argv[1]]); print('left')"


def start(directory: Path, program: str) -> Supervisor:
    return Supervisor(
        "supervised",
        [sys.executable, "-c", program, str(directory)],
        environment={"TOLD": "yes"},
        directory=directory,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def test_a_command_gets_its_environment_and_its_directory_and_an_empty_input(tmp_path: Path) -> None:
    program = "import os, sys; print(os.environ['TOLD'], os.getcwd(), repr(sys.stdin.read())); sys.exit(7)"
    supervised = start(tmp_path, program)
    assert supervised.process.communicate()[0].decode() == f"yes {tmp_path} ''\n"
    supervised.release()
    assert supervised.process.returncode == 7
    assert processes_that_know(tmp_path) == []


def test_a_release_kills_what_the_command_left_in_its_group(tmp_path: Path) -> None:
    supervised = start(tmp_path, LEAVE)
    with supervised.process:
        assert supervised.process.stdout is not None
        assert supervised.process.stdout.readline() == b"left\n"
        wait_until(lambda: supervised.process.poll() is not None, 30, "the end of the command")
        assert len(processes_that_know(tmp_path)) == 1
        supervised.release()
    wait_until(lambda: processes_that_know(tmp_path) == [], 30, "the end of what it left")


def test_a_start_that_is_broken_off_before_the_watchdog_is_there_runs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_pid: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(supervisor, "family", interrupted)
    with pytest.raises(KeyboardInterrupt):
        start(tmp_path, "import pathlib, sys; pathlib.Path(sys.argv[1], 'ran').touch()")
    assert processes_that_know(tmp_path) == []
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_whenever_the_starting_process_ends_the_command_does(tmp_path: Path, number: signal.Signals) -> None:
    program = textwrap.dedent("""
        import pathlib, sys, time
        from tests.services.test_supervisor import WAIT, start
        print("starts", flush=True)
        start(pathlib.Path(sys.argv[1]), WAIT)
        time.sleep(600)
    """)
    rng = random.Random(number)
    for _ in range(ROUNDS):
        with subprocess.Popen(
            [sys.executable, "-c", program, str(tmp_path)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as starter:
            assert starter.stdout is not None
            assert starter.stdout.readline() == "starts\n"
            time.sleep(rng.uniform(0, 0.02))
            starter.send_signal(number)
        assert starter.returncode == -number
        wait_until(lambda: processes_that_know(tmp_path) == [], 30, "the end of the command")


def test_a_group_whose_number_is_somebody_elses_by_now_is_left_alone() -> None:
    with subprocess.Popen([sys.executable, "-c", WAIT], start_new_session=True) as other:
        found = family(other.pid)[0]
        kill_group(Process(other.pid, found.started - 1))
        assert found.alive
        kill_group(found)
        assert other.wait(30) == -signal.SIGKILL


def test_a_command_that_has_ended_is_released_without_a_word(tmp_path: Path) -> None:
    supervised = start(tmp_path, WAIT)
    with supervised.process:
        kill_family(supervised.process.pid)
    supervised.release()
    supervised.release()
    assert supervised.process.returncode == -signal.SIGKILL
