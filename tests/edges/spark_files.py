"""Spark's checkpoint directories as Spark leaves them, written by hand.

A file of state says in its content which file it is, so that two of them are never alike.
"""

import json
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from uuid import UUID

Ids = Mapping[str, Sequence[Sequence[str]]]


def uid(number: int) -> str:
    """An id as Spark draws them, but always the same."""
    return str(UUID(int=number))


def put(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text or f"this is {path.name}", encoding="utf-8")
    return path


def metadata(query: Path) -> None:
    put(query / "metadata", json.dumps({"id": uid(0)}))


def offsets(query: Path, batch: int, *lines: str, watermark_ms: int = 0) -> None:
    about = {"batchWatermarkMs": watermark_ms, "batchTimestampMs": 7, "conf": {"spark.sql.shuffle.partitions": "2"}}
    put(query / "offsets" / str(batch), "\n".join(["v1", json.dumps(about), *lines]))


def position(channel: str, batch: int) -> str:
    return json.dumps({"channel": channel, "batch": batch})


def commit(query: Path, batch: int, ids: Ids | None = None) -> None:
    if ids is None:
        put(query / "commits" / str(batch), 'v1\n{"nextBatchWatermarkMs":0}')
        return
    body = {"nextBatchWatermarkMs": 0, "stateUniqueIds": {op: [list(each) for each in ids[op]] for op in ids}}
    put(query / "commits" / str(batch), "v2\n" + json.dumps(body))


def run_batches(query: Path, last: int, line: str = '{"offset":0}') -> None:
    """The logs of a stateless query that has committed every batch through ``last``."""
    metadata(query)
    for batch in range(last + 1):
        offsets(query, batch, line)
        commit(query, batch, {})


def changelog(store: Path, version: int, unique: str) -> str:
    return put(store / f"{version}_{unique}.changelog").name


def snapshot(store: Path, version: int, unique: str, tables: Sequence[str], logs: Sequence[str] = ()) -> str:
    """A RocksDB snapshot that lists table files, which are put there too if they are not yet."""
    listed = [{"localFileName": name[:10], "dfsSstFileName": name, "sizeBytes": 1466} for name in tables]
    body: dict[str, object] = {"sstFiles": listed, "numKeys": 7, "columnFamilyMapping": {}}
    if logs:
        body["logFiles"] = [{"localFileName": name[:10], "dfsLogFileName": name, "sizeBytes": 5} for name in logs]
    for directory, names in (("SSTs", tables), ("logs", logs)):
        for name in names:
            put(store / directory / name)
    path = store / f"{version}_{unique}.zip"
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("CURRENT", "MANIFEST-000005")
        archive.writestr("metadata", "v1\n" + json.dumps(body))
    return path.name


def rocksdb(query: Path, last: int, *, snapshots: Sequence[int] = (), partitions: int = 1) -> None:
    """An aggregation on RocksDB with changelog, format 2, after the batches through ``last``.

    Version v of partition p has the id ``100 * v + p``, and its snapshot, if there is one, a table file of its own and
    those of all snapshots before it.
    """
    metadata(query)
    put(query / "state/0/_metadata/metadata", 'v1\n{"operatorInfo":{"operatorId":0}}')
    put(query / "state/0/0/_metadata/schema")
    for batch in range(last + 1):
        version = batch + 1
        offsets(query, batch, '{"offset":0}')
        for partition in range(partitions):
            store = query / "state/0" / str(partition)
            changelog(store, version, uid(100 * version + partition))
            if version in snapshots:
                tables = [f"{each:06d}-{uid(partition)}.sst" for each in snapshots if each <= version]
                snapshot(store, version, uid(100 * version + partition), tables)
        commit(query, batch, {"0": [[uid(100 * version + partition)] for partition in range(partitions)]})
