"""A leader that sleeps through its own replacement, and wakes in the middle of a batch."""

import signal
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from services.postgres import Postgres
from services.server import wait_until
from tests.connect.held import HELD, HOLD, WOKEN
from tests.connect.postgres.databases import Database
from tests.connect.totals import KEYS, ROWS
from tests.kills.freezing import Wish, freeze_below, is_frozen, send, thaw_all
from tests.spark.process import JobProcess

JOB = Path(__file__).with_name("totals.py")
PATIENT_S = 600.0


@pytest.fixture
def database(postgres: Postgres) -> Iterator[Database]:
    made = Database(postgres, f"frozen_{uuid4().hex[:12]}")
    made.create()
    yield made
    made.drop()


def test_the_totals_of_a_leader_that_wakes_up_late_are_not_written_over_newer_ones(
    database: Database, tmp_path: Path
) -> None:
    database.query("CREATE TABLE totals (key text PRIMARY KEY, total bigint)")
    settings = {"directory": str(tmp_path), "dsn": database.dsn}
    Wish("write", "before", "out").write(tmp_path)
    frozen = JobProcess(settings, file=JOB, variable="HEADGATE_TOTALS")
    jobs = [frozen]
    try:
        wait_until(lambda: is_frozen(frozen.process.pid) or frozen.process.poll() is not None, PATIENT_S)
        jobs.append(leader := JobProcess(settings, "--takeover", file=JOB, variable="HEADGATE_TOTALS"))
        assert leader.end(PATIENT_S) == 0, leader.tail()
        newest = database.query("SELECT total FROM totals")
        assert newest == [(str(ROWS // KEYS),)] * KEYS
        thaw_all(frozen.process.pid)
        assert frozen.end(PATIENT_S) != 0, frozen.tail()
    finally:
        for job in jobs:
            if job.process.poll() is None:
                job.kill()
    assert database.query("SELECT total FROM totals") == newest
    for failed in (line for line in frozen.lines if line["event"] == "task-failed"):  # unless it was deposed before
        assert failed["class"] == "user"
        assert "sink out: batch 0 of generation 1 is fenced off" in failed["message"]
    assert not [line for line in frozen.lines if line["event"] == "restart"]


def test_the_totals_of_an_executor_that_wakes_up_late_are_not_written_over_newer_ones(
    database: Database, tmp_path: Path
) -> None:
    """It stops just before the statement that writes, so that its rows come late for certain."""
    database.query("CREATE TABLE totals (key text PRIMARY KEY, total bigint)")
    settings = {"directory": str(tmp_path), "dsn": database.dsn}
    (tmp_path / HOLD).touch()
    frozen = JobProcess(settings, file=JOB, variable="HEADGATE_TOTALS")
    jobs = [frozen]
    try:
        wait_until(lambda: (tmp_path / HELD).exists() or frozen.process.poll() is not None, PATIENT_S)
        worker = int((tmp_path / HELD).read_text())
        wait_until(lambda: is_frozen(worker))
        freeze_below(frozen.process.pid)
        send(frozen.process.pid, signal.SIGSTOP)
        jobs.append(leader := JobProcess(settings, "--takeover", file=JOB, variable="HEADGATE_TOTALS"))
        assert leader.end(PATIENT_S) == 0, leader.tail()
        newest = database.query("SELECT total FROM totals")
        assert newest == [(str(ROWS // KEYS),)] * KEYS
        send(worker, signal.SIGCONT)
        wait_until((tmp_path / WOKEN).exists, PATIENT_S)
        assert (tmp_path / WOKEN).read_text() == "fenced off"
        assert database.query("SELECT total FROM totals") == newest
        thaw_all(frozen.process.pid)
        assert frozen.end(PATIENT_S) != 0, frozen.tail()
    finally:
        for job in jobs:
            if job.process.poll() is None:
                job.kill()
    assert database.query("SELECT total FROM totals") == newest
