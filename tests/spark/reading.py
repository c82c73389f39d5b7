"""Reads what jobs of ``shapes`` wrote, with Arrow and the standard library, and counts."""

import csv
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq


def rows_of(directory: Path) -> list[dict[str, Any]]:
    """All rows that a reader of a sink's directory sees."""
    found: list[dict[str, Any]] = []
    for path in sorted(directory.iterdir()) if directory.is_dir() else ():
        if path.name[0] in "_." or not path.is_file():
            continue
        if path.suffix == ".parquet":
            found += pq.read_table(path).to_pylist()
        elif path.suffix == ".json":
            found += [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        elif path.suffix == ".csv":
            with path.open(encoding="utf-8", newline="") as file:
                found += list(csv.DictReader(file, fieldnames=["n", "key", "seq"]))
        else:
            raise AssertionError(f"what is {path}?")
    return found


def numbers(directory: Path) -> "Counter[int]":
    """How often each row that went in came out."""
    found: Counter[int] = Counter()
    for row in rows_of(directory):
        if "numbers" in row:
            found.update(row["numbers"])
        else:
            found[int(row["n"])] += 1
    return found


def sides(directory: Path) -> "dict[str, Counter[int]]":
    """The same for each side of a diamond."""
    found: dict[str, Counter[int]] = {"left": Counter(), "right": Counter()}
    for row in rows_of(directory):
        found[row["side"]].update(row["numbers"])
    return found


def amiss(found: "Counter[int]", rows: int) -> tuple[int, int]:
    """How many of this many rows are lost, and how many are there too often."""
    wanted = Counter(range(rows))
    return (wanted - found).total(), (found - wanted).total()


def outputs(shape: str, directory: Path) -> "dict[str, Counter[int]]":
    """Everything a shape puts out, by name: each must have every row once."""
    out = directory / "out"
    match shape:
        case "fork":
            return {name: numbers(out / name) for name in ("windows", "plain", "once")}
        case "diamond":
            return dict(sides(out / "totals"))
        case "join":
            return {"pairs": numbers(out / "pairs")}
        case "windows":
            return {"windows": numbers(out / "windows")}
        case "keyed" | "columns":
            return {"places": numbers(out / "places")}
        case "random":
            return {name: numbers(out / name) for name in ("one", "two", "three")}
        case _:
            raise AssertionError(shape)


def verdict(shape: str, directory: Path, rows: int) -> dict[str, tuple[int, int]]:
    """For each output, how many rows are lost and how many doubled, if any."""
    found = {name: amiss(counted, rows) for name, counted in outputs(shape, directory).items()}
    return {name: wrong for name, wrong in found.items() if wrong != (0, 0)}
