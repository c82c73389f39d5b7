"""Make the archive of classes with which JVMs of tests start faster: ``python -m tests.classes``. See ``tests.jvm``."""

import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import DataFrame, functions as F  # noqa: N812 - as everybody writes it

import headgate as hg
from headgate.task.session import build_session
from tests.jvm import ARCHIVE, QUICK, QUIET

EXIT_S = 300.0


def main() -> int:
    if ARCHIVE.exists():
        return 0
    ARCHIVE.parent.mkdir(exist_ok=True)
    made = ARCHIVE.with_name(f".{ARCHIVE.name}.{os.getpid()}")
    os.environ["SPARK_SUBMIT_OPTS"] = f"{QUICK} {QUIET} -XX:ArchiveClassesAtExit={made}"
    with TemporaryDirectory(prefix="headgate-classes-") as directory:
        _work(Path(directory))
    if not made.exists():
        sys.stderr.write("no archive of classes was made: tests run without it\n")
        return 0
    made.rename(ARCHIVE)
    return 0


def _work(directory: Path) -> None:
    """Have Spark do once what jobs do: state in RocksDB, Python workers, a batch. Its process ends with it."""
    session = build_session("classes", master="local[2]", state=hg.state.rocksdb())
    context = session.sparkContext
    rows = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 100).load()
    counted = rows.withWatermark("timestamp", "1 second").groupBy(F.window("timestamp", "1 second"), "value").count()
    query = (
        counted.writeStream.outputMode("update")
        .option("checkpointLocation", str(directory / "checkpoint"))
        .foreachBatch(lambda frame, _: _write(frame, directory))
        .start()
    )
    while query.lastProgress is None and query.isActive:
        time.sleep(0.1)
    query.stop()
    session.stop()
    gateway = context._gateway
    assert gateway is not None
    gateway.shutdown()
    process: subprocess.Popen[bytes] = gateway.proc
    assert process.stdin is not None
    process.stdin.close()  # The JVM ends when nobody can tell it anything any more, and writes the archive.
    process.wait(EXIT_S)


def _write(frame: DataFrame, directory: Path) -> None:
    frame.mapInArrow(lambda batches: batches, frame.schema).write.mode("overwrite").parquet(str(directory / "rows"))


if __name__ == "__main__":
    sys.exit(main())
