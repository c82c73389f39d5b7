"""From a failure to the first row that was made after it and that a reader sees.

Rows come all the time, from files to files, and their numbers are kept as state, so every number must come out once.
"""

import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from bench.case import Case, Contender, Measured, Settings
from bench.cases.start import FLINK, HEADGATE
from bench.feeding import check_once
from bench.meter import Meter, descendants
from bench.peers.standalone import Cluster
from bench.streams import Running, running, sleep_until
from bench.worker import Failed

SETTLED_S = 8.0
"""How long a job runs before it is hurt, from its first row on."""


class Recovery(Case):
    """What all failures share."""

    value: ClassVar[str] = "first_new_row_s"
    unit: ClassVar[str] = "s"
    full: ClassVar[Settings] = {"rows_per_s": 1_000}
    quick: ClassVar[Settings] = {"rows_per_s": 1_000}

    def every(self) -> Sequence[Contender]:
        """Headgate and Flink."""
        return [HEADGATE, FLINK]

    def round(self, contender: Contender) -> Measured:
        """One failure."""
        with running(contender, self.logs / f"{contender.name}.log") as job:
            settled = job.first_row() + SETTLED_S
            sleep_until(settled)
            return self._measure(job, self._hurt(job))

    def _hurt(self, job: Running) -> float:
        """Have it fail, and say when it did."""
        raise NotImplementedError

    def _measure(self, job: Running, failed: float, *pids: int) -> Measured:
        meter = Meter(job.program.pid, *pids)
        seen = job.first_row(made_after=failed)
        used = meter.read()
        check_once(job.feed, job.watch)
        return Measured({self.value: seen - failed, **job.milestones(failed, seen)}, used)


class ExceptionInCode(Recovery):
    """An exception in user code. It waits 200 ms before it starts again, with everyone."""

    name: ClassVar[str] = "exception"
    quickly: ClassVar[Sequence[str] | None] = ("Headgate", "Flink SQL")
    title: ClassVar[str] = "Exception in user code to the first visible new row, restart after 200 ms"
    full: ClassVar[Settings] = {"rows_per_s": 1_000, "after_s": 25}
    quick: ClassVar[Settings] = {"rows_per_s": 1_000, "after_s": 25}

    def round(self, contender: Contender) -> Measured:
        """The time is told at the start, since SQL knows nothing else of the world."""
        fails_at = time.time() + self.size["after_s"]
        log = self.logs / f"{contender.name}.log"
        with running(contender, log, told={"fails_at": fails_at}) as job:
            if job.first_row() > fails_at - 2:
                raise Failed("it started too slowly to see it fail: the machine is busy")
            sleep_until(fails_at)
            flag = job.stream.inbox.parent / "failed"
            if contender.peer == "headgate":
                if not job.watch.until(flag.exists, 30):
                    raise Failed("it did not fail")
                time.sleep(0.02)
                return self._measure(job, float(flag.read_text()))
            if not job.watch.until(lambda: job.feed.made[-1] > fails_at, 30):
                raise Failed("no row came")
            return self._measure(job, job.feed.first_after(fails_at))


class DriverKilled(Recovery):
    """The process of the driver is killed, and the same command is given again at once."""

    name: ClassVar[str] = "driver-killed"
    title: ClassVar[str] = "Driver killed and started again by hand, to the first visible new row"

    def _hurt(self, job: Running) -> float:
        job.program.kill()
        killed = time.time()
        more = {"restore": job.stream.newest_checkpoint()} if job.stream.contender.peer == "flink" else {}
        job.program = job.stream.start(**more)
        return killed


class ExecutorKilled(Recovery):
    """One of two executors is killed (a TaskManager of three with a slot each: one is spare)."""

    name: ClassVar[str] = "executor-killed"
    title: ClassVar[str] = "Executor or TaskManager killed, to the first visible new row"

    def every(self) -> Sequence[Contender]:
        """Flink notices by heartbeats: every 10 s, if nothing is said."""
        heartbeat = {"heartbeat.interval": "500 ms", "heartbeat.timeout": "5 s"}
        return [
            Contender("Headgate", "headgate", {"master": "local-cluster[2,1,1024]"}),
            Contender("Flink SQL, defaults", "flink", {"cluster": {}}),
            Contender("Flink SQL, heartbeat every 500 ms", "flink", {"cluster": heartbeat}),
        ]

    def round(self, contender: Contender) -> Measured:
        """One executor."""
        log = self.logs / f"{contender.name}.log"
        if contender.peer != "flink":
            return super().round(contender)
        with Cluster(contender.settings["cluster"], managers=3, logs=self.logs) as cluster:
            told = {"cluster_port": cluster.port}
            with running(contender, log, told=told) as job:
                sleep_until(job.first_row() + SETTLED_S)
                cluster.kill_busy_manager()
                return self._measure(job, time.time(), *cluster.pids())

    def _hurt(self, job: Running) -> float:
        executors = [pid for pid in descendants(job.program.pid) if _is_executor(pid)]
        if len(executors) != 2:
            raise Failed(f"there are {len(executors)} executors, not two")
        os.kill(executors[0], signal.SIGKILL)
        return time.time()


def _is_executor(pid: int) -> bool:
    try:
        return b"CoarseGrainedExecutorBackend" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
