"""Rules over what goes on around the tasks: failures, transactions, disks, clocks, calls that do not return.

One rule: what can be proved is said, and nothing is guessed at. A loop is the same batch again, a clock is wrong if
something happened before its cause.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import NamedTuple

from headgate.doctor import directory
from headgate.doctor.cause import Cause
from headgate.doctor.facts import JobFacts, Line, Unknown, ids
from headgate.doctor.finding import Severity
from headgate.view.text import duration, size

FAILURES_MIN = 3
"""The same batch has failed so often: a passing fault would have passed."""
NEAR, VERY_NEAR = 0.5, 0.8
"""Of the time after which the other system gives a transaction up."""
SKEW_LEAST_MS = 1_000
"""Clocks that are kept right by NTP differ by milliseconds."""

SETTINGS = {
    "user": ("the job's own code", "put right what it says; a batch that may be left out: mode='at-most-once'"),
    "external": ("the other system", "put right what it says; nothing is lost meanwhile"),
    "lost-executor": (
        "spark.executor.memory",
        "executors die on this batch: give them memory, or smaller batches",
    ),
}
"""What to change for each class of failure."""


def restart_loop(facts: JobFacts) -> Iterator[Cause]:
    """A task fails on the same batch again and again."""
    loops: dict[str, list[Line]] = {}
    for line in facts.failures:
        if "batch" in line:  # Earlier releases did not say.
            before = loops.get(line["task"], [])
            loops[line["task"]] = [*before, line] if before and before[-1]["batch"] == line["batch"] else [line]
    committed = {each["task"]: each["batch"] for each in facts.view["tasks"]}
    since_ms = facts.view["started_ms"] or 0
    for task, failures in loops.items():
        last = failures[-1]
        over = last["at"] < since_ms or committed.get(task, -1) >= last["batch"]
        if over or len(failures) < FAILURES_MIN:
            continue
        setting, advice = SETTINGS.get(last["class"], ("Job.restart", "see `headgate logs`: its trace is in the log"))
        yield Cause(
            "restarts in a loop on the same batch",
            Severity.PROBLEM,
            f"task {task} has failed {len(failures)} times on batch {last['batch']} within "
            f"{duration(last['at'] - failures[0]['at'])}, the last time ({last['class']}): {last['message']}",
            f"{advice}. A restart strategy that gives up lets somebody notice",
            rule="restart-loop",
            setting=setting if last["class"] in SETTINGS else "Job.restart",
            value="" if last["class"] in SETTINGS else "restart.failure_rate(...)",
            tasks=(task,),
        )


def transactions(facts: JobFacts) -> Iterator[Cause]:
    """Transactions of a sink are open for nearly as long as the other system keeps them."""
    limits = {
        sink["uid"]: (sink["transaction_timeout_ms"], task)
        for task, plan in facts.planned.items()
        for sink in plan["sinks"]
        if sink.get("transaction_timeout_ms")
    }
    if not limits:
        return
    done = facts.completed
    spans = [
        _Open(after["completed_ms"] + (after["commit_ms"] or 0) - before["triggered_ms"], before, after)
        for before, after in pairwise(done)
        if after["completed_ms"] is not None
    ][-20:]
    if done and facts.view["state"] == "running":
        spans.append(_Open(facts.now_ms - done[-1]["triggered_ms"], done[-1], None))
    if not spans:
        raise Unknown
    for sink, (limit_ms, task) in limits.items():
        longest = max((each for each in spans if _has_rows(facts, task, each)), key=_for_ms, default=None)
        if longest is None or longest.ms < NEAR * limit_ms:
            continue
        until = "and still is" if longest.after is None else f"until checkpoint {longest.after['id']} was committed"
        yield Cause(
            "transactions near their time-out",
            Severity.PROBLEM if longest.ms >= VERY_NEAR * limit_ms else Severity.WARNING,
            f"a transaction of sink {sink} was open for {duration(longest.ms)}, from checkpoint {longest.before['id']} "
            f"on, {until}; after {duration(limit_ms)} the other system gives it up",
            "raise the time-out, there and here, or checkpoint more often: what is given up after it was pre-committed "
            "must be written anew, or is lost",
            rule="transactions-near-timeout",
            setting=f"transaction_timeout of sink {sink}",
            value=f"{-(-4 * longest.ms // 1_000):.0f}s",
            tasks=(task,),
            checkpoints=tuple(each["id"] for each in (longest.before, longest.after) if each is not None),
        )


class _Open(NamedTuple):
    """For how long a transaction was open: from the trigger of a checkpoint until the next was committed, or still."""

    ms: int
    before: Line
    after: Line | None


def _for_ms(span: _Open) -> int:
    return span.ms


def _has_rows(facts: JobFacts, task: str, span: _Open) -> bool:
    """Whether rows came meanwhile. Without any nothing was open. Where nobody counts, some may have come."""
    had = _rows(span.before["tasks"].get(task, {}).get("figures"))
    if span.after is None:
        has = _rows(next((each for each in facts.view["tasks"] if each["task"] == task), None))
    else:
        has = _rows(span.after["tasks"].get(task, {}).get("figures"))
    return had is None or has is None or has > had


def _rows(figures: Line | None) -> int | None:
    return None if figures is None else figures.get("rows_in")


def disks(facts: JobFacts) -> Iterator[Cause]:
    """A disk that the job writes to has little room."""
    if not facts.places:
        raise Unknown
    for place in facts.places:
        found = directory.space(place)
        if found.verdict in (Severity.OK, Severity.NOTE):
            continue
        new = sorted(each["new_bytes"] or 0 for each in facts.completed[-20:])
        more = new[len(new) // 2] if new else 0
        lasts = f"; a checkpoint typically brings {size(more)}" if more else ""
        yield Cause(
            "disk nearly full",
            found.verdict,
            f"{found.evidence}{lasts}",
            "make room there, keep fewer checkpoints and savepoints, or name another directory",
            rule="disk-nearly-full",
            setting="Checkpointing.working_directory" if place.role == WORKING else "Checkpointing.storage",
            checkpoints=ids(facts.completed, 1),
        )


WORKING = "working directory"


def clocks(facts: JobFacts) -> Iterator[Cause]:
    """A checkpoint that came before its successor's leader began, and says that it began after that.

    A checkpoint of an earlier leader is complete before the next one leads, for that shuts it out. So if its trigger
    bears a later time than the begin of the next, the two clocks differ by that much at least. The clock of one process
    never goes back.
    """
    if not facts.generations:
        raise Unknown
    worst: tuple[int, Line, Line] | None = None
    for checkpoint in facts.checkpoints:
        if checkpoint["state"] != "completed" or checkpoint["triggered_ms"] is None:
            continue
        for line in facts.generations:
            apart = checkpoint["triggered_ms"] - line["at"]
            if (
                line["generation"] > (checkpoint["generation"] or line["generation"])
                and apart > SKEW_LEAST_MS
                and (worst is None or apart > worst[0])
            ):
                worst = (apart, checkpoint, line)
    if worst is None:
        return
    apart, checkpoint, line = worst
    yield Cause(
        "clocks of machines differ",
        Severity.WARNING,
        f"checkpoint {checkpoint['id']} was complete before {line['leader']} began to lead, and its own leader says "
        f"that it began {duration(apart)} after that: their clocks differ by that much at least, or one was set back",
        "let NTP keep the clocks of all machines: timers, time-outs and logins rest on them",
        rule="clock-skew",
        setting="NTP (chrony, systemd-timesyncd) of the machines",
        checkpoints=(checkpoint["id"],),
    )


def stalls(facts: JobFacts) -> Iterator[Cause]:
    """Something stands still now, much longer than it usually takes."""
    names = {f"{who}{task}": task for task in facts.tasks for who in ("task ", "the snapshot of task ")}
    names |= {f"sink {sink['uid']}": task for task, plan in facts.planned.items() for sink in plan["sinks"]}
    for text in facts.view["stalled"]:
        named = [task for name, task in names.items() if text.startswith(f"{name}: ")]
        yield Cause(
            "something stands still",
            Severity.PROBLEM,
            text,
            "see the place that is named: what it waits for (a lock, another system, a full disk) must answer; a job "
            "that is started again goes on from its last checkpoint",
            rule="stalled",
            setting="what is named there",
            tasks=tuple(named),
        )


RULES: Mapping[str, Callable[[JobFacts], Iterator[Cause]]] = {
    "restart-loop": restart_loop,
    "transactions-near-timeout": transactions,
    "disk-nearly-full": disks,
    "clock-skew": clocks,
    "stalled": stalls,
}
