"""If we die here: one standard run, cut before and after every order it gives.

One rule: the standard run shows every kind of order at least once, and every single order is cut twice: once the
leader dies just before it, once just after. Each time another process takes over, and the job must come to its end
exactly once.
"""

from dataclasses import dataclass, field

from headgate.core import effects as e
from headgate.core.graph import Channel, Graph, Operator, Task
from headgate.core.ids import ChannelId, OperatorUid, SinkId, TaskId
from headgate.core.records import AbortedEntry, EpochRecord
from headgate.core.restart import FixedDelay
from headgate.core.settings import Settings
from headgate.sim.plan import Fault, WorldPlan
from headgate.sim.world import Process, World

MEANING: dict[str, tuple[str, str]] = {
    "ReadCheckpointLog": ("nothing has happened", "nothing has happened"),
    "CreateRecord (epoch record)": (
        "the next leader writes the same id",
        "it may stand; the next leader writes the id after it, and the generation between never ran a task",
    ),
    "CreateRecord (checkpoint)": (
        "the checkpoint never was; what it pre-committed is thrown away and written again",
        "if the record landed the checkpoint is complete and the next leader commits it; if not, it never was",
    ),
    "CreateRecord (closing record)": (
        "the next leader returns to the last checkpoint, and the job comes to its end once more",
        "if it landed the job is over, and whoever takes over leaves it there; else as before",
    ),
    "CreateRecord (aborted entry)": (
        "the id stays without a record; the epoch record takes it",
        "the id is aborted, or the epoch record takes it",
    ),
    "StartTask": (
        "the next generation starts the task from the same checkpoint",
        "the query dies with the process; what it wrote belongs to a dead generation",
    ),
    "StopTask": ("the query dies with the process", "the query dies with the process"),
    "AskTask": ("nothing has happened", "nothing has happened"),
    "AdmitBatch": ("the batch is run again", "the batch is run again, from the checkpoint"),
    "OpenGate": ("data waits behind the gate, and is read again from the checkpoint", "the same"),
    "TakeSnapshot": ("the checkpoint never completes", "the files may be named twice; the checkpoint never completes"),
    "AnswerAck": ("the checkpoint never completes", "the checkpoint never completes"),
    "AbortSnapshot": ("the checkpoint was given up already", "the checkpoint was given up already"),
    "NotifyCompleted": ("sources learn it from the next checkpoint", "the checkpoint is complete"),
    "PreCommitSink": (
        "the output stays open and is thrown away by the next generation",
        "the output is pre-committed for a checkpoint that never completes: thrown away, and written again",
    ),
    "CommitTransaction": (
        "the checkpoint is complete: the next leader commits before it starts any task",
        "committed or not, the next leader commits again; a repeat is harmless",
    ),
    "AbortFailedAttempts": ("left behind; the next generation throws it away", "thrown away"),
    "AbortStaleGenerations": ("left behind; the next generation throws it away", "thrown away"),
    "CopySavepoint": ("the next leader copies the savepoint", "the next leader finds the copy, or makes it"),
    "DeleteSavepoint": ("the savepoint is there", "the savepoint is gone, or its copy is left without a record"),
    "SetHold": ("the user was not told that it is held", "it is held"),
    "ListFiles": ("the next collection lists again", "the next collection lists again"),
    "DeleteFiles": ("the next collection deletes it", "partly deleted; no kept checkpoint names any of it"),
    "Notify": ("the user does not hear of it", "the user has heard of it"),
}
"""What each cut leaves behind, in words. The figures beside it are counted, not written."""


@dataclass
class CrashRow:
    """All cuts at one kind of order."""

    order: str
    cuts: int = 0
    commits: int = 0
    """Cuts after which the next leader had commits to finish."""
    lost: int = 0
    doubled: int = 0


