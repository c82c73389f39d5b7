"""What the core remembers.

One rule: only facts are stored, and whatever can be derived from them is derived. Everything is frozen; a step builds
a new ``JobState`` from the old one. Mappings are plain dicts that nobody changes, in the order of the graph.

A ``JobState`` has a record for each subject. Those of a machine of its own are where that machine is:
``checkpoint_log.CheckpointLog``, ``commit.SinkState``, ``retention.RetainedCheckpoints`` and ``GarbageCollection``,
``restart.Restarts``. The others are here, below everybody who changes them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from headgate.core.checkpoint_log import CheckpointLog
from headgate.core.commit import SinkState
from headgate.core.effects import Effect, StartTask
from headgate.core.errors import ProtocolError
from headgate.core.evolve import evolve
from headgate.core.graph import Graph
from headgate.core.ids import (
    NO_BATCH,
    NO_CHECKPOINT,
    NO_GENERATION,
    NO_LEADER,
    NO_RUN,
    Batch,
    ChannelId,
    CheckpointId,
    Generation,
    LeaderId,
    RequestId,
    Run,
    SinkId,
    TaskId,
)
from headgate.core.records import Boundary, CompletedCheckpoint, Ending, EpochRecord, Kind, Record, Restore, Transaction
from headgate.core.restart import Restarts
from headgate.core.retention import GarbageCollection, RetainedCheckpoints
from headgate.core.settings import Settings

STORY_MAX = 40
"""How many lines of the story are kept for an error message."""


class Phase(Enum):
    """What the whole job is doing."""

    IDLE = "idle"
    """Nobody has asked this process to lead."""
    READING = "reading"
    """Waiting for the records of the checkpoint log."""
    FENCING = "fencing"
    """Waiting for our epoch record to be in the store."""
    RECOVERING = "recovering"
    """Finishing the commits that were decided before us. No task runs yet."""
    RUNNING = "running"
    RESTARTING = "restarting"
    """Waiting out the delay before the job returns to its last checkpoint."""
    CLOSING = "closing"
    """No more checkpoints start; what was decided is being finished."""
    CLOSED = "closed"
    """Over; ``Termination.ending`` says how."""
    DEPOSED = "deposed"
    """Somebody else leads. Nothing is touched any more."""


AT_REST = (Phase.IDLE, Phase.CLOSED, Phase.DEPOSED)
"""Phases in which nothing is under way and nothing is ordered."""


@dataclass(frozen=True)
class TaskState:
    """One task of this generation."""

    run: Run = NO_RUN
    started: bool = False
    """This run has said that it is up."""
    boundary: Boundary = Boundary(NO_BATCH)  # noqa: RUF009 - frozen
    """The last committed batch."""
    entered: Batch = NO_BATCH
    """The last batch that went into the hook."""
    admitted: Batch = NO_BATCH
    """The last batch that was let go on from there."""
    written: Batch = NO_BATCH
    """The last batch whose outputs are written."""
    source_ended: bool = False
    draining: bool = False
    ended: bool = False
    """Finished for good: ``boundary`` is its last."""
    restart_at_ms: int | None = None
    again_from_ms: int | None = None
    """When it first went on in place since it last came to a batch of its own."""
    again_through: Batch = NO_BATCH
    """The last batch that it had begun when it failed. Once one after it is committed, the task has caught up."""
    fruitless: int = 0
    """Restarts since a batch was committed that had something to read. At the end of time there is always one more:
    where each of them fails and is left out, they never come to an end."""

    @property
    def is_catching_up(self) -> bool:
        """Whether it still does again what it had begun before it failed."""
        return self.again_from_ms is not None and not self.ended and self.boundary.batch <= self.again_through


@dataclass(frozen=True)
class Cut:
    """Where a checkpoint cuts through a task: right after a committed batch. On the task's output channels the barrier
    stands after the same batch.
    """

    boundary: Boundary
    finished: bool


@dataclass(frozen=True)
class Acknowledgement:
    """The files that a task named for its snapshot, and the generation that wrote it."""

    files: tuple[str, ...]
    generation: Generation


@dataclass(frozen=True)
class PendingCheckpoint:
    """A checkpoint under way. Becomes a ``CompletedCheckpoint`` when every task has been cut and has acknowledged."""

    id: CheckpointId
    kind: Kind
    triggered_at_ms: int
    unaligned: bool
    cuts: Mapping[TaskId, Cut] = field(default_factory=dict)
    acknowledged: Mapping[TaskId, Acknowledgement] = field(default_factory=dict)
    request: RequestId | None = None
    draining: bool = False
    """The job was being drained when it was triggered."""


@dataclass(frozen=True)
class Request:
    """A checkpoint or savepoint that a user asked for and that has not been triggered yet."""

    id: RequestId
    kind: Kind
    stop: bool = False
    drain: bool = False
    """The sources are to end first."""


@dataclass(frozen=True)
class Leadership:
    """Who leads, in which generation, and what the checkpoint log showed on the way there."""

    leader: LeaderId = NO_LEADER
    generation: Generation = NO_GENERATION
    restore: Restore = Restore()  # noqa: RUF009 - frozen
    """What the user said about where to begin. Used up by the first checkpoint that completes."""
    records: tuple[Record, ...] = ()
    """The checkpoint log as it was read, until the generation is open."""
    epoch_record: EpochRecord | None = None
    """Our epoch record, once it is in the store, until it is seen to be the last record."""
    in_doubt: tuple[CompletedCheckpoint, ...] = ()
    """Checkpoints that were ready when the job restarted: the checkpoint log will tell whether they are complete."""


@dataclass(frozen=True)
class Execution:
    """The tasks of this generation, and the gates of the channels between them."""

    starts: tuple[StartTask, ...] = ()
    """How the tasks are started, once the sinks are recovered."""
    began_ms: int = 0
    """When they were."""
    tasks: Mapping[TaskId, TaskState] = field(default_factory=dict)
    gates: Mapping[ChannelId, Batch] = field(default_factory=dict)


@dataclass(frozen=True)
class Checkpoints:
    """Checkpoints under way and asked for, and when the next one is due."""

    pending: tuple[PendingCheckpoint, ...] = ()
    """In the order of ids. At most ``max_concurrent_checkpoints``."""
    requests: tuple[Request, ...] = ()
    """At most ``coordinator.REQUESTS_MAX``."""
    next_id: CheckpointId = NO_CHECKPOINT
    next_trigger_ms: int = 0
    """When the next periodic checkpoint is due. A restart does not put it off."""
    last_end_ms: int | None = None
    failures: int = 0
    """Failed checkpoints in a row."""
    stop_after: CheckpointId = NO_CHECKPOINT
    """The savepoint after which the user wants the job to stop. Of a job that drains: the last one."""


@dataclass(frozen=True)
class Leftovers:
    """What sinks have still to throw away of generations that are over, and when they look for it again."""

    abort_below: Generation = NO_GENERATION
    """Sinks throw away what generations before this one left uncommitted."""
    stale_generations: tuple[SinkId, ...] = ()
    """Sinks that have not done so yet."""
    look_again_at_ms: int | None = None
    look_again_ms: int = 0
    """How long they waited before that."""


@dataclass(frozen=True)
class Termination:
    """How the job comes to its end, and what is given up for that."""

    ending: Ending | None = None
    cancel: RequestId | None = None
    """A user wants the job to end as soon as there is a generation to end."""
    abandon: tuple[SinkId, ...] = ()
    """Sinks whose commits a closing job does not wait for: a user gave them up."""
    abandoned: tuple[Transaction, ...] = ()
    """What these sinks owed. It goes into the closing record."""
    closing_written: bool = False
    """The closing record has been ordered."""
    draining: bool = False
    """Sources have ended where they stood, for good: a user wanted that, here or where this generation comes from."""
    drain: RequestId | None = None
    """Who waits for the end of that. While the last savepoint is under way, it is the savepoint's request."""


