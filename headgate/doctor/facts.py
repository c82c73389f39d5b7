"""What is recorded of a job, as rules look at it.

One rule: nothing is read here and nothing is judged. The shapes are those of ``headgate.view``: a status, checkpoints,
lines of history; and the description that the process wrote down when it began. A figure that nobody recorded is left
out, and a rule that needs it says so (``Unknown``).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import median

from headgate.doctor.directory import Directory
from headgate.view.history import LineView

SEEN_MIN = 5
"""At least this many checkpoints are needed before the length of their parts is judged. The first ones of a process
are slow while everything is loaded, so a typical value is a median of these at least."""
RECENT = 20
"""The typical value is that of this many last checkpoints: what was slow an hour ago does not matter now."""
CHECKPOINTS_MAX = 200
GENERATIONS_MAX = 8
FAILURES_MAX = 100
FAILURES_MS = 86_400_000
"""As much of the history is read at most; of failures, those of a day before the job was last heard of."""


class Unknown(Exception):
    """A rule has no facts to judge by."""


@dataclass(frozen=True)
class Point:
    """The figures of a task, as they were noted with one checkpoint."""

    checkpoint: int
    at_ms: int
    figures: LineView


@dataclass(frozen=True)
class JobFacts:
    """One job, at one time."""

    job: str
    now_ms: int
    view: LineView
    """Its status."""
    described: LineView
    """Its plan and its settings. Empty if nobody has written them down."""
    checkpoints: Sequence[LineView] = ()
    """The newest, in the order of ids."""
    generations: Sequence[LineView] = ()
    """The newest lines that tell who began to lead, the oldest first."""
    failures: Sequence[LineView] = ()
    """The newest lines that tell of tasks that failed, the oldest first."""
    places: tuple[Directory, ...] = ()
    """The directories of the job that are on this machine."""
    partitions: Mapping[str, Sequence[LineView]] = field(default_factory=dict)
    """For each task, the state partitions of ``partitions_of``: operator, partition, bytes."""
    partitions_of: int | None = None
    """A checkpoint."""

    # -- settings and plan -------------------------------------------------------------------------------------------

    @property
    def checkpointing(self) -> LineView:
        """The settings of checkpoints."""
        return self.described.get("checkpointing") or {}

    @property
    def configuration(self) -> LineView:
        """All other settings."""
        return self.described.get("configuration") or {}

    @property
    def interval_ms(self) -> int | None:
        """From one checkpoint to the next. None: only when asked for."""
        return self.checkpointing.get("interval_ms")

    @property
    def cores(self) -> int | None:
        """How many cores the job had when it began."""
        return self.configuration.get("cores")

    @cached_property
    def planned(self) -> dict[str, LineView]:
        """The tasks of the plan, in the order of the data."""
        return {task["id"]: task for task in (self.described.get("plan") or {}).get("tasks", ())}

    @cached_property
    def upstream(self) -> dict[str, list[str]]:
        """For each task those whose channels it reads."""
        found: dict[str, list[str]] = {task: [] for task in self.planned}
        for channel in (self.described.get("plan") or {}).get("channels", ()):
            found.setdefault(channel["to"], []).append(channel["from"])
        return found

    def readers(self, task: str) -> list[str]:
        """The tasks that read what a task writes."""
        return [each for each, reads in self.upstream.items() if task in reads]

    # -- checkpoints -------------------------------------------------------------------------------------------------

    @cached_property
    def completed(self) -> list[LineView]:
        """Those that completed in the latest execution, the oldest first, with their parts.

        Earlier ones had perhaps other settings, and counted from elsewhere.
        """
        since_ms = self.view.get("started_ms") or 0
        return [
            each
            for each in self.checkpoints
            if each["state"] == "completed" and each["tasks"] and (each["triggered_ms"] or -1) >= since_ms
        ]

    @cached_property
    def recent(self) -> list[LineView]:
        """The last of them, without savepoints, which are copied besides. ``Unknown`` if there are too few."""
        found = [each for each in self.completed if each["kind"] == "checkpoint"][-RECENT:]
        if len(found) < SEEN_MIN:
            raise Unknown
        return found

    def points(self, task: str) -> list[Point]:
        """What was noted of a task with each checkpoint of the latest execution, the oldest first."""
        return [
            Point(each["id"], each["completed_ms"], each["tasks"][task]["figures"])
            for each in self.completed
            if each["completed_ms"] is not None and each["tasks"].get(task, {}).get("figures")
        ]

    @cached_property
    def tasks(self) -> list[str]:
        """All tasks, in the order of the data as far as it is known."""
        seen = {name: None for each in self.completed for name in each["tasks"]}
        return list({**dict.fromkeys(self.planned), **seen})

    def figure(self, task: str, name: str, points: Sequence[Point] | None = None) -> list[float]:
        """The recent values of one figure."""
        among = self.points(task)[-RECENT:] if points is None else points
        return [point.figures[name] for point in among if name in point.figures]

    def typical(self, task: str, name: str) -> float | None:
        """The median of them. None of fewer than a few."""
        found = self.figure(task, name)
        return median(found) if len(found) >= SEEN_MIN else None


def ids(checkpoints: Iterable[LineView], most: int = 5) -> tuple[int, ...]:
    """The newest few, as evidence."""
    return tuple(each["id"] for each in list(checkpoints)[-most:])
