"""Run by ``test_real_session`` in a process of its own: what a real session does, printed as one line of JSON."""

import contextlib
import ipaddress
import json
import os
import sys
import time
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession, functions

from headgate import state_backend
from headgate.errors import InvalidOption
from headgate.needs import NEEDED
from headgate.task.session import build_session
from services.processes import family

BACKENDS = {
    "default": state_backend.rocksdb(snapshot_after=1, maintenance_interval="100ms"),
    "spinning_disk": state_backend.rocksdb(profile="spinning_disk", snapshot_after=1, compression="zstd"),
    "flash_ssd": state_backend.rocksdb(profile="flash_ssd", snapshot_after=1, compression="none"),
    "low_memory": state_backend.rocksdb(
        profile="low_memory", incremental=False, compact_on_commit=True, count_rows=False
    ),
    "hashmap": state_backend.hashmap(),
}
"""The first one's interval counts for all: one thread of a process looks after all stores."""
BATCHES = 3


def main(work: Path) -> None:
    spark = build_session(
        "tests",
        master="local-cluster[1,2,1024]",
        conf={
            "spark.sql.shuffle.partitions": "1",
            "spark.ui.enabled": "true",
            "spark.driver.extraJavaOptions": os.environ["QUICK"],
            "spark.executor.extraJavaOptions": os.environ["QUICK"],
        },
        state=BACKENDS["default"],
    )
    log = work / "commands"
    log.write_text("")  # What started Spark has looked around as well.
    report: dict[str, Any] = {
        "needed": {key: spark.conf.get(key) for key in NEEDED},
        "python": spark.sparkContext.pythonExec,
        "queries": {name: run_query(spark, backend, work / name) for name, backend in BACKENDS.items()},
        "listening": sorted(listening()),
        "renames": renames(spark, work / "renames"),
        "refused": refused(spark),
    }
    report["commands"] = log.read_text().splitlines()
    report["hidden"] = [str(path) for name in BACKENDS for path in (work / name).rglob(".*")]
    spark.stop()
    report["refused"]["stopped"] = refusal(lambda: build_session("tests", existing=spark, state=BACKENDS["default"]))
    print(json.dumps(report))  # noqa: T201 - the answer


def listening() -> set[str]:
    """The addresses at which this process and all that it has started listen."""
    ports: dict[str, str] = {}
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A":
                ports[f"socket:[{fields[9]}]"] = address(fields[1].partition(":")[0])
    found = set()
    for process in family(os.getpid()):
        for committable in Path(f"/proc/{process.pid}/fd").iterdir():
            with contextlib.suppress(OSError):  # It may be closed by now.
                found.add(ports.get(str(committable.readlink()), ""))
    return found - {""}


def address(text: str) -> str:
    """As the kernel writes it: words of four bytes, the lowest first."""
    packed = b"".join(bytes.fromhex(text[at : at + 8])[::-1] for at in range(0, len(text), 8))
    found = ipaddress.ip_address(packed)
    return str(getattr(found, "ipv4_mapped", None) or found)


def run_query(spark: SparkSession, backend: state_backend.StateBackend, work: Path) -> dict[str, Any]:
    """Count to a few in a stateful query under this backend."""
    session = build_session("tests", existing=spark.newSession(), state=backend)
    done: list[int] = []

    def write(batch: DataFrame, number: int) -> None:
        if number < BATCHES:
            batch.write.parquet(str(work / f"out-{number}"))
            done.append(number)
        else:
            time.sleep(0.1)
            batch.write.format("noop").mode("overwrite").save()

    numbers = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 4).load()
    counted = numbers.groupBy((functions.col("value") % 2).alias("half")).agg(functions.sum("value").alias("total"))
    query = (
        counted.writeStream.outputMode("update").option("checkpointLocation", str(work / "spark")).foreachBatch(write)
    )
    running = query.start()
    store = work / "spark" / "state" / "0" / "0"
    wait_for(
        lambda: len(done) == BATCHES and (backend.name == "hashmap" or any(store.glob("*.zip"))), running.exception
    )
    running.stop()
    wait_for(lambda: not any(work.rglob("*.tmp")), lambda: None)  # an upload may still be under way
    last = session.read.parquet(str(work / f"out-{BATCHES - 1}")).sort("half").collect()
    return {
        "totals": [row.total for row in last],
        "files": sorted({path.suffix for path in store.iterdir() if path.is_file()}),
        "options": options_of(store) if backend.name == "rocksdb" else {},
    }


