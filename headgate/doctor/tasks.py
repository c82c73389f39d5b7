"""Rules over tasks: their batches, their state, their watermarks.

One rule: figures are compared as they were noted with the checkpoints of one execution, so a rule says the same of a
job that runs and of one that has ended; and a task is blamed for what it does, not for what it waits for.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import median

from headgate.core.ids import TaskId
from headgate.doctor.cause import Cause
from headgate.doctor.facts import RECENT, SEEN_MIN, JobFacts, Point, Unknown
from headgate.doctor.finding import Severity
from headgate.view.advice import longer_than_interval
from headgate.view.batches import skew
from headgate.view.busy import HIGH
from headgate.view.history import LineView
from headgate.view.text import duration, size

PARTITIONS_PER_CORE = 4
"""At most this many state partitions a core are fine: a few more than there are cores even out uneven ones."""
PARTITIONS_FEW = 16
ROWS_PER_PARTITION = 100
"""With fewer rows in a batch, what a partition costs for being one (opening, committing: some milliseconds) is most."""
BATCH_LONG_MS = 500.0
"""A batch that takes less is no trouble, whatever it does."""
SKEW_MAX = 3.0
"""The largest partition by the mean. Table files of RocksDB come and go, so twice the mean is nothing."""
SKEW_BYTES = 8 << 20
"""A partition that is smaller does not keep the others waiting."""
SOURCE_SKEW_MAX = 3.0
SOURCE_PARTITIONS_MIN = 4
GROWTH_POINTS = 30
"""Growth is judged over at least this many checkpoints: bounded state, too, fills up in the beginning."""
GROWTH_ROWS, GROWTH_ROWS_MANY = 100_000, 1_000_000
"""Less state is no trouble, whatever becomes of it. From the second on it is more than good to know."""
GROWTH_KEPT = 0.7
"""Keys that come again fill the state up: then each row adds less and less of it. It grows without bound only if a row
of late adds this share at least of what one added in the beginning."""
GROWTH_A_ROW = 0.01
STANDS_MIN = 3
"""The latest event must have moved on at least this often while the watermark stood still."""
YEAR_MS = 365 * 86_400_000
"""Spark keeps a watermark at 1970 until an event is later than its delay: of made-up times near it nothing is said."""
GC_SHARE = 0.2
"""Spark's own pages mark tasks at a tenth; a fifth of the time cannot be mistaken for a busy minute."""
GC_PROBLEM = 0.5
PYTHON_SHARE = 0.5
BUSY_MIN = 0.8
"""A task that has time left is not bound by anything."""


def longer_batches(facts: JobFacts) -> Iterator[Cause]:
    """Batches take longer than the interval: checkpoints cannot come as often as they are wanted."""
    if facts.interval_ms is None:
        return
    seen = False
    for task in facts.tasks:
        typical = facts.typical(task, "batch_ms")
        if typical is None:
            continue
        seen = True
        pressed = facts.typical(task, "backpressured_ratio")
        if typical <= facts.interval_ms or (pressed is not None and pressed > HIGH):
            continue
        yield Cause(
            "batches longer than the interval",
            Severity.WARNING,
            *longer_than_interval(TaskId(task), typical, facts.interval_ms),
            rule="batches-longer-than-interval",
            setting="Checkpointing.interval",
            value=f"{-(-2 * typical // 1_000):.0f}s",
            tasks=(task,),
            checkpoints=_ids(facts.points(task)),
        )
    if not seen:
        raise Unknown


def many_partitions(facts: JobFacts) -> Iterator[Cause]:
    """More state partitions than the rows are worth: every batch is many small pieces of work."""
    if facts.cores is None:
        raise Unknown
    seen = False
    for task in facts.tasks:
        points = facts.points(task)[-RECENT:]
        if len(points) < SEEN_MIN or "state_partitions" not in points[-1].figures:
            continue
        seen = True
        partitions = points[-1].figures["state_partitions"]
        batches, rows = _grown(points, "batches"), _grown(points, "rows_in")
        took = facts.typical(task, "batch_ms")
        if not batches or took is None or partitions < max(PARTITIONS_FEW, PARTITIONS_PER_CORE * facts.cores + 1):
            continue
        each = rows / batches
        if took < BATCH_LONG_MS or each >= ROWS_PER_PARTITION * partitions:
            continue
        yield Cause(
            "too many state partitions for the rows",
            Severity.WARNING,
            f"a batch of task {task} has {each:,.0f} rows, spread over {partitions} partitions on {facts.cores} cores, "
            f"and takes {duration(took)}",
            "have as many partitions as cores, which is what a job gets that says nothing; a job keeps the number that "
            "it began with: change it, and begin anew under another name",
            rule="too-many-partitions",
            setting="spark.sql.shuffle.partitions",
            value=str(facts.cores),
            tasks=(task,),
            checkpoints=_ids(points),
        )
    if not seen:
        raise Unknown


