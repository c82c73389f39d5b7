"""SIGKILL at random moments: of the whole driver, and of executors; as often as ``--kills`` says.

The moments are drawn from a seed; what happens at them is Spark's own timing. Every row carries its number, and is
counted at the end by a plain reader of the sinks' files.
"""

import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from headgate.core.records import CompletedCheckpoint
from headgate.demo.show import children
from headgate.receipts.gather import gather
from headgate.receipts.proof import prove
from headgate.store.api import open_store
from headgate.store.jobstore import JobStore
from tests import jvm
from tests.spark.process import JobProcess, completed
from tests.spark.reading import outputs, verdict

ROWS = 20_000
FEW = 4
"""Batches for what is left to do when all kills are done."""


def batches(kills: int) -> int:
    """How many that a job lives until it was killed this often, and has not much left to do then."""
    return min(80, 12 + 8 * kills)


def kill_often(shape: dict[str, Any], rounds: int, seed: int) -> int:
    """Run a job, and kill its process group this often at random moments; then let it finish. Returns the kills."""
    rng = random.Random(seed)
    kills = 0
    for _ in range(rounds):
        job = JobProcess(shape)
        begun = job.wait_for(lambda line: line["event"] == "generation")
        assert begun is not None, job.tail()
        # Some die while they recover, most with a few checkpoints of their own behind them.
        for _ in range(rng.choice((0, 1, 2, 4, 6))):
            job.wait_for(completed)
        time.sleep(rng.random())
        if job.process.poll() is not None:
            break
        job.kill()
        kills += 1
    last = JobProcess({**shape, "batches": FEW})
    assert last.end() == 0, last.tail()
    return kills


@pytest.mark.parametrize(
    ("shape", "settings", "seed"),
    [
        pytest.param("fork", {}, 1, marks=pytest.mark.long),
        ("diamond", {"unaligned": True}, 7),
        pytest.param("join", {"aligned_checkpoint_timeout": "300ms"}, 3, marks=pytest.mark.long),
    ],
)
def test_nothing_is_lost_or_doubled_when_the_driver_is_killed_again_and_again(
    tmp_path: Path, kills: int, shape: str, settings: dict[str, Any], seed: int
) -> None:
    described = {
        "shape": shape,
        "directory": str(tmp_path),
        "rows": ROWS,
        "batches": batches(kills),
        "interval": "500ms",
        **settings,
    }
    # The first run dies with something behind it; in ``make prove`` many follow. A job may end before the last kill.
    rounds = max(1, kills - 1)
    assert kill_often(described, rounds, seed) >= max(1, rounds - 1)
    assert verdict(shape, tmp_path, ROWS) == {}
    # Whenever it died, the receipts prove as much: of what a commit had not been written down, the next process did.
    proof = prove("job", gather(JobStore.find(open_store(str(tmp_path / "storage")), "job")))
    assert proof.sinks
    assert [(sink.holds, sink.complete) for sink in proof.sinks] == [(True, True)] * len(proof.sinks), proof.text()


@pytest.mark.long
def test_at_least_once_loses_nothing_and_repeats_what_overtook_the_barrier(tmp_path: Path, kills: int) -> None:
    """Killed until it had to go back to a checkpoint of which readers had gone past the barriers."""
    described = {
        "shape": "diamond",
        "directory": str(tmp_path),
        "rows": ROWS,
        "batches": 60,
        "interval": "500ms",
        "left_slow_ms": 300,
        "mode": "at-least-once",
    }
    overtaken = 0
    while overtaken < max(1, kills - 1):
        job = JobProcess(described)
        found_one = job.wait_for(lambda line: completed(line) and _overtaken(tmp_path))
        assert found_one is not None, "it ended before anything overtook a barrier"
        job.kill()
        overtaken += _overtaken(tmp_path)  # Another checkpoint may have been faster than the kill.
    last = JobProcess({**described, "batches": FEW, "left_slow_ms": 0})
    assert last.end() == 0, last.tail()
    found = outputs("diamond", tmp_path)
    for side, counted in found.items():
        assert set(counted) == set(range(ROWS)), side
    assert sum(counted.total() for counted in found.values()) > 2 * ROWS


def _overtaken(directory: Path) -> bool:
    """Whether a reader has consumed more of its channel than the checkpoint to go back to lets it keep."""
    checkpoint_log = JobStore.find(open_store(str(directory / "storage")), "job").read_checkpoint_log()
    newest = next(record for record in reversed(checkpoint_log) if isinstance(record, CompletedCheckpoint))
    consumed = {channel: position for task in newest.tasks for channel, position in task.positions}
    return any(consumed[channel.channel] > channel.through for channel in newest.channels)


def test_nothing_is_lost_or_doubled_when_executors_are_killed_again_and_again(tmp_path: Path, kills: int) -> None:
    described = {
        "shape": "fork",
        "directory": str(tmp_path),
        "rows": ROWS,
        "batches": batches(kills),
        "interval": "1s",
        "shared": {"spark.executor.extraJavaOptions": jvm.options(jvm.EXECUTOR)},
    }
    rng = random.Random(5)
    job = JobProcess(described, "--master", "local-cluster[2,1,1024]")
    assert job.wait_for(completed) is not None, job.tail()
    killed = 0
    while killed < kills and job.process.poll() is None:
        executors = [pid for pid in children(job.process.pid) if _is_executor(pid)]
        if executors:
            os.kill(rng.choice(executors), signal.SIGKILL)
            killed += 1
        time.sleep(1 + 2 * rng.random())
    assert job.end() == 0, job.tail()
    assert killed == kills
    assert verdict("fork", tmp_path, ROWS) == {}


def _is_executor(pid: int) -> bool:
    try:
        return b"CoarseGrainedExecutorBackend" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False  # It ended while we looked.
