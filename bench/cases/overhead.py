"""What checkpoints cost: the job of ``etl`` with one every 10 s, every second, and every 200 ms."""

from collections.abc import Sequence
from typing import ClassVar

from bench.case import Contender, Settings
from bench.cases.etl import FLINK_ANYWAY, Etl

INTERVALS = ("10s", "1s", "200ms")


class Overhead(Etl):
    """On RocksDB, with defaults."""

    name: ClassVar[str] = "overhead"
    title: ClassVar[str] = "Windows of orders with a checkpoint every 10 s, every second, every 200 ms, RocksDB"
    backend: ClassVar[str] = "rocksdb"
    full: ClassVar[Settings] = {"rows": 20_000_000, "warm_up": 4_000_000}
    quick: ClassVar[Settings] = {"rows": 1_000_000, "warm_up": 100_000}
    rounds_max: ClassVar[int] = 3

    def every(self) -> Sequence[Contender]:
        """Headgate and Flink."""
        found = []
        for interval in INTERVALS:
            spaced = f"{interval.rstrip('ms')} {interval.lstrip('0123456789')}"
            conf = {**FLINK_ANYWAY, "state.backend.type": self.backend, "execution.checkpointing.interval": spaced}
            found += [
                Contender(f"Headgate, {interval}", "headgate", {"conf": {}, "interval": interval}),
                Contender(f"Flink SQL, {interval}", "flink", {"conf": conf}),
            ]
        return found
