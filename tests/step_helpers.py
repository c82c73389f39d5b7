"""One core under test: tell it facts in plain words and numbers, get its orders.

After every step the invariants are checked, that every order which somebody must answer would be given again, and that
nothing is left to follow from the state.
"""

from collections.abc import Sequence
from typing import Any, TypeVar

from headgate.core import derived, effects as o, events as e, invariants, timing
from headgate.core.effects import Effect
from headgate.core.graph import Graph
from headgate.core.ids import Batch, CheckpointId, Generation, LeaderId, RequestId, Run, SinkId, TaskId
from headgate.core.job import step
from headgate.core.records import Boundary, CompletedCheckpoint, EpochRecord, Record, Restore
from headgate.core.restart import Failure, FailureClass, FixedDelay
from headgate.core.settings import Settings
from headgate.core.state import AT_REST, JobState, Phase, StepContext

ME = LeaderId("me")
OTHER = LeaderId("other")
QUIET: dict[str, Any] = {
    "interval_ms": None,
    "resend_ms": 3_600_000,
    "leftovers_ms": 7_200_000,
    "leftovers_max_ms": 7_200_000,
    "restart": FixedDelay(1000),
}
"""Checkpoints only when asked for, nothing given again by the clock, restarts after a second."""

E = TypeVar("E", bound=Effect)

ANSWERED = (
    o.StartTask,
    o.StopTask,
    o.AdmitBatch,
    o.OpenGate,
    o.TakeSnapshot,
    o.PreCommitSink,
    o.CommitTransaction,
    o.AbortStaleGenerations,
    o.ReadCheckpointLog,
    o.CreateRecord,
    o.CopySavepoint,
    o.DeleteSavepoint,
    o.SetHold,
    o.ListFiles,
)
"""Orders that are in force until somebody answers."""


class Core:
    """One process, and what the store would show it."""

    def __init__(self, graph: Graph, **settings: Any) -> None:
        self.state = JobState(graph=graph, settings=Settings(**{**QUIET, **settings}))
        self.store: dict[int, Record] = {}
        self.held: tuple[CheckpointId, ...] = ()
        self.copied: tuple[CheckpointId, ...] = ()
        self.requests = 0

    def tell(self, *facts: e.Event) -> list[Effect]:
        """The orders that these facts lead to."""
        given: list[Effect] = []
        for fact in facts:
            self.state, effects = step(self.state, fact)
            invariants.check(self.state)
            assert forgotten(self.state, effects) == []
            assert follows(self.state) == []
            given += effects
        return given

    # -- from nothing to a running job -------------------------------------------------------------------------------

    def lead(self, leader: LeaderId = ME, restore: Restore | None = None) -> list[Effect]:
        return self.tell(e.LeadershipWon(leader, restore or Restore()))

    def read(self) -> list[Effect]:
        records = tuple(self.store[number] for number in sorted(self.store))
        return self.tell(e.CheckpointLogRead(self.state.leadership.leader, records, self.held, self.copied))

    def create(self) -> list[Effect]:
        """The store creates what was ordered.

        If that was an epoch record it is looked at once more, and the job begins.
        """
        record = self.state.checkpoint_log.queue[0]
        assert record.id not in self.store
        self.store[record.id] = record
        given = self.tell(e.RecordCreated(self.state.leadership.leader, record.generation, record.id))
        return self.read() if self.state.phase is Phase.READING else given

    def write_closing_record(self) -> list[Effect]:
        """The store creates the closing record."""
        record = self.state.checkpoint_log.queue[0]
        assert isinstance(record, EpochRecord)
        assert record.ending is not None
        return self.create()

    def start_all(self) -> list[Effect]:
        """All tasks are up, and the sinks have thrown away what was left."""
        up = [self.started(name) for name, task in self.state.execution.tasks.items() if not task.ended]
        return self.tell(
            *up, *(self.stale_generations_aborted(sink) for sink in self.state.leftovers.stale_generations)
        )

    # -- a task's facts ----------------------------------------------------------------------------------------------

    def whose(self, task: str) -> tuple[Generation, TaskId, Run]:
        return self.state.leadership.generation, TaskId(task), self.state.execution.tasks[TaskId(task)].run

    def stands(self, task: str, batch: int | None, positions: tuple[int, ...]) -> Boundary:
        """Where a task stands; what is not said has not moved."""
        now = self.state.execution.tasks[TaskId(task)].boundary
        return Boundary(now.batch if batch is None else Batch(batch), tuple(map(Batch, positions)) or now.positions)

    def started(self, task: str, batch: int | None = None, *positions: int) -> e.TaskStarted:
        return e.TaskStarted(*self.whose(task), self.stands(task, batch, positions))

    def entered(self, task: str, batch: int, *positions: int) -> e.BatchEntered:
        return e.BatchEntered(*self.whose(task), self.stands(task, batch, positions))

    def committed(self, task: str, batch: int, *positions: int) -> e.BatchCommitted:
        return e.BatchCommitted(*self.whose(task), self.stands(task, batch, positions))

    def failed(self, task: str, kind: FailureClass = FailureClass.EXTERNAL) -> e.TaskFailed:
        return e.TaskFailed(*self.whose(task), Failure(kind, "boom"))

    def ended(self, task: str, batch: int | None = None, *positions: int) -> e.TaskEnded:
        return e.TaskEnded(*self.whose(task), self.stands(task, batch, positions))

    def reported(self, task: str, batch: int | None = None, *positions: int, **more: Any) -> e.Reported:
        return e.Reported(*self.whose(task), self.stands(task, batch, positions), **more)

    # -- a checkpoint's facts ----------------------------------------------------------------------------------------

    def ask(self) -> list[Effect]:
        """A user asks for a checkpoint."""
        self.requests += 1
        return self.tell(e.CheckpointAsked(RequestId(f"r{self.requests}")))

    def savepoint(self, *, stop: bool = False, drain: bool = False) -> list[Effect]:
        self.requests += 1
        return self.tell(e.SavepointAsked(RequestId(f"r{self.requests}"), stop or drain, drain))

    def acked(self, task: str, checkpoint: int, batch: int | None = None) -> e.SnapshotTaken:
        """At the batch where the checkpoint has cut the task, unless another is named."""
        if batch is None:
            pending = next(one for one in self.state.checkpoints.pending if one.id == checkpoint)
            batch = pending.cuts[TaskId(task)].boundary.batch
        return e.SnapshotTaken(
            self.state.leadership.generation, CheckpointId(checkpoint), TaskId(task), Batch(batch), ("file",)
        )

    def pre_committed(self, checkpoint: int, sink: str = "out") -> e.SinkPreCommitted:
        return e.SinkPreCommitted(self.state.leadership.generation, CheckpointId(checkpoint), SinkId(sink))

    def pre_commit_failed(self, checkpoint: int, sink: str = "out") -> e.PreCommitFailed:
        return e.PreCommitFailed(self.state.leadership.generation, CheckpointId(checkpoint), SinkId(sink), "disk full")

    def visible(self, checkpoint: int, sink: str = "out") -> e.TransactionCommitted:
        generation = self.state.leadership.generation
        return e.TransactionCommitted(generation, SinkId(sink), generation, CheckpointId(checkpoint))

    def commit_failed(self, checkpoint: int, sink: str = "out") -> e.CommitFailed:
        generation = self.state.leadership.generation
        return e.CommitFailed(generation, SinkId(sink), generation, CheckpointId(checkpoint), "no answer")

    def stale_generations_aborted(self, sink: str = "out") -> e.StaleGenerationsAborted:
        return e.StaleGenerationsAborted(
            self.state.leadership.generation, SinkId(sink), self.state.leftovers.abort_below
        )

    def make_ready(self, checkpoint: int) -> list[Effect]:
        """Everyone does their part."""
        given = self.tell(*(self.acked(task, checkpoint) for task in self.state.execution.tasks))
        for sink, stands in self.state.sinks.items():
            if any(pre_commit.checkpoint == checkpoint for pre_commit in stands.wanted):
                given += self.tell(self.pre_committed(checkpoint, sink))
        return given

    def complete(self, checkpoint: int) -> list[Effect]:
        """Everyone does their part, the checkpoint is published, and what it pre-committed is committed."""
        given = self.make_ready(checkpoint) + self.create()
        for sink in self.state.sinks:
            while self.state.sinks[sink].due:
                one = self.state.sinks[sink].due[0][1]
                generation = self.state.leadership.generation
                given += self.tell(e.TransactionCommitted(generation, sink, one.generation, one.checkpoint))
        return given


