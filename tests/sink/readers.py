"""Readers that share no code with the sinks: Arrow for Parquet, the standard library for JSON and CSV.

One rule: a reader finds files as Arrow does, passing over all names that begin with ``_`` or ``.``.
"""

import csv
import json
from collections.abc import Sequence
from pathlib import Path

import pyarrow.dataset as ds

from headgate.sink.contract import Row


def visible_files(place: Path) -> list[Path]:
    dataset = ds.dataset(place, format="csv", partitioning=None)
    return sorted(Path(name) for name in dataset.files)


def read_parquet(place: Path) -> Sequence[Row]:
    if not visible_files(place):
        return []
    rows = ds.dataset(place, format="parquet", partitioning="hive").to_table(["number", "writer"]).to_pylist()
    return [(row["number"], row["writer"]) for row in rows]


def read_json(place: Path) -> Sequence[Row]:
    rows = [json.loads(line) for file in visible_files(place) for line in file.read_text().splitlines()]
    return [(row["number"], row["writer"]) for row in rows]


def read_csv(place: Path) -> Sequence[Row]:
    found = []
    for file in visible_files(place):
        with file.open(newline="") as lines:
            found += [(int(row["number"]), row["writer"]) for row in csv.DictReader(lines)]
    return found
