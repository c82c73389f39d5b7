"""What Spark says of one batch, as figures.

One rule: a figure is what Spark's report says, and None where the report says nothing. Pure: the report comes in as the
JSON that Spark's listener has, and nothing in it may be missing so much that the rest is lost.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from headgate.core.ids import Batch, ChannelId
from headgate.view.rocksdb import ROCKSDB

Json = Mapping[str, Any]

OPERATORS_MAX = 16
"""Of this many stateful operators of a task there are figures."""
SOURCES_MAX = 32
"""Of this many sources and channels of a task there are figures."""
PARTS = {
    "latestOffset": "latest_offset",
    "getBatch": "get_batch",
    "queryPlanning": "query_planning",
    "walCommit": "wal_commit",
    "addBatch": "add_batch",
    "commitOffsets": "commit_offsets",
    "commitBatch": "commit_batch",
}
"""The parts of a batch's duration, in the order in which Spark does them, and what they are called here."""


@dataclass(frozen=True)
class SourceReport:
    """What a batch has read of one source, or of one channel."""

    channel: ChannelId | None
    rows: int
    begin: Batch | None = None
    end: Batch | None = None
    """Of a channel: the batch has read the segments after ``begin``, through ``end``."""
    lag: int | None = None
    """Records between the end of the batch and the newest that the source knew of."""
    partitions: int | None = None
    skew: float | None = None
    """The records of the partition that had most, by the mean of all."""


@dataclass(frozen=True)
class OperatorReport:
    """What a batch has done to the state of one operator."""

    name: str
    rows: int
    memory_bytes: int
    updated: int
    removed: int
    late: int
    """Rows that came after the watermark, and were dropped."""
    update_ms: int
    removal_ms: int
    commit_ms: int
    partitions: int
    rocksdb: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class BatchReport:
    """One batch of one task."""

    batch: Batch
    rows: int
    took_ms: int
    """The whole of it, waiting for readers included."""
    parts_ms: Mapping[str, int]
    watermark_ms: int | None
    """None as long as there is none."""
    event_max_ms: int | None
    """The latest event of the batch, if it had rows and the task has a watermark."""
    sources: tuple[SourceReport, ...]
    operators: tuple[OperatorReport, ...]


def report(said: Json) -> BatchReport:
    """The figures of a batch, from Spark's ``StreamingQueryProgress`` as JSON."""
    spent = said.get("durationMs") or {}
    time = said.get("eventTime") or {}
    watermark_ms = _ms(time.get("watermark"))
    return BatchReport(
        batch=Batch(_int(said.get("batchId"))),
        rows=_int(said.get("numInputRows")),
        took_ms=_int(spent.get("triggerExecution", said.get("batchDuration"))),
        parts_ms={ours: _int(spent[spark]) for spark, ours in PARTS.items() if spark in spent},
        watermark_ms=watermark_ms or None,  # Spark's first watermark is 1970, and means that there is none.
        event_max_ms=_ms(time.get("max")),
        sources=tuple(map(_source, (said.get("sources") or ())[:SOURCES_MAX])),
        operators=tuple(map(_operator, (said.get("stateOperators") or ())[:OPERATORS_MAX])),
    )


def _source(said: Json) -> SourceReport:
    rows = _int(said.get("numInputRows"))
    begin, end, latest = (said.get(name) for name in ("startOffset", "endOffset", "latestOffset"))
    if isinstance(end, Mapping) and set(end) == {"channel", "batch"}:
        begun = Batch(_int(begin["batch"])) if isinstance(begin, Mapping) and "batch" in begin else None
        return SourceReport(ChannelId(str(end["channel"])), rows, begun, Batch(_int(end["batch"])))
    ends = dict(_by_partition(end))
    if not ends:
        return SourceReport(None, rows)
    begins, newest = dict(_by_partition(begin)), dict(_by_partition(latest))
    lag = sum(max(0, newest[place] - at) for place, at in ends.items() if place in newest) if newest else None
    moved = [at - begins[place] for place, at in ends.items() if place in begins]
    return SourceReport(None, rows, lag=lag, partitions=len(ends), skew=skew(moved))


def _by_partition(offset: object) -> Iterator[tuple[tuple[str, str], int]]:
    """An offset of Kafka's: for each topic, where each of its partitions stands."""
    if isinstance(offset, Mapping):
        for topic, partitions in offset.items():
            if isinstance(partitions, Mapping):
                for partition, at in partitions.items():
                    if isinstance(at, int):
                        yield (topic, partition), at


def skew(shares: list[int]) -> float | None:
    """The largest share by the mean: 1 if all are alike. None of fewer than two, or if there is nothing to share."""
    total = sum(shares)
    return None if len(shares) < 2 or total <= 0 else round(max(shares) * len(shares) / total, 2)


def _operator(said: Json) -> OperatorReport:
    figures = said.get("customMetrics") or {}
    return OperatorReport(
        name=str(said.get("operatorName", "")),
        rows=_int(said.get("numRowsTotal")),
        memory_bytes=_int(said.get("memoryUsedBytes")),
        updated=_int(said.get("numRowsUpdated")),
        removed=_int(said.get("numRowsRemoved")),
        late=_int(said.get("numRowsDroppedByWatermark")),
        update_ms=_int(said.get("allUpdatesTimeMs")),
        removal_ms=_int(said.get("allRemovalsTimeMs")),
        commit_ms=_int(said.get("commitTimeMs")),
        partitions=_int(said.get("numStateStoreInstances", said.get("numShufflePartitions"))),
        rocksdb={figure.name: _int(figures[figure.spark]) for figure in ROCKSDB if figure.spark in figures},
    )


def _int(value: object) -> int:
    return int(value) if isinstance(value, int | float) else 0


def _ms(text: object) -> int | None:
    """A time as Spark writes it, in milliseconds since 1970."""
    if not isinstance(text, str):
        return None
    try:
        return round(datetime.fromisoformat(text).timestamp() * 1000)
    except ValueError:
        return None
