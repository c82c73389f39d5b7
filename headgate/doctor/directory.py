"""Rules over directories: the storage, the working directory of a job, and those for temporary files.

One rule: what the storage would refuse is a problem, in the storage's own words. How long a disk takes is told, and
is a warning only where no checkpoint could be quick.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from headgate import room
from headgate.doctor.finding import Finding, Severity

LITTLE_ROOM = 1 << 30
"""Less than this is soon full."""
FEW_FILES = 10_000
SLOW_FLUSH_MS = 500.0
"""If the best of several takes longer, something is wrong with the disk: a checkpoint flushes dozens of files."""
SKEW_MAX_S = 5.0
IN_MEMORY = {"tmpfs", "ramfs"}
NETWORK = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "lustre", "gpfs", "beegfs"}


@dataclass(frozen=True)
class Directory:
    """What was seen of a directory. None: nobody can say."""

    role: str
    path: str
    refused: str | None = None
    """Why it cannot be used, in the words of the storage."""
    kind: str | None = None
    """Of its file system."""
    free_bytes: int | None = None
    free_files: int | None = None
    flush_ms: float | None = None
    """The best of a few."""
    skew_s: float | None = None
    """By how much the time that files get there is ahead of this machine's."""
    no_programs: bool = False
    """Programs and native libraries that stand there cannot be run."""
    lasting: bool = True
    """Whether what is written there must outlast the machine."""
    records: bool = False
    """Whether records are created there, once and never twice."""


def findings(found: Directory) -> Iterator[Finding]:
    """All that the facts show."""
    yield usable(found)
    yield space(found)
    yield file_system(found)
    if found.flush_ms is not None:
        yield flush(found, found.flush_ms)
    if found.skew_s is not None:
        yield clock(found, found.skew_s)
    if found.no_programs and not found.lasting:
        yield programs(found)


def elsewhere(role: str, uri: str) -> Finding:
    """A place that only Spark can reach."""
    evidence = f"{uri} is reached through Spark, which is not started for this"
    return Finding(role, Severity.NOTE, evidence, "headgate list --storage URI tries to read it")


def not_named(variable: str) -> Finding:
    """Nobody said where it is."""
    return Finding("storage", Severity.NOTE, "none is named", f"say --storage URI or set {variable} to have it checked")


def usable(found: Directory) -> Finding:
    """Whether files can be made there, and, where that matters, be created once and never twice."""
    if found.refused is not None:
        fact, _, advice = found.refused.partition("; ")
        return Finding(found.role, Severity.PROBLEM, fact, advice or "name another directory")
    seen = "files are created once and stay whole" if found.records else "can be written"
    return Finding(found.role, Severity.OK, f"{found.path}: {seen}")


def space(found: Directory) -> Finding:
    """How much can still be written there."""
    name = f"{found.role}: room"
    if found.free_bytes is None:
        return Finding(name, Severity.NOTE, f"{found.path}: nobody can say how much is free", "look after it yourself")
    evidence = f"{found.path} has {_size(found.free_bytes)} left"
    advice = "make room there, or name another directory"
    if found.free_bytes < room.LITTLE:
        return Finding(name, Severity.PROBLEM, evidence, advice)
    if found.free_files is not None and found.free_files < FEW_FILES:
        level = Severity.WARNING if found.free_files else Severity.PROBLEM
        return Finding(name, level, f"{evidence}, and can take {found.free_files} more files", advice)
    if found.free_bytes < LITTLE_ROOM:
        return Finding(name, Severity.WARNING, evidence, advice)
    return Finding(name, Severity.OK, evidence)


def file_system(found: Directory) -> Finding:
    """What the kind of its file system means."""
    name, kind = f"{found.role}: file system", found.kind
    if kind is None:
        return Finding(name, Severity.NOTE, f"{found.path}: its kind is not known", "see that it outlasts the machine")
    evidence = f"{found.path} is on {kind}"
    if kind in IN_MEMORY:
        if found.lasting:
            advice = "use a disk: what is in memory is gone when the machine restarts, checkpoints with it"
            return Finding(name, Severity.WARNING, evidence, advice)
        return Finding(name, Severity.NOTE, evidence, "what is there takes memory of the machine: shuffles are large")
    if found.lasting and (kind in NETWORK or kind.startswith("fuse")):
        advice = (
            "its server must keep what it has acknowledged, and each flush is a round trip; keep the working directory "
            "on a local disk if all of Spark runs on this machine"
        )
        return Finding(name, Severity.NOTE, f"{evidence}, reached over a network or through another process", advice)
    if found.lasting and kind == "overlay":
        return Finding(
            name, Severity.NOTE, evidence, "it may be gone with its container: mount a volume for what counts"
        )
    return Finding(name, Severity.OK, evidence)


def flush(found: Directory, took_ms: float) -> Finding:
    """How long it takes until a small file is on the disk."""
    name, evidence = f"{found.role}: flush", f"a file of 4 KB is on the disk after {took_ms:.1f} ms"
    if took_ms > SLOW_FLUSH_MS:
        advice = "look what else writes there, or use another disk: every checkpoint waits for many of these"
        return Finding(name, Severity.WARNING, evidence, advice)
    return Finding(name, Severity.OK, evidence)


def clock(found: Directory, skew_s: float) -> Finding:
    """Whether whoever dates the files there has the time of this machine."""
    name = f"{found.role}: clock"
    evidence = f"new files there are dated {round(skew_s, 1) + 0.0:+.1f} s from this machine's clock"
    if abs(skew_s) > SKEW_MAX_S:
        return Finding(name, Severity.WARNING, evidence, "have both machines follow the same time server")
    return Finding(name, Severity.OK, evidence)


def programs(found: Directory) -> Finding:
    """Native libraries are unpacked to temporary files, RocksDB's among them."""
    advice = (
        "mount it without noexec, or lead Spark elsewhere with "
        "spark.driver.extraJavaOptions=-Djava.io.tmpdir=DIRECTORY and TMPDIR"
    )
    evidence = f"{found.path} is mounted noexec: native libraries, RocksDB's among them, cannot be loaded from there"
    return Finding(f"{found.role}: programs", Severity.WARNING, evidence, advice)


def _size(size: int) -> str:
    return f"{size / (1 << 30):.1f} GB" if size >= 1 << 30 else f"{size >> 20} MB"
