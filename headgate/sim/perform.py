"""How the simulated world carries out each order of the core.

One rule: an order is a message too. It may come late, twice, or not at all; carrying it out twice does no more than
once.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from headgate.core import effects as e
from headgate.core.events import (
    CheckpointLogRead,
    CommitFailed,
    CreateUnclear,
    FailedAttemptsAborted,
    FilesDeleted,
    FilesListed,
    HoldSet,
    LeadershipLost,
    PreCommitFailed,
    RecordCreated,
    RecordTaken,
    SavepointCopied,
    SavepointDeleted,
    SinkPreCommitted,
    SnapshotDeclined,
    SnapshotTaken,
    StaleGenerationsAborted,
    TaskFailed,
    TransactionCommitted,
)
from headgate.core.ids import Batch, ChannelId, CheckpointId, Generation, LeaderId, TaskId
from headgate.core.records import CompletedCheckpoint, Record, StoredFile
from headgate.core.restart import Failure, FailureClass
from headgate.sim.disk import TaskImage, Work
from headgate.sim.query import SimulatedQuery

if TYPE_CHECKING:
    from headgate.sim.world import Process


# -- queries -------------------------------------------------------------------------------------------------------


def start_task(process: "Process", order: e.StartTask) -> None:
    """Bring a query up, once the order has arrived."""
    process.world.message(_start_task, process, order)


def _start_task(process: "Process", order: e.StartTask) -> None:
    if not process.alive:
        return
    there = process.queries.get(order.task)
    if there is not None and (there.generation, there.run) >= (order.generation, order.run):
        return
    world = process.world
    if there is not None:
        if there.alive and there.generation == order.generation:
            world.violation(f"run {order.run} of {order.task} is started while run {there.run} is alive")
        there.kill(None)
    world.checker.starts(str(order.task), order.generation)
    if (order.generation, str(order.task)) not in world.disk.works and not _rebuild(process, order):
        failure = Failure(FailureClass.EXTERNAL, "the files to begin from are gone")
        process.tell(TaskFailed(order.generation, order.task, order.run, failure, world.rng.random()))
        return
    query = SimulatedQuery(
        process, order.generation, str(order.task), order.run, skip=order.skip, exhausted=order.exhausted
    )
    query.slow = world.slow.get(str(order.task), 1)
    process.queries[order.task] = query
    world.at(2 + int(world.rng.random() * 10), query.start)


def _rebuild(process: "Process", order: e.StartTask) -> bool:
    """Make a working directory from a snapshot and the segments in flight. Whatever is missing was deleted wrongly."""
    world = process.world
    inputs = len(order.positions)
    image = TaskImage(-1, 0, 0, (-1,) * inputs, (0,) * inputs, (0,) * inputs, 0, 0, ())
    snapshot = order.snapshot
    if order.in_place:
        return False  # There never was one: the whole job must go back.
    if snapshot is not None:
        gone = [name for name in snapshot.files if name not in world.disk.files]
        for held in order.in_flight:
            old, new = (snapshot.generation, str(held.channel)), (order.generation, str(held.channel))
            gone += world.disk.rehome(old, new, held.after, held.through)
        if gone:
            world.missing(order.generation, f"{order.task} cannot be restored: {gone[0]} is gone")
            return False
        was = world.disk.works[snapshot.generation, str(order.task)].images[snapshot.batch]
        image = replace(was, run=0, positions=order.positions)
    world.disk.works[order.generation, str(order.task)] = Work(image)
    return True


def stop_task(process: "Process", order: e.StopTask) -> None:
    """Stop a query, at once or when it has nothing left to do."""
    process.world.message(_stop_task, process, order)


def _stop_task(process: "Process", order: e.StopTask) -> None:
    query = process.queries.get(order.task)
    if process.alive and query is not None and (query.generation, query.run) == (order.generation, order.run):
        query.stop(drain=order.drain)


def ask_task(process: "Process", order: e.AskTask) -> None:
    """Ask a query where it stands."""
    process.world.message(_ask_task, process, order)


def _ask_task(process: "Process", order: e.AskTask) -> None:
    query = process.queries.get(order.task)
    same = query is not None and (query.generation, query.run) == (order.generation, order.run)
    if process.alive and query is not None and same and (query.up or query.failure is not None):
        process.tell(query.report())


def admit_batch(process: "Process", order: e.AdmitBatch) -> None:
    """Let a batch go on from the hook."""
    process.world.message(_admit_batch, process, order)


def _admit_batch(process: "Process", order: e.AdmitBatch) -> None:
    query = process.queries.get(order.task)
    if process.alive and query is not None and (query.generation, query.run) == (order.generation, order.run):
        query.admit(order.batch)


def open_gate(process: "Process", order: e.OpenGate) -> None:
    """Replace the small file that tells a reader how far it may go."""
    process.world.message(_open_gate, process, order)


def _open_gate(process: "Process", order: e.OpenGate) -> None:
    gates = process.world.disk.gates
    key = (order.generation, str(order.channel))
    if process.alive and order.through > gates.get(key, -1):
        gates[key] = order.through
        reader = next(c.downstream for c in process.graph.channels if c.id == order.channel)
        query = process.queries.get(reader)
        if query is not None and query.generation == order.generation:
            query.poke()


# -- checkpoints ---------------------------------------------------------------------------------------------------


def take_snapshot(process: "Process", order: e.TakeSnapshot) -> None:
    """Name the files of a committed batch. Reads only what is durable, so it needs no query."""
    world = process.world
    world.checker.numbered(order.checkpoint, order.generation)
    world.message(_take_snapshot, process, order)


def _take_snapshot(process: "Process", order: e.TakeSnapshot) -> None:
    world = process.world
    if not process.alive:
        return
    task = str(order.task)
    if world.declines.get(task, 0) > 0:
        world.declines[task] -= 1
        process.tell(SnapshotDeclined(order.generation, order.checkpoint, order.task, "declined"))
        return
    work = world.disk.works.get((order.generation, task))
    image = work.images.get(order.batch) if work is not None else None
    if image is None:
        world.violation(f"a snapshot of {task} at batch {order.batch} is asked for, which was never committed")
        return
    answer = SnapshotTaken(order.generation, order.checkpoint, order.task, order.batch, image.files)
    world.at(int(world.rng.random() * 8), process.tell, answer)


def pre_commit_sink(process: "Process", order: e.PreCommitSink) -> None:
    """Pre-commit what the committed batches of a range wrote."""
    process.world.message(_pre_commit_sink, process, order)


def _pre_commit_sink(process: "Process", order: e.PreCommitSink) -> None:
    world = process.world
    if not process.alive:
        return
    sink = world.sinks[order.sink]
    if sink.failing_pre_commits > 0:
        sink.failing_pre_commits -= 1
        process.tell(PreCommitFailed(order.generation, order.checkpoint, order.sink, "pre-commit failed"))
        return
    work = world.disk.works[order.generation, str(process.graph.owner[order.sink])]
    batches = [(batch, work.images[batch].run) for batch in range(order.after + 1, order.through + 1)]
    sink.pre_commit(order.generation, order.checkpoint, batches)
    process.tell(
        SinkPreCommitted(order.generation, order.checkpoint, order.sink, f"{order.generation}/{order.checkpoint}")
    )


def commit_transaction(process: "Process", order: e.CommitTransaction) -> None:
    """Commit. It takes effect even if the process that asked for it is gone by then."""
    process.world.checker.orders_commit(order.transaction.sink, order.generation, order.permit.checkpoint)
    process.world.message(_commit_transaction, process, order)


def _commit_transaction(process: "Process", order: e.CommitTransaction) -> None:
    world = process.world
    t = order.transaction
    sink = world.sinks[t.sink]
    fails = sink.failing_commits > 0
    if fails:
        sink.failing_commits -= 1
    if not fails or world.rng.random() < 0.5:
        world.checker.commits(str(t.sink), t.generation, t.checkpoint)
        if not sink.commit(t.generation, t.checkpoint):
            world.checker.lost_transaction(str(t.sink), t.checkpoint)
    if fails:
        process.tell(CommitFailed(order.generation, t.sink, t.generation, t.checkpoint, "no answer"))
    else:
        process.tell(TransactionCommitted(order.generation, t.sink, t.generation, t.checkpoint))


def abort_failed_attempts(process: "Process", order: e.AbortFailedAttempts) -> None:
    """Throw away what failed attempts wrote."""
    process.world.message(_abort_failed_attempts, process, order)


def _abort_failed_attempts(process: "Process", order: e.AbortFailedAttempts) -> None:
    world = process.world
    work = world.disk.works[order.generation, str(process.graph.owner[order.sink])]
    committed = {batch: image.run for batch, image in work.images.items()}
    world.sinks[order.sink].abort_failed_attempts(order.generation, order.run, committed)
    process.tell(FailedAttemptsAborted(order.generation, order.sink, order.run))


def abort_stale_generations(process: "Process", order: e.AbortStaleGenerations) -> None:
    """Throw away what earlier generations left."""
    process.world.message(_abort_stale_generations, process, order)


def _abort_stale_generations(process: "Process", order: e.AbortStaleGenerations) -> None:
    world = process.world
    world.checker.leftovers(world.sinks[order.sink], order.below)
    world.sinks[order.sink].abort_stale_generations(order.below)
    process.tell(StaleGenerationsAborted(order.generation, order.sink, order.below))


def abort_unpublished(process: "Process", order: e.AbortUnpublished) -> None:
    """Throw away what a deposed leader wrote since its last checkpoint."""
    process.world.message(process.world.sinks[order.sink].abort_unpublished, order.generation, order.after)


# -- the store -----------------------------------------------------------------------------------------------------


def read_checkpoint_log(process: "Process", order: e.ReadCheckpointLog) -> None:
    """Read the records as they stand when the read arrives."""
    process.world.message(_read_checkpoint_log, process, order.leader)


def _read_checkpoint_log(process: "Process", leader: LeaderId) -> None:
    store = process.world.store
    held, copied = tuple(map(CheckpointId, store.held)), tuple(map(CheckpointId, store.copied))
    process.tell(CheckpointLogRead(leader, store.read(str(leader)), held, copied))


def create_record(process: "Process", order: e.CreateRecord) -> None:
    """Publish, epoch record, or aborted entry."""
    leader = order.leader

    def created(record: Record) -> None:
        process.tell(RecordCreated(leader, record.generation, record.id))

    def taken(record: Record) -> None:
        process.tell(RecordTaken(leader, record))

    def unclear(record: Record) -> None:
        process.tell(CreateUnclear(leader, record.generation, record.id, "the store did not answer"))

    if isinstance(order.record, CompletedCheckpoint):
        process.world.disk.stored.update(dict.fromkeys(_named(order.record)))
    process.world.at(process.write_delay_ms, process.world.store.create, order.record, created, taken, unclear)


def _named(record: CompletedCheckpoint) -> list[str]:
    """The files of a checkpoint. They are in the storage before its record is."""
    flying = [
        f"{held.channel}/{record.generation}/{batch}"
        for held in record.channels
        for batch in range(held.after + 1, held.through + 1)
    ]
    return [*flying, *(name for snapshot in record.tasks for name in snapshot.files)]


def copy_savepoint(process: "Process", order: e.CopySavepoint) -> None:
    """Copy all that a savepoint names."""
    process.world.message(_copy_savepoint, process, order)


def _copy_savepoint(process: "Process", order: e.CopySavepoint) -> None:
    world = process.world
    if not process.alive:
        return
    record: Any = world.store.records.get(order.checkpoint)
    files = [name for snapshot in record.tasks for name in snapshot.files] if record else []
    if record is None or any(name not in world.disk.files for name in files):
        world.missing(
            process.state.leadership.generation, f"savepoint {order.checkpoint} cannot be copied: something is gone"
        )
        return
    world.store.copied[order.checkpoint] = None
    process.tell(SavepointCopied(order.leader, order.checkpoint))


def delete_savepoint(process: "Process", order: e.DeleteSavepoint) -> None:
    """Delete a savepoint, its record first."""
    process.world.message(_delete_savepoint, process, order)


def _delete_savepoint(process: "Process", order: e.DeleteSavepoint) -> None:
    world = process.world
    if not process.alive or world.store.newest().leader != order.leader:
        return
    world.checker.deletes_savepoint(world.store.records, order.checkpoint)
    world.store.records.pop(order.checkpoint, None)
    world.store.copied.pop(order.checkpoint, None)
    process.tell(SavepointDeleted(order.leader, order.checkpoint))


def set_hold(process: "Process", order: e.SetHold) -> None:
    """Remember a hold. Orders of this kind keep their order; in bad weather they may still get lost."""
    if not process.world.weather or process.world.rng.random() > 0.1:
        process.world.at(1, _set_hold, process, order)


def _set_hold(process: "Process", order: e.SetHold) -> None:
    if not process.alive:
        return
    if process.world.store.newest().leader != order.leader:
        process.tell(LeadershipLost(order.leader))
        return
    if order.held:
        process.world.store.held[order.checkpoint] = None
    else:
        process.world.store.held.pop(order.checkpoint, None)
    process.tell(HoldSet(order.leader, order.checkpoint, order.held))


def list_files(process: "Process", order: e.ListFiles) -> None:
    """List everything."""
    process.world.message(_list_files, process, order.generation)


def _list_files(process: "Process", generation: Generation) -> None:
    if process.alive:
        files = tuple(
            StoredFile(name, Generation(made), owner_id(owner), Batch(batch))
            for name, (made, owner, batch) in process.world.disk.files.items()
        )
        process.tell(FilesListed(generation, files))


def owner_id(owner: str) -> TaskId | ChannelId:
    """The task or channel of this name."""
    return TaskId(owner) if owner.startswith("t") else ChannelId(owner)


def delete_files(process: "Process", order: e.DeleteFiles) -> None:
    """Delete records, then files."""
    process.world.message(_delete_files, process, order)


def _delete_files(process: "Process", order: e.DeleteFiles) -> None:
    world = process.world
    if not process.alive:
        return
    world.checker.deletes(process.name, world.store.records, tuple(world.store.held), order.records, order.files)
    for number in order.records:
        world.store.records.pop(number, None)
    for name in order.files:
        world.disk.delete(name)
    world.checker.collected(order.generation, world.store.records)
    process.tell(FilesDeleted(order.generation, order.records))


def tell(process: "Process", order: e.Notify) -> None:
    """Say something to the user."""
    if order.outcome is e.Outcome.NOTICE:
        return
    if order.request is not None:
        process.world.checker.answered(str(order.request))
    elif order.outcome is e.Outcome.FAILED and order.checkpoint is None and process.graph is process.world.graph:
        process.world.violation(f"a job that could go on was refused: {order.text}")


def nothing(process: "Process", order: object) -> None:
    """Orders that have no effect in a simulated world: answers and notices."""
    del process, order


HANDLERS: dict[type, Callable[..., None]] = {
    e.StartTask: start_task,
    e.StopTask: stop_task,
    e.AskTask: ask_task,
    e.AdmitBatch: admit_batch,
    e.OpenGate: open_gate,
    e.TakeSnapshot: take_snapshot,
    e.AnswerAck: nothing,
    e.AbortSnapshot: nothing,
    e.NotifyCompleted: nothing,
    e.PreCommitSink: pre_commit_sink,
    e.CommitTransaction: commit_transaction,
    e.AbortFailedAttempts: abort_failed_attempts,
    e.AbortStaleGenerations: abort_stale_generations,
    e.AbortUnpublished: abort_unpublished,
    e.ReadCheckpointLog: read_checkpoint_log,
    e.CreateRecord: create_record,
    e.CopySavepoint: copy_savepoint,
    e.DeleteSavepoint: delete_savepoint,
    e.SetHold: set_hold,
    e.ListFiles: list_files,
    e.DeleteFiles: delete_files,
    e.Notify: tell,
}
