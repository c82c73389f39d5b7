"""The bars: what is to be reached, in one table, and whether it is.

One rule: a bar that was not measured is neither met nor missed, and is said to be open.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from bench.results import CaseResults

Verdict = Literal["met", "missed", "not measured"]


@dataclass(frozen=True)
class Bar:
    """A figure of one contender, by itself or as a ratio to another's, and its limit."""

    what: str
    case: str
    contender: str
    value: str
    at_least: float | None = None
    at_most: float | None = None
    against: str | tuple[str, ...] | None = None
    """The contender, or the best of those, that it is a ratio to."""
    unit: str = ""

    @property
    def wanted(self) -> str:
        """The limit in words."""
        sign, limit = ("≥", self.at_least) if self.at_least is not None else ("≤", self.at_most)
        against = self.against if isinstance(self.against, str) else "the best of theirs" if self.against else ""
        return f"{sign} {limit:g}{f'x {against}' if against else f' {self.unit}'}"


@dataclass(frozen=True)
class Judged:
    """A bar, and what was seen."""

    bar: Bar
    seen: float | None
    verdict: Verdict
    disturbed: bool

    @property
    def shown(self) -> str:
        """What was seen, in words."""
        if self.seen is None:
            return "-"
        return f"{self.seen:.2f}x" if self.bar.against else f"{self.seen:.3g} {self.bar.unit}"


def judge(bar: Bar, cases: Mapping[str, CaseResults], *, more_is_better: bool) -> Judged:
    """Whether it is met."""
    case = cases.get(bar.case)
    seen = None if case is None else _seen(bar, case, more_is_better=more_is_better)
    if case is None or seen is None:
        return Judged(bar, None, "not measured", disturbed=False)
    met = seen >= bar.at_least if bar.at_least is not None else seen <= (bar.at_most or 0.0)
    names = [bar.contender, *([bar.against] if isinstance(bar.against, str) else bar.against or [])]
    return Judged(bar, seen, "met" if met else "missed", disturbed=any(case.disturbed(name) for name in names))


def _seen(bar: Bar, case: CaseResults, *, more_is_better: bool) -> float | None:
    if bar.against is None:
        return case.median(bar.contender, bar.value)
    names = [bar.against] if isinstance(bar.against, str) else list(bar.against)
    medians = {name: case.median(name, bar.value) for name in names}
    there = {name: median for name, median in medians.items() if median is not None}
    if not there:
        return None
    best = max(there, key=lambda name: there[name]) if more_is_better else min(there, key=lambda name: there[name])
    return case.ratio(bar.contender, best, bar.value)


_ETL = "rows_per_s"
BARS: Sequence[Bar] = (
    Bar("windows, defaults, RocksDB", "etl", "Headgate, defaults", _ETL, 1.3, against="Flink SQL, defaults"),
    Bar("windows, defaults, hash map", "etl-hashmap", "Headgate, defaults", _ETL, 1.1, against="Flink SQL, defaults"),
    Bar("windows, defaults and own best, RocksDB", "etl", "Headgate, defaults", _ETL, 0.9, against="Headgate, tuned"),
    Bar(
        "windows, defaults and own best, hash map",
        "etl-hashmap",
        "Headgate, defaults",
        _ETL,
        0.9,
        against="Headgate, tuned",
    ),
    Bar("windows, tuned, RocksDB", "etl", "Headgate, tuned", _ETL, 1.4, against="Flink SQL, tuned"),
    Bar("windows, tuned, hash map", "etl-hashmap", "Headgate, tuned", _ETL, 1.2, against="Flink SQL, tuned"),
    Bar("windows, tuned, RocksDB", "etl", "Headgate, tuned", _ETL, 0.97, against="plain Spark, tuned"),
    Bar("Kafka to Kafka, exactly once", "kafka", "Headgate, tuned", _ETL, 1.0, against="Flink SQL, tuned"),
    Bar("Kafka to Kafka", "kafka", "Headgate, tuned", _ETL, 0.95, against="plain Spark, at least once"),
    Bar(
        "keyed Python, by columns",
        "keyed",
        "Headgate, by columns",
        _ETL,
        10,
        against=("PyFlink, thread mode", "PyFlink, process mode"),
    ),
    Bar(
        "keyed Python, by keys",
        "keyed",
        "Headgate, by keys",
        _ETL,
        2,
        against=("PyFlink, thread mode", "PyFlink, process mode"),
    ),
    Bar(
        "windows in Python",
        "python-windows",
        "Headgate",
        _ETL,
        10,
        against=("PyFlink, thread mode", "PyFlink, process mode"),
    ),
    Bar("start to first visible row", "start", "Headgate", "first_row_s", at_most=1.0, against="Flink SQL"),
    Bar(
        "exception to first visible new row",
        "exception",
        "Headgate",
        "first_new_row_s",
        at_most=1.0,
        against="Flink SQL",
    ),
    Bar("executor killed", "executor-killed", "Headgate", "first_new_row_s", at_most=4, unit="s"),
    Bar("driver killed, started by hand", "driver-killed", "Headgate", "first_new_row_s", at_most=8, unit="s"),
    Bar("latency at 200 ms, p50", "latency-200ms", "Headgate", "p50_s", at_most=1.5, against="Flink SQL"),
    Bar("latency at 200 ms, p99", "latency-200ms", "Headgate", "p99_s", at_most=1.5, against="Flink SQL"),
    Bar(
        "checkpoint, 20 M keys and 50 k, same change",
        "state",
        "Headgate, 20 M keys",
        "checkpoint_ms",
        at_most=1.3,
        against="Headgate, 50 k keys",
    ),
    Bar(
        "a browser looks at a busy job",
        "watched",
        "Headgate, one browser",
        _ETL,
        at_least=0.98,
        against="Headgate, nobody looks",
    ),
    Bar("idle", "idle", "Headgate", "cores", at_most=0.05, unit="cores"),
    Bar("serving while nobody looks", "idle", "Headgate", "serving_cores", at_most=0.01, unit="cores"),
)
