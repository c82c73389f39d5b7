"""Checkpoints in sum: how many, and how long and how large they were.

One rule: a percentile is a value that was measured: the smallest that this share of the values does not exceed.
"""

from collections.abc import Mapping, Sequence

Summaries = dict[str, dict[str, float | None]]

PERCENTILES = {"p50": 50.0, "p90": 90.0, "p95": 95.0, "p99": 99.0, "p999": 99.9}
COLUMNS = ("min", "avg", "max", *PERCENTILES)


def summary(figures: Mapping[str, Sequence[float]]) -> Summaries:
    """Least, mean, greatest and percentiles of each figure, whose values are given in order of size."""
    return {name: _of(values) for name, values in figures.items()}


def _of(values: Sequence[float]) -> dict[str, float | None]:
    if not values:
        return dict.fromkeys(COLUMNS)
    return {
        "min": values[0],
        "avg": round(sum(values) / len(values), 1),
        "max": values[-1],
        **{name: values[_rank(share, len(values))] for name, share in PERCENTILES.items()},
    }


def _rank(percent: float, count: int) -> int:
    """Where the percentile stands, by the nearest rank. In thousandths, so that no rounding moves it."""
    return max(0, -(-round(percent * 10) * count // 1_000) - 1)
