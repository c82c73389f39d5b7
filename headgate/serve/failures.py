"""What went wrong, in the shapes of the REST API: exceptions, restarts.

One rule: as in ``shapes``: events in, with their positions, the oldest first; plain data out, the newest first.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from headgate.view.history import LineView
from headgate.view.recoveries import START

Data = dict[str, Any]
Placed = tuple[str, LineView]
"""An event, and its position."""

EXCEPTIONS = ("task-failed", "restart")
RESTARTS = ("task-failed", "restart", "generation", "task-started", "restored", "caught-up")
"""Events of which these are told."""


def exceptions(lines: Sequence[Placed]) -> list[Data]:
    """Failures. What was decided of a task that failed comes after it, and says what was restarted."""
    found: list[Data] = []
    levels: dict[object, str] = {}
    for position, line in reversed(lines):
        task = line.get("task")
        if line.get("event") == "restart":
            if task is None:
                found.append(_exception(position, line, line.get("cause"), {"level": "job"}))
            else:
                levels[task] = str(line.get("level"))
        elif line.get("event") == "task-failed":
            labels = {"level": levels.pop(task, "job"), "run": str(line.get("run"))}
            found.append(_exception(position, line, line.get("message"), labels))
    return found


def root(view: LineView) -> Data | None:
    """What a job has failed of. None if it has not."""
    if view["state"] != "failed":
        return None
    last = view["last_failure"] or {"class": None}
    found = _exception("", last, view["text"], {})
    del found["concurrentExceptions"]
    return found


def restarts(lines: Sequence[Placed]) -> list[Data]:
    """Restarts: what they answer, what the job went back to, when there was work again, and what that took.

    A recovery that another failure interrupts has no ``restored`` of its own: the next one has.
    """
    found: list[Data] = []
    failed: dict[object, LineView] = {}
    waiting: dict[object, Data] = {}
    """Restarts after which nothing has run yet: by task, and that of the whole job by None."""
    recovering: dict[object, Data] = {}
    """Restarts that are not known to be over, by the same."""
    back = False
    for position, line in lines:
        task, at = line.get("task"), line.get("at")
        match line.get("event"):
            case "task-failed":
                failed[task] = line
            case "restart":
                found.append(_restart(position, line, failed.pop(task, None)))
                key = None if line.get("level") == "job" else task
                waiting[key], back = found[-1], False
                recovering = {None: found[-1]} if key is None else {**recovering, key: found[-1]}
            case "generation" if None in waiting:
                waiting[None]["checkpoint"], back = line.get("base"), True
            case "task-started":
                for each in (task, *([None] if back else [])):
                    if each in waiting:
                        waiting.pop(each)["running_ms"] = at
            case "restored" if line.get("level") != START and task in recovering:
                recovering[task].update(running_ms=at, restore_ms=line.get("restore_ms"))
            case "caught-up" if task in recovering:
                recovering.pop(task)["replay_ms"] = line.get("replay_ms")
            case _:
                pass
    return found[::-1]


def _exception(position: str, line: LineView, said: object, labels: Mapping[str, str]) -> Data:
    message = str(said or "")
    name, colon, _ = message.partition(":")
    named = bool(colon) and all(part.isidentifier() for part in name.split("."))
    return {
        "exceptionName": name if named else str(line.get("class") or "failure"),
        "timestamp": line.get("at"),
        "stacktrace": str(line.get("trace") or message),
        "taskName": line.get("task"),
        "endpoint": None,
        "taskManagerId": None,
        "failureLabels": {**({"class": str(line["class"])} if line.get("class") else {}), **labels},
        "message": message,
        "position": position,
        "concurrentExceptions": [],
    }


def _restart(position: str, line: LineView, failed: LineView | None) -> Data:
    return {
        "timestamp": line.get("at"),
        "level": line.get("level"),
        "task": line.get("task"),
        "cause": str(line.get("cause") or ""),
        "class": line.get("class"),
        "stacktrace": None if failed is None else failed.get("trace"),
        "delay_ms": line.get("delay_ms"),
        "failed_ms": line.get("at") if failed is None else failed.get("at"),
        "running_ms": None,
        "restore_ms": None,
        "replay_ms": None,
        "checkpoint": None,
        "position": position,
    }
