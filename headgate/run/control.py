"""The loopback address through which commands reach a running job.

One rule: a request becomes a fact for the core, and what the core tells is the answer; nothing is decided here. Nobody
waits for ever: every wait has its time, and a process that ends answers whoever still waits.

The process that leads listens on a port of its own and writes where, with a secret, into the job's storage, for its
owner alone to read. Whoever can read that can command the job, and nobody else on the machine can. One connection
carries one request and one answer, each a line of JSON, and who wants to hear meanwhile what it takes gets that in
lines before. A request has one deadline, however slowly it comes; and where
too many connections have not shown the secret yet, the oldest of them is closed, so that none of them keeps others out.
"""

import contextlib
import hmac
import json
import os
import queue
import secrets
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Self

from headgate.channel import accepting
from headgate.core.effects import Notify, Outcome
from headgate.core.events import (
    CancelAsked,
    CheckpointAsked,
    DeleteAsked,
    Event,
    HoldAsked,
    SavepointAsked,
    UserFact,
)
from headgate.core.ids import CheckpointId, LeaderId, RequestId, SinkId
from headgate.errors import ExternalError, HeadgateError, UserError
from headgate.store.jobstore import JobStore

HOST = "127.0.0.1"
LINE_BYTES_MAX = 1 << 20
WAITING_MAX = 32
"""How many requests with the secret may wait for the core at once."""
STRANGERS_MAX = 64
"""How many connections may be open that have not shown the secret."""
LINE_S = 5.0
"""A request must have come, and a quick answer be there, within this time."""
CLOSE_S = 2.0
"""A process that ends lets its last answers go out for this long."""
REQUEST_S = 600.0
"""A user who says nothing else waits this long for a checkpoint, a savepoint or the end of a job."""
STRANGER = {"error": "this is not the job that you are looking for"}
ENDING = ("stop", "cancel")
"""Requests that are answered when the job is over, so that whoever asked may start it again."""


class NotRunning(UserError):
    """No process on this machine runs the job."""


class _Silent(Exception):
    """Somebody listens, and says nothing."""


@dataclass(frozen=True)
class Reply:
    """What became of a request."""

    outcome: Outcome
    text: str
    checkpoint: int | None = None


class _Waiter:
    """Whoever waits for an answer, in a thread of its own: the driver loop never waits for it."""

    def __init__(self) -> None:
        self._inbox: queue.SimpleQueue[str | Reply] = queue.SimpleQueue()
        self.last = ""
        """What it was told last of what it takes."""

    def tell(self, what: str | Reply) -> None:
        """A word on what it takes, or the answer. Only the first answer counts."""
        self._inbox.put(what)

    def wait(self, timeout_s: float, notice: Callable[[str], None]) -> Reply | None:
        """The answer, or None if the time is over."""
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                what = self._inbox.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                return None
            if isinstance(what, Reply):
                return what
            if what != self.last:
                notice(what)
            self.last = what


# -- the process that runs the job -----------------------------------------------------------------------------------


