"""A cluster of Flink on this machine: a JobManager and TaskManagers of one slot each, by Flink's own scripts.

One rule: they run in the foreground of ours, so that none is left behind.
"""

import json
import tempfile
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from bench.peers import flink
from bench.worker import Failed, Program
from services.server import free_port

UP_S = 240.0


class Cluster:
    """A JobManager, and TaskManagers that can be killed."""

    def __init__(self, settings: Mapping[str, str], *, managers: int, logs: Path) -> None:
        self._home = flink.find().distribution
        self._logs = logs
        self.port = free_port()
        rpc = free_port()
        self._settings = {
            **settings,
            "rest.address": "localhost",
            "rest.port": str(self.port),
            "rest.bind-port": str(self.port),
            "jobmanager.rpc.port": str(rpc),
            "taskmanager.numberOfTaskSlots": "1",
        }
        self._temporary = tempfile.TemporaryDirectory(prefix="headgate-bench-flink-")
        self._jobmanager = self._run("jobmanager")
        self._managers: dict[str, Program] = {}
        for number in range(managers):
            name = f"tm-{number}"
            self._managers[name] = self._run("taskmanager", **{"taskmanager.resource-id": name})
        self._wait(managers)

    def ask(self, path: str) -> Any:
        """What its REST interface says."""
        with urllib.request.urlopen(f"http://localhost:{self.port}{path}", timeout=10) as answer:
            return json.load(answer)

    def pids(self) -> tuple[int, ...]:
        """Its first processes."""
        return (self._jobmanager.pid, *(each.pid for each in self._managers.values()))

    def kill_busy_manager(self) -> None:
        """Kill a TaskManager whose slot is taken."""
        busy = [each["id"] for each in self.ask("/taskmanagers")["taskmanagers"] if not each["freeSlots"]]
        if not busy:
            raise Failed("no TaskManager works")
        self._managers.pop(busy[0]).kill()

    def _run(self, role: str, **more: str) -> Program:
        said = [word for name, value in {**self._settings, **more}.items() for word in ("-D", f"{name}={value}")]
        command = [str(self._home / "bin" / f"{role}.sh"), "start-foreground", *said]
        around = {
            "FLINK_HOME": str(self._home),
            "FLINK_LOG_DIR": self._temporary.name,
            "FLINK_PID_DIR": self._temporary.name,
        }
        return Program(command, log=self._logs / f"flink-{role}.log", environment=around)

    def _wait(self, managers: int) -> None:
        deadline = time.monotonic() + UP_S
        while time.monotonic() < deadline:
            try:
                if self.ask("/overview")["taskmanagers"] >= managers:
                    return
            except OSError:
                pass
            time.sleep(0.2)
        words = self._jobmanager.words()
        self.close()
        raise Failed(f"Flink's cluster did not come up in {UP_S:g} s: {words}")

    def close(self) -> None:
        """End all of it."""
        for each in (*self._managers.values(), self._jobmanager):
            each.kill()
        self._temporary.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
