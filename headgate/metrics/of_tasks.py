"""Metrics of tasks, their sources and their state. One rule: a row for each, and nothing but rows."""

from collections.abc import Iterator

from headgate.metrics.kinds import COUNTER, GAUGE, MS, Metric, rows_of
from headgate.metrics.reading import batch_parts, channel_lags, of_each, of_rocksdb, of_tasks, partitions
from headgate.view.rocksdb import ROCKSDB

TASK, OPERATOR, SOURCE = ("task",), ("task", "operator"), ("task", "source")

TASKS = [
    *rows_of(
        COUNTER,
        TASK,
        [
            ("task_rows_in_total", "Rows read from sources and channels", "numRecordsIn", of_tasks("rows_in")),
            (
                "task_rows_out_total",
                "Rows that the readers of its channels have read",
                "numRecordsOut",
                of_tasks("rows_out"),
            ),
            ("task_bytes_in_total", "Bytes of segments read from channels", "numBytesIn", of_tasks("bytes_in")),
            ("task_bytes_out_total", "Bytes of segments put into channels", "numBytesOut", of_tasks("bytes_out")),
            ("task_batches_total", "Batches that are over", "", of_tasks("batches")),
            ("task_batch_seconds_total", "What they took, in sum", "accumulateBusyTimeMs", of_tasks("batches_ms", MS)),
            (
                "task_wait_seconds_total",
                "Time that batches waited for readers",
                "accumulateBackPressuredTimeMs",
                of_tasks("wait_ms", MS),
            ),
            (
                "task_late_rows_total",
                "Rows that came after the watermark and were dropped",
                "numLateRecordsDropped",
                of_tasks("late_rows"),
            ),
        ],
    ),
    *rows_of(
        GAUGE,
        TASK,
        [
            ("task_run", "Which run of the task this is", "attempt", of_tasks("run")),
            ("task_committed_batch", "The last committed batch", "", of_tasks("batch")),
            ("task_batch_last_seconds", "What the last batch took", "", of_tasks("batch_ms", MS)),
            (
                "task_batch_rows_limit",
                "How many rows a batch may have by now, if it sizes itself",
                "",
                of_tasks("batch_rows"),
            ),
            (
                "task_busy_ratio",
                "Part of the last 30 seconds with a batch at work",
                "busyTimeMsPerSecond",
                of_tasks("busy_ratio"),
            ),
            (
                "task_idle_ratio",
                "Part of the last 30 seconds without data",
                "idleTimeMsPerSecond",
                of_tasks("idle_ratio"),
            ),
            (
                "task_backpressured_ratio",
                "Part of the last 30 seconds with a batch that waited for readers or sinks",
                "backPressuredTimeMsPerSecond",
                of_tasks("backpressured_ratio"),
            ),
            (
                "task_watermark_timestamp_seconds",
                "The watermark, in seconds since 1970",
                "currentInputWatermark",
                of_tasks("watermark_ms", MS),
            ),
            (
                "task_watermark_lag_seconds",
                "How far the watermark is behind the clock",
                "watermarkLag",
                of_tasks("watermark_lag_ms", MS),
            ),
            (
                "task_event_time_max_timestamp_seconds",
                "The latest event that was read, in seconds since 1970",
                "",
                of_tasks("event_time_max_ms", MS),
            ),
        ],
    ),
    *rows_of(
        GAUGE,
        ("task", "part"),
        [("task_batch_part_last_seconds", "What the parts of the last batch took", "", batch_parts)],
    ),
    *rows_of(
        GAUGE,
        ("task", "channel"),
        [
            (
                "channel_lag_batches",
                "Batches in a channel that its reader has not committed",
                "pendingRecords",
                channel_lags,
            )
        ],
    ),
    *rows_of(
        COUNTER,
        SOURCE,
        [
            (
                "source_rows_total",
                "Rows read of one source or channel",
                "numRecordsIn",
                of_each("sources", "source", "rows"),
            )
        ],
    ),
    *rows_of(
        GAUGE,
        SOURCE,
        [
            (
                "source_lag_records",
                "Records that were there and not read when the last batch was planned (Kafka)",
                "pendingRecords, records-lag-max",
                of_each("sources", "source", "lag_records"),
            ),
            (
                "source_skew_ratio",
                "Rows of the partition that had most in the last batch, by the mean (Kafka)",
                "dataSkewPercentage (REST)",
                of_each("sources", "source", "skew"),
            ),
        ],
    ),
]

STATE = [
    *rows_of(
        GAUGE,
        OPERATOR,
        [
            ("state_rows", "Rows of state", "", of_each("state_operators", "operator", "rows")),
            (
                "state_bytes",
                "Bytes of state in the files of the newest snapshot",
                "stateSize",
                of_each("state_operators", "operator", "bytes"),
            ),
            (
                "state_memory_bytes",
                "Memory that the state takes",
                "",
                of_each("state_operators", "operator", "memory_bytes"),
            ),
            ("state_partitions", "Partitions of the state", "", of_each("state_operators", "operator", "partitions")),
            (
                "state_partition_max_bytes",
                "Bytes of the largest partition",
                "stateSizePerKeyGroup",
                of_each("state_operators", "operator", "partition_bytes_max"),
            ),
            (
                "state_skew_ratio",
                "Bytes of the largest partition, by the mean",
                "",
                of_each("state_operators", "operator", "skew"),
            ),
            (
                "state_update_last_seconds",
                "Time spent in updates, in the last batch",
                "",
                of_each("state_operators", "operator", "update_ms", MS),
            ),
            (
                "state_removal_last_seconds",
                "Time spent in removals, in the last batch",
                "",
                of_each("state_operators", "operator", "removal_ms", MS),
            ),
            (
                "state_commit_last_seconds",
                "Time spent in commits of the state, in the last batch",
                "",
                of_each("state_operators", "operator", "commit_ms", MS),
            ),
        ],
    ),
    *rows_of(
        COUNTER,
        OPERATOR,
        [
            (
                "state_late_rows_total",
                "Rows that an operator dropped since they were late",
                "numLateRecordsDropped",
                of_each("state_operators", "operator", "late_rows"),
            )
        ],
    ),
    *rows_of(
        GAUGE,
        (*OPERATOR, "partition"),
        [
            (
                "state_partition_bytes",
                "Bytes of each partition, of operators with at most 64",
                "stateSizePerKeyGroup",
                partitions,
            )
        ],
    ),
]


def _rocksdb() -> Iterator[Metric]:
    """A metric for each figure of RocksDB, in Prometheus' units."""
    for figure in ROCKSDB:
        stem, in_ms = figure.name.removesuffix("_ms"), figure.name.endswith("_ms")
        name = f"rocksdb_{stem}{'_seconds' if in_ms else ''}{'_total' if figure.adds_up else ''}"
        read = of_rocksdb(figure.name, MS if in_ms else 1)
        yield Metric(f"headgate_{name}", COUNTER if figure.adds_up else GAUGE, figure.help, OPERATOR, "", read)


STORE = [*_rocksdb()]
