"""What a line of history costs, and a page of it, as it grows.

One rule: a short and a long history take turns in one run, and each look is that of a new process, which knows nothing
yet. No Spark: lines are those that a job of three tasks writes.
"""

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from headgate.run.past import PAGE, JobPast
from headgate.store.history import HistoryBounds
from headgate.store.jobstore import JobStore
from headgate.store.local import LocalStore

FEW, MANY = 1_000, 100_000
LOOKS = 15
TASKS = ("read", "count", "write")
BOUNDS = HistoryBounds(max_checkpoints=2 * MANY, max_bytes=1 << 30)


def lines_of(number: int) -> Iterator[dict[str, Any]]:
    """What is written of one checkpoint."""
    at = 1_700_000_000_000 + number * 10_000
    part = {"start_delay_ms": number % 9, "alignment_ms": 3, "sync_ms": 2.5, "async_ms": 31.4, "total_bytes": 10**6}
    part |= {"new_bytes": 10_000 + number, "files": 12, "in_flight_bytes": 0}
    named = {"id": number, "kind": "checkpoint", "unaligned": False}
    figures = {"generation": 1, "duration_ms": 400 + number % 200, "pre_commit_ms": 1.5, "publish_ms": 4, "restarts": 0}
    yield {"at": at, "event": "checkpoint-triggered", **named}
    tasks = dict.fromkeys(TASKS, part)
    yield {"at": at + 500, "event": "checkpoint-completed", **named, **figures, "tasks": tasks}
    yield {"at": at + 600, "event": "checkpoint-committed", "id": number, "commit_ms": 100, "retries": 0}


def written(home: Path, count: int) -> tuple[JobStore, float, float]:
    """A history of so many checkpoints; microseconds of CPU and of time for a line."""
    store = JobStore.open(LocalStore(home), "job")
    store.bound_history(BOUNDS)
    store.append_history([{"at": 1, "event": "generation", "generation": 1, "base": None, "leader": "me"}])
    wall, cpu = time.perf_counter(), time.process_time()
    for number in range(1, count + 1):
        for line in lines_of(number):
            store.append_history([line])
    per = 1e6 / (3 * count)
    return store, (time.process_time() - cpu) * per, (time.perf_counter() - wall) * per


def history() -> None:
    """Compare pages of a short and a long history."""
    with tempfile.TemporaryDirectory() as place:
        stores: dict[int, JobStore] = {}
        for count in (FEW, MANY):
            store, cpu_us, wall_us = written(Path(place, str(count)), count)
            stores[count] = store
            size = sum(entry.size for entry in store.list("history"))
            print(f"{count:>7} checkpoints: a line takes {wall_us:.0f} µs (cpu {cpu_us:.0f} µs); {size / 1e6:.0f} MB")
        asked: dict[str, Callable[[JobPast], object]] = {
            f"the newest {PAGE} checkpoints": lambda past: past.checkpoints(),
            f"{PAGE} from the middle": lambda past: past.checkpoints(before=past.history.ids(1)[0] // 2),
            "one checkpoint": lambda past: past.checkpoint(past.history.ids(1)[0] // 2),
            "counts by outcome": lambda past: past.counts(),
            "summary with percentiles": lambda past: past.summary(),
            f"the newest {PAGE} events": lambda past: past.history.events(PAGE),
            "status": lambda past: past.execution(),
        }
        for name, ask in asked.items():
            seen: dict[int, list[tuple[float, float, int]]] = {count: [] for count in stores}
            for _ in range(LOOKS):
                for count, store in stores.items():
                    seen[count].append(_timed(store, ask))
            few, many = (_middle(seen[count]) for count in (FEW, MANY))
            print(
                f"  {name:<28}{FEW:>7}: {few[0]:6.1f} ms (cpu {few[1]:6.1f}), {MANY:>7}: {many[0]:6.1f} ms "
                f"(cpu {many[1]:6.1f}; {many[2] / 1e6:.2f} MB read)"
            )


def _timed(store: JobStore, ask: Callable[[JobPast], object]) -> tuple[float, float, int]:
    wall, cpu = time.perf_counter(), time.process_time()
    past = JobPast(store)
    ask(past)
    return (
        (time.perf_counter() - wall) * 1e3,
        (time.process_time() - cpu) * 1e3,
        past.history.files.reads.size,
    )


def _middle(seen: list[tuple[float, float, int]]) -> tuple[float, float, int]:
    return (
        statistics.median(one[0] for one in seen),
        statistics.median(one[1] for one in seen),
        seen[0][2],
    )
