"""What a seed draws: a random job, random settings, and the faults that will befall it.

One rule: all faults are in one list, drawn before the world begins, so that a failing world can be run again with
fewer.
"""

from dataclasses import dataclass, replace
from random import Random

from headgate.core.graph import Channel, Graph, Operator, Task
from headgate.core.ids import ChannelId, OperatorUid, SinkId, TaskId
from headgate.core.restart import ExponentialDelay, FailureRate, FixedDelay, NoRestart, Strategy
from headgate.core.settings import Mode, Settings

TASKS_MAX = 6
SINKS_MAX = 3
SHALLOW_MAX = 2
"""A job with more tasks than this gets a longer timeout: a barrier has a longer way to go."""
FAULTS_MAX = 9
TROUBLE_MS = 1_500
"""Faults fall into the first this many ms. After that the world is calm, and the job must come to its end."""
LONG_MS = 20_000
"""An interval that is too long for a job with little room."""
DRAINS = 0.1
"""How many worlds have a user who wants the job drained. Only those have windows."""
CALM_MS = 60_000
"""A job that has not ended this long after the last fault has lost its way."""


@dataclass(frozen=True)
class Fault:
    """Something that happens to the world: ``kind`` at ``at_ms``, to ``target``, with ``amount`` of it."""

    at_ms: int
    kind: str
    target: str = ""
    amount: int = 0
    lasting_ms: int = 0

    def __str__(self) -> str:
        """One line, as a scenario keeps it."""
        return f"{self.at_ms} {self.kind} {self.target or '-'} {self.amount} {self.lasting_ms}"

    @staticmethod
    def parse(line: str) -> "Fault":
        """The fault that a line of a scenario describes."""
        at_ms, kind, target, amount, lasting_ms = line.split()
        return Fault(int(at_ms), kind, "" if target == "-" else target, int(amount), int(lasting_ms))


@dataclass(frozen=True)
class WorldPlan:
    """A whole world before it begins."""

    seed: int
    graph: Graph
    settings: Settings
    records: dict[TaskId, int]
    """How many records each source has before it ends."""
    faults: tuple[Fault, ...]
    room: int | None = None
    """How many attempts at batches each sink holds at once before anything is committed. None: as many as there are."""

    def with_faults(self, faults: tuple[Fault, ...]) -> "WorldPlan":
        """The same world with other faults."""
        return replace(self, faults=faults)


def draw(seed: int) -> WorldPlan:
    """The world of a seed."""
    rng = Random(seed)
    graph = _graph(rng)
    settings = _settings(rng, len(graph.tasks))
    records = {task.id: rng.randrange(8, 90) for task in graph.tasks if task.has_source}
    faults = sorted((_fault(rng, graph) for _ in range(rng.randrange(FAULTS_MAX + 1))), key=lambda fault: fault.at_ms)
    room = rng.choice((1, 2, 3, 6)) if rng.random() < 0.15 else None
    if room is not None and rng.random() < 0.6:
        settings = replace(settings, interval_ms=LONG_MS, min_pause_ms=0)
    faults = sorted((*faults, *_drain(seed)), key=lambda fault: fault.at_ms)
    return WorldPlan(seed, graph, settings, records, tuple(faults), room)


def _graph(rng: Random) -> Graph:
    """One to six tasks with forks and joins; one to three sinks."""
    count = rng.choice((1, 2, 2, 3, 3, 4, 4, 5, TASKS_MAX))
    sources: list[bool] = []
    channels: list[Channel] = []
    for index in range(count):
        own = index == 0 or rng.random() < 0.2
        sources.append(own)
        if index and (not own or rng.random() < 0.3):
            for upstream in sorted(rng.sample(range(index), min(index, rng.choice((1, 1, 2))))):
                name = f"c{len(channels)}"
                channels.append(Channel(ChannelId(name), TaskId(f"t{upstream}"), TaskId(f"t{index}")))
    leaves = [index for index in range(count) if not any(c.upstream == f"t{index}" for c in channels)]
    sinks: dict[int, list[SinkId]] = {index: [] for index in range(count)}
    number = 0
    for index in leaves[:SINKS_MAX]:
        sinks[index].append(SinkId(f"k{number}"))
        number += 1
    while number < SINKS_MAX and rng.random() < 0.3:
        sinks[rng.randrange(count)].append(SinkId(f"k{number}"))
        number += 1
    tasks = tuple(
        Task(
            TaskId(f"t{index}"),
            operators=(Operator(OperatorUid(f"o{index}"), stateful=True),),
            sinks=tuple(sinks[index]),
            has_source=sources[index],
            partitions=rng.choice((1, 2, 4)),
        )
        for index in range(count)
    )
    return Graph(tasks, tuple(channels))


