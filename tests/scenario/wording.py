"""How a transcript words orders and states.

``t0 g1#2`` is run 2 of task t0 in generation 1; ``(3, 5]`` are the batches after 3, through 5; ``t0@4`` is t0 right
after its batch 4; -1 stands before the first batch.
"""

from typing import assert_never

from headgate.core.effects import (
    AbortFailedAttempts,
    AbortSnapshot,
    AbortStaleGenerations,
    AbortUnpublished,
    AdmitBatch,
    AnswerAck,
    AskTask,
    CommitTransaction,
    CopySavepoint,
    CreateRecord,
    DeleteFiles,
    DeleteSavepoint,
    Effect,
    ListFiles,
    Notify,
    NotifyCompleted,
    OpenGate,
    PreCommitSink,
    ReadCheckpointLog,
    SetHold,
    StartTask,
    StopTask,
    TakeSnapshot,
)
from headgate.core.records import AbortedEntry, CompletedCheckpoint, EpochRecord, InFlight, Record, Transaction
from headgate.core.state import JobState, PendingCheckpoint, TaskState


def order(effect: Effect) -> str:
    match effect:
        case StartTask(generation, task, run):
            return f"start {task} g{generation}#{run} {_how(effect)}"
        case StopTask(generation, task, run, drain):
            return f"stop {task} g{generation}#{run}" + (" once drained" if drain else "")
        case AdmitBatch(generation, task, run, batch):
            return f"admit batch {batch} of {task} g{generation}#{run}"
        case AskTask(generation, task, run):
            return f"ask {task} g{generation}#{run} where it stands"
        case OpenGate(_, channel, through):
            return f"open {channel} through {through}"
        case TakeSnapshot(_, checkpoint, task, batch):
            return f"snapshot {task}@{batch} for {checkpoint}"
        case AnswerAck(_, checkpoint, task, answer):
            return f"answer {task} on {checkpoint}: {answer.value}"
        case AbortSnapshot(_, checkpoint):
            return f"abort snapshots for {checkpoint}"
        case NotifyCompleted(_, checkpoint):
            return f"notify that {checkpoint} is completed"
        case PreCommitSink(_, checkpoint, sink, after, through):
            return f"pre-commit {sink} ({after}, {through}] for {checkpoint}"
        case CommitTransaction(_, permit, what):
            return f"commit {_transaction(what)}, permitted by {permit.checkpoint}"
        case AbortFailedAttempts(_, sink, run):
            return f"abort attempts of {sink} by runs before #{run}"
        case AbortStaleGenerations(_, sink, below):
            return f"abort stale generations in {sink} below g{below}"
        case AbortUnpublished(_, sink, after):
            return f"abort what {sink} has after {after}"
        case ReadCheckpointLog():
            return "read the checkpoint log"
        case CreateRecord(_, record):
            return f"create {_record(record)}"
        case CopySavepoint(_, checkpoint):
            return f"copy savepoint {checkpoint}"
        case DeleteSavepoint(_, checkpoint):
            return f"delete savepoint {checkpoint}"
        case SetHold(_, checkpoint, held):
            return f"set {checkpoint} {'held' if held else 'not held'}"
        case ListFiles():
            return "list files"
        case DeleteFiles(_, records, files):
            return f"delete records {_line(records)}; files {_line(files)}"
        case Notify(outcome, text, request):
            return f"tell {request or 'everyone'}, {outcome.value}: {text}"
        case _:
            assert_never(effect)


def whole(state: JobState) -> list[str]:
    """The state, as the ``state`` command shows it: only what there is."""
    lines = [
        f"phase {state.phase.value}" + (f" ({state.termination.ending.value})" if state.termination.ending else "")
    ]
    lines += [f"task {name} {_task(task)}" for name, task in state.execution.tasks.items()]
    lines += [f"gate {channel} {through}" for channel, through in state.execution.gates.items()]
    lines += [f"pending {_pending(pending)}" for pending in state.checkpoints.pending]
    lines += [f"checkpoint log through {state.checkpoint_log.recorded}, next id {state.checkpoints.next_id}"]
    lines += [f"queued {_record(record)}" for record in state.checkpoint_log.queue]
    kept = state.retained
    lines += [f"kept {_line(tuple(c.id for c in kept.completed))}; held {_line(kept.held)}; base {kept.base}"]
    for name, sink in state.sinks.items():
        lines += [f"sink {name} pre-committed through {sink.pre_committed_through}"]
        lines += [
            f"sink {name} wants a pre-commit through {pre_commit.through} for {pre_commit.checkpoint}"
            for pre_commit in sink.wanted
        ]
        lines += [f"sink {name} pre-committed {_transaction(one)}" for one in sink.pre_committed]
        lines += [f"sink {name} due {_transaction(one)}, permitted by {by.checkpoint}" for by, one in sink.due]
    return lines


def _how(start: StartTask) -> str:
    if start.in_place:
        skipping, dry = ", skipping the uncommitted batch" * start.skip, ", without reading" * start.exhausted
        return f"in place{skipping}{dry}"
    at = [f"from g{start.snapshot.generation} batch {start.snapshot.batch}" if start.snapshot else "empty"]
    at += [f"reading after {_line(start.positions)}"] if start.positions else []
    at += [_in_flight(held) for held in start.in_flight if held.after < held.through]
    return ", ".join(at + ["without reading"] * start.exhausted)


def _task(task: TaskState) -> str:
    words = [f"#{task.run}@{task.boundary.batch}"]
    words += [f"read {_line(task.boundary.positions)}"] if task.boundary.positions else []
    words += [f"entered {task.entered}"] if task.entered > task.boundary.batch else []
    words += [f"starts at {task.restart_at_ms} ms"] if task.restart_at_ms is not None else []
    words += [name for name in ("started", "draining", "ended") if getattr(task, name)]
    return ", ".join(words)


def _pending(pending: PendingCheckpoint) -> str:
    words = [f"{pending.kind.value} {pending.id}", "unaligned"] if pending.unaligned else []
    words = words or [f"{pending.kind.value} {pending.id}"]
    words += [f"cut {_line(tuple(f'{name}@{cut.boundary.batch}' for name, cut in pending.cuts.items()))}"]
    words += [f"acknowledged by {_line(tuple(pending.acknowledged))}"]
    return ", ".join(words)


def _record(record: Record) -> str:
    match record:
        case AbortedEntry(number, generation, leader):
            return f"aborted entry {number} of {leader} g{generation}"
        case EpochRecord(number, generation, leader, next_id, base):
            what = f"closing record ({record.ending.value})" if record.ending else "epoch record"
            return f"{what} {number} of {leader} g{generation}: next id {next_id}, base {base}"
        case CompletedCheckpoint(number, generation, leader, kind, tasks, channels, transactions):
            words = [f"{one.task}@{one.batch}{' finished' if one.finished else ''}" for one in tasks]
            words += [_in_flight(held) for held in channels if held.after < held.through]
            words += [_transaction(one) for one in transactions]
            words += ["while the job drains"] if record.draining else []
            return f"{kind.value} {number} of {leader} g{generation}: {', '.join(words)}"
        case _:
            assert_never(record)


def _in_flight(held: InFlight) -> str:
    return f"{held.channel} ({held.after}, {held.through}] in flight"


def _transaction(one: Transaction) -> str:
    return f"{one.sink} ({one.after}, {one.through}] pre-committed for g{one.generation} {one.checkpoint}"


def _line(words: tuple[object, ...]) -> str:
    return " ".join(str(word) for word in words) or "none"
