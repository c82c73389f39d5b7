"""Leading a job: win, read, fence off, recover, run, restart, close, or be deposed.

One rule: before anything else a leader writes the next id of the checkpoint log with a generation of its own. Every
generation begins like this, the first one, one after a failure, and one after a change of leader, so there is one way
to begin. Whoever finds a foreign record where their own should be stops, and touches nothing more.
"""

from headgate.core import (
    checkpoint_log,
    closing,
    coordinator,
    recovery,
    retention,
    sinks as committing,
    starting,
    waiting,
)
from headgate.core.checkpoint_log import CheckpointLog
from headgate.core.commit import SinkState
from headgate.core.effects import (
    CopySavepoint,
    CreateRecord,
    Notify,
    Outcome,
    ReadCheckpointLog,
    StartTask,
    StopTask,
)
from headgate.core.errors import NotRestorable
from headgate.core.events import (
    CheckpointLogRead,
    LeadershipLost,
    LeadershipWon,
)
from headgate.core.evolve import evolve
from headgate.core.ids import NO_CHECKPOINT, NO_GENERATION, CheckpointId, SinkId
from headgate.core.records import AbortedEntry, Boundary, CompletedCheckpoint, Ending, EpochRecord, Kind, Record
from headgate.core.state import (
    AT_REST,
    JobState,
    Leadership,
    Phase,
    StepContext,
    TaskState,
    ready,
)

# -- from leadership to a generation -------------------------------------------------------------------------------


def won(context: StepContext, fact: LeadershipWon) -> None:
    """Begin, unless we lead already."""
    state = context.state
    if state.phase not in AT_REST:
        return
    context.state = JobState(
        graph=state.graph,
        settings=state.settings,
        now_ms=state.now_ms,
        leadership=Leadership(leader=fact.leader, restore=fact.restore),
        story=state.story,
        resend_at_ms=state.now_ms + state.settings.resend_ms,
    )
    context.tell_story(f"{fact.leader} leads")
    read(context)


def lost(context: StepContext, fact: LeadershipLost) -> None:
    """Stop, if it is us who lost."""
    if fact.leader == context.state.leadership.leader:
        depose(context, "leadership was lost")


def read(context: StepContext) -> None:
    """Ask for the checkpoint log as it stands."""
    state = context.state
    context.state = evolve(
        state,
        phase=Phase.READING,
        leadership=evolve(state.leadership, in_doubt=ready(state)),
        checkpoint_log=CheckpointLog(),
        restarts=evolve(state.restarts, restart_at_ms=None),
    )
    context.order(ReadCheckpointLog(state.leadership.leader))


def checkpoint_log_read(context: StepContext, fact: CheckpointLogRead) -> None:
    """See what there is, make sure that we can begin from it, and write the next id; if that is done already, begin.

    Our epoch record counts once it is seen to be the last record. A create that was very late may have landed in a
    place that was used and deleted meanwhile: then there are later records, and we try again behind them.
    """
    state = context.state
    if fact.leader != state.leadership.leader or state.phase is not Phase.READING:
        return
    if (
        all(record.generation < state.leadership.generation for record in fact.records)
        and state.leadership.generation > NO_GENERATION
    ):
        return  # Read before our own last epoch record was there: an answer that comes twice, or very late.
    foreign = [record for record in fact.records if record.leader != state.leadership.leader]
    if any(record.generation > state.leadership.generation > NO_GENERATION for record in foreign):
        depose(context, f"generation {foreign[-1].generation} is {foreign[-1].leader}'s")
        return
    tail = fact.records[-1] if fact.records else None
    if isinstance(tail, EpochRecord) and tail.ending is not None and not state.leadership.restore.again:
        _is_over(context, tail.ending)
        return
    written = state.leadership.epoch_record
    ours = written is not None and tail is not None and checkpoint_log.is_same(tail, written)
    records = fact.records[:-1] if ours else fact.records
    try:
        base = recovery.choose(records, state.leadership.restore.checkpoint)
        _refuse_unkept(state, fact, base)
        epoch_record = checkpoint_log.epoch_record(
            records, state.leadership.leader, base.id if base else None, state.checkpoints.next_id
        )
        plan = recovery.plan(state.graph, records, state.leadership.restore, epoch_record.generation)
        epoch_record = evolve(epoch_record, abandoned=plan.abandoned)
    except NotRestorable as error:
        _rest(context, Ending.FAILED, str(error))
        context.order(Notify(Outcome.FAILED, str(error)))
        return
    if ours and written is not None:
        context.state = _known(state, fact, records)
        open_generation(context, written)
        return
    links, _ = checkpoint_log.enqueue(CheckpointLog(recorded=CheckpointId(epoch_record.id - 1)), (epoch_record,))
    state = _known(state, fact, fact.records)
    leadership = evolve(state.leadership, epoch_record=None)
    context.state = evolve(state, phase=Phase.FENCING, checkpoint_log=links, leadership=leadership)
    context.order(CreateRecord(leadership.leader, epoch_record))


