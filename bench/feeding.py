"""Rows that come and rows that are seen: small files into a directory, and a look at what readers see of another.

One rule: a row is made when its file appears, and is visible when a file without a dot that holds it does. Both are
seen by one process with one clock, in steps of a few milliseconds.
"""

import json
import re
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from bench.case import WrongOutput
from bench.reading import visible

EVERY_S = 0.05
LOOK_S = 0.003
_NUMBER = re.compile(r"\"n\":\s*(\d+)|\+I\[(\d+)[,\]]")


class Feed:
    """Writes files of rows ``n, user, made`` at a rate."""

    def __init__(self, where: Path, rows_per_s: int) -> None:
        self._where = where
        self._each = max(1, round(rows_per_s * EVERY_S))
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self.made: list[float] = []
        """When row n was made."""
        where.mkdir(parents=True)

    def _work(self) -> None:
        due = time.monotonic()
        while not self._ended.wait(max(0.0, due - time.monotonic())):
            begin, now = len(self.made), time.time()
            rows = range(begin, begin + self._each)
            lines = [json.dumps({"n": n, "user": f"user-{n * 7919 % 1000}", "made": now}) for n in rows]
            hidden = self._where / f".{begin:012}.json"
            hidden.write_text("\n".join(lines) + "\n", encoding="utf-8")
            self.made += [time.time()] * self._each
            hidden.rename(self._where / f"{begin:012}.json")
            due += EVERY_S

    def first_after(self, at: float) -> float:
        """When the first row after a moment was made."""
        return next(made for made in self.made if made >= at)

    def end(self) -> None:
        """Write no more."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()


class Watch:
    """Looks at a directory for rows, and writes down when each became visible."""

    def __init__(self, where: Path, files: Callable[[Path], list[Path]] = visible) -> None:
        self._where = where
        self._files = files
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._known: set[Path] = set()
        self._news = threading.Condition()
        self.seen: list[tuple[int, float]] = []
        """Rows and when they were seen, in that order."""

    def _work(self) -> None:
        while not self._ended.wait(LOOK_S):
            self._look()
        self._look()

    def _look(self) -> None:
        try:
            files = [path for path in self._files(self._where) if path not in self._known]
        except FileNotFoundError:  # A directory has gone meanwhile.
            return
        now = time.time()
        for path in files:
            self._known.add(path)
            rows = [int(a or b) for a, b in _NUMBER.findall(path.read_text(encoding="utf-8"))]
            with self._news:
                self.seen += [(n, now) for n in rows]
                self._news.notify_all()

    def until(self, question: Callable[[], bool], seconds: float) -> bool:
        """Wait until the answer is yes, asked after each news. Whether it came in time."""
        deadline = time.monotonic() + seconds
        with self._news:
            while not question():
                rest = deadline - time.monotonic()
                if rest <= 0:
                    return False
                self._news.wait(min(rest, 0.5))
        return True

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()


def check_once(feed: Feed, watch: Watch, seconds: float = 300.0) -> None:
    """See that every row comes out once, within so many seconds. `WrongOutput` says what does not."""
    feed.end()
    wanted = len(feed.made)
    watch.until(lambda: len(watch.seen) >= wanted, seconds)
    counts = Counter(n for n, _ in watch.seen)
    lost = sum(n not in counts for n in range(wanted))
    doubled = sum(count - 1 for count in counts.values())
    if lost or doubled:
        raise WrongOutput(f"of {wanted} rows {lost} had not come after {seconds:g} s, and {doubled} came twice")
