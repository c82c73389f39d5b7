"""Leading a job: win, read, fence, recover, run, restart, close, or be deposed.

One rule: before anything else a leader burns the next id of the chain with a generation of its own. Every generation
begins like this, the first one, one after a failure, and one after a change of leader, so there is one way to begin.
Whoever finds a foreign record where his own should be stops, and touches nothing more.
"""

from headgate.core import chain, closing, coordinator, recovery, sinks as committing, sweeping
from headgate.core.chain import Chain
from headgate.core.commit import SinkState
from headgate.core.effects import (
    CopySavepoint,
    CreateRecord,
    Outcome,
    ReadChain,
    StartTask,
    StopTask,
    Tell,
)
from headgate.core.errors import NotRestorable
from headgate.core.events import (
    ChainRead,
    LeadershipLost,
    LeadershipWon,
)
from headgate.core.evolve import evolve
from headgate.core.ids import NO_CHECKPOINT, SinkId
from headgate.core.records import Boundary, CompletedCheckpoint, Fence, Kind, Restore
from headgate.core.state import AT_REST, Ending, JobState, Phase, TaskState, Turn

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
        held=tuple(dict.fromkeys((*fact.held, *(asked.checkpoint for asked in state.holding if asked.held)))),
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
        chain=chain.opened(fence),
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
        doomed=(),
    )
    turn.tell_story(f"generation {fence.generation} begins from {fence.base}")
    for sink in sinks:
        committing.order_commit(turn, sink)
    for savepoint in state.copying:
        turn.order(CopySavepoint(state.leader, savepoint))
    recovered(turn)
    if state.cancel is not None:
        closing.cancel(turn, state.cancel)


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
    committing.abort_strangers(turn, state.generation)
    for start in state.starts:
        if not turn.state.tasks[start.task].ended:
            turn.order(start)
    coordinator.open_gates(turn, state.graph.channels)
    sweeping.sweep(turn)


def restart(turn: Turn, delay_ms: int) -> None:
    """All tasks go back to the latest checkpoint, in a new generation, after a delay."""
    turn.state = evolve(turn.state, phase=Phase.RESTARTING, restart_at_ms=turn.state.now_ms + delay_ms)
    closing.halt(turn, coordinator.GivenUp.RESTARTED)


def depose(turn: Turn, why: str) -> None:
    """Somebody else leads. Stop, and commit nothing more."""
    for task, task_state in turn.state.tasks.items():
        turn.order(StopTask(turn.state.generation, task, task_state.run))
    turn.state = evolve(turn.state, phase=Phase.DEPOSED, pending=(), chain=Chain(), resend_at_ms=None)
    turn.tell_story(f"deposed: {why}")
    turn.order(Tell(Outcome.NOTICE, f"this process no longer leads the job: {why}"))
