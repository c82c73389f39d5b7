"""Options of state backends, without Spark."""

import pickle

import pytest

from headgate import state_backend
from headgate.errors import InvalidOption

STORE = "spark.sql.streaming.stateStore"
ROCKSDB = f"{STORE}.rocksdb"


def test_the_hash_map_is_sparks_own() -> None:
    backend = state_backend.hashmap(snapshot_after=3, maintenance_interval="2s", versions_in_memory=1)
    assert backend.name == "hashmap"
    assert backend.conf == {
        f"{STORE}.providerClass": "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider",
        f"{STORE}.checkpointFormatVersion": "1",
        f"{STORE}.minDeltasForSnapshot": "3",
        f"{STORE}.maintenanceInterval": "2000ms",
        "spark.sql.streaming.maxBatchesToRetainInMemory": "1",
    }


def test_rocksdb_sets_only_what_is_said() -> None:
    assert state_backend.rocksdb().conf == {
        f"{STORE}.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        f"{STORE}.checkpointFormatVersion": "2",
        f"{STORE}.minDeltasForSnapshot": "10",
        f"{STORE}.maintenanceInterval": "20000ms",
        f"{ROCKSDB}.changelogCheckpointing.enabled": "true",
        f"{ROCKSDB}.compression": "lz4",
        f"{ROCKSDB}.compactOnCommit": "false",
        f"{ROCKSDB}.trackTotalNumberOfRows": "true",
    }


def test_every_keyword_of_rocksdb_reaches_spark(tmp_path: object) -> None:
    conf = state_backend.rocksdb(
        incremental=False,
        block_size_kb=16,
        write_buffer_mb=7,
        write_buffers=3,
        max_open_files=-1,
        memory_mb=99,
        compression="zstd",
        compact_on_commit=True,
        count_rows=False,
        snapshot_after=2,
        maintenance_interval="5s",
        local_directory=str(tmp_path),
        options={"lockacquiretimeoutms": 5, "writeBufferCacheRatio": 0.25, "allowFAllocate": False},
    ).conf
    assert (
        conf.items()
        >= {
            f"{ROCKSDB}.changelogCheckpointing.enabled": "false",
            f"{ROCKSDB}.blockSizeKB": "16",
            f"{ROCKSDB}.writeBufferSizeMB": "7",
            f"{ROCKSDB}.maxWriteBufferNumber": "3",
            f"{ROCKSDB}.maxOpenFiles": "-1",
            f"{ROCKSDB}.maxMemoryUsageMB": "99",
            f"{ROCKSDB}.boundedMemoryUsage": "true",
            f"{ROCKSDB}.compression": "zstd",
            f"{ROCKSDB}.compactOnCommit": "true",
            f"{ROCKSDB}.trackTotalNumberOfRows": "false",
            f"{STORE}.minDeltasForSnapshot": "2",
            f"{STORE}.maintenanceInterval": "5000ms",
            "spark.local.dir": str(tmp_path),
            f"{ROCKSDB}.lockAcquireTimeoutMs": "5",
            f"{ROCKSDB}.writeBufferCacheRatio": "0.25",
            f"{ROCKSDB}.allowFAllocate": "false",
        }.items()
    )


def test_a_keyword_wins_over_the_profile() -> None:
    conf = state_backend.rocksdb(profile="spinning_disk", block_size_kb=8).conf
    assert conf[f"{ROCKSDB}.blockSizeKB"] == "8"
    assert conf[f"{ROCKSDB}.writeBufferSizeMB"] == "64"


def test_a_bound_takes_the_place_of_the_profiles_cache() -> None:
    conf = state_backend.rocksdb(profile="spinning_disk", memory_mb=256).conf
    assert f"{ROCKSDB}.blockCacheSizeMB" not in conf
    assert conf[f"{ROCKSDB}.maxMemoryUsageMB"] == "256"


@pytest.mark.parametrize(
    "options", [{"block_cache_mb": 8, "memory_mb": 64}, {"profile": "low_memory", "block_cache_mb": 8}]
)
def test_a_cache_under_a_bound_is_refused(options: dict[str, object]) -> None:
    with pytest.raises(InvalidOption, match="block_cache_mb has no effect beside memory_mb"):
        state_backend.rocksdb(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"profile": "fast"}, "profile='fast' is not known: choose one of 'spinning_disk', 'flash_ssd', 'low_memory'"),
        ({"compression": "gzip"}, "compression='gzip' is not known"),
        ({"incremental": "yes"}, "incremental='yes' is neither on nor off"),
        ({"block_size_kb": 0}, "block_size_kb=0 is too few"),
        ({"max_open_files": -2}, "max_open_files=-2 is too few"),
        ({"memory_mb": 1.5}, "memory_mb=1.5 is not a valid whole number"),
        ({"snapshot_after": 0}, "snapshot_after=0 is too few"),
        ({"maintenance_interval": "soon"}, "maintenance_interval='soon' is not a valid duration"),
        (
            {"options": {"colour": "red"}},
            "options has 'colour', which Spark cannot set: it has writeBufferCacheRatio, ",
        ),
        ({"options": {"lockAcquireTimeoutMs": "5"}}, "options has 'lockAcquireTimeoutMs': '5', which is not valid"),
        ({"options": {"lockAcquireTimeoutMs": -5}}, "options has 'lockAcquireTimeoutMs': -5, which is not valid"),
        ({"options": {"highPriorityPoolRatio": 0.2}}, "which is a part of memory_mb: write memory_mb=512 as well"),
        ({"options": {"highPriorityPoolRatio": 0.6}, "memory_mb": 9}, "of 1 or more together: leave a part for blocks"),
    ],
)
def test_what_cannot_hold_is_refused_by_name(options: dict[str, object], said: str) -> None:
    with pytest.raises(InvalidOption) as refused:
        state_backend.rocksdb(**options)  # type: ignore[arg-type]
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("state.backend.rocksdb.thread.num", "Spark leaves RocksDB's background threads as they are"),
        ("compaction.style", "Spark always compacts by level"),
        ("state.backend.rocksdb.use-bloom-filter", "Spark always uses one"),
        ("state.backend.rocksdb.block.cache-size", "write block_cache_mb="),
        ("predefined-options", "write profile="),
    ],
)
def test_flinks_options_are_refused_with_what_spark_has_instead(option: str, said: str) -> None:
    with pytest.raises(InvalidOption, match=f"options has '{option}', which Spark cannot set: {said}"):
        state_backend.rocksdb(options={option: 1})


def test_a_backend_survives_pickling() -> None:
    backend = state_backend.rocksdb(profile="flash_ssd")
    assert pickle.loads(pickle.dumps(backend)) == backend  # noqa: S301 - our own
    assert hash(backend) == hash(pickle.loads(pickle.dumps(backend)))  # noqa: S301 - our own
