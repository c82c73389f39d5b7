"""``headgate run`` in a process group of its own, to be watched and killed."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from tests import jvm

SHAPES = Path(__file__).with_name("shapes.py")
Line = dict[str, Any]


class JobProcess:
    """One run of a job. Its file finds what it is to be in an environment variable."""

    def __init__(
        self,
        shape: dict[str, Any],
        *arguments: str,
        file: Path = SHAPES,
        variable: str = "HEADGATE_SHAPE",
        archive: Path = jvm.DRIVER,
    ) -> None:
        directory = Path(shape["directory"])
        directory.mkdir(parents=True, exist_ok=True)
        self.log = directory / "log.txt"
        root = SHAPES.parent.parent.parent
        environment = {
            **os.environ,
            "SPARK_SUBMIT_OPTS": jvm.options(archive),
            variable: json.dumps(shape),
            "PYTHONPATH": str(root),
        }
        with self.log.open("a", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "headgate", "run", str(file), "--json", "--verbose", *arguments],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=environment,
                start_new_session=True,
            )
        self.lines: list[Line] = []
        self._heard: SimpleQueue[Line | None] = SimpleQueue()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as told:
            for text in told:
                if text.startswith("{") and text.endswith("}\n"):  # A line that was cut off by a kill says nothing.
                    self._heard.put(json.loads(text))
        self._heard.put(None)

    def wait_for(self, wanted: Callable[[Line], bool], timeout_s: float = 300) -> Line | None:
        """The next line that is wanted. None if the process ended first."""
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                line = self._heard.get(timeout=max(0.0, deadline - time.monotonic()))
            except Empty:
                self.kill()
                raise AssertionError(f"nothing came in {timeout_s} s; last lines: {self.tail()}") from None
            if line is None:
                return None
            self.lines.append(line)
            if wanted(line):
                return line

    def end(self, timeout_s: float = 900) -> int:
        """Wait for the end, and return the exit code."""
        self.wait_for(lambda _: False, timeout_s)
        return self.process.wait()

    def kill(self) -> None:
        """SIGKILL for the whole group: Python, the JVM, its workers."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._listener.join()

    def tail(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")[-3000:] + "\n" + str(self.lines[-5:])


def completed(line: Line) -> bool:
    """A checkpoint is complete, and every task has done something by then."""
    return line["event"] == "checkpoint-completed" and all(task["files"] > 0 for task in line["tasks"].values())
