"""Counting what came out of the demo.

One rule: the sinks' files are read with Arrow alone, as by any reader who has never heard of Headgate. Every row
carries a number, so what is lost and what is doubled is counted, not estimated.
"""

from pathlib import Path

import numpy as np
import pyarrow as pa

from headgate.audit import Verdict, count, read


def audit(directory: Path, rows: int) -> dict[str, Verdict]:
    """Count both sinks of the demo. The windows tell which rows were anomalous; the alerts must be just those."""
    windows, alerts = directory / "windows", directory / "alerts"
    return {
        "windows": count((None, np.arange(rows)), _numbers(windows, "numbers")),
        "alerts": count(_numbers(windows, "anomalies"), _numbers(alerts, "n")),
    }


def _numbers(place: Path, column: str) -> pa.Table | tuple[None, list[int]]:
    return read(str(place), key=None, seq=column) if place.is_dir() else (None, [])
