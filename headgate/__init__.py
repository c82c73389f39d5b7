"""Headgate: exactly-once stream processing for PySpark.

A control plane beside the Spark driver: it takes one named checkpoint over a whole job with
barriers, and commits to the outside world in two phases. Spark Structured Streaming is the engine.

The rule of this module: what it lists in ``__all__`` is the public API, and nothing else is.
Not here: the decisions, which live in ``headgate.core``.
"""

__all__ = ["__version__"]

__version__ = "0.1.0"
