"""Headgate: exactly-once stream processing for PySpark.

A control plane beside the Spark driver: it takes one named checkpoint over a whole job with
barriers, and commits to the outside world in two phases. Spark Structured Streaming is the engine.

The rule of this module: what it lists in ``__all__`` is the public API, and nothing else is. A name is loaded when it
is first used, so that what needs no Spark does not wait for it.
Not here: the decisions, which live in ``headgate.core``.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headgate import audit, console, files, generator, metrics, restart, state_backend, testing, windows
    from headgate.connect import delta, hbase, iceberg, jdbc, kafka, mariadb, postgres, search
    from headgate.core.ids import CheckpointId, Generation
    from headgate.errors import ExternalError, FencedOff, HeadgateError, UserError
    from headgate.job.api import Job, Stream
    from headgate.job.batches import BatchProcessor, BatchState, KeyedBatch, ListColumn, MapColumn, ValueColumn
    from headgate.job.keyed import KeyedState, ListState, MapState, ValueState
    from headgate.job.processor import Context, Processor
    from headgate.job.settings import Checkpointing, History
    from headgate.job.window import Window, WindowBatch, WindowProcessor
    from headgate.run.client import JobClient
    from headgate.run.start import Options, Result
    from headgate.sink.api import (
        AbortScope,
        Guarantee,
        SinkContext,
        StagedFile,
        TwoPhaseSink,
        WriteId,
    )
    from headgate.sink.idempotent import IdempotentSink
    from headgate.sink.owner import Owner
    from headgate.sink.partitions import Place, Write, write_partitions
    from headgate.sink.prepared import PreparedSink
    from headgate.sink.transaction_committable import TransactionCommittable
    from headgate.sink.wal import WriteAheadBatch, WriteAheadSink
    from headgate.source.api import Source

__all__ = [
    "AbortScope",
    "BatchProcessor",
    "BatchState",
    "CheckpointId",
    "Checkpointing",
    "Context",
    "ExternalError",
    "FencedOff",
    "Generation",
    "Guarantee",
    "HeadgateError",
    "History",
    "IdempotentSink",
    "Job",
    "JobClient",
    "KeyedBatch",
    "KeyedState",
    "ListColumn",
    "ListState",
    "MapColumn",
    "MapState",
    "Options",
    "Owner",
    "Place",
    "PreparedSink",
    "Processor",
    "Result",
    "SinkContext",
    "Source",
    "StagedFile",
    "Stream",
    "TransactionCommittable",
    "TwoPhaseSink",
    "UserError",
    "ValueColumn",
    "ValueState",
    "Window",
    "WindowBatch",
    "WindowProcessor",
    "Write",
    "WriteAheadBatch",
    "WriteAheadSink",
    "WriteId",
    "__version__",
    "audit",
    "console",
    "delta",
    "files",
    "generator",
    "hbase",
    "iceberg",
    "jdbc",
    "kafka",
    "mariadb",
    "metrics",
    "postgres",
    "restart",
    "search",
    "state_backend",
    "testing",
    "windows",
    "write_partitions",
]

__version__ = "0.2.0"

_HOMES = {
    "headgate.core.ids": ("CheckpointId", "Generation"),
    "headgate.errors": ("ExternalError", "FencedOff", "HeadgateError", "UserError"),
    "headgate.job.api": ("Job", "Stream"),
    "headgate.job.batches": ("BatchProcessor", "BatchState", "KeyedBatch", "ListColumn", "MapColumn", "ValueColumn"),
    "headgate.job.keyed": ("KeyedState", "ListState", "MapState", "ValueState"),
    "headgate.job.processor": ("Context", "Processor"),
    "headgate.job.settings": ("Checkpointing", "History"),
    "headgate.job.window": ("Window", "WindowBatch", "WindowProcessor"),
    "headgate.run.client": ("JobClient",),
    "headgate.run.start": ("Options", "Result"),
    "headgate.sink.api": (
        "AbortScope",
        "Guarantee",
        "SinkContext",
        "StagedFile",
        "TwoPhaseSink",
        "WriteId",
    ),
    "headgate.sink.idempotent": ("IdempotentSink",),
    "headgate.sink.owner": ("Owner",),
    "headgate.sink.partitions": ("Place", "Write", "write_partitions"),
    "headgate.sink.prepared": ("PreparedSink",),
    "headgate.sink.transaction_committable": ("TransactionCommittable",),
    "headgate.sink.wal": ("WriteAheadBatch", "WriteAheadSink"),
    "headgate.source.api": ("Source",),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}


_MODULES = {
    **{
        name: f"headgate.{name}"
        for name in (
            "audit",
            "console",
            "files",
            "generator",
            "metrics",
            "restart",
            "state_backend",
            "testing",
            "windows",
        )
    },
    **{
        name: f"headgate.connect.{name}"
        for name in ("delta", "hbase", "iceberg", "jdbc", "kafka", "mariadb", "postgres", "search")
    },
}


def __dir__() -> list[str]:
    """The public API, for whoever looks around."""
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(_MODULES[name])
    if name not in _HOME:
        raise AttributeError(f"module 'headgate' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
