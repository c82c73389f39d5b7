"""The core and the simulator, without Spark."""

from collections.abc import Callable
from dataclasses import replace

from bench.side_by_side import compare
from headgate.core.evolve import evolve
from headgate.core.invariants import check
from headgate.core.state import TaskState
from headgate.sim import crash
from headgate.sim.plan import draw
from headgate.sim.world import World

COPIES = 100_000
WORLDS = 120


def copies(copy: Callable[[TaskState, int], TaskState]) -> Callable[[], float]:
    """Copy a task's state with one field changed, many times."""

    def work() -> float:
        state = TaskState()
        for number in range(COPIES):
            state = copy(state, number)
        return COPIES

    return work


def worlds(*, checked: bool) -> Callable[[], float]:
    """Run worlds, with the core's invariants checked now and then, or after every step."""

    def work() -> float:
        events = 0
        for seed in range(WORLDS):
            world = World(draw(seed))
            if checked:
                world.on_step = lambda process, _: check(process.state)
            events += world.run().events
        return events

    return work


def core() -> None:
    """Compare what the core is made of."""
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
    compare(
        "headgate sim --crash-everywhere", "cuts", {"every order, before and after": lambda: crash.everywhere().cuts}
    )
