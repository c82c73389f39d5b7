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
    from headgate import restart, state
    from headgate.errors import ExternalError, HeadgateError, UserError
    from headgate.job.api import Job, Stream
    from headgate.job.processor import Context, Processor
    from headgate.job.settings import Checkpointing
    from headgate.run.start import Options, Result, run_job
    from headgate.sink.api import Attempt, DeadRuns, Guarantee, SinkContext, Strangers, TwoPhaseSink
    from headgate.sink.console import console
    from headgate.sink.files import files
    from headgate.source.api import Source
    from headgate.source.generator import generator
    from headgate.source.logdir import log_directory

__all__ = [
    "Attempt",
    "Checkpointing",
    "Context",
    "DeadRuns",
    "ExternalError",
    "Guarantee",
    "HeadgateError",
    "Job",
    "Options",
    "Processor",
    "Result",
    "SinkContext",
    "Source",
    "Strangers",
    "Stream",
    "TwoPhaseSink",
    "UserError",
    "__version__",
    "console",
    "files",
    "generator",
    "log_directory",
    "restart",
    "run_job",
    "state",
]

__version__ = "0.2.0"

_HOMES = {
    "headgate.errors": ("ExternalError", "HeadgateError", "UserError"),
    "headgate.job.api": ("Job", "Stream"),
    "headgate.job.processor": ("Context", "Processor"),
    "headgate.job.settings": ("Checkpointing",),
    "headgate.run.start": ("Options", "Result", "run_job"),
    "headgate.sink.api": ("Attempt", "DeadRuns", "Guarantee", "SinkContext", "Strangers", "TwoPhaseSink"),
    "headgate.sink.console": ("console",),
    "headgate.sink.files": ("files",),
    "headgate.source.api": ("Source",),
    "headgate.source.generator": ("generator",),
    "headgate.source.logdir": ("log_directory",),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in ("restart", "state"):
        return import_module(f"headgate.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'headgate' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
