"""Python processes of this job are found, read without being stopped, and known by what they run."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headgate.errors import ExternalError
from headgate.profile import workers

WORKER = """
def compute():
    while True:
        sum(range(20_000))

def main():
    print("at it", flush=True)
    compute()
"""
QUICK = """
import sys
sys.path.insert(0, sys.argv[1])
from pyspark import worker
worker.main()
"""

AS_NOBODY = """
import os, sys
program = os.open(sys.argv[1], os.O_RDONLY)
os.setgid(65534)
os.setuid(65534)
os.execve(program, sys.argv[1:], os.environ)
"""


def frame(name: str, file: str, line: int = 1) -> dict[str, Any]:
    return {"name": name, "filename": file, "short_filename": file.rpartition("site-packages/")[2], "line": line}


def dump(*frames: dict[str, Any], active: bool = True, thread: str | None = "MainThread") -> str:
    """One thread; the innermost frame comes first, as py-spy has it."""
    return json.dumps([{"pid": 7, "thread_name": thread, "active": active, "frames": list(frames)}])


SITE = "/venv/lib/python3.11/site-packages"
STARTED = (frame("main", f"{SITE}/headgate/task/quick.py"), frame("<module>", f"{SITE}/headgate/task/quick.py"))


def test_a_worker_begins_where_sparks_program_does() -> None:
    text = dump(
        frame("shout", "/jobs/orders.py", 12),
        frame("main", f"{SITE}/pyspark/worker.py", 3300),
        frame("worker", f"{SITE}/pyspark/daemon.py", 70),
        frame("manager", f"{SITE}/pyspark/daemon.py", 180),
        *STARTED,
    )
    [found] = workers.parse(text)
    assert (found.pid, found.process, found.running) == (7, "Python worker", True)
    assert found.frames == ("main (pyspark/worker.py:3300)", "shout (/jobs/orders.py:12)")


@pytest.mark.parametrize(
    ("file", "function", "role"),
    [
        ("pyspark/sql/streaming/python_streaming_source_runner.py", "main", "source planner"),
        ("pyspark/sql/streaming/transform_with_state_driver_worker.py", "main", "state planner"),
        ("pyspark/sql/worker/plan_data_source_read.py", "main", "Python planner"),
    ],
)
def test_a_process_is_known_by_the_program_that_it_runs(file: str, function: str, role: str) -> None:
    [found] = workers.parse(dump(frame("poll", "select.py"), frame(function, f"{SITE}/{file}"), *STARTED, active=False))
    assert (found.process, found.running, len(found.frames)) == (role, False, 2)


def test_a_process_that_only_starts_others_is_left_out() -> None:
    assert workers.parse(dump(*STARTED)) == []
    assert workers.parse(dump(frame("poll", "select.py"), frame("manager", f"{SITE}/pyspark/daemon.py"))) == []
    assert workers.parse("[]") == []


def test_other_threads_of_a_worker_belong_to_it() -> None:
    main = json.loads(dump(frame("main", f"{SITE}/pyspark/worker.py")))
    other = json.loads(dump(frame("wait", "threading.py"), thread=None, active=False))
    first, second = workers.parse(json.dumps([*other, *main]))
    assert (first.process, first.thread, first.frames) == ("Python worker", "", ("wait (threading.py:1)",))
    assert second.thread == "MainThread"


@pytest.mark.parametrize("text", ["", "{}}", '{"a": 1}', '[{"pid": 7}]', '[{"pid": "x", "frames": 3}]', "[3]"])
def test_an_answer_of_another_shape_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(ExternalError, match=r"^py-spy answered .*: see that it is 0\.4 or newer$"):
        workers.parse(text)


def test_only_what_descends_from_this_process_is_looked_at() -> None:
    parents = {2: 1, 3: 2, 4: 3, 5: 1, 6: 5, 1: 0, 7: 3}
    assert workers.descendants(parents, [2]) == {3, 4, 7}
    assert workers.descendants(parents, [4]) == set()
    assert workers.descendants(parents, [2, 5]) == {3, 4, 6, 7}
    assert workers.descendants({1: 1}, [1]) == {1}, "a circle comes to an end"


@pytest.mark.parametrize(
    ("arguments", "sparks"),
    [
        (["/x/python", "-S", "/x/headgate/task/quick.py", "--fork-server", "/x/forks"], True),
        (["python3", "-m", "pyspark.daemon", "pyspark.worker"], True),
        (["python3", "-m", "pyspark.sql.streaming.python_streaming_source_runner"], True),
        (["java", "-cp", "/x/jars/*", "org.apache.spark.deploy.SparkSubmit", "pyspark-shell"], False),
        (["python3", "job.py"], False),
        ([], False),
    ],
)
def test_sparks_processes_are_known_by_how_they_were_started(arguments: list[str], sparks: bool) -> None:
    assert workers.is_sparks(arguments) is sparks


@pytest.fixture
def computing(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that is at work in what is called as Spark's worker is."""
    for name, text in (("pyspark/__init__.py", ""), ("pyspark/worker.py", WORKER), ("task/quick.py", QUICK)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    command = [sys.executable, "-S", str(tmp_path / "task/quick.py"), str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "at it\n"
        yield process
        process.kill()


def test_a_worker_of_this_job_is_read_while_it_runs(computing: subprocess.Popen[str]) -> None:
    assert computing.pid in workers.of_this_job()
    found: list[workers.PythonStack] = []
    for _ in range(100):  # It is read without being stopped, so now and then in the middle of something.
        found = [each for each in workers.look() if each.pid == computing.pid and each.running]
        if found:
            break
    [stack] = found
    assert stack.process == "Python worker"
    assert [each.partition(" ")[0] for each in stack.frames][:2] == ["main", "compute"]
    assert computing.poll() is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else, who may not")
def test_a_system_that_does_not_allow_it_is_named(
    computing: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "py-spy"
    real = Path(sys.executable).with_name("py-spy")
    program.write_text(f"#!/bin/sh\nexec {sys.executable} -c '{AS_NOBODY}' {real} \"$@\"\n")
    program.chmod(0o755)
    monkeypatch.setattr(workers, "_program", lambda: str(program))
    with pytest.raises(ExternalError, match=r"kernel\.yama\.ptrace_scope"):
        workers.look()
    assert computing.poll() is None


def test_whoever_lacks_py_spy_is_told_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(ExternalError, match=r"^py-spy is not installed, .*: pip install 'headgate\[profile\]'$"):
        workers.look()
