"""Run a job for an hour beside other work, and see that nothing grows: ``python -m tests.soak --minutes 60``.

One rule: what a figure is at the end is compared with what it was once the job had settled, and every row is counted.
Exit code 0 if nothing has grown and every row is there once, 1 if not.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow.dataset as ds

from headgate import layout
from headgate.store.history import HistoryBounds
from tests.soak.job import EVERY, ROWS_PER_SECOND, WINDOW_S
from tests.spark.process import JobProcess

JOB = Path(__file__).with_name("job.py")
SPIN = "while True: pass"
INTERVAL = "200ms"
START_S = 600.0
LINES = 12
"""Rows of the report's table."""
HISTORY_BYTES_MAX = HistoryBounds().max_bytes


@dataclass(frozen=True)
class Figure:
    """Something that must stay as it is. What is allowed makes room for the noise of a machine that has other work."""

    name: str
    unit: str
    allowed: float
    """How much it may have grown: this many times."""
    of: str
    scale: float = 1.0
    bound: bool = False
    """Whether it may grow up to what is allowed instead."""


FIGURES = (
    Figure("files in the storage", "", 1.2, "storage_files"),
    Figure("bytes in the storage", "MB", 1.3, "storage_bytes", 1e6),
    Figure("bytes of history", "MB", HISTORY_BYTES_MAX, "history_bytes", 1e6, bound=True),
    Figure("files staged by a sink", "", 1.5, "staged_files"),
    Figure("JVM heap after a collection", "MB", 1.2, "jvm_heap_bytes", 1e6),
    Figure("JVM threads", "", 1.1, "jvm_threads"),
    Figure("JVM descriptors", "", 1.15, "jvm_fds"),
    Figure("Python resident", "MB", 1.15, "python_rss_bytes", 1e6),
    Figure("Python threads", "", 1.1, "python_threads"),
    Figure("Python descriptors", "", 1.15, "python_fds"),
    Figure("checkpoint", "ms", 1.5, "checkpoint_ms"),
    Figure("checkpoint without its wait for batches", "ms", 1.5, "own_ms"),
)
Sample = dict[str, float]


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.soak", description="Run for long, and see that nothing grows."
    )
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--load", type=int, default=2, help="processes beside the job that do nothing but compute")
    parser.add_argument("--report", type=Path, help="write the report into this directory")
    arguments = parser.parse_args()
    if arguments.report is not None and not arguments.report.is_dir():
        parser.error(f"--report: there is no directory {arguments.report}")
    with tempfile.TemporaryDirectory(prefix="headgate-soak-") as directory:
        samples, wrong = _run(Path(directory), arguments.minutes * 60, arguments.load)
        batches = _batches(Path(directory))
    text, grown = as_text(samples, wrong, arguments.load, batches)
    sys.stdout.write(text)
    if arguments.report is not None:
        (arguments.report / "soak.md").write_text(text, encoding="utf-8")
        (arguments.report / "soak.json").write_text(json.dumps(samples, indent=1) + "\n", encoding="utf-8")
    return 1 if grown or wrong else 0


def _run(directory: Path, seconds: float, load: int) -> tuple[list[Sample], list[str]]:
    """Run the job beside other work; what was measured, and what its readers found wrong."""
    settings = {"directory": str(directory), "interval": INTERVAL, "every_s": max(1.0, seconds / 240)}
    job = JobProcess(settings, file=JOB, variable="HEADGATE_SOAK")
    spinning = [subprocess.Popen([sys.executable, "-c", SPIN]) for _ in range(load)]
    checkpoints: list[tuple[float, float, float]] = []
    try:
        assert job.wait_for(lambda line: line["event"] == "checkpoint-completed", START_S) is not None, job.tail()
        deadline = time.time() + seconds

        def over(line: dict[str, Any]) -> bool:
            if line["event"] == "checkpoint-completed":
                checkpoints.append((time.time(), *times_of(line)))
            return time.time() > deadline

        assert job.wait_for(over, seconds + START_S) is not None, f"the job ended by itself: {job.tail()}"
        command = [sys.executable, "-m", "headgate", "stop", "soak", "--storage", f"{directory}/storage"]
        stopped = subprocess.run([*command, "--timeout", "300"], capture_output=True, text=True, check=False)
        assert stopped.returncode == 0, f"{stopped.stdout}{stopped.stderr}{job.tail()}"
        assert job.end(START_S) == 0, job.tail()
    finally:
        for process in spinning:
            process.kill()
            process.wait()
        if job.process.poll() is None:
            job.kill()
    lines = (directory / "measured.jsonl").read_text(encoding="utf-8").splitlines()
    samples: list[Sample] = [json.loads(line) for line in lines]
    begun = samples[0]["at"]
    enter(samples, checkpoints)
    for sample in samples:
        sample["at"] = round(sample["at"] - begun, 1)
    return samples, _wrong(directory)


def times_of(completed: dict[str, Any]) -> tuple[float, float]:
    """How long a checkpoint took, and how much of that it waited for the batches that were under way, in ms."""
    delays = [task["start_delay_ms"] for task in completed["tasks"].values()]
    return float(completed["duration_ms"]), float(max(delays, default=0.0))


