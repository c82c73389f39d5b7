"""Where Spark keeps the state of operators: ``state_backend.rocksdb()`` or ``state_backend.hashmap()``.

One rule: an option either sets what it says in Spark, or is refused by its name. Nothing is accepted and ignored.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from headgate.errors import InvalidOption
from headgate.values import Duration, count, duration_ms

__all__ = ["StateBackend", "hashmap", "rocksdb"]

PredefinedOptions = Literal["spinning_disk", "flash_ssd", "low_memory"]
Compression = Literal["lz4", "lz4hc", "snappy", "zstd", "none"]

_STORE = "spark.sql.streaming.stateStore"
_ROCKSDB = f"{_STORE}.rocksdb"
MAINTENANCE = "20s"
"""In its format 2 Spark writes down, with each batch, the ids of all batches since the last upload, in 64 KiB at most:
some 860. A job of the smallest batches has 14 a second and more, so a minute is too long."""
_PROVIDERS = "org.apache.spark.sql.execution.streaming.state"
_FLINK = "state.backend.rocksdb."


@dataclass(frozen=True)
class StateBackend:
    """A backend's name, and the settings of Spark that choose and tune it."""

    name: str
    conf: Mapping[str, str] = field(hash=False)


@dataclass(frozen=True, kw_only=True)
class _Tuning:
    """What a profile sets. None leaves it to RocksDB. Every number is for one store: a partition of one operator."""

    block_size_kb: int
    block_cache_mb: int | None = None
    write_buffer_mb: int
    write_buffers: int
    max_open_files: int = -1
    memory_mb: int | None = None


PROFILES: Mapping[str, _Tuning] = MappingProxyType(
    {
        # A seek costs more than what is read after it: large blocks, and few, large flushes.
        "spinning_disk": _Tuning(block_size_kb=64, block_cache_mb=64, write_buffer_mb=64, write_buffers=4),
        # A read costs what it reads: small blocks, kept longer.
        "flash_ssd": _Tuning(block_size_kb=4, block_cache_mb=64, write_buffer_mb=32, write_buffers=3),
        # One bound for the process. Larger blocks have a smaller index, and fewer open files fewer indexes.
        "low_memory": _Tuning(block_size_kb=16, write_buffer_mb=8, write_buffers=2, max_open_files=256, memory_mb=128),
    }
)

_SPARK_HAS: Mapping[str, bool | int | float] = MappingProxyType(
    {
        "writeBufferCacheRatio": 0.5,
        "highPriorityPoolRatio": 0.1,
        "allowFAllocate": True,
        "lockAcquireTimeoutMs": 120_000,
        "memoryUpdateIntervalMs": 1_000,
        "resetStatsOnLoad": True,
        "verifyNonEmptyFilesInZip": True,
        "checkStaleReusedFilesInSnapshot": True,
    }
)
"""What Spark can set in RocksDB besides the keywords of ``rocksdb``, with its default: ``options={...}``."""
_SHARES = ("writeBufferCacheRatio", "highPriorityPoolRatio")
"""Parts of ``memory_mb``: for write buffers, and for indexes and filters. The rest is for blocks."""

_FLINK_HAS: Mapping[str, str] = MappingProxyType(
    {
        "thread.num": "Spark leaves RocksDB's background threads as they are; there are more where there are more"
        " state partitions",
        "checkpoint.transfer.thread.num": "Spark uploads the files of a snapshot one after the other, each partition"
        " for itself",
        "compaction.style": "Spark always compacts by level; compact_on_commit=True compacts at every batch",
        "compaction.level.use-dynamic-size": "Spark does not set it; compact_on_commit=True compacts at every batch",
        "compaction.level.target-file-size-base": "Spark does not set it; write_buffer_mb bounds the first files",
        "compaction.level.max-size-level-base": "Spark does not set it; write_buffer_mb bounds the first files",
        "use-bloom-filter": "Spark always uses one",
        "bloom-filter.bits-per-key": "Spark's bloom filter always has 10 bits a key",
        "bloom-filter.block-based-mode": "Spark's bloom filter is always a full one",
        "files.open": "write max_open_files=",
        "block.cache-size": "write block_cache_mb=",
        "block.blocksize": "write block_size_kb=",
        "block.metadata-blocksize": "Spark does not set it; block_size_kb sets the size of data blocks",
        "writebuffer.size": "write write_buffer_mb=",
        "writebuffer.count": "write write_buffers=",
        "writebuffer.number-to-merge": "Spark flushes each write buffer for itself",
        "write-batch-size": "Spark writes to RocksDB row by row",
        "memory.managed": "write memory_mb=, which bounds all stores of one executor",
        "memory.fixed-per-slot": "write memory_mb=, which bounds all stores of one executor",
        "memory.fixed-per-tm": "write memory_mb=, which bounds all stores of one executor",
        "memory.write-buffer-ratio": "write options={'writeBufferCacheRatio': 0.5}",
        "memory.high-prio-pool-ratio": "write options={'highPriorityPoolRatio': 0.1}",
        "memory.partitioned-index-filters": "Spark keeps index and filter in the cache whole, if memory_mb is set",
        "compression.per.level": "Spark has one for all levels: write compression=",
        "localdir": "write local_directory=",
        "predefined-options": "write profile=",
        "options-factory": "Spark takes no code here; see the keywords of rocksdb()",
        "timer-service.factory": "Spark keeps timers in the state store",
        "log.level": "RocksDB's log goes into Spark's: set the level of Spark's logger",
    }
)
"""What Flink can set in RocksDB, and what Spark has instead."""


