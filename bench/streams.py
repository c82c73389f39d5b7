"""A job from files to files, started as users start it, fed and watched: what many cases share."""

import json
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from bench.case import Contender, scratch
from bench.feeding import Feed, Watch
from bench.milestones import milestones
from bench.peers import flink
from bench.peers.installing import ROOT
from bench.programs.stream import VARIABLE
from bench.reading import SparkFiles, visible
from bench.worker import Failed, Program

ROWS_PER_S = 1_000
START_S = 300.0
"""How long a job may take to its first row."""
ROCKSDB_SPARK = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    )
}


class Stream:
    """One job's directories, and the program that runs it."""

    def __init__(self, contender: Contender, where: Path, log: Path, **told: Any) -> None:
        self.contender = contender
        self.inbox, self.out = where / "in", where / "out"
        self.out.mkdir()
        self._where = where
        self._log = log
        self._told = {"interval": "1s", "stateful": True, **contender.settings, **told}

    def start(self, **more: Any) -> Program:
        """Start it as a user does."""
        told = {**self._told, "inbox": str(self.inbox), "out": str(self.out), "where": str(self._where), **more}
        environment = {VARIABLE: json.dumps(told), "HEADGATE_LOGS": str(self._where / "logs")}
        return Program(self._command(), log=self._log, environment=environment)

    def newest_checkpoint(self) -> str:
        """What Flink goes on from, where nobody says it anew: its newest complete checkpoint."""
        found = (self._where / "checkpoints").glob("*/chk-*/_metadata")
        complete = sorted(found, key=lambda path: path.stat().st_mtime)
        if not complete:
            raise Failed("there is no complete checkpoint to go on from")
        return complete[-1].parent.as_uri()

    def _command(self) -> list[str]:
        programs = ROOT / "bench" / "programs"
        if self.contender.peer == "headgate":
            return [sys.executable, "-m", "headgate", "run", str(programs / "stream_headgate.py"), "--json"]
        python = str(flink.find().python) if self.contender.peer == "flink" else sys.executable
        return [python, "-m", f"bench.programs.stream_{self.contender.peer}"]


class Running:
    """A job that is fed and watched."""

    def __init__(self, stream: Stream, feed: Feed, watch: Watch, program: Program) -> None:
        self.stream, self.feed, self.watch, self.program = stream, feed, watch, program
        self._looked = 0

    def first_row(self, made_after: float = 0.0, within_s: float = START_S) -> float:
        """When a row was first seen that was made after a moment. `Failed` when none comes."""
        found: list[float] = []

        def come() -> bool:
            found.extend(at for n, at in self.watch.seen[self._looked :] if self.feed.made[n] >= made_after)
            self._looked = len(self.watch.seen)
            return bool(found)

        self._looked = 0
        if not self.watch.until(come, within_s):
            raise Failed(f"no row came for {within_s:g} s: {self.program.words()}")
        return found[0]

    def milestones(self, since: float, until: float) -> dict[str, float]:
        """What Headgate told on the way; of others nothing is known."""
        return milestones(self.program.log, since, until) if self.stream.contender.peer == "headgate" else {}


@contextmanager
def running(
    contender: Contender, log: Path, *, rows_per_s: int = ROWS_PER_S, told: Mapping[str, Any] | None = None
) -> Iterator[Running]:
    """Start a job whose input comes all the time, and end it afterwards."""
    with ExitStack() as stack:
        where = stack.enter_context(scratch())
        stream = Stream(contender, where, log, **(told or {}))
        feed = stack.enter_context(Feed(stream.inbox, rows_per_s))
        watch = stack.enter_context(Watch(stream.out, SparkFiles() if contender.peer == "spark" else visible))
        program = stream.start()
        made = Running(stream, feed, watch, program)
        try:
            yield made
        finally:
            made.program.kill()


def sleep_until(at: float) -> None:
    """Wait for a moment, in seconds since 1970."""
    time.sleep(max(0.0, at - time.time()))


def forget_starts(where: Path) -> None:
    """Take away what Headgate has remembered of starts there."""
    shutil.rmtree(where, ignore_errors=True)
