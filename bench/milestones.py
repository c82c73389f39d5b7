"""When what happened on the way, as Headgate told it: where the time of a start or a recovery goes.

The figures are seconds from a moment, in the order in which they came, under names that begin with ``MARK``.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

MARK = "at: "
_EVENTS = {
    "guarantee": "the job is read, Spark is up",
    "task-failed": "the failure is told",
    "generation": "the checkpoint is read",
    "task-started": "the query is started",
}


def milestones(log: Path, since: float, until: float) -> dict[str, float]:
    """The first of each kind between two moments, and the checkpoint that made the row visible."""
    found: dict[str, float] = {}
    completed: list[tuple[float, float]] = []
    for event in _events(log):
        at = event["at"] / 1000
        if not since - 0.5 <= at <= until + 0.05:
            continue
        name = _EVENTS.get(event["event"])
        if name is not None:
            found.setdefault(name, at)
        if event["event"] == "checkpoint-completed":
            completed.append((at - event["duration_ms"] / 1000, at))
    if completed:
        found["the barrier of the checkpoint"], found["the checkpoint is complete"] = completed[-1]
    return {f"{MARK}{name}": at - since for name, at in sorted(found.items(), key=lambda each: each[1])}


def _events(log: Path) -> Iterator[dict[str, Any]]:
    for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
        if line.startswith("{"):
            try:
                event = json.loads(line)
            except ValueError:
                continue
            if isinstance(event, dict) and "event" in event and "at" in event:
                yield event
