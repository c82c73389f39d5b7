"""A whole job loses its working directory between the publication of a checkpoint and its commit: no row is lost."""

import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import headgate as hg
from headgate.sink.wal import WriteAheadBatch, WriteAheadSink

ROWS = 2_000


class Died(BaseException):
    """The process dies here."""


class Ledger(WriteAheadSink):
    """Writes into a SQLite database, which has transactions. Its first process does not live to commit."""

    def __init__(self, database: str, *, dies: bool) -> None:
        super().__init__(parallelism=1)
        self._database = database
        self._dies = dies

    def describe(self) -> str:
        return f"ledger in {self._database}"

    def _open(self, _: hg.SinkContext) -> None:
        with sqlite3.connect(self._database) as connection:
            connection.execute("CREATE TABLE IF NOT EXISTS numbers (n INTEGER)")
            connection.execute("CREATE TABLE IF NOT EXISTS marks (owner TEXT PRIMARY KEY, mark TEXT)")

    def commit(self, handle: str) -> None:
        if self._dies:
            raise Died
        super().commit(handle)

    def apply(self, batch: WriteAheadBatch) -> None:
        with sqlite3.connect(self._database, isolation_level="IMMEDIATE", timeout=60) as connection:
            mark = "{:020}.{:020}".format(*batch.mark)
            found = connection.execute("SELECT mark FROM marks WHERE owner = ?", (batch.owner,)).fetchone()
            if found is not None and found[0] >= mark:
                return
            for rows in batch.record_batches():
                connection.executemany("INSERT INTO numbers VALUES (?)", [(n,) for n in rows.column("n").to_pylist()])
            connection.execute("INSERT OR REPLACE INTO marks VALUES (?, ?)", (batch.owner, mark))


def build(place: Path, *, dies: bool) -> hg.Job:
    job = hg.Job(
        "job",
        checkpoint=hg.Checkpointing(
            storage=str(place / "storage"), working_directory=str(place / "work"), interval="200ms"
        ),
        spark_conf={"spark.sql.shuffle.partitions": "2"},
    )
    numbers = job.source("numbers", hg.generator.source(rows=ROWS, rows_per_batch=ROWS // 5, keys=5))
    numbers.transform("plain", lambda rows: rows.select("n")).sink(
        "ledger", Ledger(str(place / "ledger.db"), dies=dies)
    )
    return job


def test_no_row_is_lost_with_the_working_directory(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(Died):
        build(tmp_path, dies=True).run(spark=spark)
    stored: list[Any] = list((tmp_path / "storage/job/staged/ledger").iterdir())
    assert stored, "what the published checkpoint owes"
    shutil.rmtree(tmp_path / "work")
    assert build(tmp_path, dies=False).run(spark=spark).ending == "finished"
    with sqlite3.connect(tmp_path / "ledger.db") as connection:
        found = sorted(n for (n,) in connection.execute("SELECT n FROM numbers"))
    assert found == list(range(ROWS))
    assert list((tmp_path / "storage/job/staged/ledger").iterdir()) == []
