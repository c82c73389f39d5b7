"""Rules over checkpoints: which part of them is slow, and who holds it up.

One rule: a part is slow if it typically (the median of the last ``RECENT``, of ``SEEN_MIN`` at least) takes half of the
checkpoint interval, and a second at least. What takes less leaves the interval as it is, and a checkpoint every 200 ms
is not slow because a batch has to end first. Where checkpoints are only taken when asked for, a minute is slow.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import median

from headgate.core.coordinator import GivenUp
from headgate.doctor.cause import Cause
from headgate.doctor.facts import SEEN_MIN, JobFacts, Line, Unknown, ids
from headgate.doctor.finding import Severity
from headgate.view.busy import HIGH
from headgate.view.text import duration, size

SLOW_SHARE = 0.5
SLOW_LEAST_MS = 1_000.0
SLOW_UNASKED_MS = 60_000.0
SMALL_FILE_BYTES = 64 << 10
MANY_FILES = 500
"""Of fewer files it is not their number that takes time."""
FAILED_MIN = 3
"""So many checkpoints in a row that fail are no accident."""


def slow_ms(facts: JobFacts) -> float:
    """From where on a part of a checkpoint is slow."""
    interval_ms = facts.interval_ms
    return SLOW_UNASKED_MS if interval_ms is None else max(SLOW_LEAST_MS, SLOW_SHARE * interval_ms)


# -- waiting for the barrier -----------------------------------------------------------------------------------------


def start_delay(facts: JobFacts) -> Iterator[Cause]:
    """The barrier takes long to come through a task, which has to read what stands before it.

    A source is cut right after the batch that it has committed last, and never waits: it is always a reader of
    channels that does.
    """
    slow = [each for each in facts.recent if _latest(each) >= slow_ms(facts)]
    if 2 * len(slow) <= len(facts.recent) or any(True for _ in alignment(facts)):
        return
    holder, _ = Counter(_holder(facts, each) for each in slow).most_common(1)[0]
    shown = [each for each in slow if _holder(facts, each) == holder]
    typical = median(_latest(each) for each in facts.recent)
    own = median(_own(facts, each, holder) for each in facts.recent)
    said, blamed = _doing(facts, holder)
    evidence = (
        f"from the trigger to the last barrier {duration(typical)} (median of {len(facts.recent)} checkpoints), "
        f"of which {duration(own)} in task {holder}{said}"
    )
    yield Cause(
        "slow start delay",
        Severity.WARNING,
        evidence,
        "let barriers overtake data, as unaligned=True does at once, aligned_checkpoint_timeout after a while; or let "
        f"{blamed} have less before it: quicker or smaller batches, and a smaller max_batches_ahead",
        rule="slow-start-delay",
        setting="Checkpointing.aligned_checkpoint_timeout",
        value="1s",
        tasks=tuple(dict.fromkeys((holder, blamed))),
        checkpoints=ids(shown),
    )


def alignment(facts: JobFacts) -> Iterator[Cause]:
    """A task with several inputs holds one for long, until the barrier has come on the others."""
    for task, reads in facts.upstream.items():
        if len(reads) < 2:
            continue
        slow = [each for each in facts.recent if _apart(each, reads) >= slow_ms(facts)]
        if 2 * len(slow) <= len(facts.recent):
            continue
        late, _ = Counter(_last(each, reads) for each in slow).most_common(1)[0]
        first = min(reads, key=lambda name: median(_delay(each, name) for each in slow))
        typical = median(_apart(each, reads) for each in facts.recent)
        said, blamed = _doing(facts, late)
        yield Cause(
            "slow alignment",
            Severity.WARNING,
            f"task {task} holds its input from {first} for {duration(typical)} (median of {len(facts.recent)} "
            f"checkpoints) until the barrier comes from {late}{said}",
            "let barriers overtake data, as unaligned=True does at once and aligned_checkpoint_timeout after a while; "
            f"or make {blamed} quicker",
            rule="slow-alignment",
            setting="Checkpointing.aligned_checkpoint_timeout",
            value="1s",
            tasks=tuple(dict.fromkeys((task, late, blamed))),
            checkpoints=ids(slow),
        )


def _delay(checkpoint: Line, task: str) -> float:
    return float(checkpoint["tasks"].get(task, {}).get("start_delay_ms") or 0)


def _latest(checkpoint: Line) -> float:
    return max((_delay(checkpoint, task) for task in checkpoint["tasks"]), default=0.0)


def _apart(checkpoint: Line, tasks: Sequence[str]) -> float:
    """How far apart the barriers of some tasks were."""
    delays = [_delay(checkpoint, task) for task in tasks if task in checkpoint["tasks"]]
    return max(delays, default=0.0) - min(delays, default=0.0)


def _own(facts: JobFacts, checkpoint: Line, task: str) -> float:
    """What the barrier took in a task alone, once it had come on every input."""
    before = [_delay(checkpoint, each) for each in facts.upstream.get(task, ())]
    return _delay(checkpoint, task) - max(before, default=0.0)


def _holder(facts: JobFacts, checkpoint: Line) -> str:
    tasks: list[str] = list(checkpoint["tasks"])
    return max(tasks, key=lambda task: _own(facts, checkpoint, task))


def _last(checkpoint: Line, tasks: Sequence[str]) -> str:
    return max(tasks, key=lambda task: _delay(checkpoint, task))


def _doing(facts: JobFacts, task: str) -> tuple[str, str]:
    """Whether a task is busy or backpressured, and who is to be blamed: itself, or whom it waits for in the end."""
    told, blamed = "", task
    for _ in facts.tasks:
        pressed = facts.typical(blamed, "backpressured_ratio")
        readers = [each for each in facts.readers(blamed) if facts.typical(each, "busy_ratio") is not None]
        if pressed is None or pressed <= HIGH or not readers:
            break
        told += f", which is backpressured {pressed:.0%} of the time"
        blamed = max(readers, key=lambda each: facts.typical(each, "busy_ratio") or 0.0)
        told += f" by task {blamed}"
    busy = facts.typical(blamed, "busy_ratio")
    batch = facts.typical(blamed, "batch_ms")
    if busy is not None:
        told += f", which is busy {busy:.0%} of the time"
    if batch is not None:
        told += f" with batches of {duration(batch)}"
    return told, blamed


# -- snapshots -------------------------------------------------------------------------------------------------------


def sync(facts: JobFacts) -> Iterator[Cause]:
    """Finding the files of a snapshot takes long: there are many, or the directory answers slowly."""
    found = _slowest(facts, "sync_ms")
    if found is None:
        return
    task, typical, slow = found
    files = round(median(float(each["tasks"].get(task, {}).get("files") or 0) for each in facts.recent))
    directory = facts.checkpointing.get("working_directory") or facts.checkpointing.get("storage") or "the storage"
    evidence = f"task {task} takes {duration(typical)} to find the {files:,} files of a snapshot in {directory}"
    if files >= MANY_FILES:
        setting, value = "spark.sql.shuffle.partitions", "" if facts.cores is None else str(facts.cores)
        advice = "every state partition has files of its own: have fewer of them (a job keeps the number it began with)"
    else:
        setting, value = "Checkpointing.working_directory", ""
        advice = "that is slow for so few: let queries keep their files on a local disk"
    yield _slow("slow sync part", "slow-sync", (task,), evidence, advice, setting, value, slow)


def async_(facts: JobFacts) -> Iterator[Cause]:
    """Reading new files, and copying them to the storage, takes long."""
    found = _slowest(facts, "async_ms")
    if found is None:
        return
    task, typical, slow = found
    parts = [each["tasks"].get(task, {}) for each in facts.recent]
    new = median(float(part.get("new_bytes") or 0) for part in parts)
    files = median(float(part.get("files") or 0) for part in parts)
    mean = median(float(part.get("total_bytes") or 0) / max(1.0, float(part.get("files") or 0)) for part in parts)
    evidence = (
        f"task {task} takes {duration(typical)} for {size(new)} that are new, {size(new * 1000 / typical)} a second; "
        f"it names {files:,.0f} files of {size(mean)} on average"
    )
    if files >= MANY_FILES and mean < SMALL_FILE_BYTES:
        setting, value = "spark.sql.shuffle.partitions", "" if facts.cores is None else str(facts.cores)
        advice = "too many small files: have fewer state partitions (a job keeps the number it began with)"
    elif facts.checkpointing.get("working_directory"):
        setting, value = "Checkpointing.storage", ""
        advice = "new files are copied to the storage: bring it nearer, or checkpoint less often"
    else:
        setting, value = "Checkpointing.interval", _longer(facts, 2 * typical)
        advice = "the disk of the storage is slow or shared: give it a disk of its own, or checkpoint less often"
    yield _slow("slow async part", "slow-async", (task,), evidence, advice, setting, value, slow)


def _slowest(facts: JobFacts, part: str) -> tuple[str, float, list[Line]] | None:
    """The task whose part of a snapshot is slow, how long it typically takes, and the checkpoints that show it."""
    typical = {
        task: median(float(each["tasks"].get(task, {}).get(part) or 0) for each in facts.recent) for task in facts.tasks
    }
    if not typical:
        raise Unknown
    task = max(typical, key=lambda name: typical[name])
    slow = [each for each in facts.recent if float(each["tasks"].get(task, {}).get(part) or 0) >= slow_ms(facts)]
    return (task, typical[task], slow) if typical[task] >= slow_ms(facts) else None


def _slow(
    name: str,
    rule: str,
    tasks: tuple[str, ...],
    evidence: str,
    advice: str,
    setting: str,
    value: str,
    slow: Sequence[Line],
) -> Cause:
    return Cause(
        name,
        Severity.WARNING,
        evidence,
        advice,
        rule=rule,
        setting=setting,
        value=value,
        tasks=tasks,
        checkpoints=ids(slow),
    )


# -- publication and commits -----------------------------------------------------------------------------------------


def pre_commit(facts: JobFacts) -> Iterator[Cause]:
    """A sink takes long to gather what it wrote."""
    found = _typical(facts, "pre_commit_ms")
    if found is None:
        return
    typical, slow = found
    worst = Counter(_longest(each["pre_commits"]) for each in slow if each["pre_commits"]).most_common(1)
    sink = worst[0][0] if worst else "?"
    evidence = f"sink {sink} takes {duration(typical)} (median of {len(facts.recent)} checkpoints)"
    advice = f"see what {sink} waits for, with `headgate status`; or checkpoint less often"
    value = _longer(facts, 2 * typical)
    tasks = _owner(facts, sink)
    yield _slow("slow pre-commit", "slow-pre-commit", tasks, evidence, advice, "Checkpointing.interval", value, slow)


def publish(facts: JobFacts) -> Iterator[Cause]:
    """The storage takes long to take one record."""
    found = _typical(facts, "publish_ms")
    if found is None:
        return
    typical, slow = found
    where = facts.checkpointing.get("storage") or "the storage"
    evidence = f"{where} takes {duration(typical)} for the record of a checkpoint (median of {len(facts.recent)})"
    advice = "a record is a few kilobytes, made durable: bring the storage nearer, or give it a disk of its own"
    yield _slow("slow publication", "slow-publish", (), evidence, advice, "Checkpointing.storage", "", slow)


def commit(facts: JobFacts) -> Iterator[Cause]:
    """The sinks take long to make visible what they pre-committed."""
    found = _typical(facts, "commit_ms")
    if found is None:
        return
    typical, slow = found
    retries = sum(each["retries"] or 0 for each in slow)
    sink = _slow_sink(facts)
    who = f"sink {sink} is the slowest" if sink else "until every sink had"
    evidence = f"{duration(typical)} from complete until committed (median of {len(facts.recent)} checkpoints): {who}"
    if retries:
        evidence += f"; {retries} attempts failed in {len(slow)} checkpoints"
    advice = "the other system answers slowly" + (" or refuses at first" if retries else "")
    advice += ": see what it waits for (locks, load, its log), or checkpoint less often"
    value = _longer(facts, 2 * typical)
    tasks = _owner(facts, sink)
    yield _slow("slow commit", "slow-commit", tasks, evidence, advice, "Checkpointing.interval", value, slow)


def _longest(pre_commits: Mapping[str, Line]) -> str:
    return max(pre_commits, key=lambda sink: float(pre_commits[sink]["ms"]))


def _typical(facts: JobFacts, part: str) -> tuple[float, list[Line]] | None:
    known = [each for each in facts.recent if each[part] is not None]
    if len(known) < SEEN_MIN:
        raise Unknown
    typical = median(float(each[part]) for each in known)
    slow = [each for each in known if each[part] >= slow_ms(facts)]
    return (typical, slow) if typical >= slow_ms(facts) else None


def _slow_sink(facts: JobFacts) -> str | None:
    """The sink with the longest commits, if its process says how long they took, or the only one there is."""
    known = [sink["uid"] for plan in facts.planned.values() for sink in plan["sinks"]]
    if len(known) == 1:
        return str(known[0])
    means: dict[str, float] = {
        each["sink"]: each["commits_ms"] / each["committed"] for each in facts.view["sinks"] if each["committed"]
    }
    return max(means, key=lambda name: means[name]) if means else None


def _owner(facts: JobFacts, sink: str | None) -> tuple[str, ...]:
    """The task that a sink belongs to."""
    return tuple(task for task, plan in facts.planned.items() if sink in [each["uid"] for each in plan["sinks"]])


def _longer(facts: JobFacts, least_ms: float) -> str:
    """An interval of which a part takes half at most: a whole number of seconds."""
    if facts.interval_ms is None:
        return ""
    return f"{-(-max(least_ms, facts.interval_ms) // 1_000):.0f}s"


# -- failures --------------------------------------------------------------------------------------------------------


def failing(facts: JobFacts) -> Iterator[Cause]:
    """The last checkpoints have failed, one after the other: nothing is committed meanwhile."""
    over = [each for each in facts.checkpoints if each["state"] in ("completed", "failed")]
    if not over:
        raise Unknown
    told: list[Line] = []
    for each in reversed(over):
        if each["state"] == "completed":
            break
        if each["why"] and any(reason.value in each["why"] for reason in GivenUp if reason.is_failure):
            told.append(each)
    if len(told) < FAILED_MIN:
        return
    late = sum(GivenUp.EXPIRED.value in each["why"] for each in told)
    timeout_ms = facts.checkpointing.get("timeout_ms")
    slow = 2 * late > len(told) and timeout_ms is not None
    yield Cause(
        "checkpoints fail",
        Severity.PROBLEM,
        f"{len(told)} in a row, the last because: {told[0]['why']}",
        "nothing is committed until one completes: put right what it says, then ask for one with `headgate checkpoint`",
        rule="checkpoints-fail",
        setting="Checkpointing.timeout" if slow else "the part that declined it",
        value=f"{2 * timeout_ms // 1_000}s" if slow and timeout_ms is not None else "",
        checkpoints=ids(list(reversed(told))),
    )


RULES: Mapping[str, Callable[[JobFacts], Iterator[Cause]]] = {
    "slow-start-delay": start_delay,
    "slow-alignment": alignment,
    "slow-sync": sync,
    "slow-async": async_,
    "slow-pre-commit": pre_commit,
    "slow-publish": publish,
    "slow-commit": commit,
    "checkpoints-fail": failing,
}
