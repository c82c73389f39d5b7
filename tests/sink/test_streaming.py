"""The file sink under a real query with state, whose batches fail and are replayed by later runs."""

from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, count, lit, max as greatest, min as least
from pyspark.sql.streaming.query import StreamingQuery

from headgate import files
from headgate.core.ids import Batch, Generation, Run
from headgate.sink.api import FailedAttempts
from headgate.testing import CONTEXT, pre_commit, write_id

KEYS = 4
ROWS_PER_BATCH = 20
BATCHES = 4


def test_every_update_of_a_stateful_query_comes_out_once_whatever_fails(spark: SparkSession, tmp_path: Path) -> None:
    place = tmp_path / "target"
    sink = files.sink(place, files_per_batch=1)
    sink.open(CONTEXT)
    committed: dict[Batch, Run] = {}
    fails = {(1, 1), (2, 2)}
    """By (run, batch): after the batch is written."""

    def start(run: int) -> StreamingQuery:
        def hook(frame: DataFrame, batch: int) -> None:
            what = write_id(batch, run=run)
            sink.begin_transaction(what)
            sink.invoke(what, frame.withColumn("batch", lit(batch)).withColumn("run", lit(run)))
            if (run, batch) in fails:
                raise RuntimeError("the batch fails after it was written")
            committed[Batch(batch)] = Run(run)

        source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS_PER_BATCH).load()
        keyed = source.groupBy((col("value") % KEYS).alias("key"))
        totals = keyed.agg(count("*").alias("rows"), least("value").alias("least"), greatest("value").alias("greatest"))
        return (
            totals.writeStream.outputMode("update")
            .option("checkpointLocation", f"{tmp_path}/query")
            .foreachBatch(hook)
            .start()
        )

    for run in (1, 2, 3):
        query = start(run)
        try:
            while len(committed) < BATCHES and not query.awaitTermination(1):
                pass
        except StreamingQueryException:
            pass
        finally:
            query.stop()
        sink.abort(FailedAttempts(Generation(1), Run(run + 1), committed))

    batches = [Batch(number) for number in range(BATCHES)]
    assert {committed[batch] for batch in batches} == {1, 2, 3}
    sink.commit(pre_commit(sink, 1, *(write_id(batch, run=committed[batch]) for batch in batches)))
    fields = ("key", "rows", "least", "greatest", "batch", "run")
    found = ds.dataset(place, schema=pa.schema([(name, pa.int64()) for name in fields])).to_table().to_pylist()
    seen = sorted((row["batch"], row["key"], row["rows"], row["least"], row["greatest"], row["run"]) for row in found)
    each = ROWS_PER_BATCH // KEYS
    assert seen == [
        (batch, key, (batch + 1) * each, key, ROWS_PER_BATCH * (batch + 1) - KEYS + key, committed[batch])
        for batch in batches
        for key in range(KEYS)
    ]
