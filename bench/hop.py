"""A channel between two tasks, against Spark's own files between two queries."""

import shutil
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from bench.side_by_side import compare
from bench.spark import ROUNDS, scratch
from headgate.channel import reader, segments
from headgate.channel.gates import Gates
from headgate.channel.segments import Segments
from headgate.core.ids import NO_BATCH, Batch, ChannelId, Generation, Run, TaskId


def channel_hop(spark: SparkSession, rows: int = 16_000_000, batches: int = 8) -> None:
    """Reading a channel and writing Parquet, against Spark's own Parquet streaming from directory to directory."""
    with scratch() as where:
        channel, written = ChannelId("hop.0"), where / "channel"
        log = Segments(written, channel)
        each = rows // batches
        columns = ("id as n", "concat('key-', id % 10000) as key", "id / 128d as value", "timestamp_millis(id) as at")
        schema = spark.range(1).selectExpr(*columns).schema
        for number in range(batches):
            frame = spark.range(each * number, each * (number + 1), numPartitions=2).selectExpr(*columns)
            frame.write.parquet(str(segments.segment_directory(written, Batch(number), Run(1))))
            log.commit(Batch(number), Run(1))
            shutil.copytree(segments.segment_directory(written, Batch(number), Run(1)), where / "files" / str(number))
        gates = Gates()
        gates.open(Generation(1), channel, TaskId("hop"), Batch(batches - 1))

        def hop() -> float:
            out = where / "out-hop"
            frame = reader.load(
                spark,
                directory=written,
                channel=channel,
                reader="hop",
                generation=1,
                position=NO_BATCH,
                gates=gates.address,
                schema=schema,
                alone=True,
            )

            def write(batch: DataFrame, number: int) -> None:
                batch.write.parquet(str(out / str(number)))

            query = frame.writeStream.foreachBatch(write).option("checkpointLocation", str(where / "c1"))
            query.trigger(availableNow=True).start().awaitTermination()
            return _finish(out, where / "c1")

        def own() -> float:
            out = where / "out-own"
            frame = spark.readStream.schema(schema).parquet(str(where / "files" / "*"))
            query = frame.writeStream.format("parquet").option("path", str(out))
            query = query.option("checkpointLocation", str(where / "c2"))
            query.trigger(availableNow=True).start().awaitTermination()
            return _finish(out, where / "c2")

        def _finish(out: Path, checkpoint: Path) -> float:
            found = spark.read.option("recursiveFileLookup", "true").parquet(str(out)).count()
            shutil.rmtree(out)
            shutil.rmtree(checkpoint)
            return found

        compare(
            f"{rows:,} rows from Parquet to Parquet (wanted: at least 0.7)",
            "rows",
            {"Spark's own file source and sink": own, "a channel hop": hop},
            ROUNDS,
        )
        gates.close()
