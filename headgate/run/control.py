"""How commands reach the process that runs a job.

One rule: the storage says where, and with which secret, to the job's owner alone; nobody else on the machine can ask.
Who asks waits for as long as the user said, and never for a process that is gone.

The process that leads serves HTTP on a port of its own at the loopback address (``headgate.serve``), and writes that
into ``control.json``. The client here uses the standard library alone, so that a command starts quickly.
"""

import contextlib
import json
import secrets
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from headgate.core.effects import Outcome
from headgate.errors import ExternalError, UserError
from headgate.processes import is_alive
from headgate.run.requests import REQUEST_S, Reply
from headgate.store.jobstore import JobStore

HOST = "127.0.0.1"
SPEAKS = "http"
"""What the process speaks at its address. One of an earlier release does not say."""
ANSWER_S = 5.0
"""Whoever only looks waits at most this long for an answer."""
ANSWER_S = 30.0
"""Whoever wants something done waits at most this long to hear that it was asked for."""
WAIT_S = 20.0
"""How long one question after an operation waits for news; then it is asked again."""
WATCH_S = 0.5
"""Whoever watches meanwhile sees something new this often."""
ANSWER_BYTES_MAX = 64 << 20


class NotRunning(UserError):
    """No process on this machine runs the job."""


class _Silent(Exception):
    """Somebody listens, and says nothing that is understood."""


@dataclass(frozen=True)
class Answered:
    """What the process answered."""

    code: int
    data: Any

    @property
    def why_not(self) -> str:
        """Why it did not do what it was asked for."""
        errors = self.data.get("errors") if isinstance(self.data, dict) else None
        return "; ".join(map(str, errors)) if errors else f"it answered {self.code}"


@dataclass(frozen=True)
class Begun:
    """A request that the job has taken in."""

    request: str
    control: Mapping[str, Any]


class ControlClient:
    """Reaches the process that runs a job, if there is one on this machine."""

    def __init__(self, store: JobStore) -> None:
        """Nothing is asked yet."""
        self._store = store
        self._job = f"/v1/jobs/{quote(store.job, safe='')}"

    def ping(self) -> dict[str, Any] | None:
        """Who runs the job: ``pid``, ``leader``, and whether it ``answers``. None if nobody does here."""
        control = self._here()
        if control is None:
            return None
        try:
            found = _talk(control, "GET", "/v1/config", None, ANSWER_S)
        except _Silent:
            return {"pid": control["pid"], "leader": control.get("leader"), "answers": False}
        if found is None:
            return None
        process = found.data.get("process") if found.code == 200 else None
        if not isinstance(process, dict):
            return {"pid": control["pid"], "leader": control.get("leader"), "answers": False}
        return {**{name: process.get(name) for name in ("job", "leader", "pid")}, "answers": True}

    def status(self) -> dict[str, Any] | None:
        """The status of the job as its process sees it. None if nobody runs it here."""
        found = self.call("GET", "/status")
        if found is None:
            return None
        if found.code != 200:
            raise ExternalError(f"job {self._store.job}: {found.why_not}")
        view: dict[str, Any] = found.data["view"]
        return view

    def metrics(self) -> str | None:
        """The job's metrics as Prometheus reads them. None if nobody runs it here, or one who does not serve them."""
        control = self._here()
        try:
            found = None if control is None else _exchange(control, "GET", "/metrics", None, ANSWER_S)
        except _Silent:
            return None
        return found[1].decode() if found is not None and found[0] == 200 else None

    def call(self, method: str, path: str, body: Mapping[str, Any] | None = None, wait_s: float = 0) -> Answered | None:
        """Ask for something below the job's path that may take this long. None if nobody runs it here."""
        control = self._here()
        return None if control is None else self._patiently(control, method, path, body, ANSWER_S + wait_s)

    def ask(
        self,
        command: str,
        *,
        timeout_s: float = REQUEST_S,
        notice: Callable[[str], None] = lambda _: None,
        watch: Callable[[Mapping[str, Any]], None] | None = None,
        **arguments: Any,
    ) -> Reply:
        """Have the job do something, and wait until it has. ``notice`` hears meanwhile what it takes.

        ``watch`` sees the status of the job meanwhile, again and again.
        """
        begun = self.begin(command, timeout_s=timeout_s, **arguments)
        return begun if isinstance(begun, Reply) else self._hear(begun.control, command, begun.request, notice, watch)

    def begin(self, command: str, *, timeout_s: float = REQUEST_S, **arguments: Any) -> "Begun | Reply":
        """Ask for something, and do not wait. A ``Reply`` if the job does not take it in."""
        method, path, body = _request(command, arguments)
        if not path:
            return Reply(Outcome.REFUSED, f"{command} refused: there is no such request")
        name = secrets.token_hex(8)
        control = self._here()
        begun = None
        if control is not None:
            body = {**body, "triggerId": name, "timeout_s": timeout_s}
            begun = self._patiently(control, method, path, body, ANSWER_S)
        if control is None or begun is None:
            raise NotRunning(f"job {self._store.job} is not running here: start it with `headgate run`")
        if begun.code == 503:
            raise ExternalError(f"{command}: {begun.why_not}")
        if begun.code != 202:
            return Reply(Outcome.REFUSED, begun.why_not)
        return Begun(name, control)

    def elsewhere(self) -> str | None:
        """The machine on which the job was last run, if it is another and nobody has heard of its end."""
        control = self._store.read_control()
        machine = None if control is None else control.get("machine")
        return None if machine == this_machine() else machine

    def leader(self) -> dict[str, Any] | None:
        """What the process that leads left in the storage, if it may still be there. It is not asked."""
        control = self._store.read_control()
        return control if control is not None and may_be_there(control) else None

    def _here(self) -> dict[str, Any] | None:
        """The address of a process of this machine that is still there."""
        control = self._store.read_control()
        if control is None or control.get("machine") != this_machine() or not is_alive(control.get("pid")):
            return None
        return control

    def _hear(
        self,
        control: Mapping[str, Any],
        command: str,
        name: str,
        notice: Callable[[str], None],
        watch: Callable[[Mapping[str, Any]], None] | None,
    ) -> Reply:
        """Wait for what becomes of an operation. It is over when its time is, by the clock of the process."""
        heard = 0
        wait_s = WAIT_S if watch is None else WATCH_S
        while True:
            path = f"/operations/{name}?wait={wait_s:g}&after={heard}"
            found = self._patiently(control, "GET", path, None, WAIT_S + ANSWER_S)
            if found is None or found.code != 200:
                why = "its process has ended" if found is None else found.why_not
                raise ExternalError(f"{command}: its outcome is not known: {why}")
            if found.data["outcome"] is not None:
                result = found.data["operation"]
                outcome = Outcome(found.data["outcome"])
                return Reply(outcome, found.data["text"], result["checkpointId"], result["location"])
            if found.data["notices"] > heard:
                heard = found.data["notices"]
                notice(found.data["text"])
            if watch is not None:
                with contextlib.suppress(ExternalError):  # It is busy; what becomes of the request is asked again.
                    seen = self._patiently(control, "GET", "/status", None, ANSWER_S)
                    if seen is not None and seen.code == 200:
                        watch(seen.data["view"])

    def _patiently(
        self, control: Mapping[str, Any], method: str, path: str, body: Mapping[str, Any] | None, wait_s: float
    ) -> Answered | None:
        try:
            return _talk(control, method, self._job + path, body, wait_s)
        except _Silent:
            raise ExternalError(
                f"process {control['pid']} of job {self._store.job} does not answer: see whether it is stuck or busy"
            ) from None


