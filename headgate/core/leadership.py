"""Leading a job: win, read, fence, recover, run, restart, close, or be deposed.

One rule: before anything else a leader burns the next id of the chain with a generation of its own. Every generation
begins like this, the first one, one after a failure, and one after a change of leader, so there is one way to begin.
Whoever finds a foreign record where his own should be stops, and touches nothing more.
"""

from headgate.core import chain, commit, coordinator, recovery, retention
from headgate.core.chain import Answer, Chain
from headgate.core.commit import SinkState
from headgate.core.effects import (
    AbortStrangers,
    CommitTransaction,
    CopySavepoint,
    CreateRecord,
    ListFiles,
    NotifyCompleted,
    Outcome,
    ReadChain,
    StartTask,
    StopTask,
    Tell,
)
from headgate.core.errors import NotRestorable
from headgate.core.events import (
    ChainRead,
    CommitFailed,
    CreateUnclear,
    LeadershipLost,
    LeadershipWon,
    RecordCreated,
    RecordTaken,
    StrangersAborted,
    TransactionCommitted,
)
from headgate.core.evolve import evolve
from headgate.core.ids import NO_CHECKPOINT, CheckpointId, Generation, SinkId
from headgate.core.records import Boundary, CompletedCheckpoint, Fence, Kind, Record, Restore
from headgate.core.state import Ending, JobState, Phase, TaskState, Turn

AT_REST = (Phase.IDLE, Phase.CLOSED, Phase.DEPOSED)
"""Phases in which nothing is under way and nothing is ordered."""


# -- from leadership to a generation -------------------------------------------------------------------------------


def won(turn: Turn, fact: LeadershipWon) -> None:
    """Begin, unless we lead already."""
    state = turn.state
    if state.phase not in AT_REST:
        return
    turn.state = JobState(
        graph=state.graph,
        settings=state.settings,
        now_ms=state.now_ms,
        leader=fact.leader,
        restore=fact.restore,
        story=state.story,
        resend_at_ms=state.now_ms + state.settings.resend_ms,
    )
    turn.tell_story(f"{fact.leader} leads")
    read(turn)


def lost(turn: Turn, fact: LeadershipLost) -> None:
    """Stop, if it is us who lost."""
    if fact.leader == turn.state.leader and turn.state.phase not in AT_REST:
        depose(turn, "leadership was lost")


def read(turn: Turn) -> None:
    """Ask for the chain as it stands."""
    turn.state = evolve(turn.state, phase=Phase.READING, restart_at_ms=None)
    turn.order(ReadChain(turn.state.leader))


def chain_read(turn: Turn, fact: ChainRead) -> None:
    """See what there is, make sure that we can begin from it, and burn the next id."""
    state = turn.state
    if fact.leader != state.leader or state.phase is not Phase.READING:
        return
    try:
        base = recovery.choose(fact.records, state.restore.checkpoint)
        fence = chain.fence(fact.records, state.leader, base.id if base else None, state.next_id)
        recovery.plan(state.graph, fact.records, state.restore, fence.generation)
    except NotRestorable as error:
        turn.state = evolve(state, phase=Phase.CLOSED, ending=Ending.FAILED, resend_at_ms=None)
        turn.order(Tell(Outcome.FAILED, str(error)))
        return
    tail = fact.records[-1].id if fact.records else NO_CHECKPOINT
    links, _ = chain.enqueue(Chain(recorded=tail, last=tail), (fence,))
    completed = tuple(record for record in fact.records if isinstance(record, CompletedCheckpoint))
    turn.state = evolve(
        state,
        phase=Phase.FENCING,
        chain=links,
        records=fact.records,
        completed=completed,
        held=fact.held,
        copying=tuple(c.id for c in completed if c.kind is Kind.SAVEPOINT and c.id not in fact.copied),
    )
    turn.order(CreateRecord(state.leader, fence))


