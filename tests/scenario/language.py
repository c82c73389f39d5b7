"""The language of the transcripts.

A transcript begins with a comment that says which rule it shows. Then come blocks: lines of commands, ``----``, and
what they lead to: the core's orders, worded by ``wording``. A block ends with an empty line.

A world has one store and any number of processes; ``lead L1`` (or ``as L1``) says whose core is spoken to from there.
A fact is about the task's present run unless ``run=`` or ``gen=`` says otherwise, and about what the core waits for: so
``created`` is the store's yes to the record that was ordered, and ``committed k0`` the sink's to the commit.

Unless a job says otherwise it takes checkpoints only when asked (``interval_ms=none``), repeats no order by the clock
(``resend_ms`` and ``leftovers_ms`` are an hour), and restarts after 1000 ms.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from headgate.core import events as e, invariants, timing
from headgate.core.commit import SinkState
from headgate.core.effects import DeleteFiles
from headgate.core.graph import Channel, Graph, Operator, Task
from headgate.core.ids import (
    Batch,
    ChannelId,
    CheckpointId,
    Generation,
    LeaderId,
    OperatorUid,
    RequestId,
    Run,
    SinkId,
    TaskId,
)
from headgate.core.job import step
from headgate.core.records import Boundary, Record, Restore, StoredFile
from headgate.core.restart import Failure, FailureClass, FixedDelay, NoRestart
from headgate.core.settings import Mode, Settings
from headgate.core.state import JobState
from tests.scenario import wording


@dataclass
class Words:
    """A command's words: those with ``=`` by name, the others in order."""

    plain: list[str]
    named: dict[str, str]

    def __getitem__(self, index: int) -> str:
        return self.plain[index]

    def number(self, index: int, default: int = -1) -> int:
        return int(self.plain[index]) if index < len(self.plain) else default


@dataclass
class World:
    """All that one transcript talks about."""

    tasks: list[Task] = field(default_factory=list)
    channels: list[Channel] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=lambda: dict(DEFAULTS))
    processes: dict[str, JobState] = field(default_factory=dict)
    speaker: str = "L0"
    store: dict[int, Record] = field(default_factory=dict)
    held: list[CheckpointId] = field(default_factory=list)
    copied: list[CheckpointId] = field(default_factory=list)
    pending_deletion: tuple[CheckpointId, ...] = ()

    def run(self, line: str) -> list[str]:
        """Carry out one command; return what it leads to."""
        name, *rest = line.split()
        words = Words(
            [word for word in rest if "=" not in word], dict(word.split("=", 1) for word in rest if "=" in word)
        )
        if name in SETTING:
            SETTING[name](self, words)
            return []
        if name == "state":
            return wording.whole(self.state)
        if name == "deadline":
            return [f"{timing.next_deadline(self.state)} ms"]
        if name == "boot":
            return self._boot()
        if name == "ack" and words[0] == "all":
            pending = next(one for one in self.state.checkpoints.pending if one.id == words.number(1))
            left = [task for task in pending.cuts if task not in pending.acknowledged]
            return [said for task in left for said in self.tell(acknowledged(self, Words([task, words[1]], {})))]
        return self.tell(FACTS[name](self, words))

    def tell(self, event: e.Event) -> list[str]:
        """The core that is spoken to takes in a fact."""
        before = self.state
        self.processes[self.speaker], effects = step(before, event)
        invariants.check(self.state)
        self.pending_deletion = next(
            (order.records for order in effects if isinstance(order, DeleteFiles)), self.pending_deletion
        )
        return [wording.order(effect) for effect in effects]

    @property
    def state(self) -> JobState:
        if self.speaker not in self.processes:
            graph = Graph(tuple(self.tasks), tuple(self.channels))
            self.processes[self.speaker] = JobState(graph=graph, settings=Settings(**self.settings))
        return self.processes[self.speaker]

    @property
    def leader(self) -> LeaderId:
        return self.state.leadership.leader

    @property
    def generation(self) -> Generation:
        return self.state.leadership.generation

    def _boot(self) -> list[str]:
        for line in ("lead L0", "log-read", "created", "log-read", *(f"start {task.id}" for task in self.tasks)):
            self.run(line)
        for sink in self.state.leftovers.stale_generations:
            self.run(f"aborted {sink}")
        return [f"{self.speaker} runs generation {self.generation}"]

    def run_of(self, words: Words) -> tuple[Generation, TaskId, Run]:
        task = TaskId(words[0])
        generation = Generation(int(words.named.get("gen", self.generation)))
        return generation, task, Run(int(words.named.get("run", self.state.execution.tasks[task].run)))

    def boundary(self, words: Words) -> Boundary:
        """The batch that is named, else the one where the task stands; positions that are not named have not moved."""
        task = TaskId(words[0])
        stands = self.state.execution.tasks[task].boundary
        batch = words[1] if len(words.plain) > 1 and words[1].lstrip("-").isdigit() else stands.batch
        inputs = zip(self.state.graph.inputs[task], stands.positions, strict=True)
        return Boundary(Batch(int(batch)), tuple(Batch(int(words.named.get(c.id, at))) for c, at in inputs))

    def head(self) -> Record:
        return self.state.checkpoint_log.queue[0]

    def sink(self, words: Words) -> SinkState:
        return self.state.sinks[SinkId(words[0])]