class ControlServer:
    """Takes requests for one job. ``state_of`` gives its status, ``submit`` hands a fact to the core."""

    def __init__(
        self,
        state_of: Callable[[], Mapping[str, Any]],
        submit: Callable[[Event], None],
        job: str,
        leader: LeaderId,
        warn: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Nobody can reach it yet. ``warn`` hears why nobody can be answered for a while."""
        self._warn = warn
        self._state_of = state_of
        self._submit = submit
        self._about = {"job": job, "leader": leader, "pid": os.getpid()}
        self._token = secrets.token_hex(16)
        self._waiting: dict[RequestId, _Waiter] = {}
        self._lock = threading.Lock()
        self._ending = threading.Event()
        self._handlers: list[threading.Thread] = []
        self._unauthenticated: dict[socket.socket, None] = {}  # In the order in which they came.
        self._socket: socket.socket | None = None
        self._store: JobStore | None = None

    def open(self, store: JobStore) -> Self:
        """Listen, and say in the storage where."""
        self._socket = socket.create_server((HOST, 0))
        port = self._socket.getsockname()[1]
        threading.Thread(target=self._listen, args=(self._socket,), name="headgate-control", daemon=True).start()
        self._store = store
        store.put_control({**self._about, "host": HOST, "port": port, "token": self._token, "machine": _machine()})
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def status(self) -> Mapping[str, Any]:
        """The status of the job, for somebody in this process."""
        return self._state_of()

    def request(self, command: str, *, timeout_s: float = REQUEST_S, **arguments: object) -> Reply:
        """The same as ``ControlClient.ask``, for somebody in this process."""
        return self._ask({"command": command, "timeout_s": timeout_s, **arguments}, lambda _: None)

    def answer(self, tell: Notify) -> None:
        """What the core tells, to whoever asked. What nobody waits for is let go."""
        if tell.request is None:
            return
        with self._lock:
            waiter = self._waiting.get(tell.request)
        if waiter is not None:
            answer = Reply(tell.outcome, tell.text, tell.checkpoint)
            waiter.tell(tell.text if tell.outcome is Outcome.NOTICE else answer)

    def close(self) -> None:
        """The job is over: answer whoever still waits, and listen no more."""
        with self._lock:
            self._ending.set()
            waiting, handlers = list(self._waiting.values()), list(self._handlers)
        for waiter in waiting:
            waiter.tell(Reply(Outcome.FAILED, "the job's process is ending"))
        if self._socket is not None:
            with contextlib.suppress(OSError):  # Wakes the thread that listens; it may be gone already.
                self._socket.shutdown(socket.SHUT_RDWR)
            self._socket.close()
        deadline = time.monotonic() + CLOSE_S
        for handler in handlers:
            handler.join(max(0.0, deadline - time.monotonic()))
        # Where the storage is away, the next process finds that nobody answers there.
        with contextlib.suppress(HeadgateError, OSError):
            self._clear()

    def _clear(self) -> None:
        if self._store is not None:
            there = self._store.read_control()
            if there is not None and there.get("token") == self._token:  # Not the address of who leads by now.
                self._store.clear_control()

    # -- one connection ------------------------------------------------------------------------------------------------

    def _listen(self, listening: socket.socket) -> None:
        for connection in accepting.accept(listening, self._warn):
            handler = threading.Thread(target=self._serve, args=(connection,), name="headgate-request", daemon=True)
            with self._lock:
                self._handlers = [other for other in self._handlers if other.is_alive()]
                if len(self._unauthenticated) >= STRANGERS_MAX:
                    self._turn_away(next(iter(self._unauthenticated)))
                self._unauthenticated[connection] = None
                if accepting.start(handler, connection):
                    self._handlers.append(handler)
                else:
                    del self._unauthenticated[connection]

    def _turn_away(self, connection: socket.socket) -> None:
        """Close a connection whose request has not come yet. Its thread finds that nobody is there."""
        del self._unauthenticated[connection]
        with contextlib.suppress(OSError):  # The other end may have closed it.
            connection.shutdown(socket.SHUT_RDWR)

    def _serve(self, connection: socket.socket) -> None:
        try:
            with connection, contextlib.suppress(OSError):  # Whoever asked may be gone: nobody is left to tell.
                request = _parse(_read_line(connection, LINE_S))
                known = self._knows(request.get("token"))
                if known:
                    with self._lock:
                        self._unauthenticated.pop(connection, None)
                connection.settimeout(LINE_S)
                answer = self._answer_to(request, partial(_send_notice, connection)) if known else STRANGER
                _send(connection, answer)
        finally:
            with self._lock:
                self._unauthenticated.pop(connection, None)

    def _knows(self, token: object) -> bool:
        return isinstance(token, str) and hmac.compare_digest(token.encode(), self._token.encode())

    def _answer_to(self, request: Mapping[str, Any], notice: Callable[[str], None]) -> Mapping[str, Any]:
        match request.get("command"):
            case "ping":
                return self._about
            case "status":
                return {"status": self._state_of()}
            case _:
                reply = self._ask(request, notice if request.get("notices") is True else lambda _: None)
                return {"outcome": reply.outcome.value, "text": reply.text, "checkpoint": reply.checkpoint}

    def _ask(self, request: Mapping[str, Any], notice: Callable[[str], None]) -> Reply:
        """Hand a request to the core, and wait for what it tells."""
        name = RequestId(f"control-{secrets.token_hex(8)}")
        fact = _fact(name, request)
        if fact is None:
            return Reply(Outcome.REFUSED, f"{request.get('command')} refused: there is no such request")
        waiter = _Waiter()
        with self._lock:
            if self._ending.is_set():
                return Reply(Outcome.REFUSED, f"{request['command']} refused: the job's process is ending")
            if len(self._waiting) >= WAITING_MAX:
                return Reply(Outcome.REFUSED, f"{request['command']} refused: {WAITING_MAX} requests wait already")
            self._waiting[name] = waiter
        try:
            self._submit(fact)
            timeout_s = _seconds(request.get("timeout_s"))
            deadline = time.monotonic() + timeout_s
            reply = waiter.wait(timeout_s, notice)
            if reply is not None and reply.outcome is Outcome.DONE and request["command"] in ENDING:
                reply = reply if self._ending.wait(max(0.0, deadline - time.monotonic())) else None
            late = f"{request['command']}: no answer within {timeout_s:g} s; it may still come"
            return reply or Reply(Outcome.FAILED, f"{late}{'; ' * bool(waiter.last)}{waiter.last}")
        finally:
            with self._lock:
                del self._waiting[name]


def _fact(name: RequestId, request: Mapping[str, Any]) -> UserFact | None:
    """What the core is told. A job stops in good order in one way only: with a savepoint."""
    checkpoint = request.get("checkpoint")
    match request.get("command"):
        case "checkpoint":
            return CheckpointAsked(name)
        case "savepoint":
            return SavepointAsked(name)
        case "stop":
            return SavepointAsked(name, stop=True)
        case "cancel":
            sinks = request.get("abandon") or ()
            return CancelAsked(name, tuple(SinkId(str(sink)) for sink in sinks)) if _is_names(sinks) else None
        case "delete" if isinstance(checkpoint, int):
            return DeleteAsked(name, CheckpointId(checkpoint))
        case "hold" | "release" as command if isinstance(checkpoint, int):
            return HoldAsked(name, CheckpointId(checkpoint), held=command == "hold")
        case _:
            return None


def _is_names(value: object) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(name, str) for name in value)


# -- a command -------------------------------------------------------------------------------------------------------


class ControlClient:
    """Reaches the process that runs a job, if there is one on this machine."""

    def __init__(self, store: JobStore) -> None:
        """Nothing is asked yet."""
        self._store = store

    def ping(self) -> dict[str, Any] | None:
        """Who runs the job: ``pid``, ``leader``, and whether it ``answers``. None if nobody does here."""
        control = self._here()
        if control is None:
            return None
        try:
            reply = _talk(control, {"command": "ping"}, LINE_S)
        except _Silent:
            return {"pid": control["pid"], "leader": control.get("leader"), "answers": False}
        return None if reply is None else {**reply, "answers": True}

    def status(self) -> dict[str, Any] | None:
        """The status of the job as its process sees it. None if nobody runs it here."""
        control = self._here()
        reply = None if control is None else self._patiently(control, {"command": "status"}, LINE_S)
        return None if reply is None else reply.get("status")

    def ask(
        self,
        command: str,
        *,
        timeout_s: float = REQUEST_S,
        notice: Callable[[str], None] = lambda _: None,
        **arguments: object,
    ) -> Reply:
        """Have the job do something, and wait until it has. ``notice`` hears meanwhile what it takes."""
        control = self._here()
        request = {"command": command, "timeout_s": timeout_s, "notices": True, **arguments}
        reply = None if control is None else self._patiently(control, request, timeout_s + LINE_S, notice)
        if reply is None:
            raise NotRunning(f"job {self._store.job} is not running here: start it with `headgate run`")
        return Reply(Outcome(reply["outcome"]), reply["text"], reply["checkpoint"])

    def elsewhere(self) -> str | None:
        """The machine on which the job was last run, if it is another and nobody has heard of its end."""
        control = self._store.read_control()
        machine = None if control is None else control.get("machine")
        return None if machine == _machine() else machine

    def leader(self) -> dict[str, Any] | None:
        """What the process that leads left in the storage, if it may still be there. It is not asked."""
        control = self._store.read_control()
        return control if control is not None and may_be_there(control) else None

    def _here(self) -> dict[str, Any] | None:
        """The address of a process of this machine that is still there."""
        control = self._store.read_control()
        if control is None or control.get("machine") != _machine() or not _is_alive(control.get("pid")):
            return None
        return control

    def _patiently(
        self,
        control: Mapping[str, Any],
        request: Mapping[str, Any],
        timeout_s: float,
        notice: Callable[[str], None] = lambda _: None,
    ) -> Any:
        try:
            return _talk(control, request, timeout_s, notice)
        except _Silent:
            raise ExternalError(
                f"process {control['pid']} of job {self._store.job} does not answer: see whether it is stuck or busy"
            ) from None


def _talk(
    control: Mapping[str, Any],
    request: Mapping[str, Any],
    timeout_s: float,
    notice: Callable[[str], None] = lambda _: None,
) -> dict[str, Any] | None:
    """Ask, and hear the answer. None if nobody listens there, or not the one we mean."""
    try:
        connection = socket.create_connection((control["host"], control["port"]), LINE_S)
    except TimeoutError:
        raise _Silent from None
    except OSError:
        return None
    try:
        with connection:
            _send(connection, {**request, "token": control["token"]})
            reply = _hear(connection, timeout_s, notice)
    except OSError:
        raise _Silent from None
    if not reply:
        raise _Silent
    return None if "error" in reply else reply


def _hear(connection: socket.socket, timeout_s: float, notice: Callable[[str], None]) -> dict[str, Any]:
    """The answer, which is the last line. Those before it say what it takes."""
    deadline = time.monotonic() + timeout_s
    data = b""
    while True:
        line, end, rest = data.partition(b"\n")
        message = _parse(line) if end else {}
        if set(message) == {"notice"}:
            notice(str(message["notice"]))
            data = rest
            continue
        if end or len(data) >= LINE_BYTES_MAX:
            return message
        connection.settimeout(max(0.001, deadline - time.monotonic()))
        more = connection.recv(65536)
        if not more:
            return _parse(data)
        data += more


def _send_notice(connection: socket.socket, text: str) -> None:
    _send(connection, {"notice": text})


# -- both ends -------------------------------------------------------------------------------------------------------


def _send(connection: socket.socket, message: Mapping[str, Any]) -> None:
    connection.sendall(json.dumps(message).encode() + b"\n")


def _read_line(connection: socket.socket, within_s: float) -> bytes:
    """What comes before the first line break, or before the other end closes. ``TimeoutError`` if it takes longer."""
    deadline = time.monotonic() + within_s
    data = bytearray()
    while b"\n" not in data[-65536:] and len(data) < LINE_BYTES_MAX:
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        connection.settimeout(left_s)
        more = connection.recv(65536)
        if not more:
            break
        data += more
    return bytes(data).partition(b"\n")[0]


def _parse(line: bytes) -> dict[str, Any]:
    """A message; an empty one for what is none."""
    try:
        message = json.loads(line)
    except ValueError:
        return {}
    return message if isinstance(message, dict) else {}


def _seconds(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) and 0 < value < threading.TIMEOUT_MAX else REQUEST_S


def may_be_there(control: Mapping[str, Any]) -> bool:
    """Whether a process that led is still there, or is on another machine, where nobody can tell from here."""
    return control.get("machine") != _machine() or _is_alive(control.get("pid"))


def _machine() -> str:
    return socket.gethostname()


def _is_alive(pid: object) -> bool:
    if not isinstance(pid, int) or pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