def open_generation(turn: Turn, fence: Fence) -> None:
    """Our fence is in the store: the job is ours. Finish what was decided before us, then start the tasks."""
    state = turn.state
    plan = recovery.plan(state.graph, state.records, state.restore, fence.generation)
    batches = {start.task: start.snapshot.batch for start in plan.starts if start.snapshot}
    sinks: dict[SinkId, SinkState] = {}
    for sink, task in state.graph.owner.items():
        due = tuple((permit, transaction) for permit, transaction in plan.commits if transaction.sink == sink)
        fresh = SinkState()
        sinks[sink] = evolve(fresh, due=due, sealed_through=batches.get(task, fresh.sealed_through))
    turn.state = evolve(
        state,
        phase=Phase.RECOVERING,
        generation=fence.generation,
        chain=evolve(state.chain, last=CheckpointId(fence.next_id - 1)),
        next_id=fence.next_id,
        restore=Restore(),
        records=(),
        base=fence.base,
        starts=plan.starts,
        tasks={start.task: _first_run(start) for start in plan.starts},
        gates={
            channel.id: position
            for start in plan.starts
            for channel, position in zip(state.graph.inputs[start.task], start.positions, strict=True)
        },
        sinks=sinks,
        pending=(),
        failures=0,
        stop_after=NO_CHECKPOINT,
        sweeping=False,
        sweep_again=False,
    )
    turn.tell_story(f"generation {fence.generation} begins from {fence.base}")
    for sink in sinks:
        order_commit(turn, sink)
    for savepoint in state.copying:
        turn.order(CopySavepoint(state.leader, savepoint))
    recovered(turn)
    if state.cancel is not None:
        cancel(turn)


def _first_run(start: StartTask) -> TaskState:
    batch = start.snapshot.batch if start.snapshot else TaskState().boundary.batch
    return TaskState(
        run=start.run,
        boundary=Boundary(batch, start.positions),
        entered=batch,
        written=batch,
        ended=start.snapshot is not None and start.snapshot.finished,
    )


def recovered(turn: Turn) -> None:
    """Once nothing that was decided is left to commit, throw the rest away and start the tasks."""
    state = turn.state
    if state.phase is not Phase.RECOVERING or any(sink.due for sink in state.sinks.values()):
        return
    turn.state = evolve(state, phase=Phase.RUNNING, next_trigger_ms=state.now_ms + (state.settings.interval_ms or 0))
    abort_strangers(turn, state.generation)
    for start in state.starts:
        if not turn.state.tasks[start.task].ended:
            turn.order(start)
    coordinator.open_gates(turn, state.graph.channels)
    sweep(turn)


def restart(turn: Turn, delay_ms: int) -> None:
    """All tasks go back to the latest checkpoint, in a new generation, after a delay."""
    turn.state = evolve(turn.state, phase=Phase.RESTARTING, restart_at_ms=turn.state.now_ms + delay_ms)
    _halt(turn, coordinator.GivenUp.RESTARTED)


def depose(turn: Turn, why: str) -> None:
    """Somebody else leads. Stop, and commit nothing more."""
    for task, task_state in turn.state.tasks.items():
        turn.order(StopTask(turn.state.generation, task, task_state.run))
    turn.state = evolve(turn.state, phase=Phase.DEPOSED, pending=(), chain=Chain(), resend_at_ms=None)
    turn.tell_story(f"deposed: {why}")
    turn.order(Tell(Outcome.NOTICE, f"this process no longer leads the job: {why}"))


# -- what the store says -------------------------------------------------------------------------------------------


def record_created(turn: Turn, fact: RecordCreated) -> None:
    """A record of ours is in the store."""
    if fact.leader == turn.state.leader:
        links, record = chain.created(turn.state.chain, fact.generation, fact.record)
        turn.state = evolve(turn.state, chain=links)
        _recorded(turn, record)


def record_taken(turn: Turn, fact: RecordTaken) -> None:
    """A record is in the store where ours should be: ours after all, or the sign that somebody else leads."""
    if fact.leader != turn.state.leader:
        return
    links, answer, record = chain.taken(turn.state.chain, fact.record)
    turn.state = evolve(turn.state, chain=links)
    match answer:
        case Answer.OURS:
            _recorded(turn, record)
        case Answer.FOREIGN if turn.state.phase is Phase.FENCING:
            read(turn)
        case Answer.FOREIGN:
            depose(turn, f"record {fact.record.id} is {fact.record.leader}'s")
        case Answer.STALE:
            pass


