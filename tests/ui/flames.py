"""Flame graphs and stacks, as the API gives them, of stacks that were once seen."""

import time
from pathlib import Path

from headgate.profile.stacks import FlameGraphType, Stacks, tree
from headgate.serve import models
from tests.ui.world import Data, blank

HERE = Path(__file__).parent
TEXTS = {"driver": "stacks-jvm.txt", "driver-python": "stacks-python.txt"}
WRITING = [
    "Query._hook (headgate/task/query.py:348)",
    "write (/opt/jobs/ledger.py:41)",
    "Connection.wait (psycopg/connection.py:453)",
]
SCORING = [
    "main (pyspark/worker.py:3311)",
    "process (pyspark/worker.py:3303)",
    "score (/opt/jobs/orders.py:52)",
    "re.sub (re/__init__.py:185)",
]


def seen(name: str) -> Stacks:
    """How often, whether it ran or waited, and the frames, with "|" between them."""
    found = Stacks()
    text = "" if name == "python-workers" else (HERE / TEXTS[name]).read_text(encoding="utf-8")
    for line in text.splitlines():
        times, state, stack = line.split(" ", 2)
        found.add(stack.split("|"), running=state == "R", times=int(times))
    return found


def flame_graph(asked: dict[str, list[str]], sampling: str | None) -> Data:
    """``sampling``: ``first`` if nothing was sampled yet, ``failed`` if nothing can be."""
    subject, kind = asked["subject"][0], FlameGraphType(asked["type"][0])
    there = sampling is None
    return blank(
        models.FlameGraph,
        endTimestamp=round(time.time() * 1000) - 12_000 if there else None,
        data=tree(seen(subject).counted(kind)) if there else None,
        type=kind.value,
        subject=subject,
        status={"first": "SAMPLING", "failed": "FAILED"}.get(sampling or "", "COMPLETED"),
        samples=100 if there else None,
        took_ms=5210 if there else None,
        refresh_ms=60_000,
        why="py-spy is not installed, which reads the stacks of Python workers: pip install 'headgate[profile]'"
        if sampling == "failed"
        else None,
    )


def waiting(progress: Data, *, stacks: bool) -> Data:
    """The first task is at a batch, and the others at nothing."""
    tasks = [
        blank(
            models.WaitingTask,
            task=task,
            cut=task in progress["cut"],
            batch=5301,
            **({"doing": "batch 5301 has been running", "for_ms": 4180} if number == 0 else {}),
            place="in write (/opt/jobs/ledger.py:41)" if stacks and number == 0 else None,
            stack=WRITING if stacks and number == 0 else [],
        )
        for number, task in enumerate(progress["waiting"])
    ]
    busy = blank(models.WorkerStack, pid=41911, process="Python worker", thread="MainThread", stack=SCORING)
    return blank(models.CheckpointWaiting, id=progress["id"], waiting_for=tasks, workers=[busy] if stacks else [])
