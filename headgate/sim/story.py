"""A simulation told in words.

One rule: every line is something that happened in the world, and the count at the end is taken from what the sinks'
readers would see.
"""

from collections.abc import Callable
from dataclasses import replace

from headgate.sim.crash import standard_plan
from headgate.sim.plan import Fault, WorldPlan
from headgate.sim.world import Process, World

SEED = 1
NAMES = {"t0": "orders", "t1": "user-windows", "t2": "anomalies", "k0": "summaries", "k1": "alerts"}
RECORDS = 60


def tell(seed: int, say: Callable[[str], None]) -> int:
    """Tell one run; 0 if nothing was lost and nothing doubled."""
    plan = story_plan(seed)
    say("A simulated job: orders -> user-windows -> summaries")
    say("                 orders -> anomalies    -> alerts")
    say(f"{RECORDS} records come in; a checkpoint every {plan.settings.interval_ms} ms (simulated time).")
    say("")
    world = World(plan)
    world.on_step = Narrator(say).listen
    verdict = world.run()
    say("")
    say(
        f"{verdict.completed_checkpoints} checkpoints completed, {verdict.crashes} crashes, "
        f"{verdict.events:,} simulated events"
    )
    bad = len(verdict.violations)
    for violation in verdict.violations:
        say(f"violation: {violation}")
    for sink, task in world.checker.shape.sinks:
        lost, doubled = world.checker.count(sink, task)
        seen = len(world.sinks[sink].visible)
        say(f"{NAMES[sink]}: exactly once: {RECORDS} in, {seen} out, {lost} lost, {doubled} duplicated")
        bad += lost + doubled
    return 1 if bad else 0


def story_plan(seed: int) -> WorldPlan:
    """The standard job in a longer run: a task fails, the leader dies, and one does not know that it is over."""
    plan = standard_plan()
    faults = (
        Fault(110, "crash-task", "t1", 1, 0),
        Fault(170, "ask-savepoint", "", 0, 0),
        Fault(231, "crash-leader", "", 1, 0),
        Fault(420, "usurp", "", 2, 0),
        Fault(480, "commit-trouble", "k0", 3, 0),
    )
    records = dict.fromkeys(plan.records, RECORDS)
    return replace(plan, seed=seed, records=records, faults=faults)


class Narrator:
    """Says each new line of the processes' own stories, once."""

    def __init__(self, say: Callable[[str], None]) -> None:
        """Speak through ``say``."""
        self.say = say

    def listen(self, process: Process, before: tuple[str, ...]) -> None:
        """A process has taken a step; ``before`` is its story until then."""
        story = process.state.story
        if story is before:
            return
        known = len(before) if story[: len(before)] == before else len(story) - 1
        for line in story[known:]:
            at, _, text = line.partition(" ms: ")
            words = " ".join(NAMES.get(word, word) for word in text.split(" "))
            self.say(f"{at:>6} ms  {process.name}  {words}")
