"""A leader that sleeps through its own replacement, and wakes in the middle of a batch."""

import signal
from collections.abc import Callable, Iterator
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

pytestmark = pytest.mark.long  # What keeps the rows out is tested in postgres/test_leaders.py, without a job.
JOB = Path(__file__).with_name("totals.py")
PATIENT_S = 600.0
NEWEST = [(str(ROWS // KEYS),)] * KEYS
Start = Callable[..., JobProcess]


@pytest.fixture
def database(postgres: Postgres) -> Iterator[Database]:
    made = Database(postgres, f"frozen_{uuid4().hex[:12]}")
    made.create()
    made.query("CREATE TABLE totals (key text PRIMARY KEY, total bigint)")
    yield made
    made.drop()


@pytest.fixture
def start(database: Database, tmp_path: Path) -> Iterator[Start]:
    """Start a process of the job. None outlives the test."""
    started: list[JobProcess] = []

    def start_one(*options: str) -> JobProcess:
        settings = {"directory": str(tmp_path), "dsn": database.dsn}
        started.append(JobProcess(settings, *options, file=JOB, variable="HEADGATE_TOTALS"))
        return started[-1]

    yield start_one
    for job in started:
        if job.process.poll() is None:
            job.kill()


def totals(database: Database) -> list[tuple[str, ...]]:
    return database.query("SELECT total FROM totals")


def take_over(start: Start, database: Database) -> None:
    """Have another leader come to the end of the job."""
    leader = start("--takeover")
    assert leader.end(PATIENT_S) == 0, leader.tail()
    assert totals(database) == NEWEST


def wake(frozen: JobProcess) -> None:
    """Wake a leader that was replaced, and see it end."""
    thaw_all(frozen.process.pid)
    assert frozen.end(PATIENT_S) != 0, frozen.tail()


def test_the_totals_of_a_leader_that_wakes_up_late_are_not_written_over_newer_ones(
    start: Start, database: Database, tmp_path: Path
) -> None:
    Wish("write", "before", "out").write(tmp_path)
    frozen = start()
    wait_until(lambda: is_frozen(frozen.process.pid) or frozen.process.poll() is not None, PATIENT_S)
    take_over(start, database)
    wake(frozen)
    assert totals(database) == NEWEST
    for failed in (line for line in frozen.lines if line["event"] == "task-failed"):  # unless it was deposed before
        assert failed["class"] == "user"
        assert "sink out: batch 0 of generation 1 is fenced off" in failed["message"]
    assert not [line for line in frozen.lines if line["event"] == "restart"]


def test_the_totals_of_an_executor_that_wakes_up_late_are_not_written_over_newer_ones(
    start: Start, database: Database, tmp_path: Path
) -> None:
    """It stops just before the statement that writes, so that its rows come late for certain."""
    (tmp_path / HOLD).touch()
    frozen = start()
    wait_until(lambda: (tmp_path / HELD).exists() or frozen.process.poll() is not None, PATIENT_S)
    worker = int((tmp_path / HELD).read_text())
    wait_until(lambda: is_frozen(worker))
    freeze_below(frozen.process.pid)
    send(frozen.process.pid, signal.SIGSTOP)
    take_over(start, database)
    send(worker, signal.SIGCONT)
    wait_until((tmp_path / WOKEN).exists, PATIENT_S)
    assert (tmp_path / WOKEN).read_text() == "fenced off"
    assert totals(database) == NEWEST
    wake(frozen)
    assert totals(database) == NEWEST
