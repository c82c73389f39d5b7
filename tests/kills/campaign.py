"""Rounds of SIGKILL: of the driver, of an executor, or of a server, at moments drawn from a seed.

One rule: a round kills a real process while rows flow to all sinks, and at the end each sink's own reader counts
every row that ever went in.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headgate import layout
from headgate.demo.show import children
from tests.kills.cases import BLOCK, CASES, GROUPS
from tests.kills.ground import Ground
from tests.spark.process import JobProcess, Line

JOB = Path(__file__).with_name("job.py")
MASTER = "local-cluster[2,1,1024]"
START_S = 300.0
ROUND_S = 300.0


@dataclass(frozen=True)
class Round:
    """One kill."""

    number: int
    victim: str
    generation: int
    checkpoints: int
    """How many checkpoints with new rows were complete when it came."""


@dataclass
class Report:
    """What a campaign saw."""

    group: str
    seed: int
    rounds: list[Round] = field(default_factory=list)
    rows: int = 0
    """That went in."""
    found: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    """For each sink: rows that its reader found, lost, doubled."""
    seconds: float = 0.0

    @property
    def exact(self) -> bool:
        """Whether every sink has every row once, and of no block an old total."""
        return bool(self.found) and all(counts == (self.rows, 0, 0) for counts in self.found.values())


class Campaign:
    """A job that is killed again and again."""

    def __init__(
        self, ground: Ground, group: str, seed: int, rows_per_batch: int = 200, cases: tuple[str, ...] = ()
    ) -> None:
        self._ground = ground
        self._rng = random.Random(seed)
        self._cases = [CASES[name] for name in cases or GROUPS[group]]
        for case in self._cases:
            case.prepare(ground)
        self._settings: dict[str, Any] = {
            **ground.settings(),
            "cases": [case.name for case in self._cases],
            "rows_per_batch": rows_per_batch,
        }
        self._job: JobProcess | None = None
        self._generation = 0
        self._checkpoints = 0
        self.report = Report(group, seed)

    def run(self, rounds: int, tell: Callable[[Round], None] = lambda _: None) -> Report:
        """Kill this often; then let the job come to rest in good order, and count."""
        begun = time.monotonic()
        try:
            for number, victim in zip(range(1, rounds + 1), self._victims(), strict=False):
                self._let_it_run()
                done = Round(number, victim, self._generation, self._checkpoints)
                self._kill(victim)
                self.report.rounds.append(done)
                tell(done)
            self._come_to_rest()
        except BaseException as error:
            for name, server in self._ground.started.items():
                error.add_note(f"{name}: {server.last_words()}")
            raise
        finally:
            if self._job is not None and self._job.process.poll() is None:
                self._job.kill()
        self.report.rows = self._rows_in()
        for case in self._cases:
            found = case.numbers(self._ground)
            if case.ahead:
                found = Counter({number: times for number, times in found.items() if number < self.report.rows})
            judge = _judged_totals if case.totals else _judged
            self.report.found[case.name] = judge(found, self.report.rows)
        self.report.seconds = time.monotonic() - begun
        return self.report

    def _victims(self) -> Iterator[str]:
        """Each in its turn, in an order that changes."""
        servers = dict.fromkeys(case.server for case in self._cases if case.server is not None)
        while True:
            turn = ["driver", "executor", *servers]
            self._rng.shuffle(turn)
            yield from turn

    def _let_it_run(self) -> None:
        """Have the job running, some checkpoints further than when it was last looked at, and a moment more."""
        if self._job is None:
            self._start()
            least = self._rng.choice((0, 1, 1, 2))
        else:
            least = self._rng.choice((0, 1, 2, 3))
        for _ in range(least):
            self._wait(with_news, ROUND_S)
        time.sleep(self._rng.random() * 2)

    def _start(self, *options: str) -> None:
        """Have a new process lead the job."""
        self._job = JobProcess(self._settings, "--master", MASTER, *options, file=JOB, variable="HEADGATE_KILLS")
        begun = self._wait(lambda line: line["event"] == "generation", START_S)
        self._generation = int(begun["generation"])

    def _wait(self, wanted: Callable[[Line], bool], seconds: float) -> Line:
        assert self._job is not None

        def look(line: Line) -> bool:
            self._checkpoints += with_news(line)
            return wanted(line)

        line = self._job.wait_for(look, seconds)
        assert line is not None, f"the job ended by itself: {self._job.tail()}"
        return line

    def _kill(self, victim: str) -> None:
        assert self._job is not None
        if victim == "driver":
            self._job.kill()
            self._job = None
        elif victim == "executor":
            os.kill(self._executor(), signal.SIGKILL)
        else:
            server = self._ground.started[victim]
            server.kill()
            time.sleep(self._rng.random() * 2)
            server.start()

    def _executor(self) -> int:
        return self._rng.choice(self._executors())

    def _executors(self) -> list[int]:
        assert self._job is not None
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            found = [pid for pid in children(self._job.process.pid) if is_executor(pid)]
            if found:
                return found
            time.sleep(0.1)
        raise AssertionError(f"no executor came up: {self._job.tail()}")

    def _come_to_rest(self) -> None:
        """See a checkpoint of the time after the last kill, then stop with a savepoint."""
        self._let_it_run()
        self._wait(with_news, START_S)
        assert self._job is not None
        storage = f"{self._settings['directory']}/storage"
        command = [sys.executable, "-m", "headgate", "stop", "kills", "--storage", storage, "--timeout", "300"]
        stopped = subprocess.run(command, capture_output=True, text=True, check=False)
        assert stopped.returncode == 0, f"{stopped.stdout}{stopped.stderr}{self._job.tail()}"
        assert self._job.end(START_S) == 0, self._job.tail()

    def _rows_in(self) -> int:
        """What the source has given, by Spark's own log in the savepoint with which the job stopped."""
        savepoints = Path(self._settings["directory"], "storage", "kills", "savepoints")
        newest = max(savepoints.glob("[0-9]*"), key=lambda path: int(path.name))
        [query] = newest.glob("tasks/*/g*/")
        offsets = layout.read_offsets(query, layout.committed(query))
        [offset] = offsets.of_sources()
        return int(json.loads(offset)["offset"])


def with_news(line: Line) -> bool:
    """A checkpoint is complete that has more in it than the one before."""
    return line["event"] == "checkpoint-completed" and any(task["new_bytes"] > 0 for task in line["tasks"].values())


def _judged(found: Counter[int], rows: int) -> tuple[int, int, int]:
    wanted = Counter(range(rows))
    return found.total(), (wanted - found).total(), (found - wanted).total()


def _judged_totals(found: Counter[int], rows: int) -> tuple[int, int, int]:
    """How many rows the totals count, and how many fewer or more than there are. One may be ahead of the last stop."""
    wanted = Counter({block: min(BLOCK, rows - block * BLOCK) for block in range(-(-rows // BLOCK))})
    too_many = sum(max(0, total - BLOCK) for total in found.values())
    return (wanted & found).total(), (wanted - found).total(), too_many


def is_executor(pid: int) -> bool:
    try:
        return b"CoarseGrainedExecutorBackend" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False  # It ended while we looked.
