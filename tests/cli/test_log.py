"""Where the words of Spark's processes and the traces go."""

import os
import subprocess
import sys
from pathlib import Path

from headgate.cli.log import KEPT

SCRIPT = """
import logging, subprocess, sys, typer
from headgate.cli.app import say
from headgate.cli.log import run_log
with run_log("orders", verbose=sys.argv[1] == "verbose") as path:
    subprocess.run(["sh", "-c", "echo a trace of the JVM >&2; printf 'bad \\\\377 byte' >&2"])
    logging.getLogger("headgate").warning("a gap\\nin the history")
    logging.getLogger("headgate").info("Spark gets a jar")
    logging.getLogger("headgate.failures").error("a/b failed: Traceback\\n  in job.py")
    logging.getLogger("headgate.failures").error("no driver for jdbc:oracle:thin:etl/x@hunter2@//db:1521/shop")
    subprocess.run(["sh", "-c", "echo spark.authenticate.secret=hunter2 >&2"])
    say("one line")
say("after it")
print(path)
"""


def run(logs: Path, how: str = "quiet") -> tuple[list[str], Path]:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, how],
        env={**os.environ, "HEADGATE_LOGS": str(logs), "HOME": str(logs)},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stderr.splitlines(), Path(done.stdout.strip())


def test_traces_are_in_the_file_and_one_line_is_on_the_terminal(tmp_path: Path) -> None:
    errors, path = run(tmp_path / "logs")
    assert errors == ["headgate: a gap in the history", "headgate: one line", "headgate: after it"]
    kept = path.read_text()
    for text in (
        "a trace of the JVM\n",
        "bad \ufffd byte",
        "a gap\nin",
        "gets a jar",
        "a/b failed: Traceback\n  in job.py",
    ):
        assert text in kept
    assert "jdbc:oracle:thin:@//db:1521/shop" in kept
    assert "hunter2" not in kept
    assert path.parent == tmp_path / "logs"
    assert path.stat().st_mode & 0o077 == 0, "it may hold what nobody else should read"


def test_all_of_it_is_on_the_terminal_if_it_is_asked_for(tmp_path: Path) -> None:
    errors, path = run(tmp_path / "logs", "verbose")
    assert {"a trace of the JVM", "headgate: a/b failed: Traceback", "  in job.py", "headgate: one line"} <= set(errors)
    assert not any("hunter2" in line for line in errors)
    assert "a trace of the JVM" in path.read_text()


def test_files_of_a_job_are_kept_for_some_runs_and_no_more(tmp_path: Path) -> None:
    for number in range(KEPT + 3):
        (tmp_path / f"orders.{number}.log").write_text("old")
        os.utime(tmp_path / f"orders.{number}.log", (number, number))
    (tmp_path / "orders.0.log.1").write_text("older")
    (tmp_path / "orders.eu.1.log").write_text("another job's")
    _, path = run(tmp_path)
    left = {each.name for each in tmp_path.iterdir()}
    assert left == {path.name, "orders.eu.1.log", *(f"orders.{number}.log" for number in range(4, KEPT + 3))}


def test_a_place_that_cannot_be_made_does_not_matter(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    _, path = run(tmp_path / "taken")
    assert "a trace of the JVM" in path.read_text()
