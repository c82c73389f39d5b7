"""Which of Spark's figures of RocksDB are kept, and what they are called here.

One rule: a figure that Spark counts anew with each batch is added up, one that says how things stand is the last.
Spark reports them of an operator, summed over its partitions. What is not in this table is not kept, so that a task's
figures have a bound whatever Spark reports.
"""

from typing import NamedTuple


class RocksdbFigure(NamedTuple):
    """One figure: Spark's name, ours with its unit last, whether it is added up, and what it says."""

    spark: str
    name: str
    adds_up: bool
    help: str


ROCKSDB = tuple(
    RocksdbFigure(f"rocksdb{spark}", name, adds_up, said)
    for spark, name, adds_up, said in (
        ("GetCount", "gets", True, "Reads of RocksDB"),
        ("PutCount", "puts", True, "Writes to RocksDB"),
        ("GetLatency", "get_ms", True, "Time spent in reads of RocksDB"),
        ("PutLatency", "put_ms", True, "Time spent in writes to RocksDB"),
        ("ReadBlockCacheHitCount", "cache_hits", True, "Reads that found their block in the cache"),
        ("ReadBlockCacheMissCount", "cache_misses", True, "Reads that did not find their block in the cache"),
        ("TotalBytesRead", "read_bytes", True, "Bytes that reads have brought"),
        ("TotalBytesWritten", "written_bytes", True, "Bytes that writes have taken"),
        ("TotalBytesWrittenByFlush", "flushed_bytes", True, "Bytes that were flushed to table files"),
        ("TotalBytesReadByCompaction", "compaction_read_bytes", True, "Bytes that compactions have read"),
        ("TotalBytesWrittenByCompaction", "compaction_written_bytes", True, "Bytes that compactions have written"),
        ("TotalCompactionLatencyMs", "compaction_ms", True, "Time spent in compactions"),
        ("WriterStallLatencyMs", "stall_ms", True, "Time for which RocksDB held up writers"),
        ("LoadLatencyMs", "load_ms", True, "Time spent in loading the state of a version"),
        ("NumLoadedFromDfs", "loads", True, "States that were loaded from files, since no process had them"),
        ("ChangeLogWriterCommitLatencyMs", "changelog_commit_ms", True, "Time spent in writing changes at a commit"),
        ("NumSnapshotsAutoRepaired", "repaired_snapshots", True, "Damaged snapshots that Spark went around"),
        ("SstFileSize", "sst_bytes", False, "Bytes in table files"),
        ("PinnedBlocksMemoryUsage", "pinned_bytes", False, "Bytes of blocks pinned in memory"),
    )
)
