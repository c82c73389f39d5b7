"""Small parts for jobs, and a short way to write the shape of one.

``shape("a  b<a  c*<b  out!<c")`` is a source ``a``, an operator ``b`` that reads it, an operator ``c`` with state, and
a sink. Marks after a name: ``*`` keeps state, ``~`` in update mode, ``=`` in complete mode, ``+`` wants a new task,
``!`` is a sink. Several inputs make a union, or, with state, a join.
"""

import re
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame, SparkSession

from headgate.job.node import Node, NodeKind
from headgate.job.plan import Plan, plan
from headgate.sink.api import Guarantee
from headgate.sink.console import ConsoleSink
from headgate.source.api import Source

_WORD = re.compile(r"([\w.-]+)([*~=+!]*)(?:<([\w.,-]+))?")


@dataclass(frozen=True)
class RateSource(Source):
    """Spark's own counter: columns ``timestamp`` and ``value``."""

    again: bool = True

    @property
    def replayable(self) -> bool:
        return self.again

    def load(self, spark: SparkSession, trigger_ms: int | None) -> DataFrame:
        assert trigger_ms is None
        return spark.readStream.format("rate").load()

    def describe(self) -> str:
        return "a counter"


@dataclass(frozen=True)
class NullSink(ConsoleSink):
    promise: Guarantee = Guarantee.EXACTLY_ONCE

    @property
    def guarantee(self) -> Guarantee:
        return self.promise

    def describe(self) -> str:
        return "nowhere"


def shape(text: str) -> tuple[tuple[Node, ...], dict[str, bool]]:
    """The nodes, and which of them keep state."""
    nodes: list[Node] = []
    stateful: dict[str, bool] = {}
    for word in text.split():
        found = _WORD.fullmatch(word)
        assert found, word
        uid, marks, inputs = found[1], found[2], tuple(found[3].split(",")) if found[3] else ()
        stateful[uid] = any(mark in marks for mark in "*~=")
        mode = "update" if "~" in marks else "complete" if "=" in marks else "append"
        node = Node(uid, NodeKind.SOURCE, inputs, RateSource(), mode, "+" in marks, f"job.py:{len(nodes) + 1}")
        if "!" in marks:
            node = replace(node, kind=NodeKind.SINK, what=NullSink())
        elif len(inputs) > 1:
            node = replace(node, kind=NodeKind.JOIN if stateful[uid] else NodeKind.UNION, what=None)
        elif inputs:
            node = replace(node, kind=NodeKind.TRANSFORM, what=None)
        nodes.append(node)
    return tuple(nodes), stateful


def planned(text: str, alone: tuple[str, ...] = ()) -> Plan:
    return plan(*shape(text), alone)


def drawn(of: Plan) -> list[str]:
    """A line for each task: its trunk, ``>`` each sink with what is before it, ``>>`` each channel that it feeds."""
    lines = []
    for task in of.tasks:
        sinks = [" > " + " ".join([*(node.uid for node in b.operators), b.sink.uid]) for b in task.branches]
        channels = [f" >> {channel.id}" for channel in of.channels if channel.upstream == task.id]
        mode = "" if task.output_mode == "append" else f" ({task.output_mode})"
        lines.append(" ".join(node.uid for node in task.trunk) + mode + "".join(sinks + channels))
    return lines
