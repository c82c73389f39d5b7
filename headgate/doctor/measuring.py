"""Gathers the facts about directories and limits.

One rule: what is tried is tried with the parts that a job uses: its storage and its sockets. Whatever is made for that
is removed again, and nothing that was there is touched.
"""

import contextlib
import os
import resource
import socket
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import headgate
from headgate import room
from headgate.channel.gates import TEMP_MAX, Gates
from headgate.doctor.directory import Directory
from headgate.doctor.limits import HEAP_DEFAULT, Limits
from headgate.durable import write
from headgate.errors import BadStorage, HeadgateError
from headgate.store.api import TEMPORARY, Store
from headgate.store.local import LocalStore, reporting

FLUSHES = 5
FLUSHES_S = 3.0
"""No more of them once they have taken this long together."""
LOOPBACK = "127.0.0.1"
ADDRESS_VARIABLE = "SPARK_LOCAL_IP"
HEAP = "spark.driver.memory"
HEAP_VARIABLE = "SPARK_DRIVER_MEMORY"
_PROC, _CGROUPS, _SHARED = Path("/proc"), Path("/sys/fs/cgroup"), Path("/dev/shm")  # noqa: S108 - it is looked at
_DAY_S = 24 * 3600.0


# -- directories -----------------------------------------------------------------------------------------------------


def directory(role: str, path: Path, *, lasting: bool = True, records: bool = False) -> Directory:
    """What there is to see of a directory, or, if it is not there yet, of the one in which it would be made.

    ``records``: records are created in it, as in a storage. A working directory can do with copies.
    """
    near = _nearest(path.absolute())
    refused, flush_ms, skew_s = _tried(near, lasting=lasting, records=records)
    try:
        found = os.statvfs(near)
    except OSError:
        return Directory(role, str(path), refused, lasting=lasting, records=records)
    return Directory(
        role,
        str(path),
        refused,
        kind=_kind(near),
        free_bytes=room.left(near),
        free_files=found.f_favail if found.f_files else None,
        flush_ms=flush_ms,
        skew_s=skew_s,
        no_programs=bool(found.f_flag & getattr(os, "ST_NOEXEC", 0)),
        lasting=lasting,
        records=records,
    )


def temporary_directories() -> Iterator[Directory]:
    """Where Python and Spark put what they throw away."""
    ours = tempfile.gettempdir()
    sparks = [each for each in os.environ.get("SPARK_LOCAL_DIRS", "").split(",") if each] or ["/tmp"]  # noqa: S108
    yield directory("temporary files", Path(ours), lasting=False)
    for path in dict.fromkeys(sparks):
        if path != ours:
            yield directory("temporary files of Spark", Path(path), lasting=False)


def _nearest(path: Path) -> Path:
    """The path itself, or what is there of the way to it."""
    return next(each for each in (path, *path.parents) if os.path.lexists(each))


def _tried(near: Path, *, lasting: bool, records: bool) -> tuple[str | None, float | None, float | None]:
    """Why it cannot be used, how long a flush takes, and by how much its clock is ahead."""
    try:
        with reporting(near), tempfile.TemporaryDirectory(prefix=TEMPORARY, dir=near) as made:
            begun_s = time.time()
            write(Path(made) / "time", b"")
            ended_s, dated_s = time.time(), (Path(made) / "time").stat().st_mtime
            if not lasting:
                return None, None, None
            if records:
                _create_once(LocalStore(Path(made)))
            # The kernel's clock for files ticks more slowly than ours: only what is outside of both is skew.
            skew_s = dated_s - ended_s if dated_s > ended_s else min(0.0, dated_s - begun_s)
            return None, _flush_ms(Path(made)), skew_s
    except HeadgateError as error:
        return str(error), None, None


def _create_once(store: Store) -> None:
    """The verb on which everything rests, as a job uses it."""
    created = [store.create_if_absent("record", data) for data in (b"first", b"second")]
    if created != [True, False] or store.read("record") != b"first":
        raise BadStorage(f"{store.uri} lets a record be created twice; use another file system")
    store.put("value", b"first")
    store.delete("record", "value")


def _flush_ms(made: Path) -> float:
    """The best of a few: whoever else writes there makes some of them slow, and a slow disk all."""
    begun, best = time.monotonic(), float("inf")
    for number in range(FLUSHES):
        before = time.monotonic()
        write(made / f"flush-{number}", bytes(4096))
        now = time.monotonic()
        best = min(best, now - before)
        if now - begun > FLUSHES_S:
            break
    return best * 1000