def hashmap(
    *, snapshot_after: int = 10, maintenance_interval: Duration = "1min", versions_in_memory: int = 2
) -> StateBackend:
    """State in the executor's heap, written as changes and now and then as a whole. For state that fits in memory.

    ``snapshot_after``: this many batches of changes make a snapshot due. ``maintenance_interval``: how often snapshots
    are looked after. ``versions_in_memory``: this many batches' states are kept, so that a batch tried again does not
    read files.
    """
    return StateBackend(
        "hashmap",
        {
            f"{_STORE}.providerClass": f"{_PROVIDERS}.HDFSBackedStateStoreProvider",
            f"{_STORE}.checkpointFormatVersion": "1",  # The only one that it has.
            "spark.sql.streaming.maxBatchesToRetainInMemory": str(
                count(versions_in_memory, name="versions_in_memory", example=2)
            ),
            **_upkeep(snapshot_after, maintenance_interval),
        },
    )


def rocksdb(
    *,
    incremental: bool = True,
    profile: PredefinedOptions | None = None,
    block_size_kb: int | None = None,
    block_cache_mb: int | None = None,
    write_buffer_mb: int | None = None,
    write_buffers: int | None = None,
    max_open_files: int | None = None,
    memory_mb: int | None = None,
    compression: Compression = "lz4",
    compact_on_commit: bool = False,
    count_rows: bool = True,
    snapshot_after: int = 10,
    maintenance_interval: Duration = MAINTENANCE,
    local_directory: str | Path | None = None,
    options: Mapping[str, object] | None = None,
) -> StateBackend:
    """State on the executor's disk. For state that is larger than memory, and for keyed state with timers.

    A store is one partition of one operator; sizes are for each store unless ``memory_mb`` bounds them all.

    ``incremental``: each batch writes what it changed; if false, each batch writes a snapshot of its new files.
    ``profile``: numbers for a kind of machine; a keyword of its own wins over it.
    ``block_size_kb``: what one read fetches (4). ``block_cache_mb``: blocks kept in memory (8).
    ``write_buffer_mb``: what is sorted in memory before it is written (64). ``write_buffers``: how many of them (2).
    ``max_open_files``: -1 keeps all files open (-1).
    ``memory_mb``: one bound on the caches and write buffers of all stores of an executor; none, if nothing is said.
    ``compression``: of the files. ``compact_on_commit``: compact at every batch, which makes reads faster and batches
    slower. ``count_rows``: know the number of rows, at the cost of a look-up before each write.
    ``snapshot_after``: this many batches of changes make a snapshot due. ``maintenance_interval``: how often snapshots
    are uploaded: at most some 860 batches may lie between two. ``local_directory``: where an executor keeps its
    working files, Spark's ``spark.local.dir``.
    ``options``: what else Spark can set in RocksDB, by Spark's name for it.
    """
    if profile is not None and profile not in PROFILES:
        raise InvalidOption(f"profile={profile!r} is not known: choose one of {', '.join(map(repr, PROFILES))}")
    tuned = PROFILES.get(profile or "")
    sizes = {
        "block_size_kb": block_size_kb,
        "block_cache_mb": block_cache_mb,
        "write_buffer_mb": write_buffer_mb,
        "write_buffers": write_buffers,
        "max_open_files": max_open_files,
        "memory_mb": memory_mb,
    }
    chosen = {name: getattr(tuned, name, None) if value is None else value for name, value in sizes.items()}
    if memory_mb is not None and block_cache_mb is None:
        chosen["block_cache_mb"] = None  # The profile's: the bound takes its place.
    if chosen["block_cache_mb"] is not None and chosen["memory_mb"] is not None:
        raise InvalidOption(
            "block_cache_mb has no effect beside memory_mb, under which all stores share one cache: leave one out"
        )
    if compression not in Compression.__args__:  # type: ignore[attr-defined]
        raise InvalidOption(f"compression={compression!r} is not known: write compression='lz4'")
    conf = {
        f"{_STORE}.providerClass": f"{_PROVIDERS}.RocksDBStateStoreProvider",
        f"{_STORE}.checkpointFormatVersion": "2",
        f"{_ROCKSDB}.changelogCheckpointing.enabled": _flag("incremental", incremental),
        f"{_ROCKSDB}.compression": compression,
        f"{_ROCKSDB}.compactOnCommit": _flag("compact_on_commit", compact_on_commit),
        f"{_ROCKSDB}.trackTotalNumberOfRows": _flag("count_rows", count_rows),
        **_upkeep(snapshot_after, maintenance_interval),
        **_sizes(chosen),
        **_more(options or {}, bounded=chosen["memory_mb"] is not None),
    }
    if local_directory is not None:
        conf["spark.local.dir"] = str(Path(local_directory).expanduser().absolute())
    return StateBackend("rocksdb", conf)


