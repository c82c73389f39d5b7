"""Freezes a job's process, with everything below it, at a moment that somebody outside has asked for.

One rule: a wish is a file, and whoever takes it away freezes. So a wish is met once, by whichever process gets there
first, and nothing happens to a job of which nobody asks anything.

The moments are those at which a process that has slept through its own replacement could do harm: around the writing
of a batch, the pre-commit, the publication of a checkpoint and the commit.
"""

import json
import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from headgate.core.records import CompletedCheckpoint
from headgate.demo.show import children
from headgate.run import perform, storage, tasks

R = TypeVar("R")

PHASES = ("write", "pre-commit", "publish", "commit")
MOMENTS = ("before", "during", "after")
WISH = "freeze.json"


@dataclass(frozen=True)
class Wish:
    """When to freeze: around which call, before it, a moment after it has begun, or after it. Of any sink if None."""

    phase: str
    moment: str
    sink: str | None = None
    after_s: float = 0.0
    """For ``during``: the time from the beginning of the call."""

    def write(self, directory: Path) -> None:
        """Wish it, of the job that works in this directory."""
        new = directory / f".{WISH}"
        new.write_text(json.dumps(asdict(self)), encoding="utf-8")
        new.rename(directory / WISH)


def freeze_all() -> None:
    """Stop every process below this one, whatever its group, and then this one. Returns when it is woken."""
    freeze_below(os.getpid())
    os.kill(os.getpid(), signal.SIGSTOP)


def freeze_below(pid: int) -> None:
    """Stop every process below one."""
    for each in children(pid):
        send(each, signal.SIGSTOP)


def thaw_all(pid: int) -> None:
    """Wake a process that was frozen, and every process below it."""
    for each in (*children(pid), pid):
        send(each, signal.SIGCONT)


def is_frozen(pid: int) -> bool:
    """Whether a process is stopped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    except OSError:
        return False  # It has ended.


def listen(directory: Path) -> None:
    """Look for a wish at every moment that there can be one for, in this process from now on."""
    around = _Around(directory / WISH)

    class Watched:
        """A sink around whose calls the process may freeze."""

        def __init__(self, name: str, sink: Any) -> None:
            self._name = name
            self._sink = sink

        def __getattr__(self, attribute: str) -> Any:
            return getattr(self._sink, attribute)

        def invoke(self, *arguments: Any) -> None:
            around("write", self._name, lambda: self._sink.invoke(*arguments))

        def pre_commit(self, *arguments: Any) -> Any:
            return around("pre-commit", self._name, lambda: self._sink.pre_commit(*arguments))

        def commit(self, *arguments: Any) -> None:
            around("commit", self._name, lambda: self._sink.commit(*arguments))

        def recover_and_commit(self, *arguments: Any) -> None:
            around("commit", self._name, lambda: self._sink.recover_and_commit(*arguments))

    def watch_sinks(kind: type[perform.Performer] | type[tasks.Tasks]) -> None:
        begin = kind.__init__

        def watched(self: Any, **parts: Any) -> None:
            begin(self, **parts)
            self._sinks = {name: Watched(name, sink) for name, sink in self._sinks.items()}

        kind.__init__ = watched  # type: ignore[method-assign]

    watch_sinks(perform.Performer)
    watch_sinks(tasks.Tasks)
    create = storage.Storage.create_record

    def create_record(self: storage.Storage, order: Any) -> None:
        if isinstance(order.record, CompletedCheckpoint):
            around("publish", None, lambda: create(self, order))
        else:
            create(self, order)

    storage.Storage.create_record = create_record  # type: ignore[method-assign]


class _Around:
    """Does something, and freezes before, during or after it if that is wished."""

    def __init__(self, wish: Path) -> None:
        self._wish = wish

    def __call__(self, phase: str, sink: str | None, call: Callable[[], R]) -> R:
        wish = self._claim(phase, sink)
        if wish is None:
            return call()
        if wish.moment == "before":
            freeze_all()
            return call()
        if wish.moment == "after":
            answer = call()
            freeze_all()
            return answer
        timer = threading.Timer(wish.after_s, freeze_all)
        timer.start()
        return call()

    def _claim(self, phase: str, sink: str | None) -> Wish | None:
        try:
            wish = Wish(**json.loads(self._wish.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None
        if wish.phase != phase or (wish.sink is not None and sink is not None and wish.sink != sink):
            return None
        try:
            self._wish.rename(self._wish.with_name(f".frozen-{os.getpid()}"))
        except FileNotFoundError:
            return None  # Somebody else was first.
        return wish


def send(pid: int, number: signal.Signals) -> None:
    """Send a signal to a process, unless it has ended."""
    with suppress(ProcessLookupError):
        os.kill(pid, number)
