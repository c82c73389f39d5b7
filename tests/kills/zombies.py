"""Rounds of SIGSTOP and SIGCONT: a process sleeps through its own replacement, and wakes.

One rule: the sleeper is woken only when its successor has completed checkpoints with new rows, and must then end by
itself, without a trace in any sink.
"""

import signal
import time
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path

from headgate.demo.show import children
from tests.kills.campaign import START_S, Campaign, is_executor, with_news
from tests.kills.freezing import MOMENTS, PHASES, Wish, is_frozen, send, thaw_all

EXECUTORS = "executors"


class Zombies(Campaign):
    """A job whose leaders are frozen and replaced, again and again."""

    def _victims(self) -> Iterator[str]:
        """Each phase in its turn and each sink in its turn, at moments that change; and executors without a driver."""
        sinks = cycle(case.name for case in self._cases)
        while True:
            turn = [*PHASES, EXECUTORS]
            self._rng.shuffle(turn)
            for phase in turn:
                if phase == EXECUTORS:
                    yield EXECUTORS
                else:
                    about = "" if phase == "publish" else f" of {next(sinks)}"
                    yield f"{self._rng.choice(MOMENTS)} {phase}{about}"

    def _kill(self, victim: str) -> None:
        if victim == EXECUTORS:
            self._orphan_executors()
        else:
            self._replace_leader(victim)

    def _replace_leader(self, victim: str) -> None:
        """Freeze the leader at its moment, have another one take over, and wake it."""
        assert self._job is not None
        old = self._job
        moment, _, rest = victim.partition(" ")
        phase, _, sink = rest.partition(" of ")
        Wish(phase, moment, sink or None, after_s=self._rng.random() * 0.3).write(Path(self._settings["directory"]))
        _wait_until(lambda: is_frozen(old.process.pid) or old.process.poll() is not None, "the leader froze")
        assert old.process.poll() is None, f"the leader ended before it froze: {old.tail()}"
        try:
            self._lead_on("--takeover")
        finally:
            thaw_all(old.process.pid)
        status = old.end(START_S)
        assert status != 0, f"a leader that was replaced ended as if all was well: {old.tail()}"

    def _orphan_executors(self) -> None:
        """Freeze the executors in what they do, kill their driver, have another one take over, and wake them."""
        assert self._job is not None
        old, driver = self._job, self._job.process.pid
        executors = self._executors()
        orphans = [*executors, *(pid for executor in executors for pid in children(executor))]
        for pid in orphans:
            send(pid, signal.SIGSTOP)
        for pid in (driver, *children(driver)):
            if pid not in orphans and not is_executor(pid):
                send(pid, signal.SIGKILL)
        try:
            self._lead_on("--takeover")
        finally:
            for pid in orphans:
                send(pid, signal.SIGCONT)
        old.process.wait()
        _wait_until(lambda: not any(map(is_executor, executors)), "executors without a driver ended")

    def _lead_on(self, *options: str) -> None:
        """Start a successor, and see it complete checkpoints with new rows."""
        self._start(*options)
        for _ in range(self._rng.choice((1, 2, 3))):
            self._wait(with_news, START_S)


def _wait_until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + START_S
    while not holds():
        assert time.monotonic() < deadline, f"not in {START_S:g} s: {what}"
        time.sleep(0.05)
