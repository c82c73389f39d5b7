"""A job as a process of its own, that can be watched and killed.

One rule: whatever happens to the process that started it, no process of the job is left when that one is gone.
"""

import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from services.processes import Process, kill_family
from services.server import ServiceError, wait_until
from services.supervisor import Supervisor

QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""A JVM that lives for a minute: a simple compiler and collector halve what its start costs."""
END_S = 60.0
"""How long a killed process may take to be gone."""


class JobProcess:
    """One run of ``headgate run``. Use it as a context manager."""

    def __init__(self, job: Path, directory: Path, settings: Mapping[str, str]) -> None:
        """Start it. ``settings`` are variables of its environment."""
        scratch = directory / "scratch"
        scratch.mkdir(parents=True, exist_ok=True)
        environment = {
            **os.environ,
            "SPARK_SUBMIT_OPTS": f"{os.environ.get('SPARK_SUBMIT_OPTS', QUICK)} -Djava.io.tmpdir={scratch}",
            # What a killed process leaves behind is thrown away with the rest.
            "SPARK_LOCAL_DIRS": str(scratch),
            "TMPDIR": str(scratch),
            **settings,
        }
        with (directory / "job.log").open("ab") as log:
            self._supervisor = Supervisor(
                "headgate run",
                [sys.executable, "-m", "headgate", "run", str(job), "--json", "--verbose", "--master", "local[2]"],
                environment=environment,
                directory=directory,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        self._lines: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, name="events of the job", daemon=True)
        self._reader.start()
        self._over = False

    @property
    def over(self) -> bool:
        """Whether it has ended, and all its events are told."""
        return self._over

    def events(self, seconds: float) -> Iterator[dict[str, Any]]:
        """What it tells until it ends, but for no longer than this many seconds."""
        deadline = time.monotonic() + seconds
        while not self._over:
            try:
                line = self._lines.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                return
            if line is None:
                self._over = True
            else:
                yield line

    def kill(self) -> list[Process]:
        """SIGKILL the whole job: the Python driver, its JVM and all their workers. Tells which they were."""
        killed = kill_family(self._supervisor.process.pid)
        self._supervisor.process.wait()
        wait_until(lambda: not any(each.alive for each in killed), END_S, "the end of the job's processes")
        return killed

    def wait(self, seconds: float) -> int:
        """Its exit code. Its output must be read to the end by then, or short."""
        try:
            return self._supervisor.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise ServiceError(f"the job did not end within {seconds:g} s") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self._supervisor.release()
        self._reader.join(END_S)
        assert self._supervisor.process.stdout is not None
        self._supervisor.process.stdout.close()

    def _read(self) -> None:
        assert self._supervisor.process.stdout is not None
        for text in self._supervisor.process.stdout:
            if text.startswith(b"{") and text.endswith(b"}\n"):  # A line that was cut off by a kill says nothing.
                self._lines.put(json.loads(text))
        self._lines.put(None)


def rows_read(progress: Mapping[str, Any]) -> int:
    """How many rows the job has read since it was started, by an event of its progress."""
    return max((int(task.get("rows") or 0) for task in progress["tasks"]), default=0)
