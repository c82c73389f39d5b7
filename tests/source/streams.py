"""Run a source as a task would, stop it or let it crash, and see what came out."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession

from headgate.source import Source

PATIENCE_S = 180


@dataclass
class Stream:
    """One source over one Spark checkpoint directory, through as many runs as a test likes."""

    spark: SparkSession
    checkpoint: Path
    batches: dict[int, list[Row]] = field(default_factory=dict)
    entered: list[int] = field(default_factory=list)

    @property
    def rows(self) -> list[Row]:
        return [row for batch in sorted(self.batches) for row in self.batches[batch]]

    def run(self, source: Source, until: Callable[["Stream"], bool] | None = None, crash_in: int | None = None) -> None:
        """Run until ``until`` holds, or the source has ended; or crash in a batch, after its rows were seen."""

        def collect(frame: DataFrame, batch: int) -> None:
            self.entered.append(batch)
            self.batches[batch] = frame.collect()
            if batch == crash_in:
                raise RuntimeError("a crash, as the test wants it")

        interval_ms = source.trigger_ms
        writer = source.load(self.spark, interval_ms).writeStream.option("checkpointLocation", str(self.checkpoint))
        if interval_ms is not None:
            writer = writer.trigger(processingTime=f"{interval_ms} milliseconds")
        query = writer.foreachBatch(collect).start()
        deadline_s = time.monotonic() + PATIENCE_S
        try:
            while query.isActive:
                offset = self.committed_offset()
                if offset is not None and (source.ended(offset) if until is None else until(self)):
                    return
                assert time.monotonic() < deadline_s, "the stream does not get there"
                time.sleep(0.02)
            query.awaitTermination()  # raises what the query died of
        except StreamingQueryException:
            if crash_in is None or crash_in not in self.entered:
                raise
        finally:
            query.stop()

    def committed_offset(self) -> str | None:
        """The source's entry in Spark's offset log, of the last committed batch."""
        done = [int(entry.name) for entry in self.checkpoint.glob("commits/*") if entry.name.isdigit()]
        if not done:
            return None
        offset = (self.checkpoint / "offsets" / str(max(done))).read_text(encoding="utf-8").splitlines()[-1]
        json.loads(offset)
        return offset
