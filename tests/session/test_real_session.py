"""Real sessions, in processes of their own: a session is found by all that runs in one process."""

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyspark
import pytest

from headgate.needs import NEEDED
from headgate.task.session import JAR
from services.processes import family
from services.server import wait_until
from tests import jvm

pytestmark = pytest.mark.heavy
ROOT = Path(__file__).parents[2]
COMMANDS = ("chmod", "chown", "ls", "readlink", "stat")
"""What Hadoop's own local file system runs."""
ADOPT = """
import sys, warnings
from pyspark.sql import SparkSession
from headgate import state_backend
from headgate.task.session import build_session
plain = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
plain.conf.set("spark.sql.streaming.checkpoint.fileChecksum.enabled", "true")
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    spark = build_session("tests", state=state_backend.hashmap())
    print(spark is plain, spark.conf.get("spark.sql.streaming.minBatchesToRetain"))
    print(spark.conf.get("spark.sql.streaming.checkpoint.fileChecksum.enabled"))
    print([str(each.message)[:60] for each in said], spark.sparkContext.pythonExec == sys.executable)
    print(spark.conf.get("spark.sql.shuffle.partitions"))
    print(spark.sparkContext._gateway.proc.pid, flush=True)
sys.stdin.read()
"""


MEMORY = """
import sys, time
from pathlib import Path
from headgate import state_backend
from headgate.task.session import build_session
conf = {"spark.sql.shuffle.partitions": "1", "spark.headgate.stateMemory.intervalMs": "200"}
backend = state_backend.rocksdb(snapshot_after=1, maintenance_interval="100ms")
spark = build_session("tests", master="local[1]", conf=conf, state=backend)
rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 4).load().groupBy("value").count()
query = rows.writeStream.outputMode("update").option("checkpointLocation", sys.argv[1]).format("noop").start()
jvm = spark._jvm

def field(value, kind, name):
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    kind = jvm.java.lang.Class.forName(f"org.apache.spark.sql.execution.streaming.state.{kind}", True, loader)
    found = kind.getDeclaredField(name)
    found.setAccessible(True)
    return found.get(value)

def remembered():
    provider = field(None, "StateStore$", "loadedProviders").values().head()
    files = field(field(provider, "RocksDBStateStoreProvider", "rocksDB"), "RocksDB", "fileManager")
    return field(files, "RocksDBFileManager", "versionToRocksDBFiles").size()

def wait_for(condition):
    while not condition():
        assert query.exception() is None
        time.sleep(0.01)

wait_for(lambda: len(list(Path(sys.argv[1]).glob("state/0/0/*.zip"))) >= 5)
least = 99
def seen():
    global least
    least = min(least, remembered())
    return least <= 1
wait_for(seen)
print("remembered", least, flush=True)
spark.stop()
"""


