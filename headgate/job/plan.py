"""Operators into tasks, and the channels between them.

One rule: a task is as long as Spark lets one query be. It ends where the data forks, where a second output mode or
another operator with state cannot follow, and where the user says so.

A task is one *trunk*, from its sources and channels to its end, and *branches* from there: stateless operators on the
way to a sink, which work on the batch that the trunk has written. Everything else that reads a trunk's end is another
task, and reads a channel. So data leaves a task at its trunk's end only, and an operator with state is always in a
trunk.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from headgate.core.graph import Channel, Graph, Operator, Task
from headgate.core.ids import ChannelId, OperatorUid, SinkId, TaskId
from headgate.job.node import Node, NodeKind

APPEND = "append"


@dataclass(frozen=True)
class Branch:
    """A way from a trunk's end to a sink. Two branches may begin with the same operators: each runs its own."""

    sink: Node
    operators: tuple[Node, ...] = ()


@dataclass(frozen=True)
class PlannedTask:
    """One streaming query."""

    id: TaskId
    """The uid of the first node of its trunk."""
    trunk: tuple[Node, ...]
    """Sources and operators, inputs first."""
    branches: tuple[Branch, ...]
    writes_segment: bool
    """Several read each batch (channels, or more than one sink), so it is written once as a segment."""
    output_mode: str
    stateful: tuple[str, ...] = ()
    """The uids of the operators that keep state."""

    @property
    def operators(self) -> tuple[Node, ...]:
        """All sources and operators, each once: the trunk's, then the branches'."""
        on_branches = (node for branch in self.branches for node in branch.operators)
        return tuple({node.uid: node for node in (*self.trunk, *on_branches)}.values())


@dataclass(frozen=True)
class PlannedChannel:
    """What ``upstream`` gives at its end goes into the operator ``consumer`` of ``downstream``, as input ``index``."""

    id: ChannelId
    upstream: TaskId
    downstream: TaskId
    consumer: str
    index: int


@dataclass(frozen=True)
class Plan:
    """A whole job. Tasks stand upstream first."""

    tasks: tuple[PlannedTask, ...]
    channels: tuple[PlannedChannel, ...] = ()

    def graph(self) -> Graph:
        """The same as the core sees it."""
        return Graph(
            tuple(
                Task(
                    id=task.id,
                    operators=tuple(Operator(OperatorUid(n.uid), n.uid in task.stateful) for n in task.operators),
                    sinks=tuple(SinkId(branch.sink.uid) for branch in task.branches),
                    has_source=any(node.kind is NodeKind.SOURCE for node in task.trunk),
                )
                for task in self.tasks
            ),
            tuple(Channel(channel.id, channel.upstream, channel.downstream) for channel in self.channels),
        )


def plan(nodes: Sequence[Node], stateful: Mapping[str, bool], alone: Collection[str] = ()) -> Plan:
    """Make the tasks of a frozen job.

    ``stateful`` says which operators keep state, ``alone`` which of them Spark runs beside no other in one query.
    """
    return _Planner(nodes, stateful, alone).plan()


@dataclass(eq=False)
class _Trunk:
    """A task that is still growing."""

    nodes: list[Node]
    branches: list[Branch] = field(default_factory=list)
    inputs: list[tuple[str, Node, int]] = field(default_factory=list)
    """The channels it reads: the upstream trunk's end, the operator that takes it in, and as which input."""


