"""CPU seconds of a contender's processes, and of everybody else's.

One rule: a process belongs to a contender when it descends from the contender's first process, or is in its session.
"""

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
DISTURBED_CORES = 0.2
"""A round during which others used more cores than this is marked as disturbed."""


@dataclass(frozen=True)
class Used:
    """What was used between two looks."""

    wall_s: float
    cpu_s: float
    others_cores: float

    @property
    def is_disturbed(self) -> bool:
        """Whether others used so much that the times say little."""
        return self.others_cores > DISTURBED_CORES


class Meter:
    """Looks at the processor now, and again when asked.

    ``pids`` are the first processes of a contender; those of ``beside`` (a broker) are neither it nor others.
    """

    def __init__(self, *pids: int, beside: Iterable[int] = ()) -> None:
        self._pids = pids
        self._beside = tuple(beside)
        self._wall = time.perf_counter()
        self._own, self._busy = self._look()

    def read(self) -> Used:
        """What was used since this was made."""
        wall = time.perf_counter() - self._wall
        own, busy = self._look()
        # What a process used that was there at the beginning and is gone counts with its parent, who waited for it.
        mine = {name: own[name] - self._own[name] for name in own}
        others = max(0, (busy - self._busy) - sum(mine.values()))
        return Used(wall, max(0, mine["contender"]) / TICKS, others / TICKS / wall if wall else 0.0)

    def _look(self) -> tuple[dict[str, int], int]:
        there = _processes()
        me = there.get(os.getpid())
        used = {
            "contender": sum(there[pid].ticks for pid in _members(set(self._pids), there)),
            "beside": sum(there[pid].ticks for pid in _members(set(self._beside), there)),
            "harness": me.own_ticks if me is not None else 0,
        }
        return used, _busy_ticks()


def descendants(pid: int) -> list[int]:
    """A process and all that belong to it, itself first."""
    found = _members({pid}, _processes())
    return [pid, *sorted(found - {pid})]


@dataclass(frozen=True)
class _Process:
    parent: int
    session: int
    ticks: int
    own_ticks: int


def _members(first: set[int], there: dict[int, _Process]) -> set[int]:
    children: dict[int, list[int]] = {}
    for pid, process in there.items():
        children.setdefault(process.parent, []).append(pid)
    todo = [pid for pid, process in there.items() if pid in first or process.session in first]
    found: set[int] = set()
    while todo:
        pid = todo.pop()
        if pid not in found:
            found.add(pid)
            todo += children.get(pid, [])
    return found


def _processes() -> dict[int, _Process]:
    found: dict[int, _Process] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # It has ended meanwhile.
                continue
            used = [int(field) for field in fields[11:15]]
            found[int(entry.name)] = _Process(int(fields[1]), int(fields[3]), sum(used), used[0] + used[1])
    return found


def _busy_ticks() -> int:
    """What all processes of the machine have used, and what others on the host took from it."""
    fields = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    user, nice, system, _idle, _iowait, irq, softirq, steal = fields[:8]
    return user + nice + system + irq + softirq + steal
