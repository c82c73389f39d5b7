"""One named step of a job. One rule: a node holds only what the user wrote, and where."""

from dataclasses import dataclass
from enum import Enum

from headgate.windows import WindowAssigner


class NodeKind(Enum):
    """What a node does with its inputs."""

    SOURCE = "source"
    TRANSFORM = "transform"
    PROCESS = "process"
    UNION = "union"
    JOIN = "join"
    SINK = "sink"


@dataclass(frozen=True)
class Node:
    """A source, an operator or a sink, found again by its ``uid``."""

    uid: str
    kind: NodeKind
    inputs: tuple[str, ...] = ()
    """The uids it reads, in the order of its arguments. One may be there twice."""
    what: object = None
    """The source, function, processor, way to join, or sink."""
    output_mode: str = "append"
    new_task: bool = False
    """The user wants a query of its own from here on."""
    where: str = ""
    """The user's line, as in ``job.py:12``."""
    key: str | tuple[str, ...] | None = None
    """The columns by which state is kept. A single name gives plain keys, several names give tuples."""
    window: WindowAssigner | None = None
    """Of a window processor, the windows of its rows."""