def create_unclear(turn: Turn, fact: CreateUnclear) -> None:
    """A create failed, they say. It may have landed all the same: try the same again in a moment."""
    state = turn.state
    if fact.leader == state.leader:
        retry_at_ms = state.now_ms + state.settings.commit_retry_ms
        turn.state = evolve(state, chain=chain.unclear(state.chain, fact.generation, fact.record, retry_at_ms))


def _recorded(turn: Turn, record: Record | None) -> None:
    """Go on with what a record in the store makes possible, and order the next one."""
    if record is None:
        return
    if turn.state.chain.queue:
        turn.order(CreateRecord(turn.state.leader, turn.state.chain.queue[0]))
    if isinstance(record, Fence) and turn.state.phase is Phase.FENCING:
        open_generation(turn, record)
    elif isinstance(record, CompletedCheckpoint):
        published(turn, record)
    closed(turn)


def published(turn: Turn, record: CompletedCheckpoint) -> None:
    """A checkpoint is complete: from here on there is no abort, only commit."""
    state = turn.state
    permit = chain.permit(record)
    turn.state = evolve(
        state,
        completed=(*state.completed, record),
        base=record.id,
        failures=0,
        last_end_ms=state.now_ms,
        copying=(*state.copying, record.id) if record.kind is Kind.SAVEPOINT else state.copying,
    )
    turn.tell_story(f"{record.kind.value} {record.id} completed")
    turn.order(NotifyCompleted(record.generation, record.id))
    for name, sink in state.sinks.items():
        after, order = commit.allow(sink, permit)
        turn.set_sink(name, after)
        if order:
            order_commit(turn, name)
    if record.kind is Kind.SAVEPOINT:
        turn.order(CopySavepoint(state.leader, record.id))
    elif record.request is not None:
        turn.order(Tell(Outcome.DONE, f"checkpoint {record.id} completed", record.request, record.id))
    if state.phase is not Phase.CLOSING:
        if record.id == state.stop_after:
            close(turn, Ending.STOPPED)
        elif all(snapshot.finished for snapshot in record.tasks):
            close(turn, Ending.FINISHED)
    sweep(turn)


# -- what the sinks say --------------------------------------------------------------------------------------------


def order_commit(turn: Turn, sink: SinkId) -> None:
    """Order the next commit of a sink, if there is one."""
    due = turn.state.sinks[sink].due
    if due:
        turn.order(CommitTransaction(turn.state.generation, *due[0]))


def committed(turn: Turn, fact: TransactionCommitted) -> None:
    """A transaction is visible. The next one may go."""
    if fact.generation != turn.state.generation or turn.state.phase in AT_REST:
        return
    sink, ours = commit.committed(turn.state.sinks[fact.sink], fact.sealed_in, fact.checkpoint)
    if ours:
        turn.set_sink(fact.sink, sink)
        order_commit(turn, fact.sink)
        recovered(turn)
        closed(turn)


def commit_failed(turn: Turn, fact: CommitFailed) -> None:
    """A commit did not go through: again, later. Never an abort."""
    state = turn.state
    if fact.generation != state.generation or state.phase in AT_REST:
        return
    sink = state.sinks[fact.sink]
    if commit.is_next(sink, fact.sealed_in, fact.checkpoint):
        settings = state.settings
        sink = commit.commit_failed(sink, state.now_ms, settings.commit_retry_ms, settings.commit_retry_max_ms)
        turn.set_sink(fact.sink, sink)
        text = f"{fact.sink}: commit of checkpoint {fact.checkpoint} failed, will be tried again: {fact.why}"
        turn.order(Tell(Outcome.NOTICE, text, None, fact.checkpoint))


