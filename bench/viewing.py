"""One who looks at a job's page: the event stream, and what the page asks for when a checkpoint has completed.

One rule: it does to the job's process what an open browser does, by the same requests at the same pace, and draws
nothing: a browser is on another machine as a rule. What it reads is counted, since who heard nothing watched nothing.
"""

import json
import threading
import time
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

from headgate.store.api import open_store
from headgate.store.jobstore import JobStore

LOOK_S = 0.02
"""How often it looks whether the job has begun to serve."""
LEAST_S = 1.0
"""However often something changes, the page asks no more often than this."""
RECENT = 60
"""As many checkpoints as the job's page shows."""
ASKS_AFTER = ("checkpoint-completed", "checkpoint-failed", "checkpoint-committed")
ANSWER_S = 30.0


class Viewer:
    """Watches the one job of a storage, from when it serves its pages until it has ended."""

    def __init__(self, storage: Path, job: str) -> None:
        self._storage, self._job = str(storage), job
        self._path = f"/v1/jobs/{quote(job, safe='')}"
        self._ended = threading.Event()
        self._news = threading.Event()
        self._threads = [threading.Thread(target=self._listen, daemon=True), threading.Thread(target=self._ask)]
        self.events = 0
        """How many messages the stream had."""
        self.answers = 0
        """How many questions were answered."""

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._news.set()
        for thread in self._threads:
            thread.join()

    def _listen(self) -> None:
        """Read the stream of events to its end."""
        control = self._found()
        if control is None:
            return
        connection = _connect(control)
        try:
            connection.request("GET", f"{self._path}/stream", headers=_headers(control))
            stream = connection.getresponse()
            while line := stream.readline():
                if line.startswith(b"event:"):
                    self.events += 1
                elif line.startswith(b"data:") and any(name.encode() in line[:200] for name in ASKS_AFTER):
                    self._news.set()
        except (OSError, HTTPException):
            pass  # The job has ended.
        finally:
            connection.close()

    def _ask(self) -> None:
        """Ask for the newest checkpoints when there is news, as the page does."""
        control = self._found()
        while control is not None and self._news.wait() and not self._ended.is_set():
            self._news.clear()
            connection = _connect(control)
            try:
                path = f"{self._path}/checkpoints?limit={RECENT}&summary=false"
                connection.request("GET", path, headers=_headers(control))
                answer = connection.getresponse()
                json.loads(answer.read())
                self.answers += answer.status == 200
            except (OSError, HTTPException, ValueError):
                return
            finally:
                connection.close()
            self._ended.wait(LEAST_S)

    def _found(self) -> dict[str, Any] | None:
        """Where the job serves, once it does."""
        while not self._ended.is_set():
            found = JobStore(open_store(self._storage), self._job).read_control()
            if found is not None:
                return found
            time.sleep(LOOK_S)
        return None


def _connect(control: dict[str, Any]) -> HTTPConnection:
    return HTTPConnection(control["host"], control["port"], timeout=ANSWER_S)


def _headers(control: dict[str, Any]) -> dict[str, str]:
    return {"Authorization": f"Bearer {control['token']}"}
