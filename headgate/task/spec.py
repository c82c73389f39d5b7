"""What one run of a task is to do, as the runtime hands it to ``query``. One rule: it says what, and never when."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from headgate import layout
from headgate.core.ids import Batch, ChannelId, Generation, Run, TaskId


@dataclass(frozen=True, kw_only=True)
class QuerySpec:
    """What a run of a task is to do. All callables are called on this machine."""

    generation: Generation
    task: TaskId
    run: Run
    name: str
    directory: Path
    """Spark's checkpoint directory for the task."""
    channels: tuple[ChannelId, ...]
    """Inputs, in the order of the graph."""
    begin: tuple[Batch, ...]
    """Where the inputs stood before the first batch."""
    inputs: Callable[[], list[DataFrame]]
    """The sources and channels that the query reads: apart, so that a batch can be run without its input."""
    output: Callable[[list[DataFrame]], DataFrame]
    """What comes out of the query, given its inputs."""
    write: Callable[[DataFrame, Batch], None]
    """Execute the batch's plan exactly once and write what comes out."""
    on_commit: Callable[[Batch], None]
    """Make what a committed batch wrote visible. Repeats are harmless."""
    on_stop: Callable[[], None]
    """Let nobody of this run wait any longer."""
    source_ended: Callable[[layout.Offsets], bool]
    output_mode: str
    trigger_ms: int | None
    stateful: int
    """How many stateful operators there are."""
    resize: Callable[[StreamingQuery, Batch, float], None] = lambda *_: None
    """In the hook of a batch that took this many ms to write: let the next one have the size wanted by now."""
    still: Callable[[StreamingQuery], bool] = lambda _: False
    """Once the sources have ended: let the running query find nothing more, and not wait for any. Whether that holds.
    """
    check: Callable[[], None] = lambda: None
    """See that all inputs can be read on from where the task stands. Once, before anything else."""
