"""Jobs in states that are hard to bring about: busy, failing, ended, never begun, and very large.

One rule: as in ``world``: what the API would never say cannot be said here.
"""

import random
from collections.abc import Callable

from headgate.serve import models
from tests.ui.world import Data, Task, World, blank


def busy(now_ms: int) -> World:
    tasks = (
        Task(
            "orders",
            ("orders", "parsed"),
            sources=("orders",),
            rate=18_400,
            busy=0.52,
            pressed=0.08,
            late_s=0.25,
            skew=1.08,
        ),
        Task("customers", ("customers",), sources=("customers",), rate=310, busy=0.07, pressed=0.0, late_s=0.25),
        Task(
            "enriched",
            ("enriched",),
            reads=("orders", "customers"),
            rate=17_900,
            busy=0.88,
            pressed=0.02,
            stateful=True,
            state_bytes=2_410_000_000,
            skew=3.2,
            late_s=1.4,
        ),
        Task(
            "user-windows",
            ("user-windows",),
            reads=("enriched",),
            sinks=(("summaries", "exactly-once", "postgres: PREPARE TRANSACTION into shop.summaries"),),
            rate=9_100,
            busy=0.34,
            pressed=0.58,
            stateful=True,
            state_bytes=731_000_000,
            skew=1.6,
            late_s=2.0,
        ),
        Task(
            "anomalies",
            ("anomalies",),
            reads=("enriched",),
            sinks=(
                ("alerts", "exactly-once", "kafka: transactions into topic alerts"),
                ("search", "effectively-once", "search: _bulk into index orders"),
            ),
            rate=8_800,
            busy=0.21,
            pressed=0.03,
            late_s=1.9,
        ),
    )
    world = World("orders", tasks, now_ms, failed=frozenset({1239, 1240}), held={1200}, spark_ui=True)
    world.findings = [
        blank(
            models.DiagnosisFinding,
            rule="slow-start-delay",
            name="slow start delay",
            verdict="warning",
            evidence="from the trigger to the last barrier 6.4 s (median of 20 checkpoints), of which 5.1 s in task "
            "enriched, which is busy 88% of the time with batches of 2.4 s",
            advice="let barriers overtake data, as unaligned=True does at once, aligned_checkpoint_timeout after a "
            "while",
            setting="Checkpointing.aligned_checkpoint_timeout",
            value="1s",
            tasks=["enriched"],
            checkpoints=[1280, 1281, 1282, 1283, 1284],
        )
    ]
    world.failures = failures(now_ms - 2_400_000, 4)
    world.restarts = restarts(world.failures)
    return world


def calm(now_ms: int) -> World:
    tasks = (
        Task("readings", ("readings",), sources=("readings",), rate=640, busy=0.12, late_s=0.2),
        Task(
            "sensors",
            ("sensors",),
            reads=("readings",),
            stateful=True,
            rate=630,
            busy=0.2,
            state_bytes=48_000_000,
            late_s=0.8,
            sinks=(("alarms", "exactly-once", "files: Parquet in /data/alarms"),),
        ),
    )
    return World("sensors", tasks, now_ms, count=86_400, every_s=60.0, savepoint_every=40_000, goes_on=False)


def failing(now_ms: int) -> World:
    world = World(
        "payments",
        (
            Task("payments", ("payments",), sources=("payments",), late_s=0.2),
            Task(
                "balances",
                ("balances",),
                reads=("payments",),
                stateful=True,
                state_bytes=90_000_000,
                sinks=(("ledger", "exactly-once", "postgres: PREPARE TRANSACTION into ledger"),),
            ),
        ),
        now_ms,
        phase="failed",
        state="FAILED",
        live=False,
        text="task balances failed 4 times within 10 min: ValueError: amount is not a number: 'EUR 12,50'",
        count=311,
        end_ms=now_ms - 190_000,
        failed=frozenset({310}),
    )
    world.findings = [
        blank(
            models.DiagnosisFinding,
            rule="restart-loop",
            name="restarts in a loop on the same batch",
            verdict="problem",
            evidence="task balances has failed 4 times on batch 9127 within 9 min 12 s, the last time (user): "
            "ValueError: amount is not a number: 'EUR 12,50'",
            advice="put right what it says; a batch that may be left out: mode='at-most-once'. A restart strategy that "
            "gives up lets somebody notice",
            setting="the job's own code",
            value="",
            tasks=["balances"],
            checkpoints=[],
        )
    ]
    world.failures = failures(now_ms - 190_000, 6, job_fails=True)
    world.restarts = restarts(world.failures[1:])
    return world


def restarting(now_ms: int) -> World:
    world = busy(now_ms)
    world.name, world.phase, world.state = "clicks", "restarting", "RESTARTING"
    world.stalled = ("sink summaries: a commit has been tried for 4 min: connection to 10.1.0.7 refused",)
    return world


