"""Spark's process that does not come up: a Java that is missing is the user's matter, one that was killed is not."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
KILLED_AT_ONCE = """#!/bin/sh
case "$*" in *-version*) exec java "$@";; esac
kill -9 $$
"""
OLD = """#!/bin/sh
echo 'openjdk version "11.0.2" 2019-01-15' >&2
exit 1
"""


def plan(tmp_path: Path, java: str) -> subprocess.CompletedProcess[str]:
    """``headgate plan`` with this program for Java."""
    program = tmp_path / "java" / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(java)
    program.chmod(0o755)
    shape = {"shape": "windows", "directory": str(tmp_path)}
    environment = {
        **os.environ,
        "JAVA_HOME": str(tmp_path / "java"),
        "HEADGATE_SHAPE": json.dumps(shape),
        "PYTHONPATH": str(ROOT),
    }
    asked = [sys.executable, "-m", "headgate", "plan", str(ROOT / "tests/spark/shapes.py")]
    return subprocess.run(asked, env=environment, capture_output=True, text=True, timeout=600, check=False)


@pytest.mark.heavy
def test_a_jvm_that_is_killed_while_it_starts_is_told_in_one_line_and_may_be_tried_again(tmp_path: Path) -> None:
    told = plan(tmp_path, KILLED_AT_ONCE)
    said = [line for line in told.stderr.splitlines() if line.startswith("headgate: ")]
    assert told.returncode == 1, told.stderr
    assert said, told.stderr
    assert said[0].startswith("headgate: Spark's driver process ended while it started: it was killed, or")
    assert "Traceback" not in told.stderr


def test_a_java_that_is_too_old_is_the_users_to_put_right(tmp_path: Path) -> None:
    told = plan(tmp_path, OLD)
    assert told.returncode == 2, told.stderr
    assert "See that Java 17 or newer is on PATH" in told.stderr
