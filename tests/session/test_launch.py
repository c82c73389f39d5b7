"""Starts of Spark's process that are remembered: by what, for how long, and what happens when they no longer fit."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pyspark
import pytest

from headgate.task import archive, launch
from headgate.task.launch import Start
from services.server import wait_until
from tests import jvm

ROOT = Path(__file__).parents[2]
SETTINGS = {"spark.app.name": "orders", "spark.master": "local[2]", "spark.sql.shuffle.partitions": "2"}
TWICE = """
import os
from headgate import state_backend
from headgate.task import session
spark = session.build_session("tests", master="local[1]", state=state_backend.hashmap())
print(os.path.basename(spark.sparkContext._gateway.proc.args[0]))
print(spark.sparkContext.getConf().get("spark.app.name"), spark.conf.get("spark.sql.shuffle.partitions"))
print({key: os.environ.get(key) for key in ("SPARK_SUBMIT_OPTS", "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET")})
system = spark._jvm.java.lang.System
print({key: system.getenv(key) for key in ("PYTHONHASHSEED", "SPARK_HOME", "SPARK_ENV_LOADED", "SPARK_CONF_DIR")})
spark.stop()
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Spark and a Java of a test's own."""
    home = tmp_path / "spark"
    for directory in (home / "jars", home / "bin", tmp_path / "java" / "bin", tmp_path / "java" / "lib" / "server"):
        directory.mkdir(parents=True)
    (home / "jars" / "spark.jar").write_text("one")
    (tmp_path / "java" / "lib" / "server" / "classes.jsa").touch()
    java(tmp_path, "exit 1")
    for name in list(os.environ):
        if name.startswith(("SPARK_", "PYSPARK_", "JAVA_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("SPARK_HOME", str(home))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    monkeypatch.setenv(launch.VARIABLE, str(tmp_path / "starts"))
    return home


def java(tmp_path: Path, script: str) -> Path:
    program = tmp_path / "java" / "bin" / "java"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return program


def made(settings: dict[str, str] | None = None) -> Start:
    start = launch.of(SETTINGS | (settings or {}))
    assert start is not None
    return start


def remember(start: Start, program: Path, used: float = 0.0) -> None:
    command = [str(program), "-cp", "a.jar", "-Xmx1g", "-Dhidden=1", "--add-opens=x", launch.MAIN]
    record = {"form": launch.FORM, "home": start.home, "jars": start.jars, "command": command, "environment": {}}
    start.record.write_text(json.dumps(record))
    if used:
        os.utime(start.record, (used, used))


def test_a_start_is_known_by_what_its_command_depends_on(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start = made()
    assert made({"spark.app.name": "other", "spark.sql.shuffle.partitions": "9"}).key == start.key
    seen = {start.key, made({"spark.driver.memory": "2g"}).key}
    monkeypatch.setenv("SPARK_DRIVER_MEMORY", "3g")
    seen.add(made().key)
    (home / "conf").mkdir()
    (home / "conf" / "spark-defaults.conf").write_text("spark.driver.memory 4g\n")
    seen.add(made().key)
    (home / "jars" / "spark.jar").write_text("another")
    seen.add(made().key)
    java(home.parent, "exit 2")
    seen.add(made().key)
    assert len(seen) == 6


@pytest.mark.parametrize("what", ["off", "spark-env.sh", "PYSPARK_SUBMIT_ARGS", "SPARK_TESTING", "no Java", "others"])
def test_whoever_wants_something_unusual_gets_sparks_own_way(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    match what:
        case "off":
            monkeypatch.setenv(launch.VARIABLE, "off")
        case "spark-env.sh":
            (home / "conf").mkdir()
            (home / "conf" / what).write_text("export MEMORY=$(date)\n")
        case "PYSPARK_SUBMIT_ARGS":
            monkeypatch.setenv(what, "--jars mine.jar pyspark-shell")
        case "no Java":
            monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
        case "others":  # can write there what would be run
            (tmp_path / "starts").mkdir()
            (tmp_path / "starts").chmod(0o777)
        case _:
            monkeypatch.setenv(what, "1")
    assert launch.of(SETTINGS) is None


def test_whoever_speaks_of_archives_gets_none_of_ours(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert made().archived
    assert not made({"spark.driver.extraJavaOptions": "-XX:SharedArchiveFile=mine.jsa"}).archived
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Xshare:off")
    assert not made().archived
    monkeypatch.delenv("JAVA_TOOL_OPTIONS")
    (home.parent / "java" / "lib" / "server" / "classes.jsa").unlink()
    assert not made().archived, "a Java without archives"


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("content", [b"", b"\xff{", b"[]", b'{"form": 0}', b'{"form": 1, "command": []}'])
def test_what_cannot_be_read_is_not_known(content: bytes) -> None:
    start = made()
    start.record.write_bytes(content)
    assert not start.run()


def test_a_process_that_does_not_come_up_is_forgotten(home: Path) -> None:
    start = made()
    remember(start, java(home.parent, "exit 1"))
    start.archive.write_text("classes")
    assert not start.run()
    assert not start.record.exists()
    assert not start.archive.exists()


def test_old_starts_are_forgotten_and_nothing_else_is(home: Path) -> None:
    start, others = made(), [made({"spark.driver.memory": f"{each}g"}) for each in range(launch.KEPT + 5)]
    program = home.parent / "java" / "bin" / "java"
    for age, each in enumerate(others):
        remember(each, program, used=time.time() - 1_000 - age)
        each.archive.touch()
    foreign = [start.directory / name for name in ("mine.jsa", "notes.json", f"{'a' * 31}.jsa", f"{'g' * 32}.json")]
    for path in foreign:
        path.write_text("{}")
    start._forget_old()
    assert [each.record.exists() for each in others] == [age < launch.KEPT - 1 for age in range(len(others))]
    assert sum(each.archive.exists() for each in others) == launch.ARCHIVES_KEPT - 1
    assert all(path.exists() for path in foreign)
    (home / "jars" / "spark.jar").write_text("another version")
    made()._forget_old()
    assert not any(each.record.exists() or each.archive.exists() for each in others), "made with other jars"
    assert all(path.exists() for path in foreign)


def test_an_archive_has_its_name_when_it_is_whole(home: Path) -> None:
    start = made()
    remember(start, java(home.parent, 'cat "${2#*=}" >"$0.list"; echo "$@" >"${3#*=}"'))
    start.classes.write_text("java/lang/Object id: 0\norg/apache/sp")
    assert archive.make(start)
    wait_until(lambda: archive.exists(start.archive), 30, "the archive")
    said = start.archive.read_text().split()
    assert said[0] == "-Xshare:dump"
    assert said[3:] == ["-cp", "a.jar", "-Xmx1g", "--add-opens=x"], "options that write files are left out"
    assert Path(f"{home.parent}/java/bin/java.list").read_text() == "java/lang/Object id: 0\n"
    assert not archive.make(start), "once is enough"
    wait_until(lambda: len(list(start.directory.glob(".*"))) == 0, 30, "the end of what it wrote meanwhile")


def test_an_archive_that_cannot_be_made_is_not_tried_again_at_every_start(home: Path) -> None:
    start = made()
    remember(start, java(home.parent, "exit 1"))
    start.classes.write_text("java/lang/Object id: 0\n")
    assert archive.make(start)
    wait_until(start.archive.exists, 30, "what says that it was tried")
    assert not archive.exists(start.archive)
    assert not archive.make(start)
    os.utime(start.archive, (1.0, 1.0))
    wait_until(lambda: archive.make(start), 30, "the next try, a day later, when the first maker is gone")


@pytest.mark.heavy
def test_a_jvm_does_without_an_archive_that_is_damaged_and_says_nothing(tmp_path: Path) -> None:
    whole, classes = tmp_path / "whole.jsa", tmp_path / "classes"
    classes.write_text("java/lang/Object id: 0\njava/util/concurrent/Phaser id: 1\n")
    program = shutil.which("java")
    assert program is not None
    jar = str(next((Path(pyspark.__file__).parent / "jars").glob("spark-launcher*.jar")))
    command = [program, "-cp", jar, "org.apache.spark.launcher.Main"]
    subprocess.run(archive._command(command, whole, classes), check=True, capture_output=True)
    content = whole.read_bytes()
    cut, changed, other = (tmp_path / name for name in ("cut.jsa", "changed.jsa", "other.jsa"))
    cut.write_bytes(content[: len(content) // 2])
    middle = len(content) // 2
    changed.write_bytes(
        content[:middle] + bytes(byte ^ 0xFF for byte in content[middle : middle + 4096]) + content[middle + 4096 :]
    )
    other.write_bytes(b"no archive" * 1000)
    for path in (whole, cut, changed, other, tmp_path / "missing.jsa"):
        start = [program, *archive.using(path), "-Xlog:class+load:file=" + str(tmp_path / "loaded"), *command[1:]]
        done = subprocess.run(start, capture_output=True, text=True, check=False)
        assert "Not enough arguments" in done.stderr, (path, done)
        assert "cds" not in done.stdout + done.stderr
        shared = "source: shared objects file" in (tmp_path / "loaded").read_text()
        assert shared == (path == whole), path


@pytest.mark.heavy
def test_the_second_start_is_as_the_first_without_sparks_scripts(tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "SPARK_SUBMIT_OPTS": jvm.options(),
        launch.VARIABLE: str(tmp_path),
    }
    told = [
        subprocess.run([sys.executable, "-c", TWICE], env=environment, capture_output=True, text=True, check=True)
        for _ in range(2)
    ]
    first, second = (each.stdout.splitlines() for each in told)
    assert [first[0], second[0]] == ["spark-submit", "java"]
    assert first[1:] == second[1:]
    assert first[1] == "tests 1"