# -- the job -------------------------------------------------------------------------------------------------------

DEFAULTS: dict[str, Any] = {
    "interval_ms": None,
    "resend_ms": 3_600_000,
    "leftovers_ms": 3_600_000,
    "leftovers_max_ms": 3_600_000,
    "restart": FixedDelay(1000),
}


def declare_task(world: World, words: Words) -> None:
    """``task t2 c0=t0 c1=t1 writes k0`` reads two channels; ``task t0 source`` reads a source of its own."""
    name, rest = TaskId(words[0]), words.plain[1:]
    sinks = tuple(map(SinkId, rest[rest.index("writes") + 1 :])) if "writes" in rest else ()
    world.tasks.append(Task(name, (Operator(OperatorUid(name), stateful=True),), sinks, has_source="source" in rest))
    world.channels += [Channel(ChannelId(c), TaskId(upstream), name) for c, upstream in words.named.items()]


def declare_settings(world: World, words: Words) -> None:
    """``job num_retained=2 unaligned=yes``: the names of ``Settings``."""
    for name, value in words.named.items():
        meaning: Any = {"none": None, "yes": True, "no": False}.get(value, value)
        if name == "mode":
            meaning = Mode(value)
        elif name == "restart":
            meaning = NoRestart() if value == "none" else FixedDelay(int(value))
        elif value.isdigit():
            meaning = int(value)
        world.settings[name] = meaning


def speak_as(world: World, words: Words) -> None:
    world.speaker = words[0]


SETTING: dict[str, Callable[[World, Words], None]] = {"task": declare_task, "job": declare_settings, "as": speak_as}

# -- facts ---------------------------------------------------------------------------------------------------------


def won(world: World, words: Words) -> e.Event:
    world.speaker = words[0]
    wanted = words.named.get("restore")
    checkpoint = CheckpointId(int(wanted)) if wanted else None
    return e.LeadershipWon(LeaderId(words[0]), Restore(checkpoint=checkpoint, again="again" in words.plain))


def checkpoint_log_read(world: World, _: Words) -> e.Event:
    records = tuple(world.store[number] for number in sorted(world.store))
    return e.CheckpointLogRead(world.leader, records, tuple(world.held), tuple(world.copied))


def created(world: World, _: Words) -> e.Event:
    record = world.head()
    assert record.id not in world.store, "the id is taken: the store would say so"
    world.store[record.id] = record
    return e.RecordCreated(world.leader, record.generation, record.id)


def taken(world: World, _: Words) -> e.Event:
    return e.RecordTaken(world.leader, world.store[world.head().id])


def unclear(world: World, words: Words) -> e.Event:
    """``unclear landed``: the record is in the store, and nobody knows."""
    record = world.head()
    if "landed" in words.plain:
        world.store[record.id] = record
    return e.CreateUnclear(world.leader, record.generation, record.id, "no answer")


def reported(world: World, words: Words) -> e.Event:
    failed = words.named.get("failed")
    return e.Reported(
        *world.run_of(words),
        world.boundary(words),
        source_ended="source-ended" in words.plain,
        ended="ended" in words.plain,
        failure=Failure(FailureClass(failed), "found dead") if failed else None,
    )


def acknowledged(world: World, words: Words) -> e.Event:
    """``ack t0 1``: at the batch where checkpoint 1 has cut t0, unless ``batch=`` names another."""
    task, checkpoint = TaskId(words[0]), CheckpointId(words.number(1))
    cuts = next((pending.cuts for pending in world.state.checkpoints.pending if pending.id == checkpoint), {})
    batch = int(words.named.get("batch", cuts[task].boundary.batch if task in cuts else -1))
    generation = Generation(int(words.named.get("gen", world.generation)))
    return e.SnapshotTaken(generation, checkpoint, task, Batch(batch), (f"g{generation}/{task}/{batch}",))


