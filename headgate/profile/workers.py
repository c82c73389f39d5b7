"""The Python processes that Spark started for this job, on this machine: workers and planners.

One rule: only processes that descend from this one are looked at, and none is halted: py-spy reads their memory from
outside, without stopping them.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headgate.errors import ExternalError
from headgate.profile.stacks import Stack, Stacks

IDLE_SAMPLES = 20
"""A process that only started others, or waited for them, is looked at again after this many samples."""
PROCESSES_MAX = 32
"""At most this many processes are looked at."""
LOOK_S = 8.0
"""All of them together are looked at for no longer."""
DUMP_S = 5.0
"""A process whose stacks do not come within this time is passed over."""
ROLES = (
    ("pyspark/worker.py", "main", "Python worker"),
    ("pyspark/sql/streaming/python_streaming_source_runner.py", "main", "source planner"),
    ("pyspark/sql/streaming/transform_with_state_driver_worker.py", "main", "state planner"),
)
"""Frames by which a process is known, and what it is called. The first that is found counts."""
DEFINED = re.compile(r"pyspark/sql/worker/\w+\.py")
PROGRAMS = ("pyspark.daemon", "pyspark.worker")
MISSING = "py-spy is not installed, which reads the stacks of Python workers: pip install 'headgate[profile]'"
REFUSED = (
    "the system does not let py-spy read the Python workers: set kernel.yama.ptrace_scope to 0, or give the job's "
    "process the capability SYS_PTRACE"
)

NO_WORKERS: Mapping[str, Any] = {"workers": [], "workers_missing": None}
"""What is told of them where nobody looks."""


@dataclass(frozen=True)
class PythonStack:
    """What one thread of a process is at."""

    pid: int
    process: str
    """What the process is for."""
    thread: str
    running: bool
    frames: Stack


# -- which processes -------------------------------------------------------------------------------------------------


def of_this_job() -> list[int]:
    """Python processes of Spark that descend from this one, or from the ``spark-submit`` that started it."""
    roots = {os.getpid()} | ({os.getppid()} if "PYSPARK_GATEWAY_PORT" in os.environ else set())
    found = descendants(_parents(), roots) - {os.getpid()}
    return sorted(pid for pid in found if is_sparks(_arguments(pid)))[:PROCESSES_MAX]


def descendants(parents: Mapping[int, int], roots: Iterable[int]) -> set[int]:
    """All that were started by some processes, or by those. ``parents`` has the parent of each process."""
    children: dict[int, list[int]] = {}
    for pid, parent in parents.items():
        children.setdefault(parent, []).append(pid)
    found: set[int] = set()
    waiting = list(roots)
    while waiting:
        fresh = [child for child in children.get(waiting.pop(), ()) if child not in found]
        found.update(fresh)
        waiting += fresh
    return found


def is_sparks(arguments: Sequence[str]) -> bool:
    """Whether a process that was started so is one of Spark's Python processes, or was forked from one."""
    return any(each.endswith("/task/quick.py") or each in PROGRAMS or _is_planner(each) for each in arguments)


def _is_planner(argument: str) -> bool:
    return any(f"{argument.replace('.', '/')}.py" == file for file, _, _ in ROLES)


def _parents() -> dict[int, int]:
    found = {}
    for entry in os.scandir("/proc") if Path("/proc/self/stat").exists() else ():
        if entry.name.isdecimal():
            try:
                said = Path(entry.path, "stat").read_text(encoding="utf-8", errors="replace")
                found[int(entry.name)] = int(said.rpartition(")")[2].split()[1])
            except (OSError, ValueError, IndexError):  # It has ended.
                continue
    return found


def _arguments(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").rstrip("\0").split("\0")
    except OSError:
        return []


# -- what they are at ------------------------------------------------------------------------------------------------


def sample(samples: int, interval_ms: int, stop: threading.Event) -> tuple[Stacks, int]:
    """Samples of all of them, and how many there are."""
    found, taken, idle = Stacks(), 0, set[int]()
    program, interval_s = _program(), interval_ms / 1000
    until_s = time.monotonic() + 4 * samples * interval_s
    while taken < samples and time.monotonic() < until_s and not stop.is_set():
        begun_s = time.monotonic()
        if taken % IDLE_SAMPLES == 0:
            idle.clear()
        for each in _seen_by(program, stop, idle, until_s):
            found.add((each.process, *each.frames), running=each.running)
        taken += 1
        stop.wait(max(0.0, begun_s + interval_s - time.monotonic()))
    return found, taken


def look() -> list[PythonStack]:
    """What every thread of them is at, now: of as many as can be asked within ``LOOK_S``."""
    return _seen_by(_program(), threading.Event(), set(), time.monotonic() + LOOK_S)


def parse(text: str) -> list[PythonStack]:
    """What ``py-spy dump --json`` tells of one process. Nothing, if the process only starts or waits for others."""
    try:
        told = [
            (str(each["thread_name"] or ""), bool(each["active"]), int(each["pid"]), list(reversed(each["frames"])))
            for each in json.loads(text)
        ]
        named = [(*each, *_role(each[3])) for each in told]
        process = next((role for *_, role, _ in named if role is not None), None)
        if process is None:
            return []
        return [
            PythonStack(pid, process, thread, active, tuple(map(_frame, frames[begin:])))
            for thread, active, pid, frames, _, begin in named
        ]
    except (ValueError, TypeError, KeyError) as error:
        raise ExternalError(f"py-spy answered {text[:80]!r}: see that it is 0.4 or newer") from error


def _role(frames: Sequence[Mapping[str, Any]]) -> tuple[str | None, int]:
    """What a stack says that its process is for, and at which frame that begins."""
    for file, function, role in ROLES:
        for place, frame in enumerate(frames):
            if str(frame["filename"]).endswith(file) and frame["name"] == function:
                return role, place
    for place, frame in enumerate(frames):
        if DEFINED.search(str(frame["filename"])) and frame["name"] == "main":
            return "Python planner", place
    return None, 0


def _frame(frame: Mapping[str, Any]) -> str:
    return f"{frame['name']} ({frame['short_filename'] or frame['filename']}:{frame['line']})"


def _seen_by(program: str, stop: threading.Event, idle: set[int], until_s: float) -> list[PythonStack]:
    """All but those that are known to start others or to wait for them. Who is found to do only that becomes known."""
    found: list[PythonStack] = []
    for pid in of_this_job():
        left_s = until_s - time.monotonic()
        if stop.is_set() or left_s <= 0:
            break
        if pid not in idle:
            seen = _dump(program, pid, min(DUMP_S, left_s))
            found += seen
            idle.update(() if seen else [pid])
    return found


def _dump(program: str, pid: int, timeout_s: float) -> list[PythonStack]:
    command = [program, "dump", "--nonblocking", "--json", "--pid", str(pid)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)  # noqa: S603 - ours
    except subprocess.TimeoutExpired:
        return []
    except OSError as error:
        raise ExternalError(f"{program} cannot be run: {error.strerror}: {MISSING.partition(': ')[2]}") from error
    if done.returncode == 0:
        return parse(done.stdout)
    if is_refused(done.stderr):
        raise ExternalError(REFUSED)
    return []  # It has just ended, or was in the middle of something: the next sample has it.


def is_refused(said: str) -> bool:
    """Whether py-spy says that it may not."""
    return re.search(r"permission denied|operation not permitted", said, re.IGNORECASE) is not None


def _program() -> str:
    beside = Path(sys.executable).with_name("py-spy")
    found = str(beside) if beside.exists() else shutil.which("py-spy")
    if found is None:
        raise ExternalError(MISSING)
    return found
