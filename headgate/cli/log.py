"""What Spark's processes and Headgate's own log write while a command runs.

One rule: a user sees one line for what went wrong; the traces behind it are always in a file, and on standard error
only if asked for. Every line says what it is about, as far as that is known: job, task, checkpoint, batch.

Spark's driver process and its Python workers inherit standard error. While a command runs it is a pipe, of which a
thread takes every line; what this process itself says goes to the terminal as ever. The file is bounded, and so is the
number of files of a job.
"""

import contextlib
import json
import logging
import os
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from enum import StrEnum
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any, TextIO

from headgate.about import FIELDS as ABOUT, about, known as about_now
from headgate.redact import redact
from headgate.run.logfiles import MARK, logs_folder
from headgate.view import text

FILE_BYTES = 16 << 20
"""A file that has grown to this is put aside, and the one that was put aside before it goes."""
KEPT = 5
"""Runs of a job whose files are kept."""
DRAIN_S = 5.0
"""How long the end of a command waits, at most, until all that was written is in the file."""
FAILURES = "headgate.failures"
"""The log of traces of what failed. The same is told as an event, in one line."""
EVENTS = "headgate.events"
"""The log of events: what the history has, and whoever watches is told."""
JVM = "headgate.jvm"
"""The log of what Spark's processes write to standard error."""


class LogFormat(StrEnum):
    """How the lines of the file are written."""

    TEXT = "text"
    JSON = "json"


@contextlib.contextmanager
def run_log(name: str, *, verbose: bool, form: LogFormat = LogFormat.TEXT) -> Iterator[Path]:
    """Keep what is written in a file, whose path is given."""
    path = _file(name)
    kept = RotatingFileHandler(path, maxBytes=FILE_BYTES, backupCount=1, encoding="utf-8", errors="replace")
    kept.setFormatter(_Structured(name) if form is LogFormat.JSON else _Kept(name))
    with _terminal() as terminal:
        shown = logging.StreamHandler(terminal)
        shown.setFormatter(_Shown(verbose=verbose))
        shown.addFilter(lambda record: record.name != EVENTS)  # They are printed as it is.
        shown.addFilter(lambda record: verbose or (record.levelno >= logging.WARNING and record.name == "headgate"))
        with _logged_by(kept, shown), _captured():
            yield path
    kept.close()


@contextlib.contextmanager
def _logged_by(*handlers: logging.Handler) -> Iterator[None]:
    root, own = logging.getLogger(), logging.getLogger("headgate")
    level = own.level
    own.setLevel(logging.INFO)
    for handler in handlers:
        root.addHandler(handler)
    try:
        yield
    finally:
        for handler in handlers:
            root.removeHandler(handler)
        own.setLevel(level)


def log_event(line: Mapping[str, Any]) -> None:
    """Have an event in the log too, among the lines that were written at its time."""
    fields = {"task": line.get("task"), "checkpoint": line.get("id", line.get("base")), "batch": line.get("batch")}
    with about(**fields):
        logging.getLogger(EVENTS).info("%s", text.past_event(dict(line)), extra={"event": line.get("event")})


class _Kept(logging.Formatter):
    """Text: the time, how grave it is, what it is about, and the message. Spark's lines have a time of their own."""

    def __init__(self, job: str) -> None:
        super().__init__("%(asctime)s %(levelname)s [%(about)s] %(message)s")
        self._job = job

    def format(self, record: logging.LogRecord) -> str:
        record.about = " ".join(f"{name}={value}" for name, value in _about(self._job).items() if value is not None)
        return redact(record.getMessage() if record.name == JVM else super().format(record))


class _Structured(logging.Formatter):
    """A JSON object in a line: ``at`` (ms), ``level``, ``logger``, ``thread``, ``job``, ``task``, ``checkpoint``,
    ``batch`` (null where it is not known), ``message``, and ``event`` and ``trace`` where there is one.
    """

    def __init__(self, job: str) -> None:
        super().__init__()
        self._job = job

    def format(self, record: logging.LogRecord) -> str:
        written: dict[str, object] = {
            "at": int(record.created * 1000),
            "level": record.levelname,
            "logger": record.name,
            "thread": record.threadName,
            **_about(self._job),
            "message": redact(record.getMessage()),
        }
        if (event := getattr(record, "event", None)) is not None:
            written["event"] = event
        if record.exc_info:
            written["trace"] = redact(self.formatException(record.exc_info))
        return json.dumps(written, default=str)


def _about(job: str) -> dict[str, object]:
    """What a line is about: of every line the job, and of others what is known."""
    known = about_now()
    return {"job": job, **{name: known.get(name) for name in ABOUT if name != "job"}}


class _Shown(logging.Formatter):
    """For the terminal: one line each, unless everything is wanted."""

    def __init__(self, *, verbose: bool) -> None:
        super().__init__()
        self._verbose = verbose

    def format(self, record: logging.LogRecord) -> str:
        said = redact(record.getMessage())
        if record.name == JVM:
            return said
        return f"headgate: {said}" if self._verbose else f"headgate: {' '.join(said.split())}"


@contextlib.contextmanager
def _terminal() -> Iterator[TextIO]:
    """Standard error as it is now, for this process to go on with."""
    was: TextIO = sys.stderr
    if was is not sys.__stderr__:  # Somebody has put something else in its place, such as a test.
        yield was
        return
    was.flush()
    with os.fdopen(os.dup(2), "w", buffering=1, errors="replace") as terminal:
        sys.stderr = terminal
        try:
            yield terminal
        finally:
            sys.stderr = was


@contextlib.contextmanager
def _captured() -> Iterator[None]:
    """What processes that start meanwhile write to standard error goes to the log."""
    outside = os.dup(2)
    take, give = os.pipe()
    os.dup2(give, 2)
    os.close(give)
    drained = threading.Event()
    threading.Thread(target=_read, args=(take, drained), name="headgate-log", daemon=True).start()
    try:
        yield
    finally:
        os.write(2, f"\n{MARK}\n".encode())
        os.dup2(outside, 2)
        os.close(outside)
        drained.wait(DRAIN_S)


def _read(take: int, drained: threading.Event) -> None:
    """Until nobody is left who could write: Spark's driver process lives until this one ends.

    A line that cannot be logged must not hold Spark up.
    """
    log = logging.getLogger(JVM)
    with os.fdopen(take, errors="replace") as lines:
        for line in lines:
            if line == f"{MARK}\n":
                drained.set()
            with contextlib.suppress(Exception):
                log.info("%s", line.rstrip("\n"))


def _file(name: str) -> Path:
    """A new file, in place of the oldest ones."""
    directory = logs_folder()
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        found = [each for each in directory.glob(f"{name}.*.log") if each.name.count(".") == name.count(".") + 2]
        for old in sorted(found, key=lambda each: each.stat().st_mtime)[: -KEPT + 1 or None]:
            for each in (old, old.with_name(f"{old.name}.1")):
                each.unlink(missing_ok=True)
        path = directory / f"{name}.{os.getpid()}.log"
        path.touch(mode=0o600)
    except OSError:  # A home that cannot be written to, or none at all.
        path = Path(tempfile.mkdtemp(prefix="headgate-log-")) / f"{name}.{os.getpid()}.log"
    return path