def running(graph: Graph, **settings: Any) -> Core:
    """A job in its first generation, right after its epoch record at 0, with every task up and nothing committed."""
    core = Core(graph, **settings)
    core.lead()
    core.read()
    core.create()
    core.start_all()
    assert core.state.phase is Phase.RUNNING
    return core


def only(kind: type[E], given: Sequence[Effect]) -> list[E]:
    """The orders of one kind."""
    return [one for one in given if isinstance(one, kind)]


def told(given: Sequence[Effect]) -> list[tuple[str, str]]:
    """What users were told: the outcome, and to which request."""
    return [(one.outcome.value, str(one.request)) for one in only(o.Notify, given)]


def published(core: Core) -> list[CompletedCheckpoint]:
    return [record for record in core.store.values() if isinstance(record, CompletedCheckpoint)]


def follows(state: JobState) -> list[Effect]:
    """What follows from a state by itself, looked at with fresh eyes: a step leaves nothing of the kind."""
    context = StepContext(JobState(state.graph, state.settings))
    context.state = state
    derived.fire(context)
    assert context.effects or context.state is state, "something changes without a word"
    return context.effects


def forgotten(state: JobState, effects: Sequence[Effect]) -> list[Effect]:
    """Orders of a step that somebody must answer, and that would not be given again.

    Some are out of force by the end of their own step: a gate has been opened further, a checkpoint was given up, a
    task has ended already or is not to start after all, or the process no longer leads.
    """
    if state.phase in AT_REST:
        return []
    again = list(timing.unanswered(state))
    given_up = {one.checkpoint for one in only(o.AbortSnapshot, effects)}
    return [
        one
        for one in effects
        if isinstance(one, ANSWERED) and one not in again and not _out_of_force(state, one, given_up)
    ]


def _out_of_force(state: JobState, effect: Effect, given_up: set[CheckpointId]) -> bool:
    match effect:
        case o.StartTask():
            return (
                state.phase is not Phase.RUNNING or state.termination.draining
            )  # Then it may come up without reading.
        case o.StopTask(_, task, run, drain=True):
            stands = state.execution.tasks[task]
            return state.phase is not Phase.RUNNING or stands.ended or stands.run > run
        case o.StopTask():
            return state.phase is Phase.READING
        case o.OpenGate(_, channel, through):
            return through < state.execution.gates[channel] or state.phase is not Phase.RUNNING
        case o.AdmitBatch(_, task, run, batch):
            stands = state.execution.tasks[task]
            return (
                state.phase is not Phase.RUNNING or stands.run > run or stands.boundary.batch >= batch or stands.ended
            )
        case o.TakeSnapshot(checkpoint=checkpoint):
            return checkpoint in given_up
        case o.PreCommitSink():
            return state.phase is not Phase.RUNNING
        case o.AbortStaleGenerations(below=below):
            return below < state.leftovers.abort_below
        case _:
            return False
