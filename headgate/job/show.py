"""A plan for people and programs: as text, as plain data, as a picture.

One rule: all three say the same, because all are made from ``as_data``.
"""

import json
from typing import Any

from headgate.core.settings import Mode
from headgate.job.node import Node, NodeKind
from headgate.job.plan import Plan, PlannedTask
from headgate.redact import redact
from headgate.sink.api import TwoPhaseSink
from headgate.source.api import Source

_STRONG_FIRST = ("exactly-once", "effectively-once", "at-least-once")


def as_data(name: str, plan: Plan, mode: Mode = Mode.EXACTLY_ONCE, partitions: int | None = None) -> dict[str, Any]:
    """The plan of the job ``name`` as plain data, ready for JSON.

    ``partitions`` is the number of state partitions of a task that begins, if it is known.
    """
    promise, because = guarantee(plan, mode)
    return {
        "job": name,
        "guarantee": promise,
        "because": because,
        **({} if partitions is None else {"state_partitions": partitions}),
        "tasks": [_task(task) for task in plan.tasks],
        "channels": [
            {
                "id": channel.id,
                "from": channel.upstream,
                "to": channel.downstream,
                "operator": channel.consumer,
                "input": channel.index,
            }
            for channel in plan.channels
        ],
    }


def as_text(name: str, plan: Plan, mode: Mode = Mode.EXACTLY_ONCE, partitions: int | None = None) -> str:
    """The plan as a person reads it, a paragraph for each task."""
    data = as_data(name, plan, mode, partitions)
    lines = [f"job {name}: {data['guarantee']}", *(f"  {why}" for why in data["because"])]
    if partitions is not None and any(task.stateful for task in plan.tasks):
        lines.append(f"  state partitions: {partitions} (a task that has a checkpoint keeps its own number)")
    width = max(len(_arrow(part) + part["uid"]) for task in data["tasks"] for part in task["operators"] + task["sinks"])
    for task in data["tasks"]:
        mode_text = "" if task["output_mode"] == "append" else f" ({task['output_mode']} mode)"
        lines += ["", f"task {task['id']}{mode_text}"]
        lines += [f"  <- channel {each['id']} from {each['from']}" for each in _ends(data, "to", task)]
        lines += [f"  {_line(part, width)}" for part in task["operators"]]
        lines += [f"  -> channel {each['id']} to {each['to']}" for each in _ends(data, "from", task)]
        lines += [f"  {_line(part, width)}" for part in task["sinks"]]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def as_dot(name: str, plan: Plan, mode: Mode = Mode.EXACTLY_ONCE) -> str:
    """The plan for Graphviz: a box for each task, a double line around what keeps state, channels in bold."""
    data = as_data(name, plan, mode)
    title = _quoted(f"{name}: {data['guarantee']}")
    lines = [f"digraph {_quoted(name)} {{", "  rankdir=LR;", f"  label={title};", "  node [shape=box];"]
    for task in data["tasks"]:
        lines += [f"  subgraph {_quoted('cluster_' + task['id'])} {{", f"    label={_quoted('task ' + task['id'])};"]
        for part in task["operators"]:
            lines.append(f"    {_quoted(part['uid'])} [peripheries={2 if part['stateful'] else 1}];")
        lines += [f"    {_quoted(part['uid'])} [shape=cylinder];" for part in task["sinks"]]
        lines.append("  }")
    through = {(each["operator"], each["input"]) for each in data["channels"]}
    for task in data["tasks"]:
        for part in (*task["operators"], *task["sinks"]):
            for index, uid in enumerate(part["inputs"]):
                style = " [style=bold]" if (part["uid"], index) in through else ""
                lines.append(f"  {_quoted(uid)} -> {_quoted(part['uid'])}{style};")
    return "\n".join([*lines, "}"]) + "\n"


def guarantee(plan: Plan, mode: Mode) -> tuple[str, list[str]]:
    """What the job promises from end to end, which is what its weakest part promises; and which parts those are."""
    losing = [f"mode is {mode.value}"] if mode is Mode.AT_MOST_ONCE else []
    repeating = [(Mode.AT_LEAST_ONCE.value, f"mode is {mode.value}")] if mode is Mode.AT_LEAST_ONCE else []
    for task in plan.tasks:
        once_only = [node for node in task.trunk if isinstance(node.what, Source) and not node.what.replayable]
        losing += [f"source {node.uid} cannot be read again" for node in once_only]
        for branch in task.branches:
            promise = _promise(branch.sink)
            if promise != _STRONG_FIRST[0]:
                repeating.append((promise, f"sink {branch.sink.uid} is {promise}"))
    weakest = max((promise for promise, _ in repeating), key=_STRONG_FIRST.index, default=_STRONG_FIRST[0])
    because = losing + [why for _, why in repeating]
    if losing:
        return ("none" if weakest == Mode.AT_LEAST_ONCE.value else Mode.AT_MOST_ONCE.value), because
    return weakest, because


def _promise(node: Node) -> str:
    assert isinstance(node.what, TwoPhaseSink)
    return node.what.guarantee.value


def _task(task: PlannedTask) -> dict[str, Any]:
    return {
        "id": task.id,
        "output_mode": task.output_mode,
        "writes_segment": task.writes_segment,
        "operators": [
            {
                **_part(node),
                "stateful": node.uid in task.stateful,
                "on_branch": node not in task.trunk,
            }
            for node in task.operators
        ],
        "sinks": [
            {
                **_part(branch.sink),
                **_timeout(branch.sink),
                "guarantee": _promise(branch.sink),
                "after": [node.uid for node in branch.operators],
            }
            for branch in task.branches
        ],
    }


def _timeout(node: Node) -> dict[str, int]:
    limit_ms = node.what.transaction_timeout_ms if isinstance(node.what, TwoPhaseSink) else None
    return {} if limit_ms is None else {"transaction_timeout_ms": limit_ms}


def _part(node: Node) -> dict[str, Any]:
    described = redact(node.what.describe()) if isinstance(node.what, Source | TwoPhaseSink) else ""
    return {
        "uid": node.uid,
        "kind": node.kind.value,
        "inputs": list(node.inputs),
        "where": node.where,
        "description": described,
    }


def _line(part: dict[str, Any], width: int) -> str:
    said = [part["description"]]
    if part["kind"] == NodeKind.SINK.value:
        said += [part["guarantee"], f"after {', '.join(part['after'])}" if part["after"] else ""]
    else:
        said += ["keeps state" if part["stateful"] else "", "on a branch" if part["on_branch"] else ""]
    return f"{_arrow(part) + part['uid']:<{width}}  {part['kind']:<9}  {', '.join(filter(None, said))}"


def _arrow(part: dict[str, Any]) -> str:
    return "-> " if part["kind"] == NodeKind.SINK.value else ""


def _ends(data: dict[str, Any], end: str, task: dict[str, Any]) -> list[dict[str, Any]]:
    return [channel for channel in data["channels"] if channel[end] == task["id"]]


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