def _is_over(context: StepContext, ending: Ending) -> None:
    """The job has come to its end before. Who only takes over leaves it there."""
    why = f"the job is {ending.value}: start it again to go on"
    _rest(context, ending, why)
    context.order(Notify(Outcome.NOTICE, why))


def _rest(context: StepContext, ending: Ending, why: str) -> None:
    """The job is not started here: nobody need wait for it."""
    waiting.fail(context, why)
    state = context.state
    termination = evolve(state.termination, ending=ending)
    context.state = evolve(state, phase=Phase.CLOSED, termination=termination, resend_at_ms=None)


def _refuse_unkept(state: JobState, fact: CheckpointLogRead, base: CompletedCheckpoint | None) -> None:
    """A user may return only to what is kept. Whoever led before may be deleting the rest this very moment."""
    if base is None or state.leadership.restore.checkpoint is None:
        return
    completed = tuple(record for record in fact.records if isinstance(record, CompletedCheckpoint))
    stay = retention.keep(
        completed, num_retained=state.settings.num_retained, held=fact.held, base=recovery.latest(fact.records)
    )
    if base not in stay:
        kept = ", ".join(str(checkpoint.id) for checkpoint in stay)
        raise NotRestorable(f"checkpoint {base.id} is no longer kept and may be gone any moment; kept are: {kept}")


def fenced(context: StepContext, epoch_record: EpochRecord) -> None:
    """Our epoch record is in the store. See that it is the last record there."""
    leadership = evolve(context.state.leadership, epoch_record=epoch_record)
    context.state = evolve(context.state, leadership=leadership)
    read(context)


def _known(state: JobState, fact: CheckpointLogRead, records: tuple[Record, ...]) -> JobState:
    """The state with what a read of the checkpoint log tells.

    Whoever waits for a savepoint hears when it is copied again. What we heard to be copied stays so: the read may be
    older than that.
    """
    completed = tuple(record for record in records if isinstance(record, CompletedCheckpoint))
    in_doubt = (record.id for record in state.leadership.in_doubt if record.request is not None)
    waited_for = (*state.retained.copying, *in_doubt)
    copied = {checkpoint for checkpoint in fact.copied if checkpoint not in waited_for}
    copied.update(c.id for c in state.retained.completed if c.id not in state.retained.copying)
    retained = evolve(
        state.retained,
        completed=completed,
        held=tuple(dict.fromkeys((*fact.held, *state.retained.held))),
        copying=tuple(c.id for c in completed if c.kind is Kind.SAVEPOINT and c.id not in copied),
    )
    return evolve(state, leadership=evolve(state.leadership, records=records), retained=retained)


def open_generation(context: StepContext, epoch_record: EpochRecord) -> None:
    """Our epoch record is the last record: the job is ours. Finish what was decided before us, then start the tasks."""
    state = context.state
    plan = recovery.plan(state.graph, state.leadership.records, state.leadership.restore, epoch_record.generation)
    batches = {start.task: start.snapshot.batch for start in plan.starts if start.snapshot}
    sinks: dict[SinkId, SinkState] = {}
    for sink, task in state.graph.owner.items():
        due = tuple((permit, transaction) for permit, transaction in plan.commits if transaction.sink == sink)
        fresh = SinkState()
        begin = batches.get(task, fresh.pre_committed_through)
        sinks[sink] = evolve(fresh, due=due, pre_committed_through=begin, published_through=begin)
    context.state = evolve(
        state,
        phase=Phase.RECOVERING,
        leadership=evolve(
            state.leadership,
            generation=epoch_record.generation,
            restore=evolve(state.leadership.restore, checkpoint=None, again=False, abandon=()),
            records=(),
            epoch_record=None,
        ),
        checkpoint_log=checkpoint_log.opened(epoch_record),
        execution=evolve(
            state.execution,
            starts=plan.starts,
            tasks={start.task: _first_run(start) for start in plan.starts},
            gates={
                channel.id: position
                for start in plan.starts
                for channel, position in zip(state.graph.inputs[start.task], start.positions, strict=True)
            },
        ),
        checkpoints=evolve(
            state.checkpoints, pending=(), next_id=epoch_record.next_id, failures=0, stop_after=NO_CHECKPOINT
        ),
        sinks=sinks,
        leftovers=evolve(state.leftovers, look_again_at_ms=None, look_again_ms=0),
        retained=evolve(state.retained, base=epoch_record.base),
        collection=evolve(
            state.collection,
            under_way=False,
            pending_deletion=(),
            aborted_entries=tuple(r.id for r in state.leadership.records if isinstance(r, AbortedEntry)),
            candidates=(),
            garbage=(),
        ),
        termination=evolve(state.termination, draining=state.termination.draining or _is_draining(plan.base)),
    )
    context.tell_story(f"generation {epoch_record.generation} begins from {epoch_record.base}")
    waiting.tell_abandoned(context, epoch_record.abandoned)
    for sink in sinks:
        committing.order_commit(context, sink)
    for savepoint in state.retained.copying:
        context.order(CopySavepoint(state.leadership.leader, savepoint))
    stop = _settle_doubts(context, state)
    if plan.base is not None and plan.base.draining and plan.base.stop:
        stop = True
        context.order(Notify(Outcome.NOTICE, f"the job was drained: nothing is left to do after {plan.base.id}"))
    if stop and state.termination.cancel is None:
        closing.close(context, Ending.STOPPED)


