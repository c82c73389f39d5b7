"""What a metric is. One rule: its name has Prometheus' form: a prefix, the unit, and ``_total`` if it only grows."""

from collections.abc import Sequence
from dataclasses import dataclass

from headgate.metrics.reading import Labels, ReadSamples

COUNTER, GAUGE = "counter", "gauge"
MS = 1_000
"""Milliseconds in a second."""


@dataclass(frozen=True)
class Metric:
    """One metric."""

    name: str
    kind: str
    help: str
    labels: Labels
    flink: str
    """What Flink calls the same, or something like it. Empty: it has nothing like it."""
    read: ReadSamples


def rows_of(kind: str, labels: Labels, rows: Sequence[tuple[str, str, str, ReadSamples]]) -> list[Metric]:
    """Metrics of one kind with the same labels: name, what it says, Flink's twin, how it is read."""
    return [Metric(f"headgate_{name}", kind, said, labels, flink, read) for name, said, flink, read in rows]
