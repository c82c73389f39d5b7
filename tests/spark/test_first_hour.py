"""The README, done literally: its files copied, its commands run, Ctrl-C, the same command again, and a bad row."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.spark.reading import rows_of

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```python\n(# (\w+\.py)\n.*?)^```$", re.MULTILINE | re.DOTALL)
END_S = 300


class Command:
    """A command in a process group of its own, as a terminal starts it."""

    def __init__(self, place: Path, *arguments: str) -> None:
        self.place = place
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "HEADGATE_LOGS": str(place / "logs")}
        self._errors = (place / "stderr.txt").open("w+")
        self.process = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=place,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env=environment,
            start_new_session=True,
        )
        self.said: list[str] = []

    def listen(self, enough: Callable[[], bool] = lambda: False) -> None:
        """Take in what it prints, until there is enough, or until its end."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.append(line.rstrip("\n"))
            if enough():
                return

    def end(self) -> tuple[int, list[str]]:
        """Its exit code, and what it printed on standard error."""
        assert self.process.stdout is not None
        with self._errors, self.process.stdout:
            self.listen()
            code = self.process.wait(END_S)
            self._errors.seek(0)
            return code, self._errors.read().splitlines()

    def kill(self) -> None:
        """If a test ends early, nothing of it stays."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(END_S)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with the README's files."""
    found = {name: text for text, name in BLOCK.findall((ROOT / "README.md").read_text(encoding="utf-8"))}
    assert set(found) == {"sample.py", "job.py"}
    for name, text in found.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def closed_windows(orders: Path) -> Counter[tuple[str, str]]:
    """How much each user ordered in each ten minutes that are over for sure, in cents, by the sample files alone."""
    rows = [json.loads(line) for path in orders.glob("*.json") for line in path.read_text().splitlines()]
    last = max(datetime.fromisoformat(row["at"]) for row in rows)
    found: Counter[tuple[str, str]] = Counter()
    for row in rows:
        at = datetime.fromisoformat(row["at"])
        begin = at - timedelta(minutes=at.minute % 10, seconds=at.second, microseconds=at.microsecond)
        if begin + timedelta(minutes=11) <= last:
            found[row["user"], begin.isoformat()] += round(row["amount"] * 1e6)
    return found


def status(place: Path) -> tuple[int, dict[str, Any]]:
    command = Command(place, "-m", "headgate", "status", "job.py", "--json")
    code, _ = command.end()
    return code, json.loads(command.said[0])


def test_the_readme_works_as_it_is_written(place: Path) -> None:
    assert Command(place, "sample.py").end() == (0, [])
    summaries, wanted = place / "data" / "summaries", closed_windows(place / "data" / "orders")

    first = Command(place, "-m", "headgate", "run", "job.py")
    try:
        first.listen(lambda: summaries.exists() and any(summaries.glob("*.parquet")))
        os.killpg(first.process.pid, signal.SIGINT)  # Ctrl-C in a terminal is heard by all of them.
        code, errors = first.end()
    finally:
        first.kill()
    assert code == 130
    assert errors == ["headgate: interrupted: nothing is lost, and `headgate run` goes on from the last checkpoint"]
    assert [line for line in first.said if "warning" in line.lower() or "fail" in line] == []
    code, seen = status(place)
    assert (code, seen["state"]) == (0, "interrupted")
    offsets = next((place / "data" / "headgate" / "orders" / "tasks").glob("user-windows/g*/offsets/0"))
    partitions = json.loads(offsets.read_text().splitlines()[1])["conf"]["spark.sql.shuffle.partitions"]
    assert int(partitions) <= (os.cpu_count() or 1), "state has the cores of the master, not Spark's 200"

    (place / "data" / "orders" / "0003.json").write_text('{"user": "ann", "amount": "much", "at": "2026-02-01"}\n')
    again = Command(place, "-m", "headgate", "run", "job.py")
    try:
        code, errors = again.end()
    finally:
        again.kill()
    told = "row 1 of '0003.json' does not fit the schema"
    assert code == 2
    [error] = errors
    assert error.startswith("headgate: task orders failed: ")
    assert told in error
    log = Path(re.findall(r"\(log: (.*)\)$", error)[0])
    assert "Traceback (most recent call last)" in log.read_text()
    assert any("begins from checkpoint" in line for line in again.said), "it went on"
    assert told in again.said[-1]
    code, seen = status(place)
    assert (code, seen["state"]) == (1, "failed")
    assert told in seen["text"]
    assert (seen["last_failure"]["class"], told in seen["last_failure"]["message"]) == ("user", True)
    rows = rows_of(summaries)
    got = {(row["user"], row["window"]["start"].isoformat()): round(row["total"] * 1e6) for row in rows}
    assert len(got) == len(rows), "no window twice"
    assert got == pytest.approx(wanted, abs=1000)


@pytest.mark.long
def test_a_job_in_the_background_outlives_the_command_and_ends_in_good_order(place: Path) -> None:
    assert Command(place, "sample.py").end() == (0, [])
    begun = Command(place, "-m", "headgate", "run", "job.py", "--detach", "--json")
    code, errors = begun.end()
    assert (code, errors) == (0, [])
    [line] = begun.said
    seen = json.loads(line)
    try:
        assert (seen["job"], seen["state"]) == ("orders", "running")
        assert os.getsid(seen["pid"]) == seen["pid"] != os.getsid(0)
        assert "generation 1 begins from the beginning" in Path(seen["log"]).read_text()
        assert status(place)[1]["state"] == "running"
        stopped = Command(place, "-m", "headgate", "stop", "job.py", "--target", "backup", "--json")
        assert stopped.end()[0] == 0
        assert json.loads(stopped.said[0])["path"] == f"file://{place}/backup"
    finally:
        with contextlib.suppress(ProcessLookupError):
            if "stopped" not in status(place)[1]["state"]:
                os.killpg(seen["pid"], signal.SIGKILL)
    assert (place / "backup" / "manifest.json").is_file()
    assert status(place)[1]["state"] == "stopped"
