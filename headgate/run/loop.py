"""The driver loop: the mailbox, the clock and the core.

One rule: receive, record, step, perform; it decides nothing. It ends when the core is at rest.
"""

import queue
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from headgate.core import timing
from headgate.core.effects import Effect
from headgate.core.events import BatchCommitted, BatchEntered, Event, LeadershipWon, OutputsWritten, Ticked
from headgate.core.graph import Graph
from headgate.core.ids import LeaderId
from headgate.core.job import step
from headgate.core.records import Restore
from headgate.core.settings import Settings
from headgate.core.state import AT_REST, JobState

FREQUENT = (BatchEntered, OutputsWritten, BatchCommitted)
"""Facts for which the core need not hear the clock first."""
LATE_MS = 100
"""How long at most a deadline waits while such facts keep coming."""


@dataclass(frozen=True)
class Observation:
    """Something that was seen or measured: no fact for the core, but worth recording."""

    kind: str
    fields: dict[str, Any]


@dataclass(frozen=True)
class Broken:
    """Something that must not fail has failed: the process cannot go on."""

    error: BaseException


Watch = Callable[[int, Event | Observation, JobState, JobState, Sequence[Effect]], None]
"""Told of every step: when, the fact, the state before and after, the orders."""


class Loop:
    """One process that leads, or wants to."""

    def __init__(self, graph: Graph, settings: Settings, perform: Callable[[Effect, JobState], None], watch: Watch):
        """The clock starts at the wall's time and then runs steadily."""
        self._origin_ms = int(time.time() * 1000) - int(time.monotonic() * 1000)
        self.state = JobState(graph=graph, settings=settings, now_ms=self.now_ms())
        self._perform = perform
        self._watch = watch
        self._mailbox: queue.SimpleQueue[Event | Observation | Broken] = queue.SimpleQueue()

    def now_ms(self) -> int:
        """The time, which never goes back."""
        return self._origin_ms + int(time.monotonic() * 1000)

    def tell(self, event: Event | Observation | Broken) -> None:
        """Put something into the mailbox, from any thread."""
        self._mailbox.put(event)

    def run(self, leader: LeaderId, restore: Restore) -> JobState:
        """Lead until the job is over, or until somebody else leads."""
        self._take(LeadershipWon(leader, restore))
        while self.state.phase not in AT_REST:
            message = self._receive()
            match message:
                case Broken(error=error):
                    raise error
                case Observation():
                    self._watch(self.now_ms(), message, self.state, self.state, [])
                case _:
                    if not isinstance(message, (*FREQUENT, Ticked)):
                        self._take(Ticked(self.now_ms()))
                    self._take(message)
        return self.state

    def _receive(self) -> Event | Observation | Broken:
        """The next message, or the clock when a deadline is due and no message is there.

        Messages come first: where a step takes longer than the time to the next deadline, they would never be heard.
        """
        deadline = timing.next_deadline(self.state)
        now_ms = self.now_ms()
        unheard_ms = now_ms - self.state.now_ms
        if deadline is None:
            wait_s = None
        elif now_ms < deadline:
            wait_s = (deadline - now_ms) / 1000
        elif unheard_ms >= LATE_MS:
            return Ticked(now_ms)
        else:
            wait_s = 0.0 if unheard_ms else 0.001  # The core has heard this very millisecond.
        try:
            return self._mailbox.get(timeout=wait_s)
        except queue.Empty:
            return Ticked(self.now_ms())

    def _take(self, event: Event) -> None:
        before = self.state
        self.state, effects = step(before, event)
        self._watch(self.now_ms(), event, before, self.state, effects)
        for effect in effects:
            self._perform(effect, self.state)
