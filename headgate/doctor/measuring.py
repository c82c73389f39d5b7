"""Gathers the facts about directories and limits.

One rule: what is tried is tried with the parts that a job uses: its storage and its sockets. Whatever is made for that
is removed again, and nothing that was there is touched.
"""

import os
import resource
import socket
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import headgate
from headgate import machine, room
from headgate.channel.gates import TEMP_MAX, Gates
from headgate.doctor.directory import Directory
from headgate.doctor.limits import HEAP_DEFAULT, Limits
from headgate.durable import write
from headgate.errors import BadStorage, HeadgateError
from headgate.store.api import TEMPORARY, Store
from headgate.store.local import LocalStore, reporting
from headgate.task import heap as heaps

FLUSHES = 5
FLUSHES_S = 3.0
"""No more of them once they have taken this long together."""
LOOPBACK = "127.0.0.1"
ADDRESS_VARIABLE = "SPARK_LOCAL_IP"
HEAP_VARIABLE = "SPARK_DRIVER_MEMORY"
_PROC, _SHARED = Path("/proc"), Path("/dev/shm")  # noqa: S108 - it is looked at
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


def limits(conf: Mapping[str, str], defaults: Mapping[str, str], *, local: bool = True) -> Limits:
    """What a process may have. ``conf`` is what a job says to Spark, ``defaults`` what a file says for all jobs.

    ``local``: the whole job runs in Spark's process on this machine.
    """
    soft, hard = (_bound(each) for each in resource.getrlimit(resource.RLIMIT_NOFILE))
    memory, memory_of = machine.memory()
    heap, heap_by = _heap(conf, defaults, local=local)
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


def _processes() -> int | None:
    """Root has no limit of its own, and a control group has one for all."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    own = None if os.geteuid() == 0 else _bound(soft)
    group = machine.least(machine.control_group("pids.max", "pids/pids.max"))
    bounds = [each for each in (own, group) if each is not None]
    return min(bounds, default=None)


def _cores() -> float:
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quotas = [
        int(words[0]) / int(words[1])
        for words in machine.control_group("cpu.max", "cpu/none")
        if len(words) == 2 and words[0].isdigit()
    ]
    return min([float(affinity), *quotas])


def _heap(conf: Mapping[str, str], defaults: Mapping[str, str], *, local: bool) -> tuple[str, str]:
    """What Spark's driver asks for, and who says so."""
    if heaps.HEAP in conf:
        return conf[heaps.HEAP], "the job's spark_conf"
    if heaps.HEAP in defaults:
        return defaults[heaps.HEAP], "Spark's file of defaults"
    if told := os.environ.get(HEAP_VARIABLE):
        return told, HEAP_VARIABLE
    if local and (ours := heaps.here(conf).get(heaps.HEAP)):
        return ours, "Headgate's default"
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