@dataclass
class CrashTable:
    """The table "if we die here"."""

    rows: dict[str, CrashRow] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)

    @property
    def cuts(self) -> int:
        """How many times the run was cut."""
        return sum(row.cuts for row in self.rows.values())

    def as_markdown(self) -> str:
        """The table as docs/protocol.md shows it."""
        lines = [
            "| order | if we die just before it | if we die just after it | cuts | commits left | lost | doubled |",
            "| --- | --- | --- | ---: | ---: | ---: | ---: |",
        ]
        for name, (before, after) in MEANING.items():
            row = self.rows.get(name, CrashRow(name))
            figures = f"{row.cuts} | {row.commits} | {row.lost} | {row.doubled}"
            lines.append(f"| {name} | {before} | {after} | {figures} |")
        return "\n".join(lines)

    def as_json(self) -> list[dict[str, object]]:
        """The figures alone."""
        return [vars(row) for row in self.rows.values()]


def standard_plan() -> WorldPlan:
    """A job with a fork and two sinks: a task fails, a checkpoint is declined, one is held, a savepoint is deleted."""
    names = (("t0", "orders"), ("t1", "user-windows"), ("t2", "anomalies"))
    tasks = tuple(
        Task(
            TaskId(task),
            operators=(Operator(OperatorUid(uid), stateful=True),),
            sinks=() if task == "t0" else (SinkId(f"k{int(task[1:]) - 1}"),),
            has_source=task == "t0",
        )
        for task, uid in names
    )
    channels = tuple(Channel(ChannelId(f"c{n}"), TaskId("t0"), TaskId(f"t{n + 1}")) for n in range(2))
    settings = Settings(
        interval_ms=40,
        tolerable_failed_checkpoints=3,
        timeout_ms=1_000,
        restart=FixedDelay(delay_ms=5),
        resend_ms=60,
        commit_retry_ms=5,
        commit_retry_max_ms=20,
    )
    faults = (
        Fault(70, "ask-hold", "", 0, 0),
        Fault(90, "crash-task", "t1", 1, 0),
        Fault(120, "ask-savepoint", "", 0, 0),
        Fault(170, "decline", "t2", 1, 0),
        Fault(190, "ask-release", "", 0, 0),
        Fault(240, "ask-delete", "", 0, 0),
    )
    return WorldPlan(1, Graph(tasks, channels), settings, {TaskId("t0"): 24}, faults)


def everywhere() -> CrashTable:
    """Cut the standard run everywhere."""
    plan = standard_plan()
    table = CrashTable()
    orders = _orders(plan, table)
    for number, name in enumerate(orders, start=1):
        for after in (False, True):
            _cut(plan, table, name, number, after=after)
    return table


def _orders(plan: WorldPlan, table: CrashTable) -> list[str]:
    """Every order of the standard run, uncut."""
    orders: list[str] = []
    world = World(plan)
    world.on_effect = lambda _, __, effect: orders.append(kind(effect))
    verdict = world.run()
    table.violations.extend(verdict.violations)
    return orders


def _cut(plan: WorldPlan, table: CrashTable, name: str, number: int, *, after: bool) -> None:
    world = World(plan)
    if after:
        world.crash_after = number
    else:
        world.crash_before = number
    left: dict[str, None] = {}

    def watch(world: World, process: Process, effect: e.Effect) -> None:
        if (
            isinstance(effect, e.CommitTransaction)
            and process.name == "L1"
            and process.state.phase.value == "recovering"
        ):
            sink = world.sinks[effect.transaction.sink]
            if (effect.transaction.generation, effect.transaction.checkpoint) not in sink.committed:
                left["commit"] = None

    world.on_effect = watch
    verdict = world.run()
    row = table.rows.setdefault(name, CrashRow(name))
    row.cuts += 1
    row.commits += len(left)
    for sink, task in world.checker.shape.sinks:
        lost, doubled = world.checker.count(sink, task)
        row.lost += lost
        row.doubled += doubled
    where = "after" if after else "before"
    table.violations.extend(f"died {where} order {number} ({name}): {what}" for what in verdict.violations)


def kind(effect: e.Effect) -> str:
    """What an order is called in the table."""
    name = type(effect).__name__
    if not isinstance(effect, e.CreateRecord):
        return name
    record = effect.record
    if isinstance(record, EpochRecord):
        return f"{name} (epoch record)" if record.ending is None else f"{name} (closing record)"
    return f"{name} (aborted entry)" if isinstance(record, AbortedEntry) else f"{name} (checkpoint)"
