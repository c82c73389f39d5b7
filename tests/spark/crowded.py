"""A job that keeps its state in the heap of Spark's process, which is hardly larger: it is for ever cleared up."""

import json
import os
from typing import Any

from pyspark.sql import functions as F  # noqa: N812 - Spark's custom

import headgate as hg
from headgate.run import vitals

SHAPE: dict[str, Any] = json.loads(os.environ["HEADGATE_CROWDED"])
vitals.LOOK_S = 0.5
job = hg.Job(
    "ill",
    checkpoint=hg.Checkpointing(storage=f"{SHAPE['directory']}/storage", interval="1s"),
    state_backend=hg.state_backend.hashmap(),
    spark_conf={"spark.sql.shuffle.partitions": "2", "spark.driver.memory": SHAPE["memory"]},
)
rows = job.source("rows", hg.generator.source(rows_per_batch=SHAPE["rows"], keys=SHAPE["keys"]))
last = rows.transform("last", lambda frame: frame.groupBy("key").agg(F.max("n").alias("n")), output_mode="update")
last.sink("out", hg.files.sink(f"{SHAPE['directory']}/out"))
