"""Spark's Python processes are forked from one that has imported what they run, and are what Spark started."""

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from headgate.task import quick

WAIT_S = 120.0
PLANNER = "pyspark.sql.streaming.python_streaming_source_runner"


class Forks:
    """A fork server, and processes as Spark starts them."""

    def __init__(self, directory: Path) -> None:
        self.address = directory / "forks"
        self.around = {**os.environ, **quick.UNLESS_SET, **quick.ALWAYS}
        command = [sys.executable, "-S", quick.__file__, quick.SERVE, str(self.address)]
        self.server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, env=self.around)

    def start(self, *arguments: str, **environment: str) -> subprocess.Popen[bytes]:
        """What Spark starts."""
        command = [sys.executable, "-S", quick.__file__, quick.FORKS, str(self.address), *arguments]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, env={**self.around, **environment}, stdin=pipe, stdout=pipe, stderr=pipe)


@pytest.fixture(scope="module")
def forks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forks]:
    made = Forks(tmp_path_factory.mktemp("forks"))
    assert made.server.stdin is not None
    while not made.address.exists():
        assert made.server.poll() is None
    yield made
    made.server.stdin.close()
    assert made.server.wait(WAIT_S) == 0, "it ends with whoever started it"


@contextlib.contextmanager
def planner(forks: Forks, **environment: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A planner that has connected, and the number of the process that it says it is."""
    with socket.create_server(("127.0.0.1", 0)) as spark:
        spark.settimeout(WAIT_S)
        port = str(spark.getsockname()[1])
        known = {"PYTHON_WORKER_FACTORY_PORT": port, "PYTHON_WORKER_FACTORY_SECRET": "secret"}
        with forks.start("-m", PLANNER, **known, **environment) as started:
            connection, _ = spark.accept()
            with connection, connection.makefile("rwb") as said:
                assert said.read(10) == b"\0\0\0\6secret"
                said.write(b"\0\0\0\2ok")
                said.flush()
                yield started, int.from_bytes(said.read(4), "big")
            started.kill()


def parent_of(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def wait_for_end(process: int) -> None:
    """Of a process that is not a child of ours."""
    try:
        handle = os.pidfd_open(process)
    except ProcessLookupError:
        return
    assert select.select([handle], [], [], WAIT_S)[0], f"{process} goes on"
    os.close(handle)


def environment_of(process: int) -> dict[bytes, bytes]:
    """As the operating system was told when it began."""
    whole = Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
    return dict(each.split(b"=", 1) for each in whole if b"=" in each)


def test_a_planner_is_forked_and_ends_with_the_process_that_spark_knows(forks: Forks) -> None:
    with planner(forks) as (started, process):
        assert process not in (started.pid, forks.server.pid)
        assert parent_of(process) == forks.server.pid
        started.terminate()
        wait_for_end(process)
    assert forks.server.poll() is None


def test_the_process_that_spark_knows_ends_with_the_planner(forks: Forks) -> None:
    with planner(forks) as (started, process):
        os.kill(process, signal.SIGKILL)
        assert started.wait(WAIT_S) == 128 + signal.SIGKILL


def test_whoever_reads_what_a_planner_says_sees_its_end(forks: Forks) -> None:
    """The process that Spark knows holds none of the streams."""
    with planner(forks) as (started, process):
        assert started.stdout is not None
        os.kill(process, signal.SIGKILL)
        assert select.select([started.stdout], [], [], WAIT_S)[0]
        assert started.stdout.read() == b""


def test_a_daemon_is_forked_forks_workers_and_ends_with_its_standard_input(forks: Forks) -> None:
    with forks.start("-m", quick.DAEMON, "pyspark.worker", PYTHON_UNIX_DOMAIN_ENABLED="false") as daemon:
        assert daemon.stdin is not None
        assert daemon.stdout is not None
        assert select.select([daemon.stdout], [], [], WAIT_S)[0]
        port = int.from_bytes(daemon.stdout.read(4), "big")
        with socket.create_connection(("127.0.0.1", port), WAIT_S) as worker:
            worker.settimeout(WAIT_S)
            forked = int.from_bytes(worker.recv(4), "big")
            assert parent_of(parent_of(forked)) == forks.server.pid
        daemon.stdin.close()
        assert daemon.wait(WAIT_S) == 1, "as Spark's own does"


def test_another_environment_for_the_interpreter_begins_anew(forks: Forks) -> None:
    with planner(forks, PYTHONHASHSEED="7") as (_, process):
        assert environment_of(process)[b"PYTHONHASHSEED"] == b"7"
        assert parent_of(process) == forks.server.pid, "it is the same process, with another program"


def test_one_that_is_not_told_how_many_threads_libraries_may_have_is_forked() -> None:
    """Spark tells only its workers."""
    before = {"PYTHONHASHSEED": "0", quick.THREADS: "1"}
    assert quick.fits(before, {"PYTHONHASHSEED": "0"})
    assert not quick.fits(before, {"PYTHONHASHSEED": "0", quick.THREADS: "4"})
    assert not quick.fits(before, {quick.THREADS: "1"})
    assert quick.fits(before, {**before, "PYTHONPATH": "/x", "SPARK_HOME": "/y", "PYTHON_WORKER_FACTORY_PORT": "1"})


def test_another_pyspark_on_the_path_is_the_one_that_runs(forks: Forks, tmp_path: Path) -> None:
    (tmp_path / "pyspark").mkdir()
    (tmp_path / "pyspark" / "__init__.py").write_text("raise SystemExit('another one')")
    with socket.create_server(("127.0.0.1", 0)) as spark:
        spark.settimeout(WAIT_S)
        port = str(spark.getsockname()[1])
        known = {"PYTHON_WORKER_FACTORY_PORT": port, "PYTHON_WORKER_FACTORY_SECRET": "secret"}
        with forks.start("-m", PLANNER, **known, PYTHONPATH=str(tmp_path)) as started:
            connection, _ = spark.accept()
            with connection:
                connection.sendall(b"\0\0\0\2ok")
                assert started.stderr is not None
                assert started.stderr.read().strip() == b"another one"
                assert started.wait(WAIT_S) == 1


def test_without_a_fork_server_a_process_does_it_by_itself(tmp_path: Path) -> None:
    command = [sys.executable, "-S", quick.__file__, quick.FORKS, str(tmp_path / "none"), "-m", quick.DAEMON, "program"]
    (tmp_path / "program.py").write_text(f"open({str(tmp_path / 'told')!r}, 'w').write('imported')\n")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "PYTHON_UNIX_DOMAIN_ENABLED": "false"}
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as daemon:
        assert daemon.stdin is not None
        assert daemon.stdout is not None
        assert len(daemon.stdout.read(4)) == 4
        daemon.stdin.close()
        daemon.wait(WAIT_S)
    assert (tmp_path / "told").read_text() == "imported"


def test_a_request_that_does_not_come_whole_holds_up_nobody_else(forks: Forks) -> None:
    for said in (b"", b"\0\0\0", (10).to_bytes(quick.HEADER, "big") + b"not json!!"):
        with socket.socket(socket.AF_UNIX) as broken:
            broken.connect(str(forks.address))
            broken.sendall(said)
    with planner(forks) as (_, process):
        assert parent_of(process) == forks.server.pid


def test_forks_draw_numbers_of_their_own(forks: Forks, tmp_path: Path) -> None:
    """A daemon runs a program of the user's workers, here one that draws."""
    (tmp_path / "drawing.py").write_text(
        "import os, numpy, random, sys, pyspark\n"
        "told = f'{numpy.random.random()} {random.random()} {pyspark.__file__}'\n"
        "open(os.environ['HEADGATE_TOLD'], 'w').write(told)\n"
    )
    told = []
    for name in ("a", "b"):
        where = {"PYTHONPATH": str(tmp_path), "HEADGATE_TOLD": str(tmp_path / name)}
        with forks.start("-m", quick.DAEMON, "drawing", PYTHON_UNIX_DOMAIN_ENABLED="false", **where) as daemon:
            assert daemon.stdin is not None
            assert daemon.stdout is not None
            assert len(daemon.stdout.read(4)) == 4
            daemon.stdin.close()
            daemon.wait(WAIT_S)
        told.append((tmp_path / name).read_text().split())
    (one, other, where_from), (third, fourth, _) = told
    assert len({one, other, third, fourth}) == 4
    assert where_from == pyspark.__file__