def _upkeep(snapshot_after: int, maintenance_interval: Duration) -> dict[str, str]:
    interval_ms = duration_ms(maintenance_interval, name="maintenance_interval", example="1min", least=1)
    return {
        f"{_STORE}.minDeltasForSnapshot": str(count(snapshot_after, name="snapshot_after", example=10, least=1)),
        f"{_STORE}.maintenanceInterval": f"{interval_ms}ms",
    }


def _sizes(chosen: Mapping[str, int | None]) -> dict[str, str]:
    names = {
        "block_size_kb": "blockSizeKB",
        "block_cache_mb": "blockCacheSizeMB",
        "write_buffer_mb": "writeBufferSizeMB",
        "write_buffers": "maxWriteBufferNumber",
        "max_open_files": "maxOpenFiles",
        "memory_mb": "maxMemoryUsageMB",
    }
    least = {"max_open_files": -1}
    conf = {
        f"{_ROCKSDB}.{names[name]}": str(count(value, name=name, example=64, least=least.get(name, 1)))
        for name, value in chosen.items()
        if value is not None
    }
    if chosen["memory_mb"] is not None:
        conf[f"{_ROCKSDB}.boundedMemoryUsage"] = "true"
    return conf


def _more(options: Mapping[str, object], *, bounded: bool) -> dict[str, str]:
    known = {name.casefold(): name for name in _SPARK_HAS}
    conf = {}
    for given, value in options.items():
        name = known.get(given.casefold())
        if name is None:
            instead = _FLINK_HAS.get(given.removeprefix(_FLINK))
            raise InvalidOption(
                f"options has {given!r}, which Spark cannot set: {instead or 'it has ' + ', '.join(_SPARK_HAS)}"
            )
        default = _SPARK_HAS[name]
        if type(value) is not type(default) or (not isinstance(value, bool) and value < 0):
            raise InvalidOption(
                f"options has {given!r}: {value!r}, which is not valid: write {{{name!r}: {default!r}}}"
            )
        if name in _SHARES and not bounded:
            raise InvalidOption(f"options has {given!r}, which is a part of memory_mb: write memory_mb=512 as well")
        conf[f"{_ROCKSDB}.{name}"] = str(value).lower()
    if sum(float(conf.get(f"{_ROCKSDB}.{name}", _SPARK_HAS[name])) for name in _SHARES) >= 1:
        raise InvalidOption(f"options has {' and '.join(_SHARES)} of 1 or more together: leave a part for blocks")
    return conf


def _flag(name: str, value: object) -> str:
    if not isinstance(value, bool):
        raise InvalidOption(f"{name}={value!r} is neither on nor off: write {name}=True or {name}=False")
    return str(value).lower()
