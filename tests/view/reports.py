"""What Spark said of some batches of real jobs, one in a line: a generator, windows and first rows that read channels
(``fork`` of ``tests.spark.shapes``), and a topic of Kafka with two partitions.
"""

import json
from functools import cache
from pathlib import Path
from typing import Any


@cache
def _all() -> dict[tuple[str, int], str]:
    lines = (Path(__file__).parent / "progress.jsonl").read_text(encoding="utf-8").splitlines()
    found = {(json.loads(line)["name"], json.loads(line)["batchId"]): line for line in lines}
    return {(name.split("/")[1], batch): line for (name, batch), line in found.items()}


def said(task: str, batch: int) -> dict[str, Any]:
    """A fresh copy."""
    found: dict[str, Any] = json.loads(_all()[task, batch])
    return found
