"""Many worlds, on several cores; and a failing one made small.

One rule: the result depends on the seeds alone, not on how many cores ran them or in what order they finished.
"""

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations

from headgate.sim.plan import WorldPlan, draw
from headgate.sim.world import World, WorldVerdict

CHUNK = 20
"""How many seeds go to a worker at a time."""


@dataclass
class Summary:
    """What many worlds came to."""

    seeds: int = 0
    violations: int = 0
    events: int = 0
    crashes: int = 0
    completed_checkpoints: int = 0
    busy_s: float = 0.0
    failing: list[WorldVerdict] = field(default_factory=list)

    @property
    def events_per_s(self) -> int:
        """Simulated events per second of one core."""
        return round(self.events / self.busy_s) if self.busy_s else 0

    def add(self, verdicts: list[WorldVerdict], busy_s: float) -> None:
        """Count a chunk of worlds."""
        for verdict in verdicts:
            self.seeds += 1
            self.events += verdict.events
            self.crashes += verdict.crashes
            self.completed_checkpoints += verdict.completed_checkpoints
            if verdict.violations:
                self.violations += 1
                self.failing.append(verdict)
        self.busy_s += busy_s


def run_one(plan: WorldPlan, log: list[str] | None = None) -> WorldVerdict:
    """Run one world to its end."""
    return World(plan, log).run()


def run_seeds(
    seeds: range, jobs: int, *, stop_at_first: bool = False, progress: Callable[[Summary], None] | None = None
) -> Summary:
    """Run the worlds of many seeds. ``progress`` hears of every chunk."""
    summary = Summary()
    chunks = [seeds[at : at + CHUNK] for at in range(0, len(seeds), CHUNK)]
    for verdicts, busy_s in _results(chunks, jobs, stop_at_first=stop_at_first):
        summary.add(verdicts, busy_s)
        if progress is not None:
            progress(summary)
        if stop_at_first and summary.violations:
            break
    summary.failing.sort(key=lambda verdict: verdict.seed)
    return summary


def _results(chunks: list[range], jobs: int, *, stop_at_first: bool) -> Iterator[tuple[list[WorldVerdict], float]]:
    work = partial(_run_chunk, stop_at_first=stop_at_first)
    if jobs == 1 or len(chunks) == 1:
        yield from map(work, chunks)
        return
    with ProcessPoolExecutor(max_workers=min(jobs, len(chunks))) as pool:
        try:
            yield from pool.map(work, chunks)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _run_chunk(seeds: range, *, stop_at_first: bool) -> tuple[list[WorldVerdict], float]:
    began = time.process_time()
    verdicts: list[WorldVerdict] = []
    for seed in seeds:
        verdicts.append(run_one(draw(seed)))
        if stop_at_first and verdicts[-1].violations:
            break
    return verdicts, time.process_time() - began


def shrink(plan: WorldPlan) -> WorldPlan:
    """The same world with the fewest faults that still break it. There are few faults, so every choice is tried."""
    for size in range(len(plan.faults)):
        for faults in combinations(plan.faults, size):
            if run_one(plan.with_faults(faults)).violations:
                return plan.with_faults(faults)
    return plan


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
