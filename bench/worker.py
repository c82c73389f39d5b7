"""A contender's process: started once, asked for a round at a time, and ended with all that it started.

One rule: no process outlives the harness. A worker is its own session; whoever belongs to it is killed with it.
"""

import json
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from bench.meter import Meter, Used, descendants
from bench.peers.installing import BUILD, ROOT
from bench.programs.serving import REPLY_FD

TIMEOUT_S = 900.0
SHOWN = 400
"""How much of an error is shown; the log has the rest."""


class Failed(Exception):
    """A contender did not do its round. The message is one line; its log has the rest."""


class Program:
    """A process of a contender that runs on its own, as a user would start it."""

    def __init__(self, command: Sequence[str], *, log: Path, environment: Mapping[str, str] | None = None) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        self.log = log
        self.begun = time.time()
        with log.open("ab") as out:
            self.process = subprocess.Popen(  # noqa: S603 - contenders
                list(command),
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=around(environment),
                cwd=log.parent,
            )

    @property
    def pid(self) -> int:
        """Its first process."""
        return self.process.pid

    def kill(self) -> None:
        """End it and all that belongs to it, at once."""
        kill_all(self.process.pid)
        self.process.wait()
        if self.process.stdin is not None:
            self.process.stdin.close()

    def words(self) -> str:
        """The last that it wrote."""
        return last_words(self.log)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()


class Worker:
    """A process that answers requests of ``bench.programs``."""

    def __init__(self, command: Sequence[str], *, log: Path, environment: Mapping[str, str] | None = None) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        self.log = log
        reading, writing = os.pipe()
        os.set_inheritable(writing, True)
        with log.open("ab") as out:
            self._process = subprocess.Popen(  # noqa: S603 - contenders
                list(command),
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=subprocess.STDOUT,
                pass_fds=(writing,),
                start_new_session=True,
                env=around({**(environment or {}), REPLY_FD: str(writing)}),
                cwd=log.parent,
            )
        os.close(writing)
        os.set_blocking(reading, False)
        self._replies = reading
        self._rest = b""

    @property
    def pid(self) -> int:
        """Its first process."""
        return self._process.pid

    def ask(
        self, do: str, *, timeout_s: float = TIMEOUT_S, beside: Iterable[int] = (), **what: Any
    ) -> tuple[dict[str, Any], Used]:
        """Have a function do something. Returns its answer, and what it used."""
        meter = Meter(self.pid, beside=beside)
        self.send(do, **what)
        answer = self.receive(timeout_s)
        return answer, meter.read()

    def send(self, do: str, **what: Any) -> None:
        """Have a function do something, without waiting for it."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write((json.dumps({"do": do, **what}) + "\n").encode())
            self._process.stdin.flush()
        except OSError:
            raise Failed(f"it has ended: {last_words(self.log)}") from None

    def receive(self, timeout_s: float = TIMEOUT_S) -> dict[str, Any]:
        """The answer. `Failed` when it says that it failed, ends, or takes too long."""
        deadline = time.monotonic() + timeout_s
        with selectors.DefaultSelector() as selector:
            selector.register(self._replies, selectors.EVENT_READ)
            while b"\n" not in self._rest:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    self.kill()
                    raise Failed(f"no answer for {timeout_s:g} s: {last_words(self.log)}")
                piece = os.read(self._replies, 1 << 16)
                if not piece:
                    raise Failed(f"it has ended: {last_words(self.log)}")
                self._rest += piece
        line, _, self._rest = self._rest.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise Failed(" ".join(str(answer["error"]).split())[:SHOWN])
        return answer

    def kill(self) -> None:
        """End it and all that belongs to it."""
        kill_all(self.pid)
        self._process.wait()

    def close(self) -> None:
        """End it, and let go of its pipes."""
        self.kill()
        if self._process.stdin is not None:
            self._process.stdin.close()
        os.close(self._replies)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def around(environment: Mapping[str, str] | None) -> dict[str, str]:
    """The environment of a contender: this one's, the benchmark on the path, and what is said."""
    found = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_", "FLINK_"))}
    ours = {"PYTHONPATH": str(ROOT), "TZ": "UTC", "FLINK_LOG_DIR": str(BUILD / "logs" / "flink")}
    (BUILD / "logs" / "flink").mkdir(parents=True, exist_ok=True)
    return {**found, **ours, **(environment or {})}


def kill_all(pid: int) -> None:
    """Kill a process and all that belong to it, until none is left."""
    for _ in range(100):
        gone = True
        for member in descendants(pid):
            try:
                os.kill(member, signal.SIGKILL)
            except ProcessLookupError:
                continue
            gone = gone and _is_zombie(member)
        if gone:
            return
        time.sleep(0.02)


def last_words(log: Path) -> str:
    """The end of a log, on one line."""
    try:
        text = log.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "it wrote nothing"
    return " ".join(text.split())[-600:] or "it wrote nothing"


def _is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True
