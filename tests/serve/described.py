"""What the process that runs a job writes down of it: the plan of ``line("a")`` with a source, state and a sink."""

from typing import Any

DESCRIBED: dict[str, Any] = {
    "plan": {
        "job": "orders",
        "guarantee": "exactly-once",
        "because": [],
        "state_partitions": 4,
        "tasks": [
            {
                "id": "a",
                "output_mode": "append",
                "writes_segment": True,
                "operators": [
                    {
                        "uid": "a",
                        "kind": "source",
                        "inputs": [],
                        "where": "job.py:7",
                        "description": "files in data/orders",
                        "stateful": False,
                        "on_branch": False,
                    },
                    {
                        "uid": "sums",
                        "kind": "transform",
                        "inputs": ["a"],
                        "where": "job.py:8",
                        "description": "",
                        "stateful": True,
                        "on_branch": False,
                    },
                ],
                "sinks": [],
            },
            {
                "id": "b",
                "output_mode": "append",
                "writes_segment": False,
                "operators": [
                    {
                        "uid": "b",
                        "kind": "transform",
                        "inputs": ["sums"],
                        "where": "job.py:9",
                        "description": "",
                        "stateful": False,
                        "on_branch": False,
                    }
                ],
                "sinks": [
                    {
                        "uid": "out",
                        "kind": "sink",
                        "inputs": ["b"],
                        "where": "job.py:10",
                        "description": "files in data/out",
                        "guarantee": "exactly-once",
                        "after": [],
                    }
                ],
            },
        ],
        "channels": [{"id": "b.0", "from": "a", "to": "b", "operator": "b", "input": 0}],
    },
    "checkpointing": {
        "mode": "exactly-once",
        "interval_ms": 10_000,
        "min_pause_ms": 0,
        "timeout_ms": 600_000,
        "max_concurrent_checkpoints": 1,
        "tolerable_failed_checkpoints": 0,
        "unaligned": False,
        "aligned_checkpoint_timeout_ms": None,
        "max_batches_ahead": 8,
        "num_retained": 1,
        "retain_on_cancellation": False,
        "checkpoints_after_tasks_finish": True,
        "storage": "file:///data/headgate/orders",
        "state_backend": "rocksdb",
        "changelog": True,
        "materialization_ms": 60_000,
        "working_directory": None,
    },
    "configuration": {
        "restart_strategy": "exponential-delay: initial_ms=1000",
        "spark_conf": {"spark.sql.shuffle.partitions": "4"},
        "master": "local[2]",
        "state_backend": "rocksdb",
        "batch_interval_ms": None,
        "latency_ms": 500,
        "history": {"max_checkpoints": 100_000, "max_bytes": 268_435_456},
        "versions": {"headgate": "0.2.0", "pyspark": "4.3.0", "python": "3.11.7"},
    },
}
