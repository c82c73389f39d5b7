"""Readers that share no code with the sinks: Arrow for Parquet, the standard library for JSON and CSV.

One rule: a reader finds files as Arrow does, passing over all names that begin with ``_`` or ``.``.
"""

import csv
import json
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds

from headgate.testing import Row


def visible_files(place: Path) -> list[Path]:
    found = ds.dataset(place, schema=pa.schema([]), format="parquet").files
    return sorted(Path(name) for name in found)


def read_parquet(place: Path) -> Sequence[Row]:
    schema = pa.schema([("number", pa.int64()), ("writer", pa.string())])
    rows = ds.dataset(place, schema=schema, format="parquet").to_table().to_pylist()
    return [(row["number"], row["writer"]) for row in rows]


def read_json_by_writer(place: Path) -> Sequence[Row]:
    return [
        (json.loads(line)["number"], file.parent.name.removeprefix("writer="))
        for file in visible_files(place)
        for line in file.read_text().splitlines()
    ]


def read_csv(place: Path) -> Sequence[Row]:
    found = []
    for file in visible_files(place):
        with file.open(newline="") as lines:
            found += [(int(row["number"]), row["writer"]) for row in csv.DictReader(lines)]
    return found
