"""What a query of Prometheus comes to, at a time. As much of the language as rules need that look at what is gone.

A series that has no sample within ``LOOKBACK_S`` is not there.
"""

import operator
import re
from collections.abc import Callable, Mapping, Sequence

from tests.metrics.promql import BadQuery, tokens

Labels = frozenset[tuple[str, str]]
Vector = dict[Labels, float]
Series = Mapping[tuple[str, Labels], Sequence[tuple[float, float]]]
"""Times and values, by name and labels."""

LOOKBACK_S = 300.0
UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
COMPARED: dict[str, Callable[[float, float], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
    ">=": operator.ge,
    "<=": operator.le,
}
GROUPED: dict[str, Callable[[list[float]], float]] = {"max": max, "min": min, "sum": sum}


def value(text: str, series: Series, now_s: float) -> Vector:
    """The samples that a query gives."""
    reading = _Reading(tokens(text), series, now_s)
    found = reading.sets()
    if reading.parts or not isinstance(found, dict):
        raise BadQuery(f"{text!r}: {' '.join(reading.parts[:3])} is not read here")
    return found


class _Reading:
    def __init__(self, parts: list[str], series: Series, now_s: float) -> None:
        self.parts, self._series, self._now_s = parts, series, now_s

    def sets(self) -> Vector | float:
        left = self._compared()
        while self._next() in ("and", "unless"):
            keep = self._take() == "and"
            on = self._labels() if self._take("on") else None
            right = self._compared()
            assert isinstance(left, dict)
            assert isinstance(right, dict)
            there = {_only(labels, on) for labels in right}
            left = {labels: one for labels, one in left.items() if (_only(labels, on) in there) == keep}
        return left

    def _compared(self) -> Vector | float:
        left = self._sums()
        while self._next() in COMPARED:
            compare, right = COMPARED[self._take()], self._sums()
            assert isinstance(left, dict)
            assert isinstance(right, float)
            left = {labels: one for labels, one in left.items() if compare(one, right)}
        return left

    def _sums(self) -> Vector | float:
        left = self._one()
        while self._next() == "-":
            self._take()
            right = self._one()
            assert isinstance(left, float)
            left = left - right if isinstance(right, float) else {key: left - one for key, one in right.items()}
        return left

    def _one(self) -> Vector | float:
        part = self._take()
        if part[0].isdigit():
            return float(part)
        if part == "(":
            found = self.sets()
            self._must(")")
            return found
        if part == "time":
            self._must("(")
            self._must(")")
            return float(self._now_s)
        if part in GROUPED:
            self._must("by")
            return self._grouped(GROUPED[part], self._labels())
        if part == "max_over_time":
            self._must("(")
            found = self._selected(self._take())
            self._must(")")
            return found
        return self._selected(part)

    def _grouped(self, fold: Callable[[list[float]], float], by: set[str]) -> Vector:
        self._must("(")
        inner = self.sets()
        self._must(")")
        assert isinstance(inner, dict)
        groups: dict[Labels, list[float]] = {}
        for labels, one in inner.items():
            groups.setdefault(_only(labels, by), []).append(one)
        return {labels: fold(ones) for labels, ones in groups.items()}

    def _selected(self, name: str) -> Vector:
        """The newest value of each series; with a span of time the greatest within it."""
        wanted: list[tuple[str, str, str]] = []
        if self._take("{"):
            while not self._take("}"):
                wanted.append((self._take(), self._take(), self._take().strip('"')))
                self._take(",")
        span_s = None
        if self._take("["):
            span = self._take()
            span_s = int(span[:-1]) * UNITS[span[-1]]
            self._must("]")
        since_s = self._now_s - (span_s or LOOKBACK_S)
        found: Vector = {}
        for (named, labels), samples in self._series.items():
            there = [one for at_s, one in samples if since_s < at_s <= self._now_s]
            if named == name and there and all(_fits(dict(labels), *each) for each in wanted):
                found[labels] = there[-1] if span_s is None else max(there)
        return found

    def _labels(self) -> set[str]:
        self._must("(")
        end = self.parts.index(")")
        found = {part for part in self.parts[:end] if part != ","}
        self.parts = self.parts[end + 1 :]
        return found

    def _next(self) -> str:
        return self.parts[0] if self.parts else ""

    def _take(self, only: str | None = None) -> str:
        """The next part; or only if it is that one, else nothing."""
        if only is not None and self._next() != only:
            return ""
        return self.parts.pop(0)

    def _must(self, part: str) -> None:
        if self._take(part) != part:
            raise BadQuery(f"{part} is missing before {' '.join(self.parts[:3])}")


def _only(labels: Labels, on: set[str] | None) -> Labels:
    return labels if on is None else frozenset(each for each in labels if each[0] in on)


def _fits(labels: dict[str, str], name: str, sign: str, text: str) -> bool:
    same = re.fullmatch(text, labels.get(name, "")) is not None if "~" in sign else labels.get(name, "") == text
    return same != sign.startswith("!")
