"""All jobs of storages: ``headgate server``.

One rule: of the past a job's storage tells, also when nobody runs it; of the present the process that runs it is asked,
if there is one on this machine. This process decides nothing, and writes nothing into a storage.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from headgate.errors import ExternalError, HeadgateError
from headgate.redact import redact
from headgate.run.control import Answered, ControlClient
from headgate.serve.broadcast import Broadcast
from headgate.serve.catalog import JobCatalog, PastReading, Seen, ServedJob, now_ms
from headgate.store import jobstore
from headgate.store.api import Store
from headgate.store.jobstore import JobStore
from headgate.view import job as views

LIST_AGAIN_S = 1.0
"""A storage is listed again after this time, to find new jobs."""
SILENT_S = 10.0
"""A process that did not answer is asked again after this time."""
FOLLOW_S = 1.0
FOLLOW_FAR_S = 5.0
"""How often a storage is read while somebody listens: on this machine, and elsewhere."""


class StoredJob(ServedJob):
    """A job in a storage."""

    at_hand = False

    def __init__(self, store: JobStore, jid: str, storage: str) -> None:
        """Nothing is read yet."""
        self.jid = jid
        self.name = store.job
        self.storage = storage
        self.uri = store.uri
        self.reading = PastReading(store.for_looking())
        self.broadcast = Broadcast()
        self._store = store
        self._silent_until_s = 0.0
        self._silent_why = ""
        self._followers = 0
        self._stopped = threading.Event()
        self._lock = threading.Lock()

    def see(self) -> Seen:
        """What its process says, or else its storage. One that is damaged does not hide the rest."""
        try:
            return self._see()
        except HeadgateError as error:
            word = views.UNKNOWN if isinstance(error, ExternalError) else "damaged"
            view = {**views.status(self.name, (), (), now_ms=0), "state": word, "text": str(error)}
            return Seen(view, live=False)

    def _see(self) -> Seen:
        client = ControlClient(self._store)
        silent = self._silent_why if time.monotonic() < self._silent_until_s else None
        if silent is None:
            try:
                running = client.status()
            except ExternalError as error:
                self._silent_until_s, self._silent_why = time.monotonic() + SILENT_S, str(error)
                silent = str(error)
            else:
                if running is not None:
                    return Seen(running, live=True)
                machine = client.elsewhere()
                silent = None if machine is None else f"it was last run on {machine}: ask there"
        with self.reading.past() as past:
            found = past.status(now_ms=now_ms(), elsewhere=silent is not None)
        return Seen({**found, "text": silent} if silent and found["state"] == views.UNKNOWN else found, live=False)

    def described(self) -> Mapping[str, Any] | None:
        """As the storage has it."""
        return self.reading.described()

    def forward(self, method: str, path: str, body: Mapping[str, Any] | None, wait_s: float) -> Answered | None:
        """As its process answers."""
        return ControlClient(self._store).call(method, path, body, wait_s)

    def follow(self) -> Callable[[], None]:
        """Read what comes, in a thread, as long as anybody listens."""
        with self._lock:
            self._followers += 1
            if self._followers == 1:
                self._stopped = threading.Event()
                thread = threading.Thread(target=self._follow, args=(self._stopped,), daemon=True)
                thread.name = f"headgate-follow-{self.name}"
                thread.start()
        left = threading.Event()

        def leave() -> None:
            with self._lock:
                if not left.is_set():
                    left.set()
                    self._followers -= 1
                    if self._followers == 0:
                        self._stopped.set()

        return leave

    def _follow(self, stopped: threading.Event) -> None:
        history = self._store.for_looking().history()
        wait_s = FOLLOW_S if self._store.local_root is not None else FOLLOW_FAR_S
        seen: dict[Any, int] | None = None
        while not stopped.is_set():
            try:
                if seen is None:
                    history.look()
                    seen = history.end()
                else:
                    self.broadcast.publish([line for _, line in history.follow(seen)])
            except (HeadgateError, OSError):  # It may be away for a while. The state of the job says what is wrong.
                seen = None
            stopped.wait(wait_s)


class StoredJobs(JobCatalog):
    """All jobs of some storages."""

    def __init__(self, stores: Sequence[Store], about: Mapping[str, Any], warn: Callable[[str], None]) -> None:
        """``about`` is this process."""
        self._stores = tuple(stores)
        self._about = dict(about)
        self._warn = warn
        self._jobs: dict[str, StoredJob] = {}
        self._listed_s: float | None = None
        self._lock = threading.Lock()

    @property
    def storages(self) -> Sequence[str]:
        """As the command was given them."""
        return [redact(store.uri) for store in self._stores]

    @property
    def at_hand(self) -> bool:
        """They are not."""
        return False

    @property
    def shows_ended(self) -> bool:
        """It does."""
        return True

    def process(self) -> dict[str, Any]:
        """This one."""
        return self._about

    def jobs(self) -> Sequence[ServedJob]:
        """All of them, by name."""
        with self._lock:
            if self._listed_s is None or time.monotonic() - self._listed_s >= LIST_AGAIN_S:
                self._list()
                self._listed_s = time.monotonic()
            return [self._jobs[jid] for jid in sorted(self._jobs)]

    def find(self, jid: str) -> ServedJob | None:
        """One of them; a new one is found, too."""
        found = self._jobs.get(jid)
        if found is not None:
            return found
        return next((job for job in self.jobs() if job.jid == jid), None)

    def warn(self, text: str) -> None:
        """To whoever started the command."""
        self._warn(text)

    def close(self) -> None:
        """Tell those who listen that it is over."""
        for job in list(self._jobs.values()):
            job.broadcast.close("the server has ended")

    def _list(self) -> None:
        there: dict[str, StoredJob] = {}
        for store in self._stores:
            for name in jobstore.jobs(store):
                number = sum(job.name == name for job in there.values()) + 1
                jid = name if number == 1 else f"{name}~{number}"
                known = self._jobs.get(jid)
                job = JobStore(store, name)
                there[jid] = (
                    known if known is not None and known.uri == job.uri else StoredJob(job, jid, redact(store.uri))
                )
        self._jobs = there