class _Planner:
    """Goes through the nodes once, inputs first. Each one goes on with what is there, or begins a trunk."""

    def __init__(self, nodes: Sequence[Node], stateful: Mapping[str, bool], alone: Collection[str]) -> None:
        self.nodes = nodes
        self.place = {node.uid: index for index, node in enumerate(nodes)}
        self.stateful = stateful
        self.alone = alone
        self.readers: dict[str, list[Node]] = {node.uid: [] for node in nodes}
        """Who reads a node, once for each input: who joins it with itself reads it twice."""
        for node in nodes:
            for uid in node.inputs:
                self.readers[uid].append(node)
        self.for_sinks = self._for_sinks()
        self.trunks: list[_Trunk] = []
        self.trunk_of: dict[str, _Trunk] = {}
        """The trunk of each node that may still be read: of its end, and of operators on its branches."""
        self.way: dict[str, tuple[Node, ...]] = {}
        """For each operator on a branch, the way to it from the trunk's end."""

    def plan(self) -> Plan:
        for node in self.nodes:
            match node.kind:
                case NodeKind.SOURCE:
                    self._begin(node)
                case NodeKind.SINK:
                    (uid,) = node.inputs
                    self.trunk_of[uid].branches.append(Branch(node, self.way.get(uid, ())))
                case _ if self._on_branch(node):
                    (uid,) = node.inputs
                    self.trunk_of[node.uid] = self.trunk_of[uid]
                    self.way[node.uid] = (*self.way.get(uid, ()), node)
                case _ if self._goes_on(node):
                    self._extend(node)
                case _:
                    self._begin(node)
        return self._finish()

    def _for_sinks(self) -> set[str]:
        """Operators that could be on a branch: no state, one input, and nothing but sinks in the end."""
        found: set[str] = set()
        for node in reversed(self.nodes):
            plain = node.kind is NodeKind.TRANSFORM and not node.new_task and not self._keeps(node)
            if plain and all(each.kind is NodeKind.SINK or each.uid in found for each in self.readers[node.uid]):
                found.add(node.uid)
        return found

    def _on_branch(self, node: Node) -> bool:
        """After a fork, whatever leads to sinks alone stays in the task. Without one the trunk itself goes on."""
        if node.uid not in self.for_sinks:
            return False
        (uid,) = node.inputs
        return uid in self.way or len(self.readers[uid]) > 1

    def _goes_on(self, node: Node) -> bool:
        """Whether Spark can run the node in the same query as everything before it."""
        if node.new_task or any(len(self.readers[uid]) > 1 for uid in node.inputs):
            return False
        before = [each for trunk in self._inputs(node) for each in trunk.nodes]
        keeping = [each for each in (*before, node) if self._keeps(each)]
        if len(node.inputs) > 1 and any(each.output_mode != APPEND for each in keeping):
            return False
        return len(keeping) < 2 or not any(each.output_mode != APPEND or each.uid in self.alone for each in keeping)

    def _keeps(self, node: Node) -> bool:
        return node.kind is not NodeKind.SOURCE and self.stateful[node.uid]

    def _inputs(self, node: Node) -> list[_Trunk]:
        return [self.trunk_of[uid] for uid in node.inputs]

    def _extend(self, node: Node) -> None:
        """Put the node at the end of its input's trunk. Several inputs become one trunk, in the order of the job."""
        first, *others = self._inputs(node)
        for other in others:
            first.nodes += other.nodes
            first.inputs += other.inputs
            self.trunks.remove(other)
        first.nodes.append(node)
        first.nodes.sort(key=lambda each: self.place[each.uid])
        self.trunk_of[node.uid] = first

    def _begin(self, node: Node) -> None:
        trunk = _Trunk([node], inputs=[(uid, node, index) for index, uid in enumerate(node.inputs)])
        self.trunks.append(trunk)
        self.trunk_of[node.uid] = trunk

    def _finish(self) -> Plan:
        # A trunk's end stands after all that it is made of, so this is upstream first.
        self.trunks.sort(key=lambda trunk: self.place[trunk.nodes[-1].uid])
        fed = {uid for trunk in self.trunks for uid, _, _ in trunk.inputs}
        return Plan(
            tuple(self._task(trunk, feeds=trunk.nodes[-1].uid in fed) for trunk in self.trunks),
            tuple(
                PlannedChannel(
                    # Named for who reads it: that stays the same when what is before it is arranged anew.
                    id=ChannelId(f"{consumer.uid}.{index}"),
                    upstream=_id(self.trunk_of[uid]),
                    downstream=_id(trunk),
                    consumer=consumer.uid,
                    index=index,
                )
                for trunk in self.trunks
                for uid, consumer, index in trunk.inputs
            ),
        )

    def _task(self, trunk: _Trunk, *, feeds: bool) -> PlannedTask:
        keeping = [node for node in trunk.nodes if self._keeps(node)]
        return PlannedTask(
            id=_id(trunk),
            trunk=tuple(trunk.nodes),
            branches=tuple(trunk.branches),
            writes_segment=feeds or len(trunk.branches) > 1,
            output_mode=next((node.output_mode for node in keeping if node.output_mode != APPEND), APPEND),
            stateful=tuple(node.uid for node in keeping),
        )


def _id(trunk: _Trunk) -> TaskId:
    return TaskId(trunk.nodes[0].uid)