def ended(now_ms: int) -> World:
    world = calm(now_ms)
    world.name, world.phase, world.state, world.live = "backfill-2025", "finished", "FINISHED", False
    world.text, world.end_ms, world.count = "all sources came to an end", now_ms - 86_400_000, 512
    world.restarts = []
    return world


def empty(now_ms: int) -> World:
    return World(
        "first",
        (),
        now_ms,
        phase="new",
        state="CREATED",
        live=False,
        count=0,
        described=False,
        storage="/data/headgate",
    )


def large(now_ms: int) -> World:
    """200 tasks and 10,000 checkpoints."""
    chance = random.Random(7)
    tasks: list[Task] = []
    for number in range(200):
        row, column = divmod(number, 20)
        others = [column + 1] if chance.random() < 0.12 and column < 19 else []
        reads = tuple(f"task-{(row - 1) * 20 + one:03}" for one in (column, *others)) if row else ()
        tasks.append(
            Task(
                f"task-{number:03}",
                (f"op-{number:03}",),
                reads=reads,
                sources=(f"in-{number:03}",) if row == 0 else (),
                sinks=((f"out-{number:03}", "exactly-once", "files: JSON"),) if row == 9 else (),
                rate=chance.uniform(10, 4000),
                busy=chance.random() * 0.95,
                pressed=chance.choice([0.0, 0.0, 0.02, 0.2, 0.7]) * 0.7,
                stateful=number % 3 == 0,
                state_bytes=chance.randint(10**5, 10**9) if number % 3 == 0 else None,
                late_s=0.2 + 0.25 * row,
            )
        )
    return World("large", tuple(tasks), now_ms, count=10_000)


TRACE = """Traceback (most recent call last):
  File "/opt/jobs/payments.py", line 41, in update
    total = state.total.get() + Decimal(row.amount)
                                ^^^^^^^^^^^^^^^^^^^
  File "/usr/lib/python3.12/decimal.py", line 120, in __new__
    raise ConversionSyntax
ValueError: amount is not a number: 'EUR 12,50'

The above exception was the direct cause of the following exception:

pyspark.errors.exceptions.captured.StreamingQueryException: [STREAM_FAILED] Query [id = 6f1c, runId = 90ab]
terminated with exception: Job aborted due to stage failure: Task 7 in stage 211.0 failed 4 times
\tat org.apache.spark.scheduler.DAGScheduler.failJobAndIndependentStages(DAGScheduler.scala:3107)
\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:2998)
\tat org.apache.spark.sql.execution.streaming.MicroBatchExecution.runBatch(MicroBatchExecution.scala:771)
"""
KINDS = (
    ("ValueError", "user", "amount is not a number: 'EUR 12,50'"),
    ("ConnectionRefusedError", "external", "PostgreSQL at 10.1.0.7:5432 refused the connection"),
    ("ExecutorLostFailure", "lost-executor", "executor 3 was lost: heartbeat timed out after 120000 ms"),
)


def failures(last_ms: int, number: int, *, job_fails: bool = False) -> list[Data]:
    """The newest first."""
    found = []
    for index in range(number):
        name, kind, message = KINDS[0 if job_fails else index % len(KINDS)]
        found.append(
            blank(
                models.ExceptionEntry,
                exceptionName=name,
                timestamp=last_ms - index * 95_000,
                stacktrace=TRACE if name == "ValueError" else f"{name}: {message}",
                taskName="balances" if job_fails else ("user-windows", "anomalies", "enriched")[index % 3],
                failureLabels={"class": kind, "level": "job" if index == 1 else "task", "run": str(index + 1)},
                message=message,
                position=f"p{index}",
                concurrentExceptions=[],
            )
        )
    return found


def restarts(found: list[Data]) -> list[Data]:
    return [
        blank(
            models.RestartInfo,
            timestamp=one["timestamp"] + 140,
            level=one["failureLabels"]["level"],
            task=None if one["failureLabels"]["level"] == "job" else one["taskName"],
            cause=f"{one['exceptionName']}: {one['message']}",
            **{"class": one["failureLabels"]["class"]},
            delay_ms=1000 * (1 + index),
            failed_ms=one["timestamp"],
            running_ms=one["timestamp"] + 140 + 1000 * (1 + index) + 2300 + 800 * index,
            restore_ms=2300 + 800 * index,
            replay_ms=None if index == 3 else 900 + 350 * index,
            stacktrace=one["stacktrace"],
            checkpoint=1180 - index if one["failureLabels"]["level"] == "job" else None,
            position=one["position"],
        )
        for index, one in enumerate(found)
    ]


WORLDS: dict[str, Callable[[int], list[World]]] = {
    "busy": lambda now: [busy(now), calm(now), restarting(now), failing(now), ended(now)],
    "empty": lambda now: [empty(now)],
    "none": lambda _: [],
    "large": lambda now: [large(now)],
}
