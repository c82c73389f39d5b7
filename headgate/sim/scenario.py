"""A world as text, so that a failure can be kept, read, and played again.

One rule: a scenario holds the whole plan, not only its seed, so it stays the same world when seeds come to mean others.
"""

from dataclasses import fields
from pathlib import Path

from headgate.core import restart
from headgate.core.errors import HeadgateError
from headgate.core.graph import Channel, Graph, Operator, Task
from headgate.core.ids import ChannelId, OperatorUid, SinkId, TaskId
from headgate.core.settings import Mode, Settings
from headgate.sim.plan import Fault, WorldPlan

STRATEGIES = {
    strategy.__name__: strategy
    for strategy in (restart.NoRestart, restart.FixedDelay, restart.FailureRate, restart.ExponentialDelay)
}


class BadScenario(ValueError):
    """A scenario that cannot be read, with the line that is wrong."""


def write(plan: WorldPlan, comment: str = "") -> str:
    """The text of a plan."""
    lines = [f"# {line}" for line in comment.splitlines()]
    lines.append(f"seed {plan.seed}")
    lines.extend(f"setting {field.name} {_value(plan.settings, field.name)}" for field in fields(Settings))
    for task in plan.graph.tasks:
        sinks = ",".join(task.sinks) or "-"
        uids = ",".join(operator.uid for operator in task.operators)
        records = plan.records.get(task.id, 0) if task.has_source else "-"
        lines.append(f"task {task.id} {uids} {sinks} {task.partitions} {records}")
    if plan.room is not None:
        lines.append(f"room {plan.room}")
    lines.extend(f"channel {channel.id} {channel.upstream} {channel.downstream}" for channel in plan.graph.channels)
    lines.extend(f"fault {fault}" for fault in plan.faults)
    return "\n".join(lines) + "\n"


def read(text: str) -> WorldPlan:
    """The plan of a text."""
    seed: int | None = None
    room: int | None = None
    settings: dict[str, object] = {}
    tasks: list[Task] = []
    records: dict[TaskId, int] = {}
    channels: list[Channel] = []
    faults: list[Fault] = []
    for number, line in enumerate(text.splitlines(), start=1):
        word, _, rest = line.partition(" ")
        try:
            match word:
                case "" | "#":
                    pass
                case "seed":
                    seed = int(rest)
                case "room":
                    room = int(rest)
                case "setting":
                    name, _, value = rest.partition(" ")
                    settings[name] = _parse(name, value)
                case "task":
                    task, count = _task(rest)
                    tasks.append(task)
                    if count is not None:
                        records[task.id] = count
                case "channel":
                    name, upstream, downstream = rest.split()
                    channels.append(Channel(ChannelId(name), TaskId(upstream), TaskId(downstream)))
                case "fault":
                    faults.append(Fault.parse(rest))
                case _:
                    raise BadScenario(f"unknown word {word!r}")
        except (ValueError, KeyError) as error:
            raise BadScenario(f"line {number} of the scenario cannot be read: {line!r} ({error})") from error
    if seed is None:
        raise BadScenario("the scenario has no line 'seed N'")
    try:
        graph = Graph(tuple(tasks), tuple(channels))
        return WorldPlan(seed, graph, Settings(**settings), records, tuple(faults), room)  # type: ignore[arg-type]
    except (HeadgateError, TypeError) as error:
        raise BadScenario(f"the scenario describes a job that cannot be: {error}") from error


def load(path: Path) -> WorldPlan:
    """The plan in a file."""
    try:
        return read(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise BadScenario(f"{path} cannot be read: {error}") from error


def _value(settings: Settings, name: str) -> str:
    value = getattr(settings, name)
    if isinstance(value, Mode):
        return value.value
    if type(value).__name__ in STRATEGIES:
        return " ".join([type(value).__name__, *(f"{f.name}={getattr(value, f.name)}" for f in fields(value))])
    return str(value)


def _parse(name: str, value: str) -> object:
    if name == "mode":
        return Mode(value)
    if name == "restart":
        kind, *parts = value.split()
        return STRATEGIES[kind](**{key: _number(text) for key, text in (part.split("=") for part in parts)})  # type: ignore[arg-type]
    return _number(value)


def _number(text: str) -> float | bool | None:
    special: dict[str, bool | None] = {"None": None, "True": True, "False": False}
    if text in special:
        return special[text]
    return float(text) if "." in text else int(text)


def _task(rest: str) -> tuple[Task, int | None]:
    name, uids, sinks, partitions, count = rest.split()
    task = Task(
        TaskId(name),
        operators=tuple(Operator(OperatorUid(uid), stateful=True) for uid in uids.split(",")),
        sinks=() if sinks == "-" else tuple(SinkId(sink) for sink in sinks.split(",")),
        has_source=count != "-",
        partitions=int(partitions),
    )
    return task, None if count == "-" else int(count)
