"""Counting what came out.

One rule: the sinks' files are read with Arrow and the standard library alone, as by any reader who has never heard of
Headgate. Every row carries a number, so what is lost and what is doubled is counted, not estimated.
"""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq


@dataclass(frozen=True)
class Count:
    """What one sink has, against what it should have."""

    sink: str
    wanted: int
    found: int
    lost: int
    doubled: int

    @property
    def exact(self) -> bool:
        """Whether everything is there once."""
        return self.lost == 0 and self.doubled == 0 and self.wanted == self.found

    def __str__(self) -> str:
        verdict = "exactly once" if self.exact else "NOT exactly once"
        return f"{verdict}: {self.wanted} in, {self.found} out, {self.lost} lost, {self.doubled} duplicated"


def count(sink: str, wanted: Iterable[int], found: Iterable[int]) -> Count:
    """Compare by number."""
    should, has = Counter(wanted), Counter(found)
    return Count(
        sink,
        wanted=should.total(),
        found=has.total(),
        lost=(should - has).total(),
        doubled=(has - should).total(),
    )


def audit(directory: Path, rows: int) -> list[Count]:
    """Count both sinks of the demo. The windows tell which rows were anomalous; the alerts must be just those."""
    numbers: list[int] = []
    anomalies: list[int] = []
    for path in _visible(directory / "windows", ".parquet"):
        table = pq.read_table(path, columns=["numbers", "anomalies"]).to_pydict()
        numbers += [n for group in table["numbers"] for n in group]
        anomalies += [n for group in table["anomalies"] for n in group]
    alerts = [
        json.loads(line)["n"]
        for path in _visible(directory / "alerts", ".json")
        for line in path.read_text(encoding="utf-8").splitlines()
    ]
    return [count("windows", range(rows), numbers), count("alerts", anomalies, alerts)]


def _visible(directory: Path, suffix: str) -> list[Path]:
    """The files that readers see: what begins with ``_`` or ``.`` is passed over by all of them."""
    if not directory.is_dir():
        return []
    return sorted(path for path in directory.iterdir() if path.name.endswith(suffix) and path.name[0] not in "_.")
