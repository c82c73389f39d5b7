"""Rules over what this machine lets a process have: memory, cores, open files, processes, addresses, the time.

One rule: a limit below which no job starts is a problem; one that only a large job would meet is a warning.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from headgate.doctor.finding import Finding, Severity

FILES_LEAST = 256
FILES_FEW = 1024
FILES_OF_SPARK_FEW = 4096
"""A JVM raises its limit to the hard one: RocksDB keeps files open for each partition of state."""
PROCESSES_LEAST = 256
"""Threads count as well: a JVM alone has a hundred and more."""
PROCESSES_FEW = 1024
HEAP_DEFAULT = "1g"
HEAP_SHARE = 0.75
"""Of the memory: the rest is for what a JVM needs beside its heap, for RocksDB, and for Python's workers."""
_UNITS = {"": 1 << 20, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40, "p": 1 << 50}
_HEAP = re.compile(r"(\d+)(b|[kmgtp]b?|)", re.IGNORECASE)


@dataclass(frozen=True)
class Limits:
    """What was seen. None: there is no bound, or nobody can say."""

    open_files: int | None
    open_files_hard: int | None
    processes: int | None
    memory: int | None
    """Bytes that the machine has, or that this control group may use."""
    memory_of: str
    heap: str
    """What Spark's driver process asks for, as Spark writes it."""
    heap_by: str
    cores: float
    unreachable: tuple[tuple[str, str], ...]
    """Addresses at which nothing can listen, or be reached, and why."""
    addresses: tuple[str, ...]
    sockets: str | None
    """Why no Unix socket can be made. None: one can."""
    temporary_long: int | None
    """How many bytes the path of the temporary directory has, if that is too long for a socket."""
    shared_memory: int | None
    """Bytes that are free in ``/dev/shm``. None: there is none."""
    behind_s: float
    """By how much the clock is behind the time at which Headgate was installed."""


def findings(found: Limits) -> Iterator[Finding]:
    """All that the facts show."""
    yield open_files(found)
    yield processes(found)
    yield memory(found)
    yield cores(found)
    yield addresses(found)
    yield sockets(found)
    yield shared_memory(found)
    yield clock_behind(found)


def open_files(found: Limits) -> Finding:
    """Files and connections that a process may have open."""
    soft, hard = found.open_files, found.open_files_hard
    evidence = f"{_many(soft)} for a process, {_many(hard)} at most"
    advice = "raise it: ulimit -n 65536, or LimitNOFILE= of the service"
    if soft is not None and soft < FILES_LEAST:
        return Finding("open files", Severity.PROBLEM, evidence, advice)
    if (soft is not None and soft < FILES_FEW) or (hard is not None and hard < FILES_OF_SPARK_FEW):
        return Finding("open files", Severity.WARNING, evidence, advice)
    return Finding("open files", Severity.OK, evidence)


def processes(found: Limits) -> Finding:
    """Processes and threads that this user, or this control group, may have."""
    number, advice = found.processes, "raise it: ulimit -u 4096, or TasksMax= of the service, or pids of the container"
    if number is not None and number < PROCESSES_FEW:
        level = Severity.PROBLEM if number < PROCESSES_LEAST else Severity.WARNING
        return Finding("processes", level, f"{number} of processes and threads together", advice)
    return Finding("processes", Severity.OK, f"{_many(number)} of processes and threads together")


def memory(found: Limits) -> Finding:
    """Whether the heap of Spark's driver process fits into what there is."""
    heap = heap_bytes(found.heap)
    wanted = f"Spark's driver asks for a heap of {found.heap} ({found.heap_by})"
    if heap is None:
        return Finding("memory", Severity.PROBLEM, wanted, "write spark.driver.memory as 2g or 512m")
    if found.memory is None:
        return Finding("memory", Severity.NOTE, f"{wanted}; nobody can say how much there is", "see that it fits")
    evidence = f"{wanted}, and {found.memory_of} has {found.memory >> 20} MB"
    advice = "ask for less with spark.driver.memory, or give it more: Python's workers and RocksDB come on top"
    if heap > found.memory:
        return Finding("memory", Severity.PROBLEM, evidence, advice)
    if heap > found.memory * HEAP_SHARE:
        return Finding("memory", Severity.WARNING, evidence, advice)
    return Finding("memory", Severity.OK, evidence)


def cores(found: Limits) -> Finding:
    """How much can run at once."""
    if found.cores < 2:
        advice = "give it two or more: Spark, its Python workers and Headgate share this one"
        return Finding("cores", Severity.NOTE, f"{found.cores:g}", advice)
    return Finding("cores", Severity.OK, f"{found.cores:g}")


def addresses(found: Limits) -> Finding:
    """Spark's processes talk to each other, and commands to a job, at these."""
    if found.unreachable:
        evidence = "; ".join(f"{address}: {why}" for address, why in found.unreachable)
        advice = "bring the loopback interface up, and let SPARK_LOCAL_IP be an address of this machine, or unset it"
        return Finding("addresses", Severity.PROBLEM, evidence, advice)
    return Finding("addresses", Severity.OK, f"{', '.join(found.addresses)} can be listened at and reached")


def sockets(found: Limits) -> Finding:
    """Tasks wait for each other at a Unix socket."""
    if found.sockets is not None:
        advice = "let TMPDIR be a short path on a local file system"
        return Finding("unix sockets", Severity.PROBLEM, f"none can be made: {found.sockets}", advice)
    if found.temporary_long is not None:
        evidence = f"TMPDIR has {found.temporary_long} bytes, too many for a socket: those are in /tmp"
        return Finding("unix sockets", Severity.NOTE, evidence, "choose a shorter TMPDIR if /tmp is not to be used")
    return Finding("unix sockets", Severity.OK, "one can be made in the temporary directory")


def shared_memory(found: Limits) -> Finding:
    """Headgate and Spark do without; libraries that a job uses may not."""
    if found.shared_memory is None:
        advice = "mount a tmpfs there if a library of the job uses several processes"
        return Finding("shared memory", Severity.NOTE, "there is no /dev/shm", advice)
    return Finding("shared memory", Severity.OK, f"{found.shared_memory >> 20} MB are free in /dev/shm")


def clock_behind(found: Limits) -> Finding:
    """A clock that is behind what has happened is wrong. How far one is ahead cannot be told here."""
    if found.behind_s > 0:
        evidence = f"it is {found.behind_s:.0f} s behind the time at which Headgate was installed"
        return Finding("clock", Severity.WARNING, evidence, "set it: timers, time-outs and logins rest on it")
    return Finding("clock", Severity.OK, "not behind the time at which Headgate was installed")


def heap_bytes(text: str) -> int | None:
    """What Spark makes of an amount of memory: without a unit, megabytes."""
    found = _HEAP.fullmatch(text.strip())
    return None if found is None else int(found[1]) * _UNITS[found[2][:1].lower()]


def _many(number: int | None) -> str:
    return "any number" if number is None else str(number)
