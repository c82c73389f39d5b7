"""How many rows a source's next batch may have.

One rule: a size is judged by batches that had it and were full, and it changes only if they say so clearly. Such a
batch takes time for being a batch, and more time for each row; nothing is tried out to see whether it pays. If the
slowest task takes clearly less than the target, the size grows in proportion, which cannot go past the target whatever
a batch costs for being one. If it takes clearly longer three times in a row, the size shrinks in proportion; twice, but
several times as long, it is halved. In between it stands still: what disturbs a machine makes single batches long.

A target that a batch of any size would miss is out of reach. Then a batch takes twice what it costs for being one: a
smaller one would spend most of its time on nothing. That cost is where a line through the usual times of the sizes
that there have been begins.

A size that was too long is not taken again before ``CEILING_BATCHES`` batches have passed, unless batches now take less
than half of what is wanted: where the time grows faster than the rows, the size would go up and down for ever.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headgate.core.evolve import evolve
from headgate.core.ids import TaskId

START_ROWS = 10_000
"""The size of the first batch of a query, of which nothing is known."""
ROWS_MIN, ROWS_MAX = 100, 16_000_000
TARGET_MIN_MS, TARGET_MAX_MS = 400, 2_500
"""Of Spark's batches, most cost 50 to 220 ms for being one: shorter ones do little else, longer ones are no faster."""
SHARE = 0.8
"""The part of the checkpoint interval that a batch takes at most: a checkpoint waits for one under way."""
LOW, HIGH = 0.7, 1.4
"""Shares of the target between which the time of a batch is as wanted."""
LOW_AT_FIRST = 0.9
"""The same until it has been so for the first time: what disturbs a machine then only makes the size stand early."""
FAR = 5.0
"""Batches that take this many times the target are answered sooner: at once while nothing has been as wanted yet."""
FULL = 0.5
"""A batch that has this share of its limit is full: of an offset of Kafka there may be no row."""
STEPS = 3
"""This many batches in a row say the same before a size that has stood changes."""
FACTOR, FACTOR_AT_FIRST = 2.0, 8.0
"""The most by which a size changes at once, and until it has stood for the first time."""
CEILING_BATCHES = 64
CEILING = 0.8
"""The share of a size that was too long up to which it may grow."""
WARM_UP, KNOWN = 10, 5
"""The first batches of a process take longer than any of their size will again."""
FAR_APART = 4
"""Sizes that are this many times apart say how the time grows with the rows."""


def target_ms(interval_ms: int | None, latency_ms: int | None) -> float:
    """How long a batch should take. ``latency_ms`` is what the user wants it to stay below, if anything."""
    wanted = TARGET_MAX_MS if interval_ms is None else max(TARGET_MIN_MS, min(TARGET_MAX_MS, interval_ms * SHARE))
    return wanted if latency_ms is None else min(wanted, latency_ms / HIGH)


@dataclass(frozen=True)
class TaskCost:
    """What the batches of one task took."""

    times_ms: tuple[float, ...] = ()
    """Of full batches of the present size, the last ``STEPS``, the newest last."""
    batches: int = 0
    known: Mapping[int, tuple[tuple[int, float], ...]] = field(default_factory=dict)
    """For each power of two of rows the last ``KNOWN`` batches: their rows, and their times."""


@dataclass(frozen=True)
class Sizing:
    """The size of the batches of one task with sources, and what is known about it."""

    costs: Mapping[TaskId, TaskCost]
    """The task, and all that read what it writes, near or far."""
    rows: int = START_ROWS
    stood: bool = False
    """Whether the size has once been as wanted."""
    ceiling: int | None = None
    """A size that was too long, ``batches`` full batches ago, for what was wanted then."""
    ceiling_goal: float = 0.0
    batches: int = 0


def sizing_of(tasks: tuple[TaskId, ...]) -> Sizing:
    """Nothing is known yet."""
    return Sizing({task: TaskCost() for task in tasks})