def abort_strangers(turn: Turn, below: Generation) -> None:
    """Have every sink throw away what generations before ``below`` left uncommitted."""
    turn.state = evolve(turn.state, abort_below=below, strangers=tuple(turn.state.sinks))
    for sink in turn.state.sinks:
        turn.order(AbortStrangers(turn.state.generation, sink, below))


def strangers_aborted(turn: Turn, fact: StrangersAborted) -> None:
    """A sink has done so."""
    state = turn.state
    if fact.generation == state.generation and fact.below == state.abort_below:
        turn.state = evolve(state, strangers=tuple(sink for sink in state.strangers if sink != fact.sink))
        closed(turn)


# -- the end -------------------------------------------------------------------------------------------------------


def cancel(turn: Turn) -> None:
    """A user wants the job to end. Without a generation there is nothing to end yet: get one first."""
    state = turn.state
    if state.phase in (Phase.RECOVERING, Phase.RUNNING):
        close(turn, Ending.CANCELLED)
    elif state.phase is Phase.RESTARTING:
        read(turn)


def close(turn: Turn, ending: Ending) -> None:
    """Start nothing more; finish what was decided."""
    turn.state = evolve(turn.state, phase=Phase.CLOSING, ending=ending, restart_at_ms=None)
    turn.tell_story(f"closing: {ending.value}")
    _halt(turn, coordinator.GivenUp.CLOSED)
    for request in turn.state.requests:
        turn.order(Tell(Outcome.REFUSED, f"{request.kind.value} refused: the job is closing", request.id))
    turn.state = evolve(turn.state, requests=())
    closed(turn)


def _halt(turn: Turn, reason: coordinator.GivenUp) -> None:
    for pending in turn.state.pending:
        coordinator.drop(turn, pending, reason, "")
    for task, task_state in turn.state.tasks.items():
        if not task_state.ended:
            turn.order(StopTask(turn.state.generation, task, task_state.run))


def closed(turn: Turn) -> None:
    """A closing job is closed once all decided commits are done, the rest is thrown away, and nothing is under way.

    Before a cancelled job's checkpoints are deleted one more fence is burned: if somebody else leads by now, and lives
    from one of them, that is where we find out.
    """
    state = turn.state
    if state.phase is not Phase.CLOSING:
        return
    if state.chain.queue or state.copying or any(sink.due for sink in state.sinks.values()):
        return
    above = Generation(state.generation + 1)
    if state.ending is Ending.CANCELLED and not state.settings.retain_on_cancellation and not state.burned:
        place = CheckpointId(state.chain.last + 1)
        fence = Fence(place, above, state.leader, max(state.next_id, CheckpointId(place + 1)), None)
        links, _ = chain.enqueue(state.chain, (fence,))
        turn.state = evolve(state, chain=links, burned=True)
        turn.order(CreateRecord(state.leader, fence))
        return
    if state.abort_below != above:
        abort_strangers(turn, above)
        sweep(turn)
        state = turn.state
    if state.strangers or state.sweeping:
        return
    turn.state = evolve(state, phase=Phase.CLOSED, resend_at_ms=None)
    text = f"the job is {state.ending.value if state.ending else 'over'}; latest checkpoint: {state.base}"
    turn.tell_story(text)
    turn.order(Tell(Outcome.NOTICE, text, state.cancel, state.base))


# -- what is kept --------------------------------------------------------------------------------------------------


def kept(state: JobState) -> tuple[CompletedCheckpoint, ...]:
    """The checkpoints that stay. A job that was cancelled keeps only what somebody wanted to keep."""
    retained, base = (0, None) if state.burned else (state.settings.retained, state.base)
    return retention.keep(state.completed, retained=retained, held=state.held, base=base)


def sweep(turn: Turn) -> None:
    """Begin a sweep if a checkpoint has fallen out of what is kept."""
    state = turn.state
    if len(kept(state)) == len(state.completed) or (state.burned and state.abort_below == state.generation):
        return
    if state.sweeping:
        turn.state = evolve(state, sweep_again=True)
        return
    turn.state = evolve(state, sweeping=True)
    turn.order(ListFiles(state.generation))
