"""The job of a campaign: numbered rows, each of which goes to every sink of a group.

``HEADGATE_KILLS`` (JSON) says which, and where the servers are.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, functions as F  # noqa: N812 - as everybody writes it

import headgate as hg
from tests import jvm
from tests.kills import freezing
from tests.kills.cases import BLOCK, CASES


def build(settings: dict[str, Any]) -> hg.Job:
    job = hg.Job(
        "kills",
        checkpoint=hg.Checkpointing(
            storage=f"{settings['directory']}/storage", interval="1s", tolerable_failed_checkpoints=1000, timeout="5min"
        ),
        restart=hg.restart.fixed_delay(delay="200ms"),
        state_backend=hg.state_backend.rocksdb(),
        spark_conf={
            "spark.sql.shuffle.partitions": "2",
            "spark.executor.memory": "1g",
            "spark.executor.extraJavaOptions": jvm.options(jvm.EXECUTOR),
        },
        batch_interval="1s",
    )
    source = hg.generator.source(rows_per_batch=settings["rows_per_batch"], keys=20, partitions=2)
    numbers = job.source("numbers", source)
    cases = [CASES[name] for name in settings["cases"]]
    totals = (
        numbers.transform("totals", _totals, output_mode="update") if any(case.totals for case in cases) else numbers
    )
    for case in cases:
        rows = totals if case.totals else numbers
        rows.transform(f"as-{case.name}", _selected(case.columns)).sink(case.name, case.sink(settings))
    return job


def _totals(frame: DataFrame) -> DataFrame:
    return frame.groupBy(F.expr(f"n div {BLOCK}").alias("block")).agg(F.count("*").alias("total"))


def _selected(columns: tuple[str, ...]) -> Callable[[DataFrame], DataFrame]:
    return lambda frame: frame.selectExpr(*columns)


if "HEADGATE_KILLS" in os.environ and __name__ == "__headgate__":
    settings = json.loads(os.environ["HEADGATE_KILLS"])
    freezing.listen(Path(settings["directory"]))
    job = build(settings)