def options_of(store: Path) -> dict[str, str]:
    """The options that RocksDB itself wrote down, from a snapshot."""
    with zipfile.ZipFile(min(store.glob("*.zip"))) as snapshot:
        (name,) = [name for name in snapshot.namelist() if name.startswith("OPTIONS")]
        lines = [line.strip().split("=", 1) for line in snapshot.read(name).decode().splitlines() if "=" in line]
    return {line[0]: line[1] for line in lines}


def renames(spark: SparkSession, work: Path) -> dict[str, Any]:
    """Hadoop's ``FileContext`` on the local file system, as Spark's checkpoint files are written."""
    work.mkdir()
    jvm: Any = spark.sparkContext._jvm
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    files = jvm.org.apache.hadoop.fs.FileContext.getFileContext(hadoop)
    option = jvm.org.apache.hadoop.fs.Options.Rename
    file_system = jvm.org.apache.hadoop.fs.FileSystem.getLocal(hadoop)

    def at(name: str) -> Any:
        return jvm.org.apache.hadoop.fs.Path(str(work / name))

    def rename(source: str, target: str, how: Any) -> str:
        options = spark.sparkContext._gateway.new_array(option, 1)  # type: ignore[union-attr]
        options[0] = how
        try:
            files.rename(at(source), at(target), options)
        except Py4JJavaError as error:
            return str(error.java_exception.getClass().getName())
        return "done"

    def put(name: str) -> str:
        (work / name).write_text(name)
        return name

    answers: dict[str, Any] = {"class": files.getDefaultFileSystem().getClass().getName()}
    put("taken")
    put(".taken.crc")
    answers["onto a taken name"] = [rename(put("a"), "taken", option.NONE), (work / "taken").read_text()]
    answers["with overwrite"] = [rename("a", "taken", option.OVERWRITE), (work / "taken").read_text()]
    answers["names left"] = sorted(path.name for path in work.iterdir())
    answers["onto a free name"] = [rename("taken", "free", option.NONE), sorted(path.name for path in work.iterdir())]
    answers["of nothing"] = [rename("nothing", "x", option.NONE), rename("nothing", "x", option.OVERWRITE)]
    answers["onto itself"] = rename("free", "free", option.OVERWRITE)
    (work / "directory").mkdir()
    (work / "other").mkdir()
    answers["of a directory"] = [rename("directory", "other", option.NONE), rename("directory", "new", option.NONE)]

    def race(number: int) -> int:
        for rival in range(4):
            put(f"{number}-{rival}")
        with ThreadPoolExecutor(4) as pool:
            tries = [pool.submit(rename, f"{number}-{rival}", f"prize-{number}", option.NONE) for rival in range(4)]
        return [each.result() for each in tries].count("done")

    answers["winners"] = [race(number) for number in range(25)]
    put("always")
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(lambda: [rename(put("next"), "always", option.OVERWRITE) for _ in range(200)])
        looks = 0
        while not writing.done():
            (work / "always").read_text()  # Fails if the name is gone for a moment.
            looks += 1
    answers["overwritten"], answers["looks"] = set(writing.result()) == {"done"}, looks
    file_system.mkdirs(at("made/deep"))
    file_system.create(at("made/file")).close()
    file_system.setPermission(at("made/deep"), jvm.org.apache.hadoop.fs.permission.FsPermission(0o1751))
    answers["modes"] = [oct((work / name).stat().st_mode)[-4:] for name in ("made", "made/deep", "made/file")]
    return answers


def refused(spark: SparkSession) -> dict[str, str]:
    """What an existing session cannot be made to do."""
    backend = BACKENDS["default"]
    return {
        "static": refusal(
            lambda: build_session("t", conf={"spark.executor.cores": "9"}, existing=spark, state=backend)
        ),
        "master": refusal(lambda: build_session("t", master="local[3]", existing=spark, state=backend)),
        "directory": refusal(
            lambda: build_session("t", existing=spark, state=state_backend.rocksdb(local_directory="/x"))
        ),
        "need": refusal(lambda: build_session("t", conf={"spark.speculation": "true"}, existing=spark, state=backend)),
    }


def refusal(write_id: Callable[[], object]) -> str:
    try:
        write_id()
    except InvalidOption as error:
        return str(error)
    return "not refused"


def wait_for(what: Callable[[], bool], failure: Callable[[], object]) -> None:
    end = time.monotonic() + 300
    while not what():
        assert failure() is None, failure()
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.02)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
