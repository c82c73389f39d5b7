"""Stacks that were seen, and the tree that a flame graph draws of them.

One rule: pure. A stack is counted by whether its thread ran (*on CPU*) or waited (*off CPU*); the full graph has both.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

Stack = tuple[str, ...]
"""From the outermost frame to the innermost."""
ROOT = "root"
CUT = "…"
DEPTH_MAX = 200
"""Deeper stacks lose frames in their middle."""
INNER = 60
"""At most this many innermost frames are kept of those."""
REST = "(others)"
SMALL = 2000
"""What has less than one sample in this many is drawn as ``REST``."""


class FlameGraphType(Enum):
    """Which samples count. Flink's words."""

    FULL = "full"
    ON_CPU = "on_cpu"
    OFF_CPU = "off_cpu"


@dataclass
class Stacks:
    """How often each stack was seen: on CPU, and off CPU."""

    counts: dict[Stack, tuple[int, int]] = field(default_factory=dict)

    def add(self, stack: Iterable[str], *, running: bool, times: int = 1) -> None:
        """A stack was seen."""
        kept = shortened(tuple(stack))
        on, off = self.counts.get(kept, (0, 0))
        self.counts[kept] = (on + times, off) if running else (on, off + times)

    def take(self, other: "Stacks") -> None:
        """All that others have seen."""
        for stack, (on, off) in other.counts.items():
            before = self.counts.get(stack, (0, 0))
            self.counts[stack] = (before[0] + on, before[1] + off)

    def counted(self, kind: FlameGraphType) -> Mapping[Stack, int]:
        """How often each was seen in the way that is asked for, if it was."""
        with_on, with_off = kind is not FlameGraphType.OFF_CPU, kind is not FlameGraphType.ON_CPU
        found = {stack: on * with_on + off * with_off for stack, (on, off) in self.counts.items()}
        return {stack: times for stack, times in found.items() if times}


def shortened(stack: Stack) -> Stack:
    """A stack of no more than ``DEPTH_MAX`` frames: what drew its branch, and where it is, stay."""
    if len(stack) <= DEPTH_MAX:
        return stack
    return (*stack[: DEPTH_MAX - INNER - 1], CUT, *stack[-INNER:])


def tree(counts: Mapping[Stack, int]) -> dict[str, Any]:
    """Nodes with ``name``, ``value`` and ``children``, as Flink's; the widest child first."""
    root: dict[str, Any] = {"name": ROOT, "value": 0, "children": {}}
    for stack, times in counts.items():
        node = root
        node["value"] += times
        for frame in stack:
            node = node["children"].setdefault(frame, {"name": frame, "value": 0, "children": {}})
            node["value"] += times
    return _listed(root, root["value"] / SMALL)


def _listed(node: dict[str, Any], least: float) -> dict[str, Any]:
    ordered = sorted(node["children"].values(), key=lambda child: (-child["value"], child["name"]))
    children = [_listed(child, least) for child in ordered if child["value"] >= least]
    small = sum(child["value"] for child in ordered if child["value"] < least)
    if small:
        children.append({"name": REST, "value": small, "children": []})
    return {"name": node["name"], "value": node["value"], "children": children}