def skewed(facts: JobFacts) -> Iterator[Cause]:
    """One partition has most of the state, or of a source's rows: one core works while the others wait."""
    if not facts.partitions and all(source["skew"] is None for source in _sources(facts)):
        raise Unknown
    for task, parts in facts.partitions.items():
        operators: dict[str, dict[int, int]] = {}
        for part in parts:
            operators.setdefault(part["operator"], {})[part["partition"]] = part["bytes"]
        for operator, sizes in operators.items():
            largest = max(sizes, key=lambda number: sizes[number])
            ratio = skew(list(sizes.values()))
            # With few partitions the largest cannot be much more than the mean: then it must be nearly all.
            if ratio is None or sizes[largest] < SKEW_BYTES or ratio < min(SKEW_MAX, 0.9 * len(sizes)):
                continue
            yield Cause(
                "skewed state partitions",
                Severity.WARNING,
                f"partition {largest} of operator {operator} in task {task} has {size(sizes[largest])}, "
                f"{ratio:g} times the mean of its {len(sizes)} partitions",
                "a few keys have most of the state: add something to the key that tells their rows apart, and sum up "
                "in a second step",
                rule="skewed-partitions",
                setting="the key of the operator",
                tasks=(task,),
                checkpoints=() if facts.partitions_of is None else (facts.partitions_of,),
            )
    yield from _skewed_sources(facts)


def _sources(facts: JobFacts) -> list[LineView]:
    """The sources of all tasks, as they were in their last batches."""
    return [source for task in facts.view["tasks"] for source in task.get("sources", ())]


def _skewed_sources(facts: JobFacts) -> Iterator[Cause]:
    """Only a job that runs knows how the rows of its last batch were spread, and only a busy one comes to harm."""
    for task in facts.view["tasks"]:
        if (task.get("busy_ratio") or 0.0) < BUSY_MIN:
            continue
        for source in task.get("sources", ()):
            if (source["partitions"] or 0) >= SOURCE_PARTITIONS_MIN and (source["skew"] or 0.0) >= SOURCE_SKEW_MAX:
                yield Cause(
                    "skewed source partitions",
                    Severity.NOTE,
                    f"one of {source['partitions']} partitions of source {source['source']} gave {source['skew']:g} "
                    f"times the mean in the last batch of task {task['task']}, which is busy "
                    f"{task['busy_ratio']:.0%} of the time",
                    "spread the rows by another key where they are written, or let Spark split large partitions",
                    rule="skewed-partitions",
                    setting="minPartitions of the Kafka source",
                    tasks=(task["task"],),
                )


def growing(facts: JobFacts) -> Iterator[Cause]:
    """State that grows with every row: nothing ever leaves it, and no key comes again."""
    seen = False
    for task in facts.tasks:
        points = [point for point in facts.points(task) if "state_rows" in point.figures]
        if len(points) < GROWTH_POINTS:
            continue
        seen = True
        if "watermark_ms" in points[-1].figures:
            continue  # The watermark says when rows may leave. One that stands still has a rule of its own.
        sizes = [point.figures["state_rows"] for point in points]
        third = len(points) // 3
        first, last = _a_row(points[: third + 1]), _a_row(points[-third - 1 :])
        if (
            first is None
            or last is None
            or sizes[-1] < GROWTH_ROWS
            or any(after < before for before, after in pairwise(sizes))
            or last < max(GROWTH_A_ROW, GROWTH_KEPT * first)
        ):
            continue
        yield Cause(
            "state grows without bound",
            Severity.WARNING if sizes[-1] >= GROWTH_ROWS_MANY else Severity.NOTE,
            f"task {task} holds {sizes[-1]:,.0f} rows of state, {sizes[-1] - sizes[0]:,.0f} more than at checkpoint "
            f"{points[0].checkpoint}; of a hundred rows that come in {100 * last:.0f} stay, as in the beginning "
            f"({100 * first:.0f}); it has no watermark, and none ever left",
            "let state expire: withWatermark before windows, joins and dropDuplicates, ttl= in a processor",
            rule="state-grows",
            setting="withWatermark(...) of the operator, or ttl=",
            tasks=(task,),
            checkpoints=(points[0].checkpoint, points[-1].checkpoint),
        )
    if not seen:
        raise Unknown