def _kind(path: Path) -> str | None:
    """The kind of the file system that a path is on: of those mounted above it, the last and deepest."""
    try:
        lines = (_PROC / "self" / "mountinfo").read_text().splitlines()
    except OSError:
        return None
    best: tuple[int, str | None] = (-1, None)
    for line in lines:
        before, _, after = line.partition(" - ")
        mounted = Path(before.split()[4].encode().decode("unicode_escape"))
        if path.resolve().is_relative_to(mounted) and len(mounted.parts) >= best[0]:
            best = len(mounted.parts), after.split()[0]
    return best[1]


# -- limits ----------------------------------------------------------------------------------------------------------


def limits(conf: Mapping[str, str], defaults: Mapping[str, str]) -> Limits:
    """What a process may have. ``conf`` is what a job says to Spark, ``defaults`` what a file says for all jobs."""
    soft, hard = (_bound(each) for each in resource.getrlimit(resource.RLIMIT_NOFILE))
    memory, memory_of = _memory()
    heap, heap_by = _heap(conf, defaults)
    addresses = tuple(filter(None, (LOOPBACK, os.environ.get(ADDRESS_VARIABLE))))
    tried = [(address, _listening(address)) for address in dict.fromkeys(addresses)]
    length = len(os.fsencode(tempfile.gettempdir()))
    return Limits(
        open_files=soft,
        open_files_hard=hard,
        processes=_processes(),
        memory=memory,
        memory_of=memory_of,
        heap=heap,
        heap_by=heap_by,
        cores=_cores(),
        unreachable=tuple((address, why) for address, why in tried if why is not None),
        addresses=tuple(address for address, _ in tried),
        sockets=_sockets(),
        temporary_long=length if length > TEMP_MAX else None,
        shared_memory=room.left(_SHARED) if _SHARED.is_dir() else None,
        behind_s=max(0.0, Path(headgate.__file__).stat().st_mtime - _DAY_S - time.time()),
    )


def control_group(name: str, of_old: str, proc: Path = _PROC, root: Path = _CGROUPS) -> list[list[str]]:
    """What the control groups of this process, from its own upwards, say of a bound: the words of each file.

    ``of_old`` is the controller and the name of the file where each controller has a tree of its own.
    """
    controller, _, old_name = of_old.partition("/")
    try:
        lines = (proc / "self" / "cgroup").read_text().splitlines()
    except OSError:
        return []
    found: list[list[str]] = []
    for line in lines:
        number, controllers, path = line.split(":", 2)
        if number == "0":
            top, file = root, name
        elif controller in controllers.split(","):
            top, file = root / controller, old_name
        else:
            continue
        group = top / path.lstrip("/")
        for each in (group, *(above for above in group.parents if above.is_relative_to(top))):
            with contextlib.suppress(OSError):
                found.append((each / file).read_text().split())
    return found


def _least(found: Iterable[list[str]]) -> int | None:
    """The least bound. The word ``max`` is none, and so is a number that no machine reaches."""
    bounds = [int(words[0]) for words in found if words and words[0].isdigit()]
    return min((bound for bound in bounds if bound < 1 << 60), default=None)


def _memory() -> tuple[int | None, str]:
    try:
        machine: int | None = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        machine = None
    group = _least(control_group("memory.max", "memory/memory.limit_in_bytes"))
    if group is not None and (machine is None or group < machine):
        return group, "this control group (a container or a service)"
    return machine, "this machine"


def _processes() -> int | None:
    """Root has no limit of its own, and a control group has one for all."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    own = None if os.geteuid() == 0 else _bound(soft)
    bounds = [each for each in (own, _least(control_group("pids.max", "pids/pids.max"))) if each is not None]
    return min(bounds, default=None)


def _cores() -> float:
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quotas = [
        int(words[0]) / int(words[1])
        for words in control_group("cpu.max", "cpu/none")
        if len(words) == 2 and words[0].isdigit()
    ]
    return min([float(affinity), *quotas])


def _heap(conf: Mapping[str, str], defaults: Mapping[str, str]) -> tuple[str, str]:
    """What Spark's driver asks for, and who says so."""
    if HEAP in conf:
        return conf[HEAP], "the job's spark_conf"
    if HEAP in defaults:
        return defaults[HEAP], "Spark's file of defaults"
    if told := os.environ.get(HEAP_VARIABLE):
        return told, HEAP_VARIABLE
    return HEAP_DEFAULT, "Spark's default"


def _listening(address: str) -> str | None:
    """Why nobody can listen there and be reached. None: it works."""
    try:
        with socket.create_server((address, 0)) as server:
            socket.create_connection(server.getsockname(), timeout=10).close()
    except OSError as error:
        return (error.strerror or str(error)).lower()
    return None


def _sockets() -> str | None:
    try:
        Gates().close()
    except OSError as error:
        return (error.strerror or str(error)).lower()
    return None


def _bound(number: int) -> int | None:
    return None if number == resource.RLIM_INFINITY else number
