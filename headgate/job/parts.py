"""What a job asks of the things it is handed: sources, sinks and state backends.

One rule: a job knows these shapes and no connector, so anybody's source or sink goes in.
"""

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from pyspark.sql import DataFrame, SparkSession


@runtime_checkable
class Source(Protocol):
    """Where records come from."""

    @property
    def replayable(self) -> bool:
        """Whether what was read once can be read again, which is what exactly-once asks of a source."""

    def load(self, spark: SparkSession, trigger_ms: int | None) -> DataFrame:
        """A streaming data frame of the source. Nothing is read until a query starts."""

    def describe(self) -> str:
        """The source in a few words."""


@runtime_checkable
class Sink(Protocol):
    """Where records go."""

    @property
    def guarantee(self) -> object:
        """How often a record shows at the other end: a core ``Mode``, or its value."""

    def describe(self) -> str:
        """The sink in a few words."""


@runtime_checkable
class StateBackend(Protocol):
    """Where Spark keeps the state of operators."""

    @property
    def name(self) -> str:
        """The backend in one word."""

    @property
    def conf(self) -> Mapping[str, str]:
        """The settings of Spark that choose it."""
