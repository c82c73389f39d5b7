"""A machine that is too busy for Spark's Python processes: said plainly, and met by fewer starts at once."""

import os
import select
import socket
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

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


@pytest.mark.parametrize("planner", ["python_streaming_source_runner", "transform_with_state_driver_worker"])
def test_a_planner_connects_before_it_imports_anything_and_then_talks_as_sparks_own_does(
    tmp_path: Path, planner: str
) -> None:
    """What it would import is not there: so nothing was imported when it connected."""
    program = [sys.executable, "-S", quick.__file__, "-m", f"pyspark.sql.streaming.{planner}"]
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
        with subprocess.Popen(program, env=environment, stderr=subprocess.PIPE, text=True) as whole:
            connection, _ = spark.accept()
            with connection, connection.makefile("rwb") as said:
                assert said.read(10) == b"\0\0\0\6secret"
                said.write(b"\0\0\0\2ok")
                said.flush()
                assert int.from_bytes(said.read(4), "big") == whole.pid, "Spark's own program goes on"
            whole.kill()


HOME = Path(pyspark.__file__).parent.parent
ARCHIVES = [str(next(HOME.glob(f"pyspark/python/lib/{name}"))) for name in ("pyspark.zip", "py4j-*-src.zip")]
"""What Spark puts in front of the path of every Python process."""


def test_archives_of_what_is_installed_are_left_out_and_no_others(tmp_path: Path) -> None:
    foreign = [str(tmp_path / "pyspark/python/lib/pyspark.zip"), "/opt/spark/python/lib/pyspark.zip", "pyspark.zip"]
    path = ["", *ARCHIVES, *foreign, str(tmp_path), str(HOME)]
    assert quick.without_archives(path) == ["", *foreign, str(tmp_path), str(HOME)]
    assert quick.without_archives(ARCHIVES) == ARCHIVES, "nothing is installed where they belong"


@pytest.mark.parametrize("by_us", [True, False])
def test_a_daemon_has_what_its_workers_run_before_it_forks(tmp_path: Path, *, by_us: bool) -> None:
    """The program of the workers tells which process imports it, and from where PySpark comes."""
    (tmp_path / "program.py").write_text(
        "import os, pyspark\n"
        f"open({str(tmp_path / 'told')!r}, 'w').write(f'{{os.getpid()}} {{pyspark.__file__}}')\n"
        "def main(infile, outfile): pass\n"
    )
    command = [sys.executable, *(("-S", quick.__file__) if by_us else ()), "-m", quick.DAEMON, "program"]
    path = os.pathsep.join([*ARCHIVES, str(tmp_path)])
    environment = {**os.environ, "PYTHONPATH": path, "PYTHON_UNIX_DOMAIN_ENABLED": "false"}
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as daemon:
        assert daemon.stdout is not None
        assert daemon.stdin is not None
        assert select.select([daemon.stdout], [], [], WAIT_S)[0], "the daemon says where it listens"
        port = int.from_bytes(daemon.stdout.read(4), "big")
        assert (tmp_path / "told").exists() is by_us
        with socket.create_connection(("127.0.0.1", port), WAIT_S) as worker:
            worker.settimeout(WAIT_S)
            assert int.from_bytes(worker.recv(4), "big") not in (0, daemon.pid), "it forks as Spark's own does"
        daemon.stdin.close()
        daemon.wait(WAIT_S)
    if by_us:
        told = (tmp_path / "told").read_text()
        assert told == f"{daemon.pid} {pyspark.__file__}"


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
