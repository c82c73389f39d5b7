"""Make the archives of classes from which JVMs of tests start (``tests.jvm``): ``python -m tests.classes``."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pyspark
from pyspark.sql import DataFrame, SparkSession, functions as F  # noqa: N812 - as everybody writes it

import headgate as hg
from headgate.connect.kafka.reading.source import CONNECTOR
from headgate.task.session import build_session
from tests.jvm import DRIVER, EXECUTOR, KAFKA, QUICK, QUIET

EXIT_S = 300.0
JARS = Path(pyspark.__file__).parent / "jars"


def _as_drivers_have_it() -> SparkSession:
    return build_session("classes", master="local[2]", state=hg.state_backend.rocksdb())


def _as_drivers_that_read_kafka_have_it() -> SparkSession:
    return build_session("classes", master="local[2]", state=hg.state_backend.rocksdb(), packages=[CONNECTOR])


def _as_executors_have_it() -> SparkSession:
    """With nothing but Spark's own jars."""
    builder = SparkSession.builder.master("local[2]").config("spark.log.level", "OFF")
    conf = {"spark.sql.shuffle.partitions": "2", **hg.state_backend.rocksdb().conf}
    for key, value in conf.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


SESSIONS: dict[Path, Callable[[], SparkSession]] = {
    DRIVER: _as_drivers_have_it,
    KAFKA: _as_drivers_that_read_kafka_have_it,
    EXECUTOR: _as_executors_have_it,
}


def main() -> int:
    making: list[subprocess.Popen[bytes]] = []
    for archive in SESSIONS:
        if not archive.exists() or archive.stat().st_mtime < JARS.stat().st_mtime:  # It was made with other jars.
            archive.parent.mkdir(exist_ok=True)
            # A process has one JVM, so each is made in one of its own.
            making.append(subprocess.Popen([sys.executable, "-m", "tests.classes", str(archive)]))
    for process in making:
        process.wait()
    return 0


def make(archive: Path) -> int:
    made = archive.with_name(f".{archive.name}.{os.getpid()}")
    os.environ["SPARK_SUBMIT_OPTS"] = f"{QUICK} {QUIET} -XX:ArchiveClassesAtExit={made}"
    with TemporaryDirectory(prefix="headgate-classes-") as directory:
        _work(SESSIONS[archive](), Path(directory))
    if made.exists():
        made.rename(archive)
    else:
        sys.stderr.write("no archive of classes was made: tests run without it\n")
    return 0


def _work(session: SparkSession, directory: Path) -> None:
    """Have Spark do once what jobs do: state in RocksDB, Python workers, a batch. Its process ends with it."""
    rows = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 100).load()
    counted = rows.withWatermark("timestamp", "1 second").groupBy(F.window("timestamp", "1 second"), "value").count()
    query = (
        counted.writeStream.outputMode("update")
        .option("checkpointLocation", str(directory / "checkpoint"))
        .foreachBatch(lambda frame, _: _write(frame, directory))
        .start()
    )
    deadline = time.monotonic() + EXIT_S
    while query.lastProgress is None and query.isActive and time.monotonic() < deadline:
        time.sleep(0.1)
    query.stop()
    gateway = session.sparkContext._gateway
    session.stop()
    assert gateway is not None
    gateway.shutdown()
    process: subprocess.Popen[bytes] = gateway.proc
    assert process.stdin is not None
    process.stdin.close()  # The JVM ends when nobody can tell it anything any more, and writes the archive.
    process.wait(EXIT_S)


def _write(frame: DataFrame, directory: Path) -> None:
    frame.mapInArrow(lambda batches: batches, frame.schema).write.mode("overwrite").parquet(str(directory / "rows"))


if __name__ == "__main__":
    sys.exit(make(Path(sys.argv[1])) if sys.argv[1:] else main())
