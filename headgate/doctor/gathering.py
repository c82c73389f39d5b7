"""Gathers the facts about a job. One rule: it judges nothing, writes nothing, and what it reads has a bound."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headgate.doctor.directory import Directory
from headgate.doctor.ends import WORKING
from headgate.doctor.facts import (
    CHECKPOINTS_MAX,
    FAILURES_MAX,
    FAILURES_MS,
    GENERATIONS_MAX,
    JobFacts,
)
from headgate.run.past import JobPast
from headgate.view.history import LineView


def gather(past: JobPast, view: LineView, described: LineView | None, local_root: Path | None, now_ms: int) -> JobFacts:
    """What is recorded of a job, and how much room its directories have."""
    checkpoints = past.checkpoints(CHECKPOINTS_MAX)
    began = past.history.events(GENERATIONS_MAX, types=("generation",))
    heard_ms = (view["started_ms"] or now_ms) + (view["uptime_ms"] or 0)
    failed = past.history.events(FAILURES_MAX, since_ms=heard_ms - FAILURES_MS, types=("task-failed",))
    kept = next((each["id"] for each in reversed(checkpoints) if each["kept"]), None)
    return JobFacts(
        job=view["job"],
        now_ms=now_ms,
        view=view,
        described=described or {},
        checkpoints=checkpoints,
        generations=[line for _, line in began],
        failures=[line for _, line in failed],
        places=tuple(_places(described or {}, local_root)),
        partitions={} if kept is None else past.all_partitions(kept),
        partitions_of=kept,
    )


def _places(described: Mapping[str, Any], local_root: Path | None) -> list[Directory]:
    """The directories of the job on this machine: those of a job that runs elsewhere are not looked for."""
    elsewhere = (described.get("checkpointing") or {}).get("working_directory")
    places = [("storage", local_root), (WORKING, None if elsewhere is None else Path(elsewhere))]
    return [_room(role, place) for role, place in places if place is not None and place.is_dir()]


def _room(role: str, place: Path) -> Directory:
    try:
        found = os.statvfs(place)
    except OSError:
        return Directory(role, str(place))
    files = found.f_favail if found.f_files else None
    return Directory(role, str(place), free_bytes=found.f_bavail * found.f_frsize, free_files=files)
