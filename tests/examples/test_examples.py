"""The examples, as a user runs them, with few rows."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from headgate.core.restart import ExponentialDelay
from headgate.core.settings import Mode
from headgate.doctor.diagnosis import diagnose
from headgate.doctor.gathering import gather
from headgate.job.settings import to_core
from headgate.run.past import JobPast
from headgate.run.start import load_job
from headgate.store.api import open_store
from headgate.store.jobstore import JobStore, jobs
from services.server import wait_until
from tests import jvm
from tests.services.processes import processes_that_know

ROOT = Path(__file__).resolve().parents[2]
RUN_S = 900
"""Longer than an example gives its job: it says itself what was too slow."""
EXACT = re.compile(r"^exactly once: (\d+) in, (\d+) out, 0 lost, 0 duplicated$", re.MULTILINE)


def command(example: str, *options: str) -> list[str]:
    return [sys.executable, "-m", f"examples.{example}.run", *options]


def run(example: str, *options: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command(example, *options),
        cwd=ROOT,
        env={**os.environ, "SPARK_SUBMIT_OPTS": jvm.options(jvm.KAFKA)},
        capture_output=True,
        text=True,
        timeout=RUN_S,
        check=False,
    )


@pytest.mark.parametrize(
    ("example", "rows"),
    [
        pytest.param("exactly_once_etl", 3_000, marks=pytest.mark.long, id="etl"),  # The exercise goes the same way.
        pytest.param("fault_tolerant_sensors", 1_800, id="sensors"),
    ],
)
def test_an_example_survives_its_kill_and_ends_with_an_exact_count(example: str, rows: int) -> None:
    done = run(example, "--rows", str(rows))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SIGKILL" in done.stdout
    found = EXACT.search(done.stdout)
    assert found is not None, done.stdout
    assert int(found[1]) == int(found[2]) > 0
    assert done.stdout.endswith(found[0] + "\n"), "the verdict is the last line"


def test_the_exercise_counts_exactly_and_notices_a_theft(tmp_path: Path) -> None:
    done = run("exercise_kafka_to_kafka", "--rows", "3000", "--steal", "--keep", str(tmp_path / "kept"))
    assert "SIGKILL" in done.stdout
    assert "exactly once: 3000 in, 3000 out, 0 lost, 0 duplicated" in done.stdout, done.stdout + done.stderr
    assert done.stdout.endswith("NOT exactly once: 3000 in, 2999 out, 1 lost, 0 duplicated\n")
    assert done.returncode == 1
    assert (tmp_path / "kept" / "storage").is_dir()
    assert processes_that_know(tmp_path) == []


@pytest.mark.long
@pytest.mark.parametrize(
    ("example", "rows"),
    [("exactly_once_etl", 20_000), ("fault_tolerant_sensors", 10_000), ("exercise_kafka_to_kafka", 20_000)],
)
def test_the_doctor_finds_nothing_wrong_with_an_example(example: str, rows: int, tmp_path: Path) -> None:
    done = run(example, "--rows", str(rows), "--keep", str(tmp_path / "kept"))
    assert done.returncode == 0, done.stdout + done.stderr
    storage = open_store(str(tmp_path / "kept" / "storage"))
    [name] = jobs(storage)
    store, now_ms = JobStore.find(storage, name), time.time_ns() // 1_000_000
    past = JobPast(store)
    described = store.read_description()
    assert described is not None
    seen = diagnose(gather(past, past.status(now_ms=now_ms), described, store.local_root, now_ms))
    assert seen.causes == ()
    assert {"restart-loop", "disk-nearly-full", "clock-skew", "checkpoints-fail"}.isdisjoint(seen.unknown)


def test_ctrl_c_ends_all_that_an_example_started(tmp_path: Path) -> None:
    with subprocess.Popen(
        command("exercise_kafka_to_kafka", "--keep", str(tmp_path / "kept")),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        late = threading.Timer(RUN_S, process.kill)
        late.start()
        assert process.stdout is not None
        for line in process.stdout:
            if "headgate run" in line:
                break
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate()
        late.cancel()
        late.join()
    assert process.returncode == 130, errors
    assert "interrupted" in errors
    # What was only just being started is ended by its watchdog, a moment after the example.
    wait_until(lambda: processes_that_know(tmp_path) == [], 30, "the end of all that the example started")


def test_an_example_refuses_a_directory_with_something_in_it(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    done = run("exactly_once_etl", "--keep", str(tmp_path))
    assert done.returncode == 2
    assert "not empty" in done.stderr


def test_the_etl_job_is_set_as_a_user_would_run_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CHECKPOINT_INTERVAL", raising=False)
    job = load_job(ROOT / "examples/exactly_once_etl/job.py")
    settings = to_core(job.checkpoint, job.restart)
    assert (settings.mode, settings.interval_ms, settings.min_pause_ms) == (Mode.EXACTLY_ONCE, 10_000, 500)
    assert (settings.tolerable_failed_checkpoints, settings.num_retained, settings.retain_on_cancellation) == (
        2,
        3,
        True,
    )


def test_the_sensor_job_is_set_as_a_user_would_run_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SILENCE", raising=False)
    job = load_job(ROOT / "examples/fault_tolerant_sensors/job.py")
    assert isinstance(job.restart, ExponentialDelay)
    assert job.state_backend is not None
    assert job.state_backend.conf["spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"] == "true"
    nodes = {node.uid: node for node in job.freeze()}
    assert list(nodes) == ["sensor-source", "parse", "anomaly-detector", "to-records", "alert-sink"]
    assert getattr(nodes["anomaly-detector"].what, "silence", None) == "60s"
