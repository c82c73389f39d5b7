"""Where the processor's time goes in the JVMs of a contender, from samples of their stacks.

One rule: a sample counts once, for the first rule that one of its frames or its thread fits. What no rule names stands
under the thread in which it was.
"""

import re
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.meter import descendants
from bench.peers import profiler
from bench.worker import Failed

SHOWN = 14
INTERVAL_MS = 5
RULES: Sequence[tuple[str, re.Pattern[str]]] = tuple(
    (what, re.compile(pattern))
    for what, pattern in (
        ("the JVM compiles (C1, C2)", r"^\[?C[12] Comp|CompileBroker::|C2Compiler|Compilation::"),
        ("garbage collection", r"^\[?(G1 |GC Thread|VM Thread|Parallel)|G1ParEvac|G1Collected"),
        ("Spark compiles code that it made", r"codehaus/(janino|commons)|CodeGenerator\$?\.(compile|doCompile)"),
        ("classes are loaded", r"SystemDictionary::|ClassLoader|ClassFileParser|defineClass"),
        ("RocksDB", r"org/rocksdb|rocksdb::|RocksDBStateStore"),
        ("state store of Spark", r"streaming/state/"),
        ("Spark analyses and plans", r"sql/catalyst/(analysis|optimizer|rules|planning|trees)|QueryExecution"),
        ("Spark schedules", r"spark/scheduler/(DAG|TaskScheduler|TaskSet)|dispatcher-"),
        ("shuffle", r"spark/shuffle|spark/storage/Shuffle|unsafe/sort"),
        ("aggregation", r"HashAggregate|BytesToBytesMap|UnsafeFixedWidth|_agg_"),
        ("files are written", r"parquet/|JacksonGenerator|FileFormatWriter|orc/"),
        ("Kafka's client", r"apache/kafka"),
        ("rows go to Python and back", r"spark/api/python|python/Arrow|arrow/"),
        (
            "checkpoint logs of Spark",
            r"streaming/(checkpointing|HDFSMetadataLog|CheckpointFileManager)|OffsetSeq|CommitLog",
        ),
        ("Headgate's classes", r"headgate/"),
        ("Py4J", r"py4j/"),
        ("a task of Spark, the rest", r"^\[?Executor task launch"),
        ("windows of Flink", r"operators/window/|runtime/operators/aggregate"),
        ("exchange of Flink", r"io/network|RecordWriter|partitioner"),
        ("source of Flink", r"connector/datagen|SourceOperator|LegacySourceFunctionThread|Legacy Source"),
        ("checkpoint of Flink", r"runtime/checkpoint|SnapshotStrategy"),
    )
)
_DIGITS = re.compile(r" ?\[?tid=\d+\]?|[-# ]?\d[\d./]*")


@contextmanager
def sampled(pid: int, told: dict[str, Any], what: str) -> Iterator[None]:
    """Sample all JVMs of a contender meanwhile, and say afterwards where they were."""
    library = profiler.install()
    with tempfile.TemporaryDirectory(prefix="headgate-bench-profile-") as where:
        jvms = [member for member in descendants(pid) if _is_jvm(member)]
        begun = [jvm for jvm in jvms if _tell(jvm, library, f"start,event=itimer,interval={INTERVAL_MS}ms,threads")]
        if not begun:
            raise Failed("none of its JVMs could be sampled: see whether `jcmd` reaches them")
        try:
            yield
        finally:
            stacks: list[str] = []
            for jvm in begun:
                file = Path(where) / f"{jvm}.collapsed"
                if _tell(jvm, library, f"stop,collapsed,threads,file={file}") and file.exists():
                    stacks += file.read_text(encoding="utf-8", errors="replace").splitlines()
            told.update({"what": what, "parts": parts(stacks)})


def parts(stacks: Iterable[str]) -> list[Mapping[str, Any]]:
    """Shares of samples, the largest first. A stack is ``frame;frame;... count``, its thread first."""
    found: Counter[str] = Counter()
    for line in stacks:
        stack, _, count = line.rpartition(" ")
        if stack and count.isdecimal():
            found[_part(stack.split(";"))] += int(count)
    total = sum(found.values()) or 1
    return [{"where": where, "share": round(count / total, 4)} for where, count in found.most_common(SHOWN)]


def _part(frames: Sequence[str]) -> str:
    for what, pattern in RULES:
        if any(pattern.search(frame) for frame in frames):
            return what
    return f"thread {_DIGITS.sub('', frames[0]).strip(' []') or 'without a name'}"


def wait_for_jvm(pid: int, seconds: float) -> bool:
    """Wait until a contender has a JVM. Whether it came."""
    deadline = time.monotonic() + seconds
    while not any(_is_jvm(member) for member in descendants(pid)):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def _tell(jvm: int, library: Path, words: str) -> bool:
    command = ["jcmd", str(jvm), "JVMTI.agent_load", str(library), f'"{words}"']
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - the JDK's
    return done.returncode == 0 and "return code: 0" in done.stdout


def _is_jvm(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/exe").readlink().name == "java"
    except OSError:
        return False
