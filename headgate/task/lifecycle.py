"""The states of a run of a task, and what may happen in each.

One rule: whatever happens to a run stands in the table. What does not is an internal error that says what came in which
state; nobody goes on as if nothing had come.

::

    CREATED ── START ──▶ STARTING ── UP ──▶ RUNNING ── DRAIN ──▶ DRAINING ── LAUNCH ──▶ FINISHING ── END ──▶ ENDED
                          │    ▲             │    ▲                                        │
                        SKIP  SKIPPED  RELAUNCH  LAUNCH                               LAST_PASSED
                          ▼    │             ▼    │                                        ▼
                         SKIPPING         RELAUNCHING                                   FINISHED ── END ──▶ ENDED

    RUN_OUT leads from RUNNING to FINISHING: the running query runs the last batches itself.
    INTERRUPT leads from all of them to STOPPING, and from there END to ENDED; FAIL leads from all of them to FAILED.

Not here: Spark's queries (``launches``), threads and files (``query``).
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from headgate.errors import InternalError

STORY_MAX = 12
"""An error says in which order the last events came, at most this many."""


class RunState(Enum):
    """Where a run is between its creation and its end."""

    CREATED = "created"
    """It may be waiting for its turn to start."""
    STARTING = "starting"
    """It is being brought up. Its query may be at its first batch before anybody has heard that it is up."""
    SKIPPING = "skipping"
    """At-most-once: a query runs the batch that was under way, with nothing in it."""
    RUNNING = "running"
    RELAUNCHING = "relaunching"
    """Its query is stopped between two batches, and another one follows."""
    DRAINING = "draining"
    """Nothing more will come: its query is stopped, and the last batches follow."""
    FINISHING = "finishing"
    """A query runs the last batches: one that was launched for them, or the one that was there."""
    FINISHED = "finished"
    """They have run, and that query is turned away from one more."""
    STOPPING = "stopping"
    """Nobody wants this run any more: nothing of it waits, and nothing begins."""
    ENDED = "ended"
    """It has told its end."""
    FAILED = "failed"
    """It has told its failure."""


class RunEvent(Enum):
    """What can happen to a run: orders, what the run is about to do, and what Spark says."""

    START = "the order to start"
    SKIP = "a batch to leave out"
    SKIPPED = "the end of the batch that was left out"
    LAUNCH = "the launch of a query"
    UP = "the end of the start"
    RELAUNCH = "the order to launch the query again"
    DRAIN = "the order to drain"
    RUN_OUT = "the order to let time run out"
    LAST_PASSED = "a batch after the last one"
    INTERRUPT = "an interrupt"
    QUERY_STOPPED = "the end of the query"
    QUERY_FAILED = "the failure of the query"
    INCOMPLETE = "the end of the last query without the last batch"
    END = "the end of the run"
    FAIL = "a failure"


class Reaction(Enum):
    """What whoever brings an event does about it."""

    GO = "go"
    """Do what the event announces, or tell what it says."""
    IGNORE = "ignore"
    """Nothing: it comes late or again, or is as wanted."""
    REFUSE = "refuse"
    """Do not begin: the run is being stopped, or is over."""
    STOP = "stop"
    """Stop the run: its query was stopped from outside."""


@dataclass(frozen=True)
class Edge:
    """What an event in a state leads to."""

    to: RunState
    answer: Reaction


class Lifecycle:
    """The state of one run, and the events that led there. Whoever uses it from several threads guards it."""

    def __init__(self) -> None:
        """A run that has not started."""
        self.state = RunState.CREATED
        self._story: deque[str] = deque(maxlen=STORY_MAX)

    def take(self, event: RunEvent) -> Reaction:
        """Move to the next state. ``InternalError`` if the table has no place for it: the state stays as it is."""
        edge = TABLE.get((self.state, event))
        if edge is None:
            came = ", ".join(self._story) or "nothing"
            raise InternalError(
                f"{event.value} ({event.name}) came to a run that was {self.state.value}, and cannot; before it "
                f"came {came}. This is an error in Headgate, please report it"
            )
        if edge.answer is not Reaction.IGNORE:
            self._story.append(event.name)
        self.state = edge.to
        return edge.answer

    @property
    def is_up(self) -> bool:
        """Whether the run can be asked where it stands."""
        return self.state not in COMING_UP

    @property
    def is_over(self) -> bool:
        """Whether the run has told its end."""
        return self.state in OVER

    @property
    def is_unwanted(self) -> bool:
        """Whether nothing more may begin."""
        return self.state in UNWANTED

    @property
    def is_halting(self) -> bool:
        """Whether a query of the run must not go on: nothing may wait in its hook, and its end is as wanted."""
        return self.state in HALTING


def _stay(answer: Reaction, *states: RunState) -> dict[RunState, Edge]:
    return {each: Edge(each, answer) for each in states}


def _to(state: RunState, answer: Reaction, *states: RunState) -> dict[RunState, Edge]:
    return {each: Edge(state, answer) for each in states}


_S, _E, _A = RunState, RunEvent, Reaction
COMING_UP = (_S.CREATED, _S.STARTING, _S.SKIPPING)
BEFORE_THE_END = (
    *COMING_UP,
    *(_S.RUNNING, _S.RELAUNCHING, _S.DRAINING, _S.FINISHING, _S.FINISHED),
)
OVER = (_S.ENDED, _S.FAILED)
UNWANTED = (_S.STOPPING, *OVER)
HALTING = (_S.RELAUNCHING, _S.DRAINING, *UNWANTED)

_BY_EVENT: Mapping[RunEvent, Mapping[RunState, Edge]] = {
    _E.START: {
        **_to(_S.STARTING, _A.GO, _S.CREATED),
        **_stay(_A.REFUSE, *UNWANTED),
    },
    _E.SKIP: {
        **_to(_S.SKIPPING, _A.GO, _S.STARTING),
        **_stay(_A.REFUSE, *UNWANTED),
    },
    _E.SKIPPED: {
        **_to(_S.STARTING, _A.GO, _S.SKIPPING),
        **_stay(_A.REFUSE, *UNWANTED),
    },
    _E.LAUNCH: {
        **_stay(_A.GO, _S.STARTING, _S.SKIPPING),
        **_to(_S.RUNNING, _A.GO, _S.RELAUNCHING),
        **_to(_S.FINISHING, _A.GO, _S.DRAINING),
        **_stay(_A.GO, _S.FINISHING),  # Each of the last batches has a query of its own.
        **_stay(_A.REFUSE, *UNWANTED),
    },
    _E.UP: {
        **_to(_S.RUNNING, _A.GO, _S.STARTING),
        **_stay(_A.IGNORE, *UNWANTED),
    },
    _E.RELAUNCH: {
        **_to(_S.RELAUNCHING, _A.GO, _S.RUNNING),
        **_stay(_A.IGNORE, *UNWANTED),
    },
    _E.DRAIN: {
        **_to(_S.DRAINING, _A.GO, _S.RUNNING),
        **_stay(_A.IGNORE, _S.DRAINING, _S.FINISHING, _S.FINISHED, *UNWANTED),  # The order may be given again.
    },
    _E.RUN_OUT: {
        **_to(_S.FINISHING, _A.GO, _S.RUNNING),
        **_stay(_A.IGNORE, *UNWANTED),
    },
    _E.LAST_PASSED: {
        **_to(_S.FINISHED, _A.REFUSE, _S.FINISHING),
        **_stay(_A.REFUSE, _S.SKIPPING, *UNWANTED),
    },
    _E.INTERRUPT: {
        **_to(_S.STOPPING, _A.GO, *BEFORE_THE_END),
        **_stay(_A.IGNORE, *UNWANTED),
    },
    _E.QUERY_STOPPED: {
        **_to(_S.STOPPING, _A.STOP, _S.STARTING, _S.RUNNING),
        **_stay(_A.IGNORE, _S.SKIPPING, _S.FINISHING, _S.FINISHED, *UNWANTED),
    },
    _E.QUERY_FAILED: {
        **_to(_S.FAILED, _A.GO, _S.STARTING, _S.RUNNING, _S.FINISHING),
        **_stay(_A.IGNORE, _S.SKIPPING, _S.FINISHED, *UNWANTED),  # Whoever skips looks whether the batch is committed.
    },
    _E.INCOMPLETE: {
        **_to(_S.FAILED, _A.GO, _S.FINISHING, _S.FINISHED),
        **_stay(_A.IGNORE, *UNWANTED),
    },
    _E.END: {
        **_to(_S.ENDED, _A.GO, _S.DRAINING, _S.FINISHING, _S.FINISHED, _S.STOPPING),
        **_stay(_A.IGNORE, *OVER),
    },
    _E.FAIL: {
        **_to(_S.FAILED, _A.GO, *BEFORE_THE_END, _S.STOPPING),
        **_stay(_A.IGNORE, *OVER),
    },
}

TABLE: Mapping[tuple[RunState, RunEvent], Edge] = {
    (each, event): edge for event, edges in _BY_EVENT.items() for each, edge in edges.items()
}
