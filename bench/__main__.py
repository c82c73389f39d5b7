"""``make bench``: the contenders take turns, and medians and spread are shown, with CPU seconds beside wall time."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from headgate.core.evolve import evolve
from headgate.core.invariants import check
from headgate.core.state import TaskState
from headgate.sim import crash
from headgate.sim.plan import draw
from headgate.sim.world import World

ROUNDS = 7
COPIES = 100_000
WORLDS = 120


@dataclass(frozen=True)
class Timing:
    """One round of one contender."""

    wall_s: float
    cpu_s: float
    units: int


def timed(work: Callable[[], int]) -> Timing:
    """Run ``work`` once; it returns how many units it did."""
    wall, cpu = time.perf_counter(), time.process_time()
    units = work()
    return Timing(time.perf_counter() - wall, time.process_time() - cpu, units)


def compare(title: str, unit: str, contenders: dict[str, Callable[[], int]]) -> None:
    """Let the contenders take turns, and show how they compare with the first."""
    rounds: dict[str, list[Timing]] = {name: [] for name in contenders}
    for _ in range(ROUNDS):
        for name, work in contenders.items():
            rounds[name].append(timed(work))
    print(f"\n{title}: {ROUNDS} rounds, in turns")
    print(f"  {'':<34}{unit + '/s':>14}{'spread':>10}{'wall s':>9}{'cpu s':>9}{'ratio':>8}")
    first = None
    for name, timings in rounds.items():
        rates = [timing.units / timing.wall_s for timing in timings]
        median = statistics.median(rates)
        first = first or median
        spread = (max(rates) - min(rates)) / median
        wall = statistics.median(timing.wall_s for timing in timings)
        cpu = statistics.median(timing.cpu_s for timing in timings)
        print(f"  {name:<34}{median:>14,.0f}{spread:>10.0%}{wall:>9.2f}{cpu:>9.2f}{median / first:>8.2f}")


def copies(copy: Callable[[TaskState, int], TaskState]) -> Callable[[], int]:
    """Copy a task's state with one field changed, many times."""

    def work() -> int:
        state = TaskState()
        for number in range(COPIES):
            state = copy(state, number)
        return COPIES

    return work


def worlds(*, checked: bool) -> Callable[[], int]:
    """Run worlds, with the core's invariants checked now and then, or after every step."""

    def work() -> int:
        events = 0
        for seed in range(WORLDS):
            world = World(draw(seed))
            if checked:
                world.on_step = lambda process, _: check(process.state)
            events += world.run().events
        return events

    return work


def main() -> None:
    """Run every comparison."""
    compare(
        "a changed copy of a frozen record",
        "copies",
        {
            "dataclasses.replace": copies(lambda state, number: replace(state, fruitless=number)),
            "evolve": copies(lambda state, number: evolve(state, fruitless=number)),
        },
    )
    compare(
        f"{WORLDS} simulated worlds on one core",
        "events",
        {"as headgate sim runs them": worlds(checked=False), "invariants after every step": worlds(checked=True)},
    )
    cut = {"every order, before and after": lambda: crash.everywhere().cuts}
    compare("headgate sim --crash-everywhere", "cuts", cut)


if __name__ == "__main__":
    main()
