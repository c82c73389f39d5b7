"""Whatever happens, ``step`` keeps the invariants and forgets no order, leaves nothing that follows undone, changes
nothing it was given, and repeats itself.

A world is drawn as a list of small numbers. Most of them let somebody answer an order that is in force, as the store, a
task or a sink would; the others are what befalls a job: batches, failures, requests, time, and facts that come twice.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from hypothesis import given, strategies as st

from headgate.core import effects as o, events as e, invariants
from headgate.core.errors import ProtocolError
from headgate.core.graph import Graph
from headgate.core.ids import Batch, CheckpointId, Generation, LeaderId, RequestId, Run, SinkId, TaskId
from headgate.core.job import step
from headgate.core.records import Boundary, EpochRecord, Record, StoredFile
from headgate.core.restart import Failure, FailureClass, FixedDelay
from headgate.core.settings import Mode, Settings
from headgate.core.state import JobState, Phase
from headgate.core.timing import next_deadline, unanswered
from tests.helpers import channel, line, task
from tests.step_helpers import ME, OTHER, follows, forgotten
from tests.tiers import examples

DIAMOND = Graph(
    (task("a", source=True), task("b"), task("c", source=True, sinks=("x",)), task("d", sinks=("y",))),
    (channel("a", "b"), channel("a", "c"), channel("b", "d"), channel("c", "d")),
)
GRAPHS = (line("a"), line("a", "b"), line("a", "b", "c"), DIAMOND)
FAILURES = tuple(FailureClass)
MANY = 160


@st.composite
def jobs(draw: st.DrawFn) -> JobState:
    """A small job, tuned somehow."""
    mode = draw(st.sampled_from(Mode))
    aligns = mode is not Mode.AT_LEAST_ONCE
    tuned = Settings(
        mode=mode,
        restart=FixedDelay(20),
        resend_ms=50,
        interval_ms=draw(st.sampled_from((10, None))),
        min_pause_ms=draw(st.sampled_from((0, 5))),
        timeout_ms=draw(st.sampled_from((600_000, 30))),
        max_concurrent_checkpoints=draw(st.integers(1, 3)),
        tolerable_failed_checkpoints=draw(st.sampled_from((2, 0))),
        unaligned=aligns and draw(st.booleans()),
        aligned_checkpoint_timeout_ms=draw(st.sampled_from((None, 15))) if aligns else None,
        num_retained=draw(st.integers(1, 2)),
        retain_on_cancellation=draw(st.booleans()),
    )
    return JobState(graph=draw(st.sampled_from(GRAPHS)), settings=tuned)


happenings = st.lists(
    st.tuples(st.integers(0, 31), st.integers(0, 15), st.integers(0, 15)), min_size=MANY // 2, max_size=MANY
)


@dataclass
class Rest:
    """All that is not the core: the store, and what was said so far."""

    state: JobState
    records: dict[int, Record] = field(default_factory=dict)
    said: list[e.Event] = field(default_factory=list)
    deleting: tuple[CheckpointId, ...] = ()
    leaders: int = 0

    def happens(self, what: int, which: int, how: int) -> e.Event | None:
        """The fact that these numbers stand for; None if there is no such thing now."""
        if self.state.phase in (Phase.IDLE, Phase.CLOSED, Phase.DEPOSED) and what % 4:
            self.leaders += 1
            return e.LeadershipWon(LeaderId(f"{ME}{self.leaders}"))
        if what < len(OTHERS):
            return OTHERS[what](self, which, how)
        orders = list(unanswered(self.state))
        return self.answer(orders[which % len(orders)], which, how) if orders else None

    def answer(self, order: o.Effect, which: int, how: int) -> e.Event | None:
        """What somebody answers to an order: most often that it is done."""
        state, badly = self.state, how == 0
        match order:
            case o.ReadCheckpointLog(leader):
                return e.CheckpointLogRead(leader, tuple(self.records[number] for number in sorted(self.records)))
            case o.CreateRecord(leader, record):
                return self.create(leader, record, how)
            case o.StartTask(generation, name, run):
                return e.TaskStarted(generation, name, run, state.execution.tasks[name].boundary)
            case o.StopTask(generation, name, run):
                return e.TaskEnded(generation, name, run, state.execution.tasks[name].boundary)
            case o.AskTask(generation, name, run):
                failure = Failure(FAILURES[which % 4]) if badly else None
                over = how == 1 and state.graph.by_id[name].has_source
                return e.Reported(
                    generation,
                    name,
                    run,
                    state.execution.tasks[name].boundary,
                    None,
                    over,
                    ended=how < 3,
                    failure=failure,
                )
            case o.TakeSnapshot(generation, checkpoint, name, batch):
                if badly:
                    return e.SnapshotDeclined(generation, checkpoint, name)
                return e.SnapshotTaken(generation, checkpoint, name, batch, (f"{name}/{batch}",))
            case o.PreCommitSink(generation, checkpoint, sink):
                return (e.PreCommitFailed if badly else e.SinkPreCommitted)(generation, checkpoint, sink)
            case o.CommitTransaction(generation, _, one):
                fact = e.CommitFailed if how < 3 else e.TransactionCommitted
                return fact(generation, one.sink, one.generation, one.checkpoint)
            case o.AbortStaleGenerations(generation, sink, below):
                return e.StaleGenerationsAborted(generation, sink, below)
            case o.CopySavepoint(leader, checkpoint):
                return e.SavepointCopied(leader, checkpoint)
            case o.DeleteSavepoint(leader, checkpoint):
                return e.SavepointDeleted(leader, checkpoint)
            case o.SetHold(leader, checkpoint, held):
                return e.HoldSet(leader, checkpoint, held)
            case o.ListFiles(generation):
                if self.deleting:
                    gone, self.deleting = self.deleting, ()
                    return e.FilesDeleted(generation, gone)
                return e.FilesListed(generation, (StoredFile("a/0", generation, TaskId("a"), Batch(how)),))
            case _:
                return None

    def create(self, leader: LeaderId, record: Record, how: int) -> e.Event:
        there = self.records.get(record.id)
        if there is None and how > 1:
            self.records[record.id] = record
        if how < 3:
            return e.CreateUnclear(leader, record.generation, record.id)
        return e.RecordTaken(leader, there) if there else e.RecordCreated(leader, record.generation, record.id)

    def task(self, which: int) -> tuple[Generation, TaskId, Run] | None:
        names = list(self.state.execution.tasks)
        if not names:
            return None
        name = names[which % len(names)]
        return self.state.leadership.generation, name, self.state.execution.tasks[name].run

    def batch(self, which: int, how: int) -> e.Event | None:
        """A task commits a batch, and has read as far as it may, or not."""
        whose = self.task(which)
        if whose is None or self.state.phase is not Phase.RUNNING:
            return None
        stands = self.state.execution.tasks[whose[1]].boundary
        inputs = zip(self.state.graph.inputs[whose[1]], stands.positions, strict=True)
        read = tuple(
            self.state.execution.gates[one.id] if how >> index & 1 else at for index, (one, at) in enumerate(inputs)
        )
        if which > 13:
            return e.OutputsWritten(*whose, Batch(stands.batch + 1))
        fact = e.BatchEntered if which > 11 else e.BatchCommitted
        return fact(*whose, Boundary(Batch(stands.batch + 1), read))

    def fails(self, which: int, how: int) -> e.Event | None:
        whose = self.task(which)
        return whose and e.TaskFailed(*whose, Failure(FAILURES[how % 4]))

    def source_ends(self, which: int, _: int) -> e.Event | None:
        whose = self.task(which)
        return e.SourceEnded(*whose) if whose and self.state.graph.by_id[whose[1]].has_source else None

    def again(self, which: int, how: int) -> e.Event | None:
        """Something that was said before is heard once more."""
        said = [one for one in self.said if not isinstance(one, e.LeadershipWon | e.CheckpointLogRead)]
        return said[-1 - (16 * which + how) % len(said)] if said else None

    def time_passes(self, which: int, how: int) -> e.Event:
        deadline = next_deadline(self.state)
        return e.Ticked(deadline if deadline is not None and how > 2 else self.state.now_ms + which)

    def asks(self, which: int, how: int) -> e.Event:
        request = RequestId(f"r{len(self.said)}")
        completed = self.state.retained.completed
        some = completed[which % len(completed)].id if completed else CheckpointId(which)
        facts: tuple[e.Event, ...] = (
            e.CheckpointAsked(request),
            e.SavepointAsked(request),
            e.SavepointAsked(request, stop=True),
            e.SavepointAsked(request, stop=True, drain=True),
            e.HoldAsked(request, some),
            e.HoldAsked(request, some, held=False),
            e.DeleteAsked(request, some),
            e.CancelAsked(request) if which > 12 else e.CheckpointAsked(request),
        )
        return facts[how % len(facts)]

    def loses(self, which: int, how: int) -> e.Event | None:
        """Somebody else leads; the core hears of it, or finds its epoch record."""
        if which < 12:
            return None
        if how < 8:
            return e.LeadershipLost(self.state.leadership.leader)
        if self.state.phase is not Phase.RUNNING:
            return None
        place = CheckpointId(self.state.checkpoint_log.recorded + 1)
        if place in self.records:
            return None
        above = Generation(self.state.leadership.generation + 1)
        self.records[place] = EpochRecord(place, above, OTHER, CheckpointId(place + 8), self.state.retained.base)
        return None


OTHERS: tuple[Callable[[Rest, int, int], e.Event | None], ...] = (
    Rest.loses,
    Rest.fails,
    Rest.source_ends,
    Rest.asks,
    Rest.asks,
    Rest.again,
    Rest.again,
    Rest.time_passes,
    Rest.time_passes,
    *[Rest.batch] * 6,
)


@examples(100)
@given(jobs(), happenings)
def test_nothing_that_can_happen_breaks_the_core(job: JobState, world: list[tuple[int, int, int]]) -> None:
    rest = Rest(job)
    for numbers in world:
        event = rest.happens(*numbers)
        if event is None:
            continue
        before = rest.state
        shown = repr(before)
        after, effects = step(before, event)
        assert repr(before) == shown, "the state that was given has changed"
        assert step(before, event) == (after, effects), "the same step, another outcome"
        invariants.check(after)
        assert forgotten(after, effects) == []
        assert follows(after) == []
        rest.said.append(event)
        rest.state = after
        rest.deleting = next((one.records for one in effects if isinstance(one, o.DeleteFiles)), rest.deleting)
        deadline = next_deadline(after)
        if isinstance(event, e.Ticked) and deadline is not None:
            assert deadline > after.now_ms, "time stands still"


@examples(40)
@given(
    jobs(),
    happenings,
    st.sampled_from(("a", "b", "z")),
    st.integers(-1, 9),
    st.integers(-1, 9),
    st.integers(0, 3),
)
def test_a_fact_that_cannot_be_is_a_protocol_error_and_nothing_else(
    job: JobState, world: list[tuple[int, int, int]], name: str, batch: int, number: int, run: int
) -> None:
    rest = Rest(job)
    for numbers in world:
        event = rest.happens(*numbers)
        if event is not None:
            rest.state, _ = step(rest.state, event)
            rest.said.append(event)
    generation, checkpoint, whose = rest.state.leadership.generation, CheckpointId(number), TaskId(name)
    inputs = rest.state.graph.inputs.get(whose, ())
    facts: list[e.Event] = [
        e.SnapshotTaken(generation, checkpoint, whose, Batch(batch)),
        e.BatchCommitted(generation, whose, Run(run), Boundary(Batch(batch), (Batch(number),) * len(inputs))),
        e.TaskStarted(generation, whose, Run(run), Boundary(Batch(batch), (Batch(number),) * len(inputs))),
    ]
    facts += [e.SinkPreCommitted(generation, checkpoint, SinkId(sink)) for sink in rest.state.sinks]
    for fact in facts:
        shown = repr(rest.state)
        try:
            invariants.check(step(rest.state, fact)[0])
        except ProtocolError as error:
            assert error.story == rest.state.story  # noqa: PT017 - it may as well not be raised
        assert repr(rest.state) == shown
