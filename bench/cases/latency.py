"""From the moment a row's file appears to the moment a reader sees the row, and what an idle job costs."""

import statistics
import time
from collections.abc import Sequence
from typing import Any, ClassVar

from bench.case import Case, Contender, Measured, Settings
from bench.feeding import check_once
from bench.meter import Meter
from bench.profiling import sampled
from bench.streams import Running, running, sleep_until


class Latency(Case):
    """At 1,000 rows a second, without state."""

    value: ClassVar[str] = "p50_s"
    unit: ClassVar[str] = "s"
    also: ClassVar[dict[str, str]] = {"p99_s": "p99, s", "cores": "cores used"}
    interval: ClassVar[str]
    full: ClassVar[Settings] = {"rows_per_s": 1_000, "settle_s": 8, "measure_s": 20}
    quick: ClassVar[Settings] = {"rows_per_s": 1_000, "settle_s": 5, "measure_s": 8}

    def every(self) -> Sequence[Contender]:
        """Headgate as it is and with a bound of its latency; Flink."""
        told = {"stateful": False, "interval": self.interval}
        return [Contender("Headgate", "headgate", told), Contender("Flink SQL", "flink", told)]

    def round(self, contender: Contender) -> Measured:
        """Some seconds of rows."""
        with running(contender, self.logs / f"{contender.name}.log", rows_per_s=self.size["rows_per_s"]) as job:
            begun = job.first_row() + self.size["settle_s"]
            sleep_until(begun)
            meter = Meter(job.program.pid)
            sleep_until(begun + self.size["measure_s"])
            used = meter.read()
            ended = time.time()
            check_once(job.feed, job.watch)
            made = job.feed.made
            late = sorted(seen - made[n] for n, seen in job.watch.seen if begun <= made[n] < ended)
        values = {
            "p50_s": statistics.median(late),
            "p99_s": late[int(len(late) * 0.99)],
            "cores": used.cpu_s / used.wall_s,
        }
        return Measured(values, used)

    def profile(self, contender: Contender) -> Settings:
        """A round more, sampled."""
        found: dict[str, Any] = {}
        with running(contender, self.logs / f"{contender.name}.log", rows_per_s=self.size["rows_per_s"]) as job:
            sleep_until(job.first_row() + self.size["settle_s"])
            with sampled(job.program.pid, found, "CPU of the JVM while rows come."):
                time.sleep(self.size["measure_s"])
        return found


class LatencySecond(Latency):
    """At Flink's usual interval."""

    name: ClassVar[str] = "latency-1s"
    title: ClassVar[str] = "Latency from file to file, checkpoints every second"
    interval: ClassVar[str] = "1s"


class LatencyShort(Latency):
    """At a short interval."""

    name: ClassVar[str] = "latency-200ms"
    quickly: ClassVar[Sequence[str] | None] = ("Headgate", "Flink SQL")
    title: ClassVar[str] = "Latency from file to file, checkpoints every 200 ms"
    interval: ClassVar[str] = "200ms"


class Idle(Case):
    """A job to which nothing comes."""

    name: ClassVar[str] = "idle"
    title: ClassVar[str] = "CPU of a job to which no rows come, checkpoints every second"
    value: ClassVar[str] = "cores"
    unit: ClassVar[str] = "cores"
    also: ClassVar[dict[str, str]] = {"serving_cores": "of these serving, which nobody asks, cores"}
    full: ClassVar[Settings] = {"settle_s": 60, "measure_s": 20}
    rounds_max: ClassVar[int] = 3
    quick: ClassVar[Settings] = {"settle_s": 10, "measure_s": 10}

    def every(self) -> Sequence[Contender]:
        """Headgate and Flink. It waits a minute first: then what is made once for later starts is made."""
        return [Contender("Headgate", "headgate"), Contender("Flink SQL", "flink")]

    def round(self, contender: Contender) -> Measured:
        """Some seconds of nothing."""
        told = {"count_serving": True} if contender.peer == "headgate" else None
        with running(contender, self.logs / f"{contender.name}.log", rows_per_s=100, told=told) as job:
            job.first_row()
            check_once(job.feed, job.watch)
            time.sleep(self.size["settle_s"])
            meter, before = Meter(job.program.pid), _serving(job)
            time.sleep(self.size["measure_s"])
            used, after = meter.read(), _serving(job)
        values = {"cores": used.cpu_s / used.wall_s}
        if before is not None and after is not None:
            values["serving_cores"] = (after[0] - before[0]) / (after[1] - before[1])
        return Measured(values, used)


def _serving(job: Running) -> tuple[float, float] | None:
    """The processor time that serving its pages has taken in the job's process, and when that was."""
    file = job.stream.inbox.parent / "serving_s"
    if not file.exists():
        return None
    used_s, at_s = file.read_text().split()
    return float(used_s), float(at_s)
