"""A machine that is too busy for Spark's Python processes: said plainly, and met by fewer starts at once."""

import os
import socket
import subprocess
import sys
from pathlib import Path

from headgate.core.events import BatchCommitted, TaskFailed
from headgate.core.ids import Batch, Generation, Run, TaskId
from headgate.core.records import Boundary
from headgate.core.restart import Failure, FailureClass
from headgate.run.tasks import APART_MAX_S, APART_S, Pacing
from headgate.task import quick
from headgate.task.failure import TOO_BUSY, classify

WAIT_S = 120.0
SAID = """org.apache.spark.SparkException: Python worker failed to connect back.
Caused by: java.net.SocketTimeoutException: Timed out while waiting for the Python worker to connect back
"""


def test_a_worker_that_did_not_connect_in_time_is_the_machines_fault() -> None:
    assert classify(SAID) == Failure(FailureClass.EXTERNAL, TOO_BUSY)
    assert classify("x: failed", RuntimeError(SAID)) == Failure(FailureClass.EXTERNAL, TOO_BUSY)
    assert TOO_BUSY.startswith("the machine is too busy: ")


def test_starts_are_kept_apart_once_the_machine_was_too_busy_and_not_any_more_when_a_batch_went_through() -> None:
    pacing = Pacing()
    who = (Generation(1), TaskId("t"), Run(1))
    pacing.heard(TaskFailed(*who, Failure(FailureClass.EXTERNAL, "something else")))
    assert [pacing.next() for _ in range(3)] == [0.0, 0.0, 0.0]
    busy = TaskFailed(*who, Failure(FailureClass.EXTERNAL, TOO_BUSY))
    pacing.heard(busy)
    waits = [pacing.next() for _ in range(3)]
    assert waits[0] == 0.0
    assert waits[1] <= APART_S < waits[2] <= 2 * APART_S
    for _ in range(10):
        pacing.heard(busy)
    assert pacing._apart_s == APART_MAX_S
    pacing.heard(BatchCommitted(*who, Boundary(Batch(0), ())))
    assert pacing.next() == 0.0


def test_a_planner_connects_before_it_imports_anything_and_then_talks_as_sparks_own_does(tmp_path: Path) -> None:
    """What it would import is not there: so nothing was imported when it connected."""
    program = [sys.executable, "-S", quick.__file__, "-m", quick.PLANNER]
    (tmp_path / "pyspark").mkdir()
    (tmp_path / "pyspark" / "__init__.py").write_text("raise SystemExit('imported')")
    with socket.create_server(("127.0.0.1", 0)) as spark:
        spark.settimeout(WAIT_S)
        environment = {
            **os.environ,
            "PYTHON_WORKER_FACTORY_PORT": str(spark.getsockname()[1]),
            "PYTHON_WORKER_FACTORY_SECRET": "secret",
        }
        with subprocess.Popen(
            program, env={**environment, "PYTHONPATH": str(tmp_path)}, stderr=subprocess.PIPE, text=True
        ) as broken:
            connection, _ = spark.accept()
            with connection, connection.makefile("rwb") as said:
                assert said.read(10) == b"\0\0\0\6secret"
                said.write(b"\0\0\0\2ok")
                said.flush()
                assert broken.stderr is not None
                assert broken.stderr.read().strip() == "imported"
        with subprocess.Popen(program, env=environment, stderr=subprocess.PIPE, text=True) as planner:
            connection, _ = spark.accept()
            with connection, connection.makefile("rwb") as said:
                assert said.read(10) == b"\0\0\0\6secret"
                said.write(b"\0\0\0\2ok")
                said.flush()
                assert int.from_bytes(said.read(4), "big") == planner.pid, "Spark's own program goes on"
            planner.kill()


def test_whatever_else_python_is_started_for_is_done_as_it_is() -> None:
    asked = [
        sys.executable,
        "-S",
        quick.__file__,
        "-c",
        "import sys, pyspark; print(sys.argv[1:], sys.flags.no_site)",
        "x",
    ]
    told = subprocess.run(asked, capture_output=True, text=True, check=True)
    assert told.stdout == "['x'] 0\n"
