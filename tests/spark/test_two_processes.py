"""Two processes, one job: the second is refused, or takes over; whichever leads, nothing is lost or doubled."""

import subprocess
import sys
from pathlib import Path

from tests.spark.process import JobProcess, completed
from tests.spark.reading import verdict

ROWS = 20_000


def test_a_second_run_is_refused_and_a_takeover_fences_the_first_off(tmp_path: Path) -> None:
    shape = {"shape": "fork", "directory": str(tmp_path), "rows": ROWS, "batches": 100, "interval": "500ms"}
    first = JobProcess(shape)
    assert first.wait_for(completed) is not None, first.tail()

    second = JobProcess(shape)
    assert second.end() == 2
    assert "is running already" in second.tail()

    told = subprocess.run(
        [sys.executable, "-m", "headgate", "status", "job", "--storage", str(tmp_path / "storage"), "--json"],
        check=True,
        capture_output=True,
        text=True,
    )
    assert '"state": "running"' in told.stdout

    third = JobProcess({**shape, "batches": 4}, "--takeover")
    assert third.wait_for(completed) is not None, third.tail()
    assert first.end() == 3, first.tail()
    assert third.end() == 0, third.tail()
    assert verdict("fork", tmp_path, ROWS) == {}
