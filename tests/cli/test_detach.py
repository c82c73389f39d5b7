"""A job in the background: the command is over when it runs, and says what went wrong before."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, TextIO

import pytest
import typer
from typer.testing import CliRunner

from headgate.cli import run as running
from headgate.cli.app import app

ROOT = Path(__file__).parents[2]
CHILD = """
import os, signal, sys
from headgate.cli.detach import Announcement
class Control:
    address = "http://127.0.0.1:1"
announcement = Announcement(int(sys.argv[sys.argv.index("--announce") + 1]))
announcement.begin("orders", "/logs/orders.log")
sys.stderr.write("headgate: the storage is slow\\n")
sys.stderr.flush()
proof = open(os.environ["PROOF"], "w", buffering=1)  # As long as this process lives it is open.
"""
RUNS = """
announcement.attach(Control(), "file:///data/orders")
show = announcement.also(lambda line: None)
show({"event": "progress", "state": "starting"})
proof.write("starting\\n")
show({"event": "progress", "state": "running"})
sys.stderr.write("nobody hears this\\n")
proof.write(f"{os.getpid()} {os.getsid(0)} {sys.stdin.read()!r} {' '.join(sys.argv[1:4])}\\n")
signal.pause()
"""
STARTS = """
proof.write(f"{os.getpid()}\\n")
signal.pause()
"""
PARENT = """
import sys
from headgate.cli.app import app
from headgate.cli.detach import run_detached
@app.command()
def begin() -> None:
    run_detached(["job.py", "--takeover"], as_json=True, command=("-c", sys.stdin.read()))
app(["begin"])
"""


class Parent:
    """The command, with something else in place of the process that runs a job."""

    def __init__(self, child: str, place: Path) -> None:
        self._place = place / "proof"
        os.mkfifo(self._place)
        self.process = subprocess.Popen(
            [sys.executable, "-c", PARENT],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PROOF": str(self._place), "PYTHONPATH": str(ROOT)},
            start_new_session=True,
        )
        assert self.process.stdin is not None
        self.process.stdin.write(CHILD + child)
        self.process.stdin.close()
        self.process.stdin = None
        self.proof: TextIO = self._place.open(encoding="utf-8")

    def end(self) -> tuple[int, Any, str]:
        """Its exit code, what it printed, and what it said."""
        out, said = self.process.communicate(timeout=60)
        return self.process.returncode, json.loads(out) if out else None, said


def test_the_command_is_over_when_the_job_runs_and_the_job_goes_on(tmp_path: Path) -> None:
    parent = Parent(RUNS, tmp_path)
    assert parent.proof.readline() == "starting\n"
    pid, session, read, *arguments = parent.proof.readline().split()
    code, seen, said = parent.end()
    assert (code, said) == (0, "headgate: the storage is slow\n")
    assert seen == {
        "state": "running",
        "job": "orders",
        "pid": int(pid),
        "address": "http://127.0.0.1:1",
        "storage": "file:///data",
        "log": "/logs/orders.log",
    }
    assert (session, read) == (pid, "''"), "it has a session of its own, and no terminal"
    assert arguments == ["run", "job.py", "--takeover"]
    os.kill(int(pid), signal.SIGTERM)
    assert parent.proof.read() == "", "it lived until then"
    parent.proof.close()


@pytest.mark.parametrize(
    ("child", "code", "said"),
    [
        ("sys.stderr.write('headgate: there is no such topic\\n'); sys.exit(2)", 2, "there is no such topic"),
        ("os.kill(os.getpid(), signal.SIGKILL)", 1, "the job's process was killed by signal 9 before the job ran"),
    ],
)
def test_what_went_wrong_before_is_said_with_its_exit_code(child: str, code: int, said: str, tmp_path: Path) -> None:
    parent = Parent(child, tmp_path)
    assert parent.end() == (code, None, f"headgate: the storage is slow\nheadgate: {said}\n")
    parent.proof.close()


def test_a_job_that_is_over_before_anybody_sees_it_run_says_how_it_ended(tmp_path: Path) -> None:
    parent = Parent("announcement.over('deposed'); sys.exit(3)", tmp_path)
    code, seen, _ = parent.end()
    assert (code, seen["state"], seen["text"]) == (3, "ended", "deposed")
    parent.proof.close()


def test_ctrl_c_ends_the_command_and_not_the_job(tmp_path: Path) -> None:
    parent = Parent(STARTS, tmp_path)
    pid = int(parent.proof.readline())
    os.killpg(parent.process.pid, signal.SIGINT)  # Ctrl-C in a terminal is heard by all of its session's.
    code, seen, said = parent.end()
    assert (code, seen) == (130, None)
    assert said.splitlines()[-1] == (
        f"headgate: the job is still starting, as process {pid}: follow it with `headgate status`"
    )
    os.kill(pid, signal.SIGTERM)
    assert parent.proof.read() == ""
    parent.proof.close()


def test_the_job_is_run_with_all_that_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[list[str]] = []

    def run_detached(arguments: list[str], *, as_json: bool) -> None:
        assert as_json
        found.append(arguments)

    monkeypatch.setattr(running, "run_detached", run_detached)
    given = {
        "from": "12",
        "claim": None,
        "fallback": None,
        "takeover": None,
        "allow-non-restored-state": None,
        "abandon-commits": "a",
        "reason": "the broker is gone",
        "rename": "x=y",
        "master": "local[2]",
        "conf": "spark.a=b c",
        "storage": "/data",
        "verify": "size",
        "verbose": None,
        "log-format": "json",
    }
    options = [part for name, value in given.items() for part in (f"--{name}", value) if part is not None]
    result = CliRunner().invoke(app, ["run", "job.py", *options, "--abandon-commits", "b", "--detach", "--json"])
    assert result.exit_code == 0, result.output
    [arguments] = found
    at = options.index("--reason")
    assert arguments == ["job.py", *options[:at], "--abandon-commits", "b", *options[at:]]
    command = typer.main.get_command(app).commands["run"]  # type: ignore[attr-defined]
    known = {each.removeprefix("--") for option in command.params for each in option.opts if each.startswith("--")}
    assert known == {*given, "detach", "announce", "json"}, "a new option is passed on, or not, on purpose"


def test_what_is_for_the_background_alone_is_refused() -> None:
    result = CliRunner().invoke(app, ["run", "job.py", "--announce", "9999"])
    assert result.exit_code == 2
    assert result.stderr == "headgate: --announce is for a job that --detach has started: leave it out\n"


def test_a_job_that_cannot_begin_says_so_from_the_background(tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "headgate", "run", str(tmp_path / "nowhere.py"), "--detach"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    said = f"headgate: {tmp_path}/nowhere.py: there is no such file; give the Python file that describes the job\n"
    assert (result.returncode, result.stdout, result.stderr) == (2, "", said)
