"""``headgate demo`` as a user meets it: the real job, killed half way, and counted by a reader that is not Headgate."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headgate.demo.audit import audit
from services.processes import kill_family

ROWS = 12_000
RUN_S = 900


@contextmanager
def demo(directory: Path, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
    """A demo that runs, and is not left running."""
    command = [sys.executable, "-m", "headgate", "demo", "--rows", str(ROWS), "--directory", str(directory), *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            yield process
        finally:
            kill_family(process.pid)


def test_the_demo_is_killed_and_nothing_is_lost_or_duplicated(tmp_path: Path) -> None:
    with demo(tmp_path / "demo", "--json") as process:
        told, _ = process.communicate(timeout=RUN_S)
    assert process.returncode == 0, told
    story = json.loads(told)
    assert story["kills"] == 1
    assert story["sinks"]["windows"] == {"in": ROWS, "out": ROWS, "lost": 0, "duplicated": 0, "foreign": 0}
    alerts = story["sinks"]["alerts"]
    assert alerts["in"] == alerts["out"] > 100
    assert story["checkpoints"] > 3
    assert story["recovery_s"] > 0
    next((tmp_path / "demo" / "alerts").glob("*.json")).unlink()
    assert [found.exact for found in audit(tmp_path / "demo", ROWS).values()] == [True, False], "a theft is noticed"


@pytest.mark.long
def test_a_real_loss_makes_the_demo_exit_1(tmp_path: Path) -> None:
    with demo(tmp_path / "demo") as process:
        stolen = None
        deadline = time.monotonic() + RUN_S
        while stolen is None and time.monotonic() < deadline and process.poll() is None:
            time.sleep(0.05)
            stolen = next((tmp_path / "demo" / "alerts").glob("*.json"), None)
        assert stolen is not None
        rows = len(stolen.read_text(encoding="utf-8").splitlines())
        stolen.unlink()
        told, _ = process.communicate(timeout=RUN_S)
    assert process.returncode == 1, told
    assert f"{rows} lost, 0 duplicated" in told.splitlines()[-1]
    assert told.splitlines()[-1].strip().startswith("alerts  NOT exactly once")
    assert [found.exact for found in audit(tmp_path / "demo", ROWS).values()] == [True, False]
