"""What all servers have in common: start, stop, kill, pause, and readiness.

One rule: a started server has answered a real question, and a stopped one has left no process.

A server keeps its data and its port between ``stop`` or ``kill`` and the next ``start``. It runs under a supervisor,
which ends it when the starting process is gone, however that happened.
"""

import os
import random
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

from services.processes import Process, family, kill_family, send
from services.supervisor import Supervisor

ROOT = Path(__file__).resolve().parent.parent
HOST = "127.0.0.1"

# Below the range from which the kernel takes ports for outgoing connections: a port that is ours stays free for us.
_PORTS = range(20_000, 32_000)


class ServiceError(Exception):
    """A server could not start, or does not answer. The message is one line."""


def wait_until(question: Callable[[], bool], seconds: float = 60.0, what: str = "the condition") -> None:
    """Ask until the answer is yes. `ServiceError` when it is still no after this many seconds."""
    deadline = time.monotonic() + seconds
    while not question():
        if time.monotonic() > deadline:
            raise ServiceError(f"{what} did not come within {seconds:g} s")
        time.sleep(0.05)


def free_port() -> int:
    """A port of the loopback that nobody listens on, and that no other process gets from here while this one lives."""
    for port in random.SystemRandom().sample(_PORTS, 1_000):
        if _is_free(port) and _reserve(port):
            return port
    raise ServiceError("no free port on the loopback: too many servers run here")


def find_program(name: str) -> str:
    """The path of an installed program. `ServiceError` when it is missing."""
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin:/usr/local/sbin")
    if found is None:
        raise ServiceError(f"{name} is not installed: run `make services`")
    return found


def first_line(text: str) -> str:
    """The first line with something on it, for an error message of one line."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "it wrote nothing")


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As servers do: a connection that was closed a moment ago does not matter.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def _reserve(port: int) -> bool:
    """Take a name that the kernel gives to one process at a time, and takes back when that process ends."""
    name = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        name.bind(f"\0headgate-service-port-{port}")
    except OSError:
        name.close()
        return False
    name.detach()  # held until the process ends
    return True


class Server:
    """A server in a directory. A subclass says how it is prepared, started and asked.

    Use it as a context manager, or call `start` and `stop`.
    """

    name: ClassVar[str]
    """What messages call it."""
    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM
    """What asks it to end in good order."""
    start_seconds: ClassVar[float] = 120.0
    """How long a start may take, on a busy machine."""
    stop_seconds: ClassVar[float] = 60.0
    """How long it may take to end in good order, before it is killed."""
    account: ClassVar[str | None] = None
    """The user that it runs as when this process is root's; None for the same user."""

    def __init__(self, directory: Path | str, *, port: int | None = None) -> None:
        self.directory = Path(directory).resolve()
        self.port = free_port() if port is None else port
        self._supervisor: Supervisor | None = None

    def prepare(self) -> None:
        """Make what the server needs before it starts. Called before every start, so it looks what is there already."""

    def command(self) -> list[str]:
        """The command that runs the server in the foreground."""
        raise NotImplementedError

    def ready(self) -> bool:
        """Whether the server answers a real question. Called again and again while it starts."""
        raise NotImplementedError

    def environment(self) -> dict[str, str]:
        """The environment of the server."""
        return dict(os.environ)

    def ports(self) -> tuple[int, ...]:
        """All ports that it listens on."""
        return (self.port,)

    @property
    def log(self) -> Path:
        """The file with what the server wrote to its output."""
        return self.directory / f"{self.name}.log"

    @property
    def pid(self) -> int | None:
        """The process id of the server, while it runs."""
        return self._supervisor.process.pid if self._supervisor is not None and self.running else None

    @property
    def running(self) -> bool:
        """Whether the server's process is there. A paused one is."""
        return self._supervisor is not None and self._supervisor.process.poll() is None

    def start(self) -> Self:
        """Start the server and wait until it answers."""
        if self.running:
            return self
        self.kill()  # what is left of one that ended by itself
        for port in self.ports():
            if not _is_free(port):
                raise ServiceError(f"{self.name} cannot start: port {port} is in use; stop what listens there")
        self.directory.mkdir(parents=True, exist_ok=True)
        self.prepare()
        try:
            self._launch()
            wait_until(self._ready_or_dead, self.start_seconds, f"{self.name} to answer (see {self.log})")
        except BaseException:
            self.kill()
            raise
        return self

    def stop(self) -> None:
        """Ask the server to end, wait for it, and see that no process is left. Nothing happens when it does not run."""
        if self._supervisor is None:
            return
        process = self._supervisor.process
        relatives = family(process.pid) if self.running else []
        send(relatives, signal.SIGCONT)
        process.send_signal(self.stop_signal)
        try:
            process.wait(self.stop_seconds)
        except subprocess.TimeoutExpired:
            self.kill()
        else:
            self._bury(relatives)

    def kill(self) -> None:
        """End the server with SIGKILL, with all its processes, and return when they are gone."""
        if self._supervisor is not None:
            self._bury(kill_family(self._supervisor.process.pid) if self.running else [])

    def pause(self) -> None:
        """Stop the server's processes as they are (SIGSTOP). Connections stay, and nothing answers."""
        if (pid := self.pid) is not None:
            members = family(pid)
            send(members, signal.SIGSTOP)
            wait_until(lambda: all(each.stopped for each in members), 60, f"{self.name} to pause")

    def resume(self) -> None:
        """Let paused processes go on."""
        if (pid := self.pid) is not None:
            send(family(pid), signal.SIGCONT)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def last_words(self) -> str:
        """The last line that the server wrote, for an error message. Lines of a Java stack trace do not count."""
        try:
            lines = self.log.read_text(errors="replace").splitlines()
        except OSError:
            lines = []
        words = (line.strip() for line in reversed(lines))
        return next((line for line in words if line and not line.startswith(("at ", "... "))), "it wrote nothing")

    @classmethod
    def other_account(cls) -> str | None:
        """The account to change to: `account` when this process is root's, else None."""
        return cls.account if os.geteuid() == 0 else None

    def _launch(self) -> None:
        with self.log.open("ab") as log:
            self._supervisor = Supervisor(
                self.name,
                self.command(),
                environment=self.environment(),
                directory="/",
                stdout=log,
                stderr=subprocess.STDOUT,
                account=self.other_account(),
            )

    def _ready_or_dead(self) -> bool:
        if not self.running:
            raise ServiceError(f"{self.name} ended while it started: {self.last_words()}")
        return self.ready()

    def _bury(self, relatives: list[Process]) -> None:
        """Wait until the server and its relatives are gone."""
        assert self._supervisor is not None
        send(relatives, signal.SIGKILL)
        self._supervisor.release()
        wait_until(lambda: not any(each.alive for each in relatives), 60, f"the end of {self.name}'s processes")
        self._supervisor = None
