"""The process that runs a job, as commands and pages reach it.

One rule: requests go to the core, and what the core tells is the answer; nothing is decided here.

The process that leads listens on a port of its own at the loopback address and writes where, with two secrets (one that
commands, one that only reads), into the job's storage, for its owner alone. Whoever can read that can command the job,
and nobody else on the machine can.
"""

import contextlib
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from headgate.core.effects import Effect, Notify
from headgate.core.events import CancelAsked, Event
from headgate.core.ids import LeaderId
from headgate.errors import HeadgateError
from headgate.metrics.reporting import Metrics
from headgate.redact import redact
from headgate.run.control import HOST, SPEAKS, this_machine
from headgate.run.exporting import Exports, Opener
from headgate.run.inspecting import Inspection
from headgate.run.requests import REQUEST_S, Reply, Requests
from headgate.serve.access import METRICS, ServerAccess
from headgate.serve.broadcast import Broadcast
from headgate.serve.catalog import PastReading, Seen, ServedJob
from headgate.serve.listening import BACKLOG, HttpServer
from headgate.store.api import open_store
from headgate.store.jobstore import JobStore
from headgate.view.history import LineView


class RunningJob(ServedJob):
    """The job that this process runs."""

    at_hand = True

    def __init__(
        self,
        store: JobStore,
        state_of: Callable[[], LineView],
        requests: Requests,
        described: LineView | None,
        inspection: Inspection,
    ) -> None:
        """``state_of`` gives its status."""
        self.jid = self.name = store.job
        self.uri = redact(store.uri)
        self.storage = self.uri.removesuffix(f"/{store.job}")
        self.reading = PastReading(store.for_looking())
        self.broadcast = Broadcast()
        self.requests = requests
        self.inspection = inspection
        self._state_of = state_of
        self._described = described

    def see(self) -> Seen:
        """As the core has it."""
        return Seen(self._state_of(), live=True)

    def described(self) -> LineView | None:
        """As it was planned."""
        return self._described


class OneJob:
    """A catalog of just that job."""

    at_hand = True
    shows_ended = False

    def __init__(
        self, job: RunningJob, about: Mapping[str, Any], warn: Callable[[str], None], metrics: Metrics
    ) -> None:
        """``about`` is this process."""
        self._job = job
        self.exposition = metrics.exposition
        self._about = dict(about)
        self.storages = (job.storage,)
        self.unreachable: Mapping[str, str] = {}
        self.warn = warn

    def process(self) -> dict[str, Any]:
        """This process."""
        return self._about

    def jobs(self) -> Sequence[ServedJob]:
        """The one."""
        return (self._job,)

    def find(self, jid: str) -> ServedJob | None:
        """The one, if it is meant."""
        return self._job if jid == self._job.jid else None


class ControlServer:
    """Takes requests for one job. ``state_of`` gives its status, ``submit`` hands a fact to the core."""

    def __init__(
        self,
        state_of: Callable[[], LineView],
        submit: Callable[[Event], None],
        job: str,
        leader: LeaderId,
        warn: Callable[[str], None] = lambda _: None,
        note: Callable[[str, LineView], None] = lambda *_: None,
        open_target: Opener = open_store,
        inspection: Inspection | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        """Nobody can reach it yet. ``warn`` hears why nobody can be answered for a while; ``note`` writes into the
        history what a user decided; ``open_target`` opens the place that a savepoint is to be written to.
        """
        self._warn = warn
        self._open_target = open_target
        self._inspection = inspection or Inspection()
        self._metrics = metrics or Metrics(job, state_of)
        self._state_of = state_of
        self._requests = Requests(submit, note)
        self._about = {"job": job, "leader": leader, "pid": os.getpid(), "machine": this_machine()}
        self._access = ServerAccess()
        self._address = ""
        self._http: HttpServer | None = None
        self._scraped: list[HttpServer] = []
        """Ports at which there is nothing but metrics."""
        self._job: RunningJob | None = None
        self._store: JobStore | None = None

    def open(self, store: JobStore, described: LineView | None = None) -> Self:
        """Listen, and say in the storage where. ``described`` is what the job is."""
        self._requests.write_to(Exports(store.for_looking(), self._open_target))
        self._job = RunningJob(store, self._state_of, self._requests, described, self._inspection)
        listening = socket.create_server((HOST, 0), backlog=BACKLOG)
        port = listening.getsockname()[1]
        self._address = f"http://{HOST}:{port}"
        self._http = self._serve(listening, self._access)
        self._store = store
        secret = {"token": self._access.token, "read_token": self._access.read_token}
        store.put_control({**self._about, "speaks": SPEAKS, "host": HOST, "port": port, **secret})
        return self

    def serve_metrics(self, port: int) -> str:
        """Serve the metrics at a port of their own too, to whoever asks on this machine. Returns where."""
        listening = socket.create_server((HOST, port), backlog=BACKLOG)
        self._scraped.append(self._serve(listening, ServerAccess(metrics_alone=True)))
        return f"http://{HOST}:{listening.getsockname()[1]}{METRICS}"

    def _serve(self, listening: socket.socket, access: ServerAccess) -> HttpServer:
        assert self._job is not None, "it is open"
        found = HttpServer(listening, OneJob(self._job, self._about, self._warn, self._metrics), access)
        found.start()
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def address(self) -> str:
        """Where it listens."""
        return self._address

    def status(self) -> LineView:
        """The status of the job, for somebody in this process."""
        return self._state_of()

    def request(self, command: str, *, timeout_s: float = REQUEST_S, **arguments: Any) -> Reply:
        """The same as ``ControlClient.ask``, for somebody in this process."""
        return self._requests.ask(command, timeout_s=timeout_s, **arguments)

    def answer(self, tell: Notify) -> None:
        """What the core tells, to whoever asked."""
        self._requests.answer(tell)

    def taken(self, asked: CancelAsked, orders: Sequence[Effect]) -> None:
        """What the core makes of a request."""
        self._requests.taken(asked, orders)

    def publish(self, lines: Sequence[LineView]) -> None:
        """What happened, to whoever listens."""
        if self._job is not None and self._job.broadcast.is_heard:
            self._job.broadcast.publish(lines)

    def close(self, *, at_once: bool = False) -> None:
        """The job is over: answer whoever still waits, and listen no more. ``at_once``: nothing is written any more."""
        self._requests.close(at_once=at_once)
        self._inspection.close()
        if self._http is not None:
            self._requests.say_goodbye()
            assert self._job is not None, "it listens for a job"
            self._job.broadcast.close("the job's process has ended")
            for each in (self._http, *self._scraped):
                each.close()
            self._http, self._scraped = None, []
        # Where the storage is away, the next process finds that nobody answers there.
        with contextlib.suppress(HeadgateError, OSError):
            self._clear()

    def _clear(self) -> None:
        if self._store is not None:
            there = self._store.read_control()
            if there is not None and there.get("token") == self._access.token:  # Not the address of who leads by now.
                self._store.clear_control()
