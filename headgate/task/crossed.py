"""The exception that crossed from a Python worker, read from the account that Spark gives of it.

One rule: what was raised is known by where it stands in the account, right below the last traceback, and not by how its
class is named. Spark keeps of an exception in a Python worker its traceback alone, as text, and wraps it: once for a
function or a reader, once more for the half of a source that plans beside the driver.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

HEAD = "Traceback (most recent call last):"
_FRAME = re.compile(r'  File "(?P<file>[^"]*)", line (?P<line>\d+), in (?P<function>.*)')
_RAISED = re.compile(r"(?P<name>[^\W\d][\w.<>]*)(?:: (?P<message>.*))?")
_BEYOND = re.compile(r"\s+at |\s*SQLSTATE: |Caused by: |Driver stacktrace:|JVM stacktrace:|== |\s+\.\.\. \d+ more")
"""Where Spark's own account goes on."""
_PACKAGE = str(Path(__file__).parents[1])
_INSTALLED = re.compile(r"/(site|dist)-packages/|/lib/python3[^/]*/|/pyspark(\.zip)?/|^<")


@dataclass(frozen=True)
class Frame:
    """A place in somebody's code."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        """As in ``job.py:12, in parse``."""
        return f"{Path(self.file).name}:{self.line}, in {self.function}"

    @property
    def ours(self) -> bool:
        """Whether it is Headgate's. The part that hands rows to the user's functions does not count."""
        return self._inside and not self.hands_over

    @property
    def hands_over(self) -> bool:
        """Whether it is of the part that hands rows to the user's functions, and checks what they give."""
        return self._inside and "/headgate/job/" in self.file.replace("\\", "/")

    @property
    def _inside(self) -> bool:
        where = self.file.replace("\\", "/")
        return where.startswith(f"{_PACKAGE}/") or "/site-packages/headgate/" in where

    @property
    def installed(self) -> bool:
        """Whether it is of Python, Spark, or a library."""
        return _INSTALLED.search(self.file) is not None


@dataclass(frozen=True)
class Crossed:
    """An exception as its traceback shows it. ``name`` has the module, but for built-in ones and those of a script."""

    name: str
    message: str
    frames: tuple[Frame, ...] = ()
    """Outermost first."""

    @property
    def place(self) -> Frame | None:
        """Where it was raised: the innermost frame of the user or of Headgate."""
        theirs = (frame for frame in reversed(self.frames) if not (frame.installed or frame.hands_over) or frame.ours)
        return next(theirs, None)

    @property
    def short_name(self) -> str:
        """The class without its module."""
        return self.name.rpartition(".")[2]


def find(text: str) -> Crossed | None:
    """The exception that was raised last, if there is one in the account."""
    lines = text.splitlines()
    heads = [number for number, line in enumerate(lines) if line.rstrip().endswith(HEAD)]
    for head in reversed(heads):
        found = _read(lines[head + 1 :])
        if found is not None:
            return found
    return None


def _read(lines: Sequence[str]) -> Crossed | None:
    frames = []
    for number, line in enumerate(lines):
        if line.startswith((" ", "\t")):
            if frame := _FRAME.match(line):
                frames.append(Frame(frame["file"], int(frame["line"]), frame["function"]))
            continue
        raised = _RAISED.fullmatch(line.rstrip())
        if raised is None:
            return None
        message = [raised["message"] or "", *_rest(lines[number + 1 :])]
        return Crossed(raised["name"], " ".join(" ".join(message).split()), tuple(frames))
    return None


def _rest(lines: Sequence[str]) -> Iterator[str]:
    """A message may have several lines."""
    for line in lines:
        if _BEYOND.match(line) or line.rstrip().endswith(HEAD):
            return
        yield line