def _request(command: str, arguments: Mapping[str, Any]) -> tuple[str, str, dict[str, Any]]:
    """How a command is asked for. An empty path if there is no such command."""
    checkpoint, target = arguments.get("checkpoint"), arguments.get("target")
    match command:
        case "checkpoint":
            return "POST", "/checkpoints", {}
        case "savepoint":
            return "POST", "/savepoints", {} if target is None else {"target-directory": target}
        case "stop":
            drain = {"drain": True} if arguments.get("drain") else {}
            return "POST", "/stop", drain if target is None else {**drain, "targetDirectory": target}
        case "cancel":
            return (
                "POST",
                "/cancel",
                {
                    "abandon": list(arguments.get("abandon") or ()),
                    **({"reason": arguments["reason"]} if arguments.get("reason") else {}),
                },
            )
        case "hold" | "release" if isinstance(checkpoint, int):
            return "POST", f"/checkpoints/details/{checkpoint}/{command}", {}
        case "delete" if isinstance(checkpoint, int):
            return "DELETE", f"/savepoints/details/{checkpoint}", {}
        case _:
            return "", "", {}


def _talk(
    control: Mapping[str, Any], method: str, path: str, body: Mapping[str, Any] | None, timeout_s: float
) -> Answered | None:
    """Ask, and hear the answer. None if nobody listens there, or not the one we mean."""
    found = _exchange(control, method, path, body, timeout_s)
    try:
        return None if found is None else Answered(found[0], json.loads(found[1]))
    except ValueError:
        raise _Silent from None


def _exchange(
    control: Mapping[str, Any], method: str, path: str, body: Mapping[str, Any] | None, timeout_s: float
) -> tuple[int, bytes] | None:
    """The same, with the answer as it came."""
    if control.get("speaks") != SPEAKS:
        raise _Silent
    from http.client import HTTPConnection, HTTPException  # noqa: PLC0415 - most commands never ask anybody

    connection = HTTPConnection(control["host"], control["port"], timeout=ANSWER_S)
    try:
        connection.connect()
    except TimeoutError:
        raise _Silent from None
    except OSError:
        return None
    headers = {"Authorization": f"Bearer {control['token']}", "Connection": "close"}
    if body is not None:
        headers["Content-Type"] = "application/json"
    try:
        connection.sock.settimeout(timeout_s)
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        response = connection.getresponse()
        said = response.read(ANSWER_BYTES_MAX)
    except (OSError, HTTPException):
        raise _Silent from None
    finally:
        connection.close()
    return None if response.status == 401 else (response.status, said)


def may_be_there(control: Mapping[str, Any]) -> bool:
    """Whether a process that led is still there, or is on another machine, where nobody can tell from here."""
    return control.get("machine") != this_machine() or is_alive(control.get("pid"))


def this_machine() -> str:
    """The name of this machine, as it stands in ``control.json``."""
    return socket.gethostname()