def seen(sizing: Sizing, target: float, task: TaskId, rows: int, took_ms: float, *, full: bool) -> Sizing:
    """A batch of a task, of the present size if it is ``full``, took this long. ``rows`` are those of the source."""
    cost = _with_batch(sizing.costs[task], rows, took_ms, full=full)
    sizing = evolve(sizing, costs={**sizing.costs, task: cost})
    if not full:
        return sizing
    sizing = _forget_ceiling(evolve(sizing, batches=sizing.batches + 1))
    goals = {each: max(target, min(2 * fixed_ms(one), TARGET_MAX_MS)) for each, one in sizing.costs.items()}
    too_long = [_excess(one, goals[each], stood=sizing.stood) for each, one in sizing.costs.items()]
    if (excess := max(too_long)) > 1:
        shrunk = evolve(sizing, stood=True, ceiling=sizing.rows, ceiling_goal=min(goals.values()), batches=0)
        return _resized(shrunk, sizing.rows / excess)
    return _grown(sizing, goals)


def forget_times(sizing: Sizing) -> Sizing:
    """The tasks have begun anew: what their last batches took says nothing of the next."""
    return evolve(sizing, costs={task: evolve(cost, times_ms=()) for task, cost in sizing.costs.items()})


def fixed_ms(cost: TaskCost) -> float:
    """What a batch costs for being one: 0 if sizes have not been far enough apart to tell."""
    points = [
        (_median([rows for rows, _ in batches]), _median([ms for _, ms in batches]))
        for _, batches in sorted(cost.known.items())
    ]
    slopes = [
        max(0.0, (ms - less_ms) / (rows - less))
        for index, (rows, ms) in enumerate(points)
        for less, less_ms in points[:index]
        if rows >= FAR_APART * less
    ]
    if not slopes:
        return 0.0
    slope = _median(slopes)
    return max(0.0, min(_median([ms - slope * rows for rows, ms in points]), *(ms for _, ms in points)))


def _with_batch(cost: TaskCost, rows: int, took_ms: float, *, full: bool) -> TaskCost:
    cost = evolve(cost, batches=cost.batches + 1)
    if rows > 0 and cost.batches > WARM_UP:
        order = rows.bit_length()
        batches = (*cost.known.get(order, ()), (rows, took_ms))[-KNOWN:]
        cost = evolve(cost, known={**cost.known, order: batches})
    return evolve(cost, times_ms=(*cost.times_ms, took_ms)[-STEPS:]) if full else cost


def _forget_ceiling(sizing: Sizing) -> Sizing:
    over = sizing.ceiling is not None and sizing.batches >= CEILING_BATCHES
    return evolve(sizing, ceiling=None) if over else sizing


def _excess(cost: TaskCost, goal: float, *, stood: bool) -> float:
    """By how much to divide the size: 1 if nothing says so."""
    times_ms = cost.times_ms
    if cost.batches <= WARM_UP:
        goal = max(goal, TARGET_MAX_MS)
    if len(times_ms) == STEPS and min(times_ms) > HIGH * goal:
        return min(FACTOR, min(times_ms) / goal)
    last = times_ms[-2:] if stood else times_ms[-1:]
    if len(last) == 1 + stood and min(last) > FAR * goal:
        return FACTOR
    return 1.0


def _grown(sizing: Sizing, goals: Mapping[TaskId, float]) -> Sizing:
    """As large as the task with the least room allows, once enough has been heard of every one."""
    least = STEPS if sizing.stood else 1
    if any(len(cost.times_ms) < least for cost in sizing.costs.values()):
        return sizing
    room = min(goals[task] / _median(cost.times_ms) for task, cost in sizing.costs.items())
    if room * (LOW if sizing.stood else LOW_AT_FIRST) <= 1:
        heard = all(len(cost.times_ms) == STEPS for cost in sizing.costs.values())
        return evolve(sizing, stood=True) if heard else sizing
    rows = sizing.rows * min(room, FACTOR if sizing.stood else FACTOR_AT_FIRST)
    wanted_then = min(goals.values()) < HIGH * sizing.ceiling_goal
    if sizing.ceiling is not None and wanted_then and room < FACTOR:
        rows = min(rows, max(sizing.rows, sizing.ceiling * CEILING))
    return _resized(sizing, rows)


def _resized(sizing: Sizing, wanted: float) -> Sizing:
    """Another size, of which nothing has been seen yet."""
    rows = max(ROWS_MIN, min(ROWS_MAX, int(wanted)))
    return sizing if rows == sizing.rows else evolve(forget_times(sizing), rows=rows)


def _median(values: Sequence[float]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
