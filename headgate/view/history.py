"""What the lines of a job's history say.

One rule: lines are taken one by one, in order, and only what a view shows is remembered. The process that runs a job
and a command that reads the storage fold the same lines, and so say the same. History explains and decides nothing: a
line that says less than it should, or something unknown, is not an error.

An *execution* of a job is what one process made of it. It begins with the first generation of a new leader.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

Line = dict[str, Any]
LineView = Mapping[str, Any]
"""A line that is only read."""

FIGURES = (
    *("duration_ms", "pre_commit_ms", "pre_commits", "publish_ms", "restarts", "unaligned", "generation", "tasks"),
    "gc_ratio",
)
"""What a completed checkpoint's line says beyond its name."""
LOST = "its process ended before it was complete"


@dataclass
class JobExecution:
    """A job's latest execution."""

    leader: str | None = None
    generation: int | None = None
    started_ms: int | None = None
    last_ms: int | None = None
    """When anything was last heard of the job."""
    restarts: dict[str, int] = field(default_factory=lambda: {"task": 0, "job": 0})
    last_failure: Line | None = None
    """Of any execution."""
    last_checkpoint: Line | None = None
    """The newest that completed, in any execution."""
    ended: Line | None = None

    def take(self, line: Line) -> None:
        """Take in the next line."""
        at = line.get("at")
        self.last_ms = at if at is not None else self.last_ms
        match line.get("event"):
            case "generation":
                if line.get("leader") != self.leader:
                    self.leader, self.started_ms = line.get("leader"), at
                    self.restarts = {"task": 0, "job": 0}
                self.generation, self.ended = line.get("generation"), None
            case "restart":
                level = line.get("level")
                if level in self.restarts:
                    self.restarts[level] += 1
                if line.get("task") is None:
                    self.last_failure = _failure(line, line.get("cause"))
            case "task-failed":
                self.last_failure = _failure(line, line.get("message"))
            case "checkpoint-completed":
                self.last_checkpoint = line
            case "ended":
                self.ended = line
            case _:
                pass


def execution(lines: Iterable[Line], restarts: Mapping[str, int] | None = None) -> JobExecution:
    """The latest execution that a history tells of.

    ``restarts``: how often it was restarted, by level, if somebody has counted, and the lines are but a part.
    """
    told = JobExecution()
    for line in lines:
        told.take(line)
    if restarts is not None:
        told.restarts = dict(restarts)
    return told


def checkpoints(lines: Iterable[Line]) -> dict[int, Line]:
    """What a history tells of each checkpoint, by id: where it stands and its figures."""
    found: dict[int, Line] = {}
    for line in lines:
        event = line.get("event")
        if event in ("generation", "ended"):
            for one in found.values():
                if one["state"] == "pending":
                    one.update(state="failed", why=LOST)
        checkpoint = line.get("id")
        if not isinstance(checkpoint, int):
            continue
        one = found.setdefault(checkpoint, unknown(checkpoint, line.get("kind", "checkpoint")))
        match event:
            case "checkpoint-triggered" if one["state"] != "completed":
                # A leader that died may have used the same id for one that came to nothing.
                one.update(unknown(checkpoint, line.get("kind", "checkpoint")))
                one.update(triggered_ms=line.get("at"), unaligned=line.get("unaligned"))
            case "checkpoint-completed":
                one.update({name: line[name] for name in FIGURES if name in line})
                one.update(state="completed", completed_ms=line.get("at"), failed_ms=None, why=None)
            case "checkpoint-failed":
                one.update(state="failed", failed_ms=line.get("at"), why=line.get("why"))
            case "checkpoint-committed" if one["commit_ms"] is None:
                one.update(commit_ms=line.get("commit_ms"), retries=line.get("retries"))
            case "savepoint-copied":
                one.update(copied=True)
            case _:
                pass
    return found


def unknown(checkpoint: int, kind: str) -> Line:
    """A checkpoint of which nothing is known but its name."""
    return {
        "id": checkpoint,
        "kind": kind,
        "state": "pending",
        "generation": None,
        "unaligned": None,
        "triggered_ms": None,
        "completed_ms": None,
        "failed_ms": None,
        "duration_ms": None,
        "pre_commit_ms": None,
        "pre_commits": {},
        "publish_ms": None,
        "commit_ms": None,
        "retries": None,
        "gc_ratio": None,
        "restarts": None,
        "copied": False,
        "why": None,
        "tasks": {},
    }


def _failure(line: Line, message: str | None) -> Line:
    return {"at": line.get("at"), "task": line.get("task"), "class": line.get("class"), "message": message}
