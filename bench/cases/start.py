"""From the start of a process to the first row that a reader sees. The input is there from the beginning.

Everyone is started as a user starts it: ``headgate run job.py``, ``python job.py`` with PyFlink, which brings Flink's
JVM and a MiniCluster up, and ``python query.py`` with PySpark. The first start of a machine does not count: whoever
keeps something for later starts has it then.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

from bench.case import Case, Contender, Measured, Settings
from bench.feeding import check_once
from bench.meter import Meter
from bench.profiling import sampled, wait_for_jvm
from bench.streams import ROCKSDB_SPARK, START_S, running, sleep_until

HEADGATE = Contender("Headgate", "headgate")
FLINK = Contender("Flink SQL", "flink")
SPARK = Contender("plain Spark", "spark", {"conf": {**ROCKSDB_SPARK, "spark.sql.shuffle.partitions": "2"}})


class Start(Case):
    """Start-up."""

    name: ClassVar[str] = "start"
    quickly: ClassVar[Sequence[str] | None] = ("Headgate", "Flink SQL")
    title: ClassVar[str] = "Start of a process to the first visible row, with state"
    value: ClassVar[str] = "first_row_s"
    unit: ClassVar[str] = "s"
    full: ClassVar[Settings] = {"rows_per_s": 1_000, "stay_s": 60}
    quick: ClassVar[Settings] = {"rows_per_s": 1_000, "stay_s": 0}
    also: ClassVar[dict[str, str]] = {"cpu_s": "CPU s until then"}

    def every(self) -> Sequence[Contender]:
        """Everyone."""
        return [HEADGATE, FLINK, SPARK]

    def warm_up(self, contender: Contender) -> None:
        """Start it once, so that what is kept for later starts is there. Headgate's archive is made after 15 s."""
        if self.size["stay_s"]:
            with running(contender, self.logs / f"{contender.name}.log") as job:
                sleep_until(job.first_row() + self.size["stay_s"])

    def profile(self, contender: Contender) -> Settings:
        """From soon after the JVM is there to the first row."""
        found: dict[str, Any] = {}
        with running(contender, self.logs / f"{contender.name}.log") as job:
            if wait_for_jvm(job.program.pid, START_S):
                with sampled(job.program.pid, found, "CPU of the JVM from its start to the first row."):
                    job.first_row()
        return found

    def round(self, contender: Contender) -> Measured:
        """One start."""
        with running(contender, self.logs / f"{contender.name}.log") as job:
            meter = Meter(job.program.pid)
            seen = job.first_row()
            used = meter.read()
            check_once(job.feed, job.watch)
            on_the_way = job.milestones(job.program.begun, seen)
        return Measured({"first_row_s": seen - job.program.begun, "cpu_s": used.cpu_s, **on_the_way}, used)
