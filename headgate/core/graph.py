"""The job as the core sees it: tasks, the channels between them, and their sinks.

One rule: a graph is frozen and checked when it is built, so nobody else asks whether it makes sense.
Tasks stand in an order in which data meets them: upstream before downstream.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from headgate.core.errors import InvalidGraph
from headgate.core.ids import ChannelId, OperatorUid, SinkId, TaskId


@dataclass(frozen=True)
class Operator:
    """One step of the user's job. State is found again by ``uid``."""

    uid: OperatorUid
    stateful: bool = False


@dataclass(frozen=True)
class Task:
    """One Spark streaming query: a chain of operators, with the sinks it writes."""

    id: TaskId
    operators: tuple[Operator, ...] = ()
    sinks: tuple[SinkId, ...] = ()
    has_source: bool = False
    partitions: int = 1


@dataclass(frozen=True)
class Channel:
    """Segments and barriers from one task to another."""

    id: ChannelId
    upstream: TaskId
    downstream: TaskId


@dataclass(frozen=True)
class Graph:
    """A whole job. ``tasks`` are in the order of the data."""

    tasks: tuple[Task, ...]
    channels: tuple[Channel, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a graph that no run could make sense of, naming the part that is wrong."""
        place = {task.id: index for index, task in enumerate(self.tasks)}
        if not self.tasks:
            raise InvalidGraph("the job has no task: add a source")
        _refuse_twice("task", [task.id for task in self.tasks])
        _refuse_twice("channel", [channel.id for channel in self.channels])
        _refuse_twice("sink", [sink for task in self.tasks for sink in task.sinks])
        _refuse_twice("operator", [operator.uid for task in self.tasks for operator in task.operators])
        for channel in self.channels:
            for end in (channel.upstream, channel.downstream):
                if end not in place:
                    raise InvalidGraph(f"channel {channel.id} names task {end}, which the job does not have")
            if place[channel.upstream] >= place[channel.downstream]:
                raise InvalidGraph(
                    f"channel {channel.id} runs from {channel.upstream} back to {channel.downstream}: "
                    "list tasks upstream first, and without cycles"
                )
        for task in self.tasks:
            if task.partitions < 1:
                raise InvalidGraph(f"task {task.id} has {task.partitions} partitions: it needs at least one")
            if not task.has_source and not self.inputs[task.id]:
                raise InvalidGraph(f"task {task.id} has neither a source nor an input channel")

    @cached_property
    def by_id(self) -> Mapping[TaskId, Task]:
        """Each task by its id."""
        return {task.id: task for task in self.tasks}

    @cached_property
    def inputs(self) -> Mapping[TaskId, tuple[Channel, ...]]:
        """The channels each task reads. A task's positions are always given in this order."""
        return {task.id: tuple(c for c in self.channels if c.downstream == task.id) for task in self.tasks}

    @cached_property
    def outputs(self) -> Mapping[TaskId, tuple[Channel, ...]]:
        """The channels each task writes."""
        return {task.id: tuple(c for c in self.channels if c.upstream == task.id) for task in self.tasks}

    @cached_property
    def owner(self) -> Mapping[SinkId, TaskId]:
        """The task that writes each sink."""
        return {sink: task.id for task in self.tasks for sink in task.sinks}


def _refuse_twice(
    noun: str, names: list[str] | list[TaskId] | list[ChannelId] | list[SinkId] | list[OperatorUid]
) -> None:
    seen: dict[str, None] = {}
    for name in names:
        if name in seen:
            raise InvalidGraph(f"{noun} {name} is there twice: give each a name of its own")
        seen[name] = None