@pytest.fixture(scope="session")
def report(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What ``in_spark`` did. It runs once, also where several processes run the tests."""
    base = tmp_path_factory.getbasetemp()
    base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    with (base / "session.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        answer = base / "session.json"
        if not answer.exists():
            answer.write_text(in_spark(base / "session"))
    return json.loads(answer.read_text())


def in_spark(work: Path) -> str:
    home, commands = work / "home", work / "bin"
    for directory in (home, commands):
        directory.mkdir(parents=True)
    # A cluster on one machine leaves its executors' directories in Spark's home, under "work".
    for part in ("bin", "jars", "python"):
        (home / part).symlink_to(Path(pyspark.__file__).parent / part)
    for name in COMMANDS:
        (commands / name).write_text(f'#!/bin/sh\necho "{name} $*" >>{work}/commands\nexec {shutil.which(name)} "$@"\n')
        (commands / name).chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{commands}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "SPARK_HOME": str(home),
        "QUICK": jvm.QUICK,
    }
    script = Path(__file__).with_name("in_spark.py")
    done = subprocess.run(
        [sys.executable, script, work], env=environment, capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()[-1]


def test_what_is_needed_holds_in_the_session(report: Any) -> None:
    assert report["needed"] == {key: value for key, (value, _) in NEEDED.items()}
    assert report["python"] == sys.executable


def test_nothing_of_spark_on_one_machine_can_be_reached_from_another(report: Any) -> None:
    assert report["listening"] == ["127.0.0.1"]


@pytest.mark.parametrize("name", ["default", "spinning_disk", "flash_ssd", "low_memory", "hashmap"])
def test_a_stateful_query_counts_under_every_backend(report: Any, name: str) -> None:
    assert report["queries"][name]["totals"] == [sum(range(0, 12, 2)), sum(range(1, 12, 2))]


def test_incremental_state_is_written_as_changes(report: Any) -> None:
    assert report["queries"]["default"]["files"] == [".changelog", ".zip"]
    assert report["queries"]["low_memory"]["files"] == [".zip"]
    assert report["queries"]["hashmap"]["files"] == [".delta"]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("spinning_disk", {"block_size": "65536", "write_buffer_size": "67108864", "max_write_buffer_number": "4"}),
        ("spinning_disk", {"compression": "kZSTD", "max_open_files": "-1"}),
        ("flash_ssd", {"block_size": "4096", "write_buffer_size": "33554432", "max_write_buffer_number": "3"}),
        ("flash_ssd", {"compression": "kNoCompression"}),
        ("low_memory", {"block_size": "16384", "write_buffer_size": "8388608", "max_open_files": "256"}),
        ("low_memory", {"cache_index_and_filter_blocks": "true", "compression": "kLZ4Compression"}),
    ],
)
def test_rocksdb_has_what_the_profile_says(report: Any, name: str, options: dict[str, str]) -> None:
    found = report["queries"][name]["options"]
    assert {key: found[key] for key in options} == options


def test_no_process_is_started_for_files_and_none_is_hidden(report: Any) -> None:
    # Spark itself runs one, once: it makes a jar that it was sent executable.
    assert [command for command in report["commands"] if not command.endswith(f"/{JAR.name}")] == []
    assert report["hidden"] == []


def test_a_rename_is_one_step(report: Any) -> None:
    renames = report["renames"]
    exists = "org.apache.hadoop.fs.FileAlreadyExistsException"
    assert renames["class"] == "headgate.fs.PlainLocalFs"
    assert renames["onto a taken name"] == [exists, "taken"]
    assert renames["with overwrite"] == ["done", "a"]
    assert renames["names left"] == ["taken"]
    assert renames["onto a free name"] == ["done", ["free"]]
    assert renames["of nothing"] == ["java.io.FileNotFoundException"] * 2
    assert renames["onto itself"] == exists
    assert renames["of a directory"] == [exists, "done"]


def test_of_many_who_rename_to_one_name_one_wins(report: Any) -> None:
    assert report["renames"]["winners"] == [1] * 25


def test_a_file_that_is_overwritten_is_always_there(report: Any) -> None:
    assert report["renames"]["overwritten"]
    assert report["renames"]["looks"] > 100


def test_modes_are_what_hadoop_gives(report: Any) -> None:
    assert report["renames"]["modes"] == ["0755", "1751", "0644"]


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("static", "spark.executor.cores=9 cannot be set in a session that runs"),
        ("master", "spark.master=local[3] cannot be set in a session that runs"),
        ("directory", "spark.local.dir=/x cannot be set in a session that runs"),
        ("need", "spark.speculation=true is not allowed, it must be false"),
        ("stopped", "the Spark session is stopped: pass one that runs, or none"),
    ],
)
def test_a_session_that_runs_is_not_bent(report: Any, what: str, said: str) -> None:
    assert report["refused"][what].startswith(said)


def test_what_spark_remembers_of_snapshots_is_bounded(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "SPARK_SUBMIT_OPTS": jvm.options()}
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, str(tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.stdout.split() in (["remembered", "0"], ["remembered", "1"]), done.stderr[-3000:]


def test_a_session_of_the_users_own_is_taken_and_its_jvm_dies_with_the_process() -> None:
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "SPARK_SUBMIT_OPTS": jvm.options(jvm.EXECUTOR),
        "PYSPARK_PYTHON": "python3",
    }
    process = subprocess.Popen(
        [sys.executable, "-c", ADOPT],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with process:
        assert process.stdout is not None
        lines = [process.stdout.readline().strip() for _ in range(5)]
        process.send_signal(signal.SIGKILL)
    assert lines[:2] == [f"True {2**31 - 1}", "true"]
    assert lines[2] == """["the Spark session uses Hadoop's own local file system, which"] True"""
    assert lines[3] == "1", "as many state partitions as cores"
    pid = int(lines[4])
    wait_until(lambda: family(pid) == [], 60, "the end of the JVM, which outlives its process")
