"""The jobs that a server shows, and what it can ask of each.

One rule: of the past one reader tells, and one thread at a time asks it; of the present the process that runs the job
does. A storage that does not answer holds up whoever asks for it, for a while, and nobody else.
"""

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from headgate.browse import kept
from headgate.browse.reader import KeptOperator
from headgate.errors import ExternalError
from headgate.run.control import Answered
from headgate.run.past import JobPast
from headgate.run.requests import Requests
from headgate.serve.broadcast import Broadcast
from headgate.store.jobstore import JobStore

if TYPE_CHECKING:  # It knows Spark, which a server for storages does not need.
    from headgate.run.inspecting import Inspection

LOOK_AGAIN_S = 0.2
"""What was read of a storage counts as current for this long."""
READING_S = 10.0
"""A request waits at most this long for others that read the same job's storage."""


def now_ms() -> int:
    """The time."""
    return time.time_ns() // 1_000_000


class Seen(NamedTuple):
    """The status of a job."""

    view: Mapping[str, Any]
    live: bool
    """Its process said so, just now."""


class PastReading:
    """The past of one job, for one thread at a time."""

    def __init__(self, store: JobStore) -> None:
        """Nothing is read yet."""
        self._store = store
        self._lock = threading.Lock()
        self._past: JobPast | None = None
        self._looked_s = 0.0
        self._described: dict[str, Any] | None = None

    @contextmanager
    def past(self) -> Iterator[JobPast]:
        """The past, as it is now."""
        with self._alone():
            if self._past is None:
                self._past = JobPast(self._store)
                self._looked_s = time.monotonic()
            elif time.monotonic() - self._looked_s >= LOOK_AGAIN_S:
                self._past.look()
                self._looked_s = time.monotonic()
            yield self._past

    @property
    def local_root(self) -> Path | None:
        """The job's directory, if its storage is one of this machine."""
        return self._store.local_root

    def described(self) -> dict[str, Any] | None:
        """The plan and the settings of the job as it was last run. None if nobody has written them down."""
        with self._alone():
            return self._store.read_description()

    def state_operators(self, number: int | None) -> tuple[int, list[KeptOperator]]:
        """Of which operators a kept checkpoint has state: the newest, if none is named. Which it is comes first."""
        with self._alone():
            chosen = kept.newest(self._store) if number is None else number
            return chosen, kept.operators(self._store, kept.find(self._store, chosen))

    @contextmanager
    def _alone(self) -> Iterator[None]:
        if not self._lock.acquire(timeout=READING_S):
            raise ExternalError(f"{self._store.uri} has not answered for {READING_S:g} s: try again")
        try:
            yield
        finally:
            self._lock.release()


class ServedJob(ABC):
    """One job."""

    jid: str
    name: str
    storage: str
    """Where its storage is, in the words of a user."""
    uri: str
    """Where its own folder in it is, to be shown."""
    reading: PastReading
    broadcast: Broadcast
    at_hand: bool
    """Whether ``see`` and ``described`` answer at once, or read and ask."""
    requests: Requests | None = None
    """What it is asked to do, if this process runs it."""
    inspection: "Inspection | None" = None
    """How one looks into it, if this process runs it."""

    @abstractmethod
    def see(self) -> Seen:
        """Its status."""

    @abstractmethod
    def described(self) -> Mapping[str, Any] | None:
        """Its plan and its settings. None if nobody has written them down."""

    def forward(self, method: str, path: str, body: Mapping[str, Any] | None, wait_s: float) -> Answered | None:
        """Have the process that runs it answer. None if none does here."""
        raise NotImplementedError("this process runs the job itself")

    def follow(self) -> Callable[[], None]:
        """See that events come as long as somebody listens. Returns how to end that."""
        return lambda: None


class JobCatalog(Protocol):
    """All jobs that one server shows."""

    @property
    def storages(self) -> Sequence[str]:
        """Where the jobs are, in the words of a user."""

    @property
    def unreachable(self) -> Mapping[str, str]:
        """Those of them that cannot be listed, and why."""

    @property
    def at_hand(self) -> bool:
        """Whether jobs are found at once, or storages are listed."""

    @property
    def shows_ended(self) -> bool:
        """Whether it has jobs that do not run."""

    def process(self) -> dict[str, Any]:
        """Who answers."""

    def jobs(self) -> Sequence[ServedJob]:
        """All of them, by name."""

    def find(self, jid: str) -> ServedJob | None:
        """One of them. None if there is no such job."""

    def exposition(self, accept: str) -> tuple[str, bytes]:
        """Their metrics: content type and body for a scraper that sends this ``Accept`` header."""

    def warn(self, text: str) -> None:
        """Say what is wrong with serving, to whoever runs it."""
