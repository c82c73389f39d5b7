"""What Spark makes of a job's nodes, found out without starting anything.

One rule: Spark is asked, not guessed at. Whether an operator keeps state is read from the plan that Spark's own
analyser makes of it; what it leaves in the rows is read from their schema.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from headgate.errors import InvalidJob, UserError
from headgate.job.keyed import KeyedProcessor
from headgate.job.node import Node, NodeKind
from headgate.job.processor import WATERMARK, rehearse, run_processor, run_windows
from headgate.job.window import WindowProcessor
from headgate.source.api import Source

LOADED = -1
"""The index of a source's own data frame, which is not an input."""

_ALONE = ("FlatMapGroupsInPandasWithState", "FlatMapGroupsWithState")


@dataclass(frozen=True)
class Analysis:
    """What is known of a node's output."""

    stateful: bool
    """The node keeps state of its own."""
    schema: StructType
    watermark: tuple[str, int] | None = None
    """The column of event time, and how late rows may be, in ms. Of several (after a join) the first."""
    alone: bool = False
    """Spark runs it beside no other operator with state in one query, whatever the output mode."""
    loaded: DataFrame | None = field(default=None, compare=False, repr=False)
    """The stream of a source."""


def analyse(nodes: Sequence[Node], spark: SparkSession) -> dict[str, Analysis]:
    """Every source and operator by its uid. Nothing is started, and nothing is read."""
    frames: dict[str, DataFrame] = {}
    known: dict[str, Analysis] = {}
    whole: set[str] = set()  # Operators that give their whole result in each batch: a limit on that needs no memory.
    for node in nodes:
        if node.kind is NodeKind.SINK:
            continue
        inputs = [frames[uid] for uid in node.inputs]
        if isinstance(processor := node.what, KeyedProcessor):
            _called(node, partial(rehearse, processor))
        frame = load(node, spark, None) if node.kind is NodeKind.SOURCE else _apply(node, inputs)
        on_whole = not node.new_task and not whole.isdisjoint(node.inputs)
        mode = "complete" if on_whole else "append"
        before = [name for each in inputs for name in stateful_nodes(each, mode)]
        after = list(stateful_nodes(frame, mode))
        stateful = len(after) > len(before)
        if node.output_mode != "append" and not stateful:
            raise InvalidJob(
                f"{node.where}: transform {node.uid!r} keeps no state, so output_mode={node.output_mode!r} "
                "means nothing: leave it out"
            )
        if node.output_mode == "complete" or (on_whole and not stateful):
            whole.add(node.uid)
        alone = any(after.count(name) > before.count(name) for name in _ALONE)
        frames[node.uid] = frame
        loaded = frame if node.kind is NodeKind.SOURCE else None
        known[node.uid] = Analysis(stateful, frame.schema, _watermark(frame.schema), alone, loaded)
    return known


def evaluate(
    nodes: Sequence[Node],
    given: Mapping[tuple[str, int], DataFrame],
    known: Mapping[str, DataFrame] | None = None,
) -> DataFrame:
    """The output of the last of ``nodes``, which stand inputs first.

    ``given`` has what comes from outside: the input of a node at an index, or a source's own frame at ``LOADED``.
    ``known`` has outputs that are there already; without nodes, the last of them is the answer.
    """
    frames = dict(known or {})
    for node in nodes:
        if node.kind is NodeKind.SOURCE:
            frames[node.uid] = given[node.uid, LOADED]
            continue
        places = enumerate(node.inputs)
        inputs = [given[node.uid, index] if (node.uid, index) in given else frames[uid] for index, uid in places]
        frames[node.uid] = _apply(node, inputs)
    return frames[nodes[-1].uid] if nodes else list(frames.values())[-1]


def load(node: Node, spark: SparkSession, trigger_ms: int | None) -> DataFrame:
    """A source's stream."""
    source = node.what
    assert isinstance(source, Source)
    return _frame(node, _called(node, lambda: source.load(spark, trigger_ms)), streaming=True)


def plan_of(frame: DataFrame) -> Any:
    """The plan that Spark's analyser makes of a data frame: its output node, with the others below."""
    return frame._jdf.queryExecution().analyzed()  # noqa: SLF001 - Spark shows its plan nowhere else


def children(plan: Any) -> list[Any]:
    """The nodes right below a node of a plan."""
    below = plan.children()
    return [below.apply(index) for index in range(below.size())]


def stateful_nodes(frame: DataFrame, output_mode: str = "append") -> Iterator[str]:
    """The names of the nodes in a plan that keep state."""
    pending = [plan_of(frame)]
    while pending:
        node = pending.pop()
        pending += children(node)
        name = node.nodeName()
        # Spark says so itself, but for EXCEPT, which becomes a DISTINCT later. On a whole result a limit needs none.
        keeps = node.isStateful() or (name == "Except" and node.isStreaming())
        if keeps and not (name == "GlobalLimit" and output_mode == "complete"):
            yield name


def one_line(error: BaseException) -> str:
    """What an error says, without the plan that Spark puts below it. Our own say enough without their class."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return ": ".join(([] if isinstance(error, UserError) else [type(error).__name__]) + lines[:1])


def _apply(node: Node, inputs: Sequence[DataFrame]) -> DataFrame:
    """One operator's output. It streams if its inputs do; a branch works on batches that are there already."""
    streaming = any(frame.isStreaming for frame in inputs)
    return _frame(node, _called(node, lambda: _output(node, inputs)), streaming=streaming)


def _output(node: Node, inputs: Sequence[DataFrame]) -> object:
    what: Any = node.what
    match node.kind:
        case NodeKind.TRANSFORM | NodeKind.JOIN:
            return what(*inputs)
        case NodeKind.PROCESS:
            assert isinstance(what, KeyedProcessor)
            assert node.key is not None
            if isinstance(what, WindowProcessor):
                assert node.window is not None
                return run_windows(inputs[0], what, node.key, node.window)
            return run_processor(inputs[0], what, node.key, node.output_mode)
        case NodeKind.UNION:
            together = inputs[0]
            for other in inputs[1:]:
                together = together.unionByName(other)
            return together
        case _:
            raise AssertionError(f"a {node.kind.value} has no output")


def _called(node: Node, call: Callable[[], object]) -> object:
    """What the user's own code returns, or an error that shows where it stands."""
    try:
        return call()
    except Exception as error:
        raise InvalidJob(f"{node.where}: {node.kind.value} {node.uid!r} failed: {one_line(error)}") from error


def _frame(node: Node, frame: object, *, streaming: bool) -> DataFrame:
    if not isinstance(frame, DataFrame):
        raise InvalidJob(
            f"{node.where}: {node.kind.value} {node.uid!r} returned {type(frame).__name__}: it must return a DataFrame"
        )
    if streaming and not frame.isStreaming:
        raise InvalidJob(
            f"{node.where}: {node.kind.value} {node.uid!r} returned a DataFrame that does not stream: "
            "it must be made from the one that came in"
        )
    return frame


def _watermark(schema: StructType) -> tuple[str, int] | None:
    marked = ((field.name, field.metadata[WATERMARK]) for field in schema.fields if WATERMARK in field.metadata)
    return next(marked, None)
