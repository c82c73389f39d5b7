"""The watermark of a running query, when there will be no more events.

One rule: it is put after every event, and never back. Spark then plans batches of no rows by itself, as whenever its
watermark has moved, until no operator waits for time any more.

Spark has no public way to say that a source has ended. All that is used of its own is used here; where it is missing,
the query is stopped, and launched again for its last batches.
"""

from pyspark.sql.streaming.query import StreamingQuery

from headgate.layout import FINAL_WATERMARK_MS


def end_time(query: StreamingQuery) -> bool:
    """Put the watermark after every event, from the next batch on. False if this Spark does not let us."""
    try:
        query._jsq.streamingQuery().watermarkTracker().setWatermark(FINAL_WATERMARK_MS)  # noqa: SLF001 - as in limits
    except Exception:  # noqa: BLE001 - another release of Spark, or a query that is not up or is dead
        return False
    return True
