"""What a job is, for those who look at it later: its plan and its settings, as plain data.

One rule: what is secret is left out, and nothing depends on the rest.
"""

import platform
import re
import traceback
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyspark
from pyspark import SparkContext
from pyspark.sql import SparkSession

import headgate
from headgate import state_backend as backends
from headgate.core.settings import Settings
from headgate.job import show
from headgate.job.api import Job
from headgate.job.plan import Plan
from headgate.redact import redact
from headgate.store.jobstore import JobStore
from headgate.task import partitions

MAINTENANCE = "spark.sql.streaming.stateStore.maintenanceInterval"
CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
TRACE_LINES_MAX = 200
LINE_CHARACTERS_MAX = 500
HEAP_OPTION = "-Xmx"
CHECKPOINTING = (
    *("interval_ms", "min_pause_ms", "timeout_ms", "max_concurrent_checkpoints", "tolerable_failed_checkpoints"),
    *("unaligned", "aligned_checkpoint_timeout_ms", "max_batches_ahead", "num_retained", "retain_on_cancellation"),
    "checkpoints_after_tasks_finish",
)


def describe(
    job: Job,
    planned: Plan,
    settings: Settings,
    spark: SparkSession,
    store: JobStore,
    root: Path,
    conf: Mapping[str, str],
) -> dict[str, Any]:
    """The plan and the settings of a job that is about to run. ``conf`` is what the user says to Spark."""
    backend = job.state_backend or backends.rocksdb()
    return {
        "plan": show.as_data(job.name, planned, settings.mode, partitions.chosen(spark)),
        "checkpointing": {
            "mode": settings.mode.value,
            **{name: getattr(settings, name) for name in CHECKPOINTING},
            "storage": redact(store.uri),
            "state_backend": backend.name,
            "changelog": _has_changelog(backend.conf),
            "materialization_ms": _materialization_ms(backend.conf),
            "working_directory": None if root == store.local_root else str(root),
        },
        "configuration": {
            "restart_strategy": _strategy(settings),
            "spark_conf": {name: _shown(name, value) for name, value in {**job.spark_conf, **conf}.items()},
            "master": redact(str(spark.sparkContext.master)),
            "memory": _memory(spark),
            "spark_ui": _address(spark.sparkContext.uiWebUrl),
            "cores": partitions.cores_of(spark),
            "state_backend": backend.name,
            "batch_interval_ms": job.batch_interval_ms,
            "latency_ms": job.latency_ms,
            "history": {"max_checkpoints": job.history.max_checkpoints, "max_bytes": job.history.max_bytes},
            "versions": {
                "headgate": headgate.__version__,
                "pyspark": pyspark.__version__,
                "python": platform.python_version(),
            },
        },
    }


def trace_of(error: BaseException) -> str:
    """The trace of what was raised, without what is secret. Of a long one the first and the last lines.

    It is made short first, since looking for secrets takes long in a long word. Of a long line the beginning is kept:
    a value without the name before it would not be known for a secret.
    """
    lines = [
        line if len(line) <= LINE_CHARACTERS_MAX else f"{line[:LINE_CHARACTERS_MAX]} ..."
        for line in "".join(traceback.format_exception(error)).splitlines()
    ]
    if len(lines) > TRACE_LINES_MAX:
        half = TRACE_LINES_MAX // 2
        lines = [*lines[:half], f"... {len(lines) - 2 * half} lines are left out ...", *lines[-half:]]
    return redact("\n".join(lines))


def _memory(spark: SparkSession) -> dict[str, str | None]:
    """The heap that Spark's process was started with, and the one that executors are."""
    jvm: Any = SparkContext._jvm  # noqa: SLF001 - what is set in a session need not be what its process got
    arguments = jvm.java.lang.management.ManagementFactory.getRuntimeMXBean().getInputArguments()
    said = [str(each) for each in arguments if str(each).startswith(HEAP_OPTION)]
    return {
        "spark.driver.memory": said[-1].removeprefix(HEAP_OPTION) if said else None,
        "spark.executor.memory": spark.sparkContext.getConf().get("spark.executor.memory", None),
    }


def _has_changelog(conf: Mapping[str, str]) -> bool:
    return conf.get(CHANGELOG, "false").lower() == "true"


def _materialization_ms(conf: Mapping[str, str]) -> int | None:
    """How often it is looked whether changes are to become a snapshot. None without changes."""
    interval = conf.get(MAINTENANCE, "")
    return int(interval.removesuffix("ms")) if _has_changelog(conf) and interval.endswith("ms") else None


def _strategy(settings: Settings) -> str:
    """The restart strategy in a line."""
    values = ", ".join(f"{name}={value}" for name, value in asdict(settings.restart).items())
    name = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", type(settings.restart).__name__).lower()
    return f"{name}{': ' * bool(values)}{values}"


def _address(url: str | None) -> str | None:
    """Where Spark's own UI is, if it is on. What is no address of a page is left out: it becomes a link."""
    return redact(url) if url is not None and url.startswith(("http://", "https://")) else None


def _shown(name: str, value: object) -> str:
    return redact(f"{name}={value}").partition("=")[2]