def watermark(facts: JobFacts) -> Iterator[Cause]:
    """Events go on and the watermark does not: an input without rows holds it back, and windows do not come out."""
    seen = False
    for task in facts.tasks:
        points = [point for point in facts.points(task) if "event_time_max_ms" in point.figures]
        if len(points) < SEEN_MIN:
            continue
        seen = True
        stood = _since_it_stands(points)
        latest = [point.figures["event_time_max_ms"] for point in stood]
        moves = sum(after > before for before, after in pairwise(latest))
        inputs, idle = _inputs(facts, stood)
        if moves < STANDS_MIN or latest[-1] < YEAR_MS or len(inputs) < 2:
            continue
        at_ms = stood[-1].figures.get("watermark_ms")
        stands = (
            "has no watermark yet"
            if at_ms is None
            else f"has had the same watermark for {duration(stood[-1].at_ms - stood[0].at_ms)}"
        )
        who = " and ".join(idle or inputs)
        told = (
            f"no rows come from {who}"
            if idle
            else f"the events of one of its inputs ({', '.join(inputs)}) do not go on"
        )
        yield Cause(
            "watermark stands still",
            Severity.WARNING,
            f"task {task} {stands}, and its latest event went on by {duration(latest[-1] - latest[0])} (checkpoints "
            f"{stood[0].checkpoint} to {stood[-1].checkpoint}): {told}",
            f"see why {who} stands still; if it may, let it send a row from time to time, or let the quickest one say "
            "how late it is, which drops rows of the others as late",
            rule="watermark-stands-still",
            setting="spark.sql.streaming.multipleWatermarkPolicy",
            value="max",
            tasks=tuple(dict.fromkeys((task, *(each for each in idle if each in facts.planned)))),
            checkpoints=(stood[0].checkpoint, stood[-1].checkpoint),
        )
    if not seen:
        raise Unknown


def _since_it_stands(points: Sequence[Point]) -> Sequence[Point]:
    """The last points that have the same watermark, or none."""
    last = points[-1].figures.get("watermark_ms")
    begin = len(points)
    while begin > 0 and points[begin - 1].figures.get("watermark_ms") == last:
        begin -= 1
    return points[begin:]


def _inputs(facts: JobFacts, points: Sequence[Point]) -> tuple[list[str], list[str]]:
    """The inputs of a task, and those from which nothing came; a channel is told by the task that it comes from."""
    first: Mapping[str, int] = points[0].figures.get("source_rows", {})
    last: Mapping[str, int] = points[-1].figures.get("source_rows", {})
    writers = {each["id"]: each["from"] for each in (facts.described.get("plan") or {}).get("channels", ())}
    quiet = [name for name in last if last[name] <= first.get(name, 0)]
    return [writers.get(name, name) for name in last], [writers.get(name, name) for name in quiet]


def garbage(facts: JobFacts) -> Iterator[Cause]:
    """Executors spend their time on collecting garbage: there is too little memory for what they hold."""
    known = [each for each in facts.completed if each.get("gc_ratio") is not None][-RECENT:]
    if len(known) < SEEN_MIN:
        raise Unknown
    share = median(each["gc_ratio"] for each in known)
    if share < GC_SHARE:
        return
    local = str(facts.configuration.get("master") or "").startswith("local[")
    setting = "spark.driver.memory" if local else "spark.executor.memory"
    memory = (facts.configuration.get("memory") or {}).get(setting) or "1g"
    yield Cause(
        "garbage collection takes the time",
        Severity.PROBLEM if share >= GC_PROBLEM else Severity.WARNING,
        f"Spark's tasks spent {share:.0%} of their time on it (median of {len(known)} checkpoints); "
        f"{setting} is {memory}",
        "give more memory, or hold less: RocksDB keeps state outside of the heap, smaller batches need less of it",
        rule="gc-pressure",
        setting=setting,
        value=_doubled(str(memory)),
        checkpoints=tuple(each["id"] for each in known[-5:]),
    )


def python_bound(facts: JobFacts) -> Iterator[Cause]:
    """A task has no time left, and spends what it has in Python functions of the user's."""
    seen = False
    for task in facts.tasks:
        shares, busy = facts.typical(task, "python_ratio"), facts.typical(task, "busy_ratio")
        if shares is None or busy is None:
            continue
        seen = True
        if shares < PYTHON_SHARE or busy < BUSY_MIN:
            continue
        yield Cause(
            "bound by Python",
            Severity.NOTE,
            f"task {task} is busy {busy:.0%} of the time, and {shares:.0%} of that goes by in Python functions",
            "say it in Spark's own functions, or by columns (mapInArrow, process_batches) where it is by rows; or give "
            "it a task of its own and more cores",
            rule="python-bound",
            setting="new_task=True of the operator, master",
            tasks=(task,),
            checkpoints=_ids(facts.points(task)),
        )
    if not seen:
        raise Unknown


def _grown(points: Sequence[Point], name: str) -> float:
    """By how much a count has grown."""
    return float(points[-1].figures.get(name, 0) - points[0].figures.get(name, 0))


def _a_row(points: Sequence[Point]) -> float | None:
    """How many rows of state a row that came in has left behind. None if none came in."""
    rows = _grown(points, "rows_in")
    return _grown(points, "state_rows") / rows if rows > 0 else None


def _ids(points: Sequence[Point]) -> tuple[int, ...]:
    return tuple(point.checkpoint for point in points[-5:])


def _doubled(amount: str) -> str:
    number = "".join(letter for letter in amount if letter.isdigit())
    return f"{2 * int(number)}{amount[len(number) :]}" if number else ""


RULES: dict[str, Callable[[JobFacts], Iterator[Cause]]] = {
    "batches-longer-than-interval": longer_batches,
    "too-many-partitions": many_partitions,
    "skewed-partitions": skewed,
    "state-grows": growing,
    "watermark-stands-still": watermark,
    "gc-pressure": garbage,
    "python-bound": python_bound,
}