def committed(world: World, words: Words) -> e.Event:
    one = world.sink(words).due[0][1]
    return e.TransactionCommitted(world.generation, one.sink, one.generation, one.checkpoint)


def commit_failed(world: World, words: Words) -> e.Event:
    one = world.sink(words).due[0][1]
    return e.CommitFailed(world.generation, one.sink, one.generation, one.checkpoint, "no answer")


def copied(world: World, words: Words) -> e.Event:
    world.copied.append(CheckpointId(words.number(0)))
    return e.SavepointCopied(world.leader, world.copied[-1])


def hold_set(world: World, words: Words) -> e.Event:
    """``hold-set 3`` or ``hold-set 3 released``."""
    number, held = CheckpointId(words.number(0)), "released" not in words.plain
    world.held = [*(other for other in world.held if other != number), *([number] if held else [])]
    return e.HoldSet(world.leader, number, held)


def listed(world: World, words: Words) -> e.Event:
    """``list g1/t0/3``: a file of generation 1, of task t0, at batch 3."""
    parts = [(name, *name.split("/")) for name in words.plain]
    files = (StoredFile(name, Generation(int(g[1:])), TaskId(owner), Batch(int(at))) for name, g, owner, at in parts)
    return e.FilesListed(world.generation, tuple(files))


def deleted(world: World, _: Words) -> e.Event:
    """The records of the last ``delete`` order are gone."""
    world.store = {number: record for number, record in world.store.items() if number not in world.pending_deletion}
    return e.FilesDeleted(world.generation, world.pending_deletion)


def of_sink(fact: Callable[[Generation, CheckpointId, SinkId, str], e.Event]) -> Callable[[World, Words], e.Event]:
    return lambda w, x: fact(w.generation, CheckpointId(x.number(1)), SinkId(x[0]), "")


FACTS: dict[str, Callable[[World, Words], e.Event]] = {
    "lead": won,
    "lost": lambda _, x: e.LeadershipLost(LeaderId(x[0])),
    "log-read": checkpoint_log_read,
    "created": created,
    "taken": taken,
    "unclear": unclear,
    "start": lambda w, x: e.TaskStarted(*w.run_of(x), w.boundary(x)),
    "enter": lambda w, x: e.BatchEntered(*w.run_of(x), w.boundary(x)),
    "written": lambda w, x: e.OutputsWritten(*w.run_of(x), Batch(x.number(1))),
    "commit": lambda w, x: e.BatchCommitted(*w.run_of(x), w.boundary(x)),
    "fail": lambda w, x: e.TaskFailed(*w.run_of(x), Failure(FailureClass(x[1]), " ".join(x.plain[2:]) or "boom")),
    "end": lambda w, x: e.TaskEnded(*w.run_of(x), w.boundary(x)),
    "source-ended": lambda w, x: e.SourceEnded(*w.run_of(x)),
    "report": reported,
    "tick": lambda _, x: e.Ticked(x.number(0)),
    "ack": acknowledged,
    "decline": lambda w, x: e.SnapshotDeclined(w.generation, CheckpointId(x.number(1)), TaskId(x[0]), "too busy"),
    "pre-commit": of_sink(e.SinkPreCommitted),
    "pre-commit-failed": of_sink(e.PreCommitFailed),
    "committed": committed,
    "commit-failed": commit_failed,
    "aborted": lambda w, x: e.StaleGenerationsAborted(w.generation, SinkId(x[0]), w.state.leftovers.abort_below),
    "ask-checkpoint": lambda _, x: e.CheckpointAsked(RequestId(x[0])),
    "ask-savepoint": lambda _, x: e.SavepointAsked(
        RequestId(x[0]), stop="stop" in x.plain or "drain" in x.plain, drain="drain" in x.plain
    ),
    "cancel": lambda _, x: e.CancelAsked(RequestId(x[0])),
    "hold": lambda _, x: e.HoldAsked(RequestId(x[0]), CheckpointId(x.number(1))),
    "release": lambda _, x: e.HoldAsked(RequestId(x[0]), CheckpointId(x.number(1)), held=False),
    "hold-set": hold_set,
    "copied": copied,
    "list": listed,
    "deleted": deleted,
}