def enter(samples: list[Sample], checkpoints: list[tuple[float, float, float]]) -> None:
    """Enter what checkpoints took, each with when it was complete, into the sample that comes next."""
    for before, sample in pairwise([{"at": 0.0}, *samples]):
        took = [(ms, waited) for at, ms, waited in checkpoints if before["at"] < at <= sample["at"]]
        sample["checkpoints"] = len(took)
        if took:
            sample["checkpoint_ms"] = median(ms for ms, _ in took)
            sample["own_ms"] = median(ms - waited for ms, waited in took)


def _queries(directory: Path) -> list[Path]:
    """Spark's own directories of the tasks, in the savepoint with which the job stopped."""
    savepoints = directory / "storage" / "soak" / "savepoints"
    newest = max(savepoints.glob("[0-9]*"), key=lambda path: int(path.name))
    return sorted(newest.glob("tasks/*/g*/"))


def _batches(directory: Path) -> list[int]:
    """How many batches each task has had."""
    return [layout.committed(query) + 1 for query in _queries(directory)]


def _wrong(directory: Path) -> list[str]:
    """What the readers of both sinks miss, or find twice."""
    ends = [json.loads(offset)["offset"] for query in _queries(directory) for offset in _generated(query)]
    rows = min(ends)
    wrong = []
    single = Counter(_read(directory / "single", "n"))
    expected = Counter(range(0, rows, EVERY))
    if single != expected:
        lost, doubled = (expected - single).total(), (single - expected).total()
        wrong.append(f"single rows: {lost} lost, {doubled} doubled of {expected.total()}")
    windows = Counter(zip(_read(directory / "windows", "key"), _read(directory / "windows", "start"), strict=True))
    counts = _read(directory / "windows", "rows")
    each = ROWS_PER_SECOND * WINDOW_S // 100
    doubled = sum(1 for times in windows.values() if times > 1)
    short = sum(1 for count in counts if count != each)
    if doubled or short or not windows:
        wrong.append(f"windows: {doubled} twice, {short} with another count than {each}, of {len(windows)}")
    return wrong


def _generated(query: Path) -> list[str]:
    offsets = layout.read_offsets(query, layout.committed(query)).of_sources()
    return [offset for offset in offsets if "offset" in json.loads(offset)]


def _read(directory: Path, column: str) -> list[int]:
    found = ds.dataset(directory, format="parquet", ignore_prefixes=[".", "_"])
    if not found.files:
        return []
    return list(found.to_table(columns=[column])[column].to_pylist())


def as_text(samples: list[Sample], wrong: list[str], load: int, batches: list[int]) -> tuple[str, list[str]]:
    """For people; and what has grown."""
    quarter = max(1, len(samples) // 4)
    settled, last = samples[quarter : 2 * quarter], samples[-quarter:]
    grown: list[str] = []
    table = []
    for figure in FIGURES:
        before, after = _middle(settled, figure.of), _middle(last, figure.of)
        ratio = after / before if before else float(after > 0) + 1
        if (after if figure.bound else ratio) > figure.allowed:
            grown.append(f"{figure.name} {ratio:.2f}x")
        values = (before, after, figure.allowed) if figure.bound else (before, after)
        shown = [f"{value / figure.scale:.4g} {figure.unit}".strip() for value in values]
        shown[2:] = [f"{ratio:.2f}", *(shown[2:] or [str(figure.allowed)])]
        table.append(f"| {figure.name} | {' | '.join(shown)} |")
    step = max(1, len(samples) // LINES)
    minutes = samples[-1]["at"] / 60
    total = sum(int(sample["checkpoints"]) for sample in samples)
    show: list[Callable[[Sample], str]] = [
        lambda sample: f"{sample['at'] / 60:.0f}",
        *(lambda sample, figure=figure: f"{sample.get(figure.of, 0.0) / figure.scale:.4g}" for figure in FIGURES),
    ]
    lines = [
        "# A long run",
        "",
        f"{minutes:.0f} minutes, a checkpoint every {INTERVAL} ({total} completed), two tasks on RocksDB,",
        f"{' and '.join(map(str, batches))} batches, {ROWS_PER_SECOND} rows a second, on two cores, beside {load}",
        f"processes that do nothing but compute. Load average of the machine: {_middle(samples, 'load'):.1f} (median).",
        f"Grown: **{', '.join(grown) or 'nothing'}**. Rows: **{'; '.join(wrong) or 'every one once'}**.",
        "",
        "Medians of the second quarter of the run, when it had settled, and of the last:",
        "",
        "| figure | settled | at the end | ratio | allowed |",
        "| --- | ---: | ---: | ---: | ---: |",
        *table,
        "",
        f"| minute | {' | '.join(f'{figure.name}' for figure in FIGURES)} |",
        f"| ---: |{' ---: |' * len(FIGURES)}",
        *(f"| {' | '.join(one(sample) for one in show)} |" for sample in samples[::step]),
        "",
        f"Made by `python -m tests.soak --minutes {minutes:.0f} --load {load} --report docs/reports`.",
    ]
    return "\n".join(lines) + "\n", grown


def _middle(samples: list[Sample], name: str) -> float:
    return median([sample[name] for sample in samples if name in sample] or [0.0])


if __name__ == "__main__":
    sys.exit(main())
