"""Runs the demo's job in a process of its own, kills that process's JVM half way, runs it again, and counts.

One rule: the job's process is told nothing of what is about to happen to it.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from headgate.audit import Verdict
from headgate.demo.audit import audit
from headgate.errors import ExternalError

JOB = Path(__file__).with_name("job.py")
TRIES_MAX = 5


@dataclass
class Story:
    """What happened, for whoever wants it as data."""

    rows: int
    counts: dict[str, Verdict] = field(default_factory=dict)
    checkpoint_ms: list[float] = field(default_factory=list)
    kills: int = 0
    recovery_s: float | None = None

    @property
    def exact(self) -> bool:
        """Whether both sinks have everything once."""
        return bool(self.counts) and all(count.exact for count in self.counts.values())

    def to_json(self) -> dict[str, Any]:
        """For ``--json``."""
        return {
            "rows": self.rows,
            "exact": self.exact,
            "kills": self.kills,
            "recovery_s": self.recovery_s,
            "checkpoints": len(self.checkpoint_ms),
            "checkpoint_ms_median": median(self.checkpoint_ms) if self.checkpoint_ms else None,
            "checkpoint_ms_max": max(self.checkpoint_ms, default=None),
            "sinks": {
                sink: {"in": c.wanted, "out": c.found, "lost": c.lost, "duplicated": c.doubled, "foreign": c.foreign}
                for sink, c in self.counts.items()
            },
        }


def play(directory: Path, rows: int, say: Callable[[str], None]) -> Story:
    """Run the whole demo in a directory that is empty, or not there."""
    story = Story(rows)
    say(f"a generator gives {rows} rows; they are summed up in 10-minute windows, and anomalies are alerted")
    killed_at: float | None = None
    for _ in range(TRIES_MAX):
        process = _start(directory, rows)
        begun = time.monotonic()
        for line in _events(process):
            if line["event"] == "checkpoint-completed":
                story.checkpoint_ms.append(line["duration_ms"])
            elif line["event"] == "generation":
                base = "nothing" if line["base"] is None else f"checkpoint {line['base']}"
                after_s = time.monotonic() - begun
                say(f"generation {line['generation']} begins from {base}, {after_s:.1f} s after the start")
            elif line["event"] == "progress":
                done = _rows_read(line)
                if killed_at is not None and story.recovery_s is None and done > 0:
                    story.recovery_s = time.monotonic() - killed_at
                    say(f"records flow again {story.recovery_s:.1f} s after the kill")
                if killed_at is None and done >= rows // 2 and story.checkpoint_ms:
                    killed_at = time.monotonic()
                    story.kills += 1
                    pid = _kill_jvm(process.pid)
                    complete = len(story.checkpoint_ms)
                    say(f"{done} rows are read and {complete} checkpoints complete: SIGKILL of JVM {pid}")
        status = process.wait()
        if status == 0:
            break
        say(f"the job's process ended with exit code {status}; starting it again")
    else:
        raise ExternalError(f"the job did not come to its end in {TRIES_MAX} tries; its output is in {directory}")
    story.counts = audit(directory, rows)
    return story


def _start(directory: Path, rows: int) -> "subprocess.Popen[str]":
    directory.mkdir(parents=True, exist_ok=True)
    environment = {
        # A JVM that lives for seconds: a simple compiler and collector halve what its start costs.
        "SPARK_SUBMIT_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        **os.environ,
        "HEADGATE_DEMO_DIRECTORY": str(directory),
        "HEADGATE_DEMO_ROWS": str(rows),
    }
    log = (directory / "log.txt").open("a", encoding="utf-8")
    with log:
        return subprocess.Popen(  # noqa: S603 - our own command
            [sys.executable, "-m", "headgate", "run", str(JOB), "--json", "--verbose"],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=environment,
        )


def _events(process: "subprocess.Popen[str]") -> Iterator[dict[str, Any]]:
    assert process.stdout is not None
    for text in process.stdout:
        if text.startswith("{") and text.endswith("}\n"):  # A line that was cut off by a kill says nothing.
            yield json.loads(text)


def _rows_read(progress: dict[str, Any]) -> int:
    return max((int(task.get("rows") or 0) for task in progress["tasks"]), default=0)


def _kill_jvm(pid: int) -> int:
    """SIGKILL the JVM among the children of a process, and say which it was."""
    found = [child for child in children(pid) if _name(child) == "java"]
    if not found:
        raise ExternalError(f"process {pid} has no JVM to kill")
    os.kill(found[0], signal.SIGKILL)
    return found[0]


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""  # It ended while we looked.


def children(pid: int) -> list[int]:
    """All processes below a process."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                after_name = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # It ended while we looked.
            parents.setdefault(int(after_name[1]), []).append(int(entry.name))
    found: list[int] = []
    todo = [pid]
    while todo:
        below = parents.get(todo.pop(), [])
        found += below
        todo += below
    return found
