"""Gates: how far each reader may go.

One rule: a gate is told, not polled. A reader's planner runs in a Python process of its own; it asks through a socket
how far it may go, and its question is answered when there is something new for its task, or after a short wait.

All channels of one task share a revision that counts every opening, so that a planner that waits for one channel is
woken by another: Spark asks the sources of a query one after the other.
"""

import contextlib
import json
import os
import socket
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headgate.channel import accepting
from headgate.core.ids import NO_BATCH, Batch, ChannelId, Generation, TaskId

GateReader = tuple[Generation, TaskId]
TEMP_MAX = 70
"""Bytes of the temporary directory: with what is added, the path of the socket stays below the 104 of macOS."""


class Gates:
    """The gates of one process, and the server that its planners ask."""

    def __init__(self, warn: Callable[[str], None] = lambda _: None) -> None:
        """Listen on a socket in a directory of its own. ``warn`` hears why nobody can be answered for a while."""
        self._warn = warn
        self._through: dict[tuple[Generation, ChannelId], Batch] = {}
        self._revision: dict[GateReader, int] = {}
        self._released: set[GateReader] = set()
        self._moved = threading.Condition()
        # The kernel bounds the path of a socket, so a long TMPDIR is not used for it.
        short = len(os.fsencode(tempfile.gettempdir())) <= TEMP_MAX
        self._directory = tempfile.TemporaryDirectory(prefix="headgate-", dir=None if short else "/tmp")  # noqa: S108
        self.address = str(Path(self._directory.name) / "gates")
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.address)
        self._listener.listen()
        threading.Thread(target=self._accept, name="headgate-gates", daemon=True).start()

    def open(self, generation: Generation, channel: ChannelId, reader: TaskId, through: Batch) -> None:
        """Let a reader go up to and with this upstream batch. Gates only rise."""
        with self._moved:
            key = (generation, channel)
            if through <= self._through.get(key, NO_BATCH):
                return
            self._through[key] = through
            self._revision[generation, reader] = self._revision.get((generation, reader), 0) + 1
            self._moved.notify_all()

    def hold(self, generation: Generation, reader: TaskId) -> None:
        """The reader's query is starting: let its planners wait again."""
        with self._moved:
            self._released.discard((generation, reader))

    def release(self, generation: Generation, reader: TaskId) -> None:
        """The reader's query is being stopped: let none of its planners wait."""
        with self._moved:
            self._released.add((generation, reader))
            self._moved.notify_all()

    def close(self) -> None:
        """Stop listening."""
        with contextlib.suppress(OSError):  # Wakes the thread that listens.
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._directory.cleanup()

    def _accept(self) -> None:
        for connection in accepting.accept(self._listener, self._warn):
            accepting.start(threading.Thread(target=self._serve, args=(connection,), daemon=True), connection)

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError, ValueError), connection, connection.makefile("rw", encoding="utf-8") as lines:
            for line in lines:
                lines.write(json.dumps(self._answer(json.loads(line))) + "\n")
                lines.flush()

    def _answer(self, question: dict[str, Any]) -> dict[str, int]:
        generation = Generation(question["generation"])
        reader = (generation, TaskId(question["reader"]))
        with self._moved:
            self._moved.wait_for(
                lambda: reader in self._released or self._revision.get(reader, 0) > question["seen"],
                timeout=question["wait_ms"] / 1000,
            )
            through = self._through.get((generation, ChannelId(question["channel"])), NO_BATCH)
            return {"through": through, "seen": self._revision.get(reader, 0)}


class Planner:
    """The asking side, in a planner's process."""

    def __init__(self, address: str, generation: int, reader: str, channel: str) -> None:
        """Connect on the first question."""
        self._address = address
        self._who = {"generation": generation, "reader": reader, "channel": channel}
        self._seen = 0
        self._socket: socket.socket | None = None
        self._lines: Any = None

    def through(self, wait_ms: int) -> Batch:
        """How far the gate is open, at once if something has changed since the last question."""
        if self._socket is None:
            self._socket = _connect(self._address)
            self._lines = self._socket.makefile("rw", encoding="utf-8")
        self._lines.write(json.dumps({**self._who, "seen": self._seen, "wait_ms": wait_ms}) + "\n")
        self._lines.flush()
        line = self._lines.readline()
        if not line:
            raise ConnectionError(f"the gates of {self._who['reader']} are gone: the driver has ended")
        answer = json.loads(line)
        self._seen = answer["seen"]
        return Batch(answer["through"])

    def close(self) -> None:
        """Ask no more."""
        if self._socket is not None:
            self._lines.close()
            self._socket.close()


def _connect(address: str) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(address)
    except OSError:
        connection.close()
        raise
    return connection