@dataclass(frozen=True)
class JobState:
    """Everything about one job, as one process knows it."""

    graph: Graph
    settings: Settings
    now_ms: int = 0
    phase: Phase = Phase.IDLE
    leadership: Leadership = Leadership()
    checkpoint_log: CheckpointLog = CheckpointLog()  # noqa: RUF009 - frozen
    execution: Execution = Execution()
    checkpoints: Checkpoints = Checkpoints()
    sinks: Mapping[SinkId, SinkState] = field(default_factory=dict)
    leftovers: Leftovers = Leftovers()
    retained: RetainedCheckpoints = RetainedCheckpoints()  # noqa: RUF009 - frozen
    collection: GarbageCollection = GarbageCollection()  # noqa: RUF009 - frozen
    restarts: Restarts = Restarts()  # noqa: RUF009 - frozen
    termination: Termination = Termination()
    resend_at_ms: int | None = None
    """When orders that nobody has answered are given again."""
    story: tuple[str, ...] = ()


def ready(state: JobState) -> tuple[CompletedCheckpoint, ...]:
    """Checkpoints that everyone has done their part for, and whose records may or may not be in the store."""
    return tuple(
        record
        for record in (*state.checkpoint_log.queue, *state.leadership.in_doubt)
        if isinstance(record, CompletedCheckpoint)
    )


def drains(state: JobState) -> bool:
    """Whether the job is being drained, or somebody who wants that waits for their turn."""
    return state.termination.draining or any(request.drain for request in state.checkpoints.requests)


class StepContext:
    """One step under way: the state so far, and the orders given so far. Lives only inside ``step``."""

    __slots__ = ("before", "effects", "state")

    def __init__(self, state: JobState) -> None:
        """Begin with the state before the step."""
        self.before = state
        self.state = state
        self.effects: list[Effect] = []

    def order(self, effect: Effect) -> None:
        """Give an order."""
        self.effects.append(effect)

    def sink(self, name: SinkId) -> SinkState:
        """A sink of this generation."""
        state = self.state.sinks.get(name)
        if state is None:
            raise self.impossible(f"a fact about sink {name}, which the job does not have")
        return state

    def set_task(self, task: TaskId, state: TaskState) -> None:
        """Remember what is new about a task."""
        execution = self.state.execution
        self.state = evolve(self.state, execution=evolve(execution, tasks={**execution.tasks, task: state}))

    def set_pending(self, pending: tuple[PendingCheckpoint, ...]) -> None:
        """Remember what is new about the checkpoints under way."""
        self.state = evolve(self.state, checkpoints=evolve(self.state.checkpoints, pending=pending))

    def set_sink(self, sink: SinkId, state: SinkState) -> None:
        """Remember what is new about a sink."""
        self.state = evolve(self.state, sinks={**self.state.sinks, sink: state})

    def tell_story(self, line: str) -> None:
        """Add a line to the story that an error would show."""
        story = (*self.state.story[1 - STORY_MAX :], f"{self.state.now_ms} ms: {line}")
        self.state = evolve(self.state, story=story)

    def impossible(self, what: str) -> ProtocolError:
        """The error for a fact that cannot be."""
        return ProtocolError(what, self.state.story)
