"""The job of ``test_frozen.py``: totals that grow, upserted into PostgreSQL. It freezes where a test asks for it.

``HEADGATE_TOTALS`` (JSON) says where the table is.
"""

import json
import os
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, functions as F  # noqa: N812 - Spark's custom

import headgate as hg
from tests.connect import held
from tests.kills import freezing

ROWS, KEYS = 600, 2


def build(settings: dict[str, Any]) -> hg.Job:
    job = hg.Job(
        "totals",
        checkpoint=hg.Checkpointing(storage=f"{settings['directory']}/storage", interval="10min"),
        spark_conf={"spark.sql.shuffle.partitions": "2"},
    )
    rows = job.source("in", hg.generator.source(rows=ROWS, rows_per_batch=100, keys=KEYS))
    rows.transform("totals", _totals, output_mode="update").sink(
        "out", hg.postgres.sink(settings["dsn"], table="totals", mode="upsert", key=["key"])
    )
    return job


def _totals(rows: DataFrame) -> DataFrame:
    return rows.groupBy("key").agg(F.count("*").alias("total"))


if "HEADGATE_TOTALS" in os.environ and __name__ == "__headgate__":
    given = json.loads(os.environ["HEADGATE_TOTALS"])
    freezing.listen(Path(given["directory"]))
    held.listen(Path(given["directory"]))
    job = build(given)