def _is_draining(base: CompletedCheckpoint | None) -> bool:
    return base is not None and base.draining


def _settle_doubts(context: StepContext, before: JobState) -> bool:
    """Tell who asked for a checkpoint that was ready when the job restarted. True if the job was to stop after it."""
    leadership = before.leadership
    landed = {(record.id, record.generation) for record in before.retained.completed}
    last = leadership.records[-1] if leadership.records else None
    stop = isinstance(last, CompletedCheckpoint) and last.stop and not leadership.restore.again
    for record in leadership.in_doubt:
        there = (record.id, record.generation) in landed
        if record.request is not None and not (there and record.kind is Kind.SAVEPOINT):
            outcome = Outcome.DONE if there else Outcome.FAILED
            text = f"{record.kind.value} {record.id} {'completed' if there else 'given up: the job restarted'}"
            context.order(Notify(outcome, text, record.request, record.id))
    context.state = evolve(context.state, leadership=evolve(context.state.leadership, in_doubt=()))
    return stop


def _first_run(start: StartTask) -> TaskState:
    batch = start.snapshot.batch if start.snapshot else TaskState().boundary.batch
    return TaskState(
        run=start.run,
        boundary=Boundary(batch, start.positions),
        entered=batch,
        admitted=batch,
        written=batch,
        ended=start.snapshot is not None and start.snapshot.finished,
    )


def recovered(context: StepContext) -> None:
    """Once nothing that was decided is left to commit, throw the rest away and start the tasks."""
    state = context.state
    if any(sink.due for sink in state.sinks.values()):
        return
    fresh_ms = state.now_ms + (state.settings.interval_ms or 0)
    due_ms = min(fresh_ms, state.checkpoints.next_trigger_ms or fresh_ms)
    context.state = evolve(
        state,
        phase=Phase.RUNNING,
        execution=evolve(state.execution, began_ms=state.now_ms),
        checkpoints=evolve(state.checkpoints, next_trigger_ms=due_ms),
    )
    committing.abort_stale_generations(context, state.leadership.generation)
    for start in state.execution.starts:
        if not context.state.execution.tasks[start.task].ended:
            context.order(starting.start_order(context.state, start.task))
    coordinator.open_gates(context, state.graph.channels)


def restart(context: StepContext, delay_ms: int) -> None:
    """All tasks go back to the latest checkpoint, in a new generation, after a delay."""
    state = context.state
    restarts = evolve(state.restarts, restart_at_ms=state.now_ms + delay_ms)
    context.state = evolve(state, phase=Phase.RESTARTING, restarts=restarts)
    closing.halt(context, coordinator.GivenUp.RESTARTED)


def cut_delay_short(context: StepContext) -> None:
    """A job that a user wants to end does not wait before it gets the generation that is to end."""
    if context.state.termination.cancel is not None:
        read(context)


def depose(context: StepContext, why: str) -> None:
    """Somebody else leads. Stop, and commit nothing more."""
    for task, task_state in context.state.execution.tasks.items():
        context.order(StopTask(context.state.leadership.generation, task, task_state.run))
    waiting.fail(context, why)
    context.state = evolve(context.state, phase=Phase.DEPOSED, resend_at_ms=None)
    context.tell_story(f"deposed: {why}")
    context.order(Notify(Outcome.NOTICE, f"this process no longer leads the job: {why}"))
