"""All jobs of storages: ``headgate server``.

One rule: of the past a job's storage tells, also when nobody runs it; of the present the process that runs it is asked,
if there is one on this machine. This process decides nothing, and writes nothing into a storage.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from headgate.checksums import in_parallel
from headgate.errors import ExternalError, HeadgateError
from headgate.redact import redact
from headgate.run.control import Answered, ControlClient
from headgate.serve.broadcast import Broadcast
from headgate.serve.catalog import JobCatalog, PastReading, Seen, ServedJob, now_ms
from headgate.serve.patience import PatientStore
from headgate.store import jobstore
from headgate.store.api import Store
from headgate.store.jobstore import JobStore
from headgate.task.logs import failures
from headgate.view import job as views

LIST_AGAIN_S = 1.0
"""A storage is listed again after this time, to find new jobs."""
AT_ONCE = 8
"""How many processes are asked at once for their metrics."""
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
        self.uri = redact(store.uri)
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

    def metrics(self) -> str | None:
        """As its process says, for Prometheus. None if none does."""
        return ControlClient(self._store).metrics()

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
        told = False
        while not stopped.is_set():
            try:
                if seen is None:
                    history.look()
                    seen = history.end()
                else:
                    self.broadcast.publish([line for _, line in history.follow(seen)])
            except (HeadgateError, OSError):  # It may be away for a while. The state of the job says what is wrong.
                seen = None
            except Exception as error:  # noqa: BLE001 - whatever it is, those who listen wait for what comes next
                if not told:
                    failures.error("following the events of job %s", self.name, exc_info=error)
                seen, told = None, True
            stopped.wait(wait_s)


class StoredJobs(JobCatalog):
    """All jobs of some storages.

    The id of a job is its name, and of one that is not in the first storage ``NAME~2``, by the place of its storage: so
    it means the same job whichever others are there.
    """

    def __init__(self, stores: Sequence[Store], about: Mapping[str, Any], warn: Callable[[str], None]) -> None:
        """``about`` is this process."""
        self._stores = [PatientStore(store) for store in stores]
        self._about = dict(about)
        self._warn = warn
        self._there: list[dict[str, StoredJob]] = [{} for _ in stores]
        """The jobs of each storage, by their ids, as it was last seen."""
        self._away: list[str | None] = [None for _ in stores]
        """Why a storage could not be seen since."""
        self._listed_s: float | None = None
        self._lock = threading.Lock()

    @property
    def storages(self) -> Sequence[str]:
        """As the command was given them."""
        return [redact(store.uri) for store in self._stores]

    @property
    def unreachable(self) -> Mapping[str, str]:
        """Storages that cannot be listed, and why."""
        return {storage: why for storage, why in zip(self.storages, self._away, strict=True) if why is not None}

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
        """All of them, by name. While somebody lists for long, others are told what was there."""
        if self._lock.acquire(timeout=LIST_AGAIN_S):
            try:
                if self._listed_s is None or time.monotonic() - self._listed_s >= LIST_AGAIN_S:
                    for _ in in_parallel(self._list, range(len(self._stores)), len(self._stores)):
                        pass
                    self._listed_s = time.monotonic()
            finally:
                self._lock.release()
        found = {jid: job for there in self._there for jid, job in there.items()}
        return [found[jid] for jid in sorted(found)]

    def find(self, jid: str) -> ServedJob | None:
        """One of them; a new one is found, too."""
        found = next((there[jid] for there in self._there if jid in there), None)
        return found or next((job for job in self.jobs() if job.jid == jid), None)

    def exposition(self, accept: str) -> tuple[str, bytes]:
        """What the processes of those that run say, and of all others their state."""
        from headgate.metrics import exposition  # noqa: PLC0415 - only a server that is scraped needs it

        def families(job: StoredJob) -> list[Any]:
            seen = job.see()
            told = job.metrics() if seen.live else None
            return exposition.state_alone(job.jid, seen.view) if told is None else exposition.read(job.jid, told)

        self.jobs()
        there = [job for each in self._there for job in each.values()]
        return exposition.together(in_parallel(families, there, AT_ONCE), accept)

    def warn(self, text: str) -> None:
        """To whoever started the command."""
        self._warn(text)

    def close(self) -> None:
        """Tell those who listen that it is over."""
        for there in self._there:
            for job in there.values():
                job.broadcast.close("the server has ended")

    def _list(self, place: int) -> None:
        """See what is in one storage. If that cannot be seen, what was there is told, and why."""
        store, before = self._stores[place], self._there[place]
        try:
            names = jobstore.jobs(store)
        except (HeadgateError, OSError) as error:
            self._away[place] = redact(str(error))
            return
        there = {}
        for name in names:
            jid = name if place == 0 else f"{name}~{place + 1}"
            there[jid] = before.get(jid) or StoredJob(JobStore(store, name), jid, redact(store.uri))
        self._there[place], self._away[place] = there, None
