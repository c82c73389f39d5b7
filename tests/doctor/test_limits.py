"""Limits of a process: they are lowered in one that looks at itself."""

import os
import resource
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from headgate.doctor import limits as rules
from headgate.doctor.finding import Severity
from headgate.doctor.limits import Limits, heap_bytes
from headgate.doctor.measuring import limits
from headgate.machine import control_group
from services.server import find_program

ROOT = Path(__file__).parents[2]
LOOK = """
from headgate.doctor import limits, measuring
for finding in limits.findings(measuring.limits({}, {})):
    print(finding.verdict, finding.name, sep=" ")
"""


def child(*before: str, limit: Callable[[], object] | None = None, look: str = LOOK) -> set[str]:
    """What a process finds that looks at itself under a limit."""
    asked = [*before, sys.executable, "-c", look]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    told = subprocess.run(asked, env=environment, preexec_fn=limit, capture_output=True, text=True, check=True)
    return set(told.stdout.splitlines())


@pytest.fixture
def here() -> Limits:
    return limits({}, {})


@pytest.mark.parametrize(
    ("soft", "hard", "verdict"),
    [(64, 64, "problem"), (512, 8192, "warning"), (2048, 2048, "warning"), (4096, 8192, "ok")],
)
def test_too_few_open_files_are_found(soft: int, hard: int, verdict: str) -> None:
    assert f"{verdict} open files" in child(limit=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard)))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a network of its own")
def test_a_loopback_that_is_down_is_a_problem() -> None:
    assert "ok addresses" in child()
    assert "problem addresses" in child(find_program("unshare"), "--net")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_too_few_processes_are_found_except_for_root_who_has_no_such_limit() -> None:
    looking = (
        "import os; from headgate.doctor import measuring; print(measuring._processes());"
        "os.seteuid(65534); print(measuring._processes())"
    )
    found = child(limit=lambda: resource.setrlimit(resource.RLIMIT_NPROC, (200, 200)), look=looking)
    assert "200" in found
    assert len(found) == 2


@pytest.mark.parametrize(
    ("number", "verdict"), [(None, Severity.OK), (4096, Severity.OK), (1000, Severity.WARNING), (99, Severity.PROBLEM)]
)
def test_how_many_processes_are_too_few(here: Limits, number: int | None, verdict: Severity) -> None:
    assert rules.processes(replace(here, processes=number)).verdict is verdict


def test_a_heap_that_does_not_fit_is_found() -> None:
    assert rules.memory(limits({}, {})).verdict is Severity.OK
    found = limits({"spark.driver.memory": "900t"}, {"spark.driver.memory": "1g"})
    assert rules.memory(found).verdict is Severity.PROBLEM
    assert found.memory is not None
    nearly = replace(found, heap=f"{(found.memory >> 20) - 1}m")
    assert rules.memory(nearly).verdict is Severity.WARNING
    assert rules.memory(replace(found, heap="much")).verdict is Severity.PROBLEM
    assert rules.memory(replace(found, memory=None)).verdict is Severity.NOTE


@pytest.mark.parametrize(
    ("text", "size"),
    [("1g", 1 << 30), ("512m", 512 << 20), ("512MB", 512 << 20), ("2048", 2 << 30), ("7b", 7), ("1.5g", None)],
)
def test_an_amount_of_memory_is_read_as_spark_reads_it(text: str, size: int | None) -> None:
    assert heap_bytes(text) == size


@pytest.mark.parametrize("shape", ["unified", "old"])
def test_bounds_of_control_groups_are_read_up_to_the_root(tmp_path: Path, shape: str) -> None:
    proc, root = tmp_path / "proc", tmp_path / "cgroup"
    (proc / "self").mkdir(parents=True)
    top, name, line = {
        "unified": (root, "memory.max", "0::/service/job"),
        "old": (root / "memory", "memory.limit_in_bytes", "3:cpu:/x\n4:memory,other:/service/job"),
    }[shape]
    (proc / "self" / "cgroup").write_text(f"{line}\n")
    (top / "service" / "job").mkdir(parents=True)
    (top / "service" / "job" / name).write_text("max\n")
    (top / "service" / name).write_text("1000\n")
    (root / name).write_text("7\n") if shape == "old" else None
    assert control_group("memory.max", "memory/memory.limit_in_bytes", proc, root) == [["max"], ["1000"]]
    assert control_group("memory.max", "memory/none", tmp_path / "gone", root) == []


def test_one_core_is_told(here: Limits) -> None:
    assert rules.cores(replace(here, cores=1.5)).verdict is Severity.NOTE
    assert rules.cores(replace(here, cores=2)).verdict is Severity.OK


def test_no_unix_socket_and_no_shared_memory_are_told(here: Limits) -> None:
    assert rules.sockets(replace(here, sockets="permission denied")).verdict is Severity.PROBLEM
    assert rules.sockets(replace(here, sockets=None, temporary_long=99)).verdict is Severity.NOTE
    assert rules.shared_memory(replace(here, shared_memory=None)).verdict is Severity.NOTE


def test_a_clock_that_is_behind_is_warned_of(here: Limits) -> None:
    assert rules.clock_behind(here).verdict is Severity.OK
    assert rules.clock_behind(replace(here, behind_s=5.0)).verdict is Severity.WARNING
