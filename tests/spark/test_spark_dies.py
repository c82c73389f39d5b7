"""Spark dies, or is stopped, under a job: the process ends, so that whoever supervises it can act."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyspark

from tests.spark import process
from tests.spark.process import JobProcess, completed
from tests.spark.reading import verdict

HERE = Path(__file__).parent
FILE = HERE / "mortal.py"
WAIT_S = 300.0


def shape(directory: Path, **more: Any) -> dict[str, Any]:
    return {
        "shape": "windows",
        "directory": str(directory),
        "rows": 12_000,
        "batches": 60,
        "interval": "300ms",
        **more,
    }


def test_a_job_ends_when_its_context_is_stopped_and_goes_on_in_the_next_run(tmp_path: Path) -> None:
    first = JobProcess(shape(tmp_path), file=FILE, variable="HEADGATE_MORTAL")
    assert first.wait_for(completed) is not None, first.tail()
    (tmp_path / "stop").touch()
    assert first.end() == 1, first.tail()
    assert "headgate: Spark was stopped, by its cluster or by something else" in first.tail()
    assert "Traceback" not in first.log.read_text()
    assert [line["event"] for line in first.lines].count("generation") == 1, "it does not try again with a dead Spark"

    (tmp_path / "stop").unlink()
    second = JobProcess(shape(tmp_path, batches=4), file=FILE, variable="HEADGATE_MORTAL")
    assert second.end() == 0, second.tail()
    assert verdict("windows", tmp_path, 12_000) == {}


def test_under_spark_submit_a_job_ends_when_the_jvm_dies(tmp_path: Path) -> None:
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    run = ("run", str(FILE), "--json", "--master", "local[2]")
    environment = {
        **os.environ,
        "HEADGATE_MORTAL": json.dumps(shape(tmp_path, rows=2_000_000, batches=2_000)),
        "PYTHONPATH": str(process.SHAPES.parent.parent.parent),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
    }
    with (tmp_path / "submit.txt").open("w") as log:
        jvm = subprocess.Popen(
            [str(submit), "--master", "local[2]", str(HERE / "submitted.py"), str(tmp_path), *run],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=log,
            start_new_session=True,
        )
    try:
        assert appears(tmp_path / "out.txt", "checkpoint-completed", unless=tmp_path / "code"), said(tmp_path)
    finally:
        jvm.kill()
        jvm.wait()
    try:
        assert appears(tmp_path / "code", ""), "its process lives on without Spark"
    finally:
        end_group(jvm.pid)
    assert (tmp_path / "code").read_text() == "1"
    assert "headgate: Spark's driver process has died: run the job again" in (tmp_path / "err.txt").read_text()


def said(directory: Path) -> str:
    return "\n".join((directory / name).read_text()[-3000:] for name in ("submit.txt", "err.txt", "out.txt"))


def appears(path: Path, text: str, unless: Path | None = None) -> bool:
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline and not (unless and unless.exists()):
        if path.exists() and text in path.read_text():
            return True
        time.sleep(0.1)
    return False


def end_group(group: int) -> None:
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return
