"""Side by side: contenders take turns in one run; medians and spread are shown, and CPU seconds beside wall time."""

import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Timing:
    """One round of one contender."""

    wall_s: float
    cpu_s: float
    units: float


class Clock:
    """Wall time and CPU seconds since it was made."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), cpu_s()

    def read(self, units: float) -> Timing:
        """What it took to do this many units."""
        return Timing(time.perf_counter() - self._wall, cpu_s() - self._cpu, units)


def timed(work: Callable[[], float | Timing]) -> Timing:
    """Run ``work`` once; it returns how many units it did, or its own timing where not all of it is to count."""
    clock = Clock()
    did = work()
    return did if isinstance(did, Timing) else clock.read(did)


def compare(
    title: str, unit: str, contenders: Mapping[str, Callable[[], float | Timing]], rounds: int = 7
) -> dict[str, float]:
    """Let the contenders take turns, and show how they compare with the first. Returns the ratios."""
    seen: dict[str, list[Timing]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, work in contenders.items():
            seen[name].append(timed(work))
    print(f"\n{title}: {rounds} rounds, in turns")
    print(f"  {'':<44}{unit + '/s':>14}{'spread':>9}{'wall s':>9}{'cpu s':>9}{'ratio':>8}")
    ratios: dict[str, float] = {}
    first = None
    for name, timings in seen.items():
        rates = [timing.units / timing.wall_s for timing in timings]
        median = statistics.median(rates)
        first = first or median
        ratios[name] = median / first
        wall = statistics.median(timing.wall_s for timing in timings)
        cpu = statistics.median(timing.cpu_s for timing in timings)
        print(f"  {name:<44}{median:>14,.0f}{_spread(rates):>9.0%}{wall:>9.2f}{cpu:>9.2f}{ratios[name]:>8.2f}")
    return ratios


def figures(title: str, unit: str, seen: dict[str, Sequence[float]], wanted: str) -> None:
    """Show measured figures that are no rates: the median of each, its spread, and its ratio to the first."""
    print(f"\n{title}  (wanted: {wanted})")
    print(f"  {'':<44}{'median ' + unit:>14}{'spread':>9}{'longest':>9}{'n':>5}{'ratio':>8}")
    first = None
    for name, values in seen.items():
        median = statistics.median(values)
        first = first or median
        spread, longest = _spread(values), max(values)
        print(f"  {name:<44}{median:>14,.1f}{spread:>9.0%}{longest:>9,.1f}{len(values):>5}{median / first:>8.2f}")


def _spread(values: Sequence[float]) -> float:
    return (max(values) - min(values)) / (statistics.median(values) or 1)


def cpu_s() -> float:
    """CPU seconds of this process and all below it: Spark's JVM and its Python workers."""
    parents: dict[int, list[int]] = {}
    ticks: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents.setdefault(int(fields[1]), []).append(int(entry.name))
            ticks[int(entry.name)] = sum(int(field) for field in fields[11:15])
    total, todo = 0, [os.getpid()]
    while todo:
        pid = todo.pop()
        total += ticks.get(pid, 0)
        todo += parents.get(pid, [])
    return total / TICKS