def _settings(rng: Random, tasks: int) -> Settings:
    """Random, but such that a job in a calm world can complete a checkpoint before it is given up."""
    mode = rng.choices((Mode.EXACTLY_ONCE, Mode.AT_LEAST_ONCE, Mode.AT_MOST_ONCE), (7, 1.5, 1.5))[0]
    aligns = mode is not Mode.AT_LEAST_ONCE
    return Settings(
        mode=mode,
        interval_ms=rng.choice((20, 40, 80, 150)),
        min_pause_ms=rng.choice((0, 0, 0, 15, 60)),
        timeout_ms=rng.choice((120, 400, 1_000, 3_000)) + (tasks > SHALLOW_MAX) * 600,
        max_concurrent_checkpoints=rng.choice((1, 1, 2, 3)),
        tolerable_failed_checkpoints=rng.choice((0, 1, 2, 5, 20)),
        unaligned=aligns and rng.random() < 0.3,
        aligned_checkpoint_timeout_ms=rng.choice((0, 10, 30, 100)) if aligns and rng.random() < 0.4 else None,
        max_batches_ahead=rng.choice((None, None, 1, 2, 5)),
        num_retained=rng.choice((1, 1, 2, 3)),
        retain_on_cancellation=rng.random() < 0.5,
        checkpoints_after_tasks_finish=rng.random() < 0.8,
        restart=_strategy(rng),
        resend_ms=rng.choice((50, 100, 200)),
        commit_retry_ms=rng.choice((5, 20)),
        commit_retry_max_ms=rng.choice((20, 100)),
        leftovers_ms=rng.choice((5, 20)),
        leftovers_max_ms=rng.choice((20, 60)),
    )


def _strategy(rng: Random) -> Strategy:
    kind = rng.random()
    if kind < 0.5:
        return ExponentialDelay(initial_ms=5, maximum_ms=100, multiplier=2.0, jitter=0.2, reset_after_ms=500)
    if kind < 0.7:
        return FixedDelay(delay_ms=rng.choice((0, 20)), attempts_max=rng.choice((None, 3)))
    if kind < 0.9:
        return FailureRate(failures_max=rng.choice((2, 5)), interval_ms=300, delay_ms=10)
    return NoRestart()


def _drain(seed: int) -> tuple[Fault, ...]:
    """In some worlds a user wants the job drained, perhaps twice. Drawn apart: the rest of a seed's world is as it was
    before there were drains.
    """
    rng = Random(f"{seed}-drain")
    if rng.random() >= DRAINS:
        return ()
    return tuple(Fault(rng.randrange(1, TROUBLE_MS - 500), "ask-drain") for _ in range(rng.choice((1, 1, 2))))


KINDS = (
    ("crash-task", 5),
    ("crash-executor", 3),
    ("fail-user", 1),
    ("fail-internal", 3),
    ("crash-leader", 4),
    ("crash-at-effect", 4),
    ("lose-directory", 3),
    ("usurp", 4),
    ("usurp-slowly", 3),
    ("freeze-leader", 4),
    ("forget-executor", 3),
    ("orphan-executors", 3),
    ("weather", 5),
    ("store-trouble", 5),
    ("slow-task", 3),
    ("outlive", 3),
    ("commit-trouble", 3),
    ("pre-commit-trouble", 2),
    ("decline", 2),
    ("ask-checkpoint", 1),
    ("ask-savepoint", 2),
    ("ask-stop", 1),
    ("ask-cancel", 0.3),
    ("ask-abandon", 0.3),
    ("cancel-and-usurp", 0.5),
    ("ask-hold", 1),
    ("ask-release", 1),
    ("ask-delete", 1),
    ("change-job", 1),
)
"""What can happen, and how often relative to each other."""


def _fault(rng: Random, graph: Graph) -> Fault:
    kind = rng.choices([name for name, _ in KINDS], [weight for _, weight in KINDS])[0]
    target = ""
    if kind in ("crash-task", "fail-user", "fail-internal", "slow-task", "decline", "forget-executor"):
        target = str(rng.choice(graph.tasks).id)
    elif kind in ("commit-trouble", "pre-commit-trouble", "ask-abandon"):
        target = str(rng.choice(tuple(graph.owner)))
    amount = {
        "crash-at-effect": rng.randrange(1, 60),
        "weather": rng.randrange(1, 4),
        "slow-task": rng.randrange(3, 25),
    }.get(kind, rng.randrange(1, 5))
    lasting_ms = rng.randrange(20, 500)
    return Fault(rng.randrange(1, TROUBLE_MS - 500), kind, target, amount, lasting_ms)
