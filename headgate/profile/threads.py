"""Threads of the JVM of Spark's driver, and of the job's own Python process.

One rule: whether a thread ran is told by the system where it tells that (Python), and by the state of the thread where
nothing else does (the JVM): there one that waits within a system call counts as waiting, whatever its state says.
"""

import re
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from headgate.errors import ExternalError
from headgate.profile.stacks import Stack, Stacks

JvmSampler = Callable[[int, int], str]
"""``headgate.profile.ThreadSamples.take`` of the JVM: how many samples, and how many milliseconds apart."""
SAMPLES_AT_ONCE = 20
"""The JVM is asked for this many samples at a time, so that a job which ends is not held up."""
NUMBERS = re.compile(r"\b(?:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d+(?:\.\d+)*)\b")
WAITS = re.compile(
    r"(?:sun\.nio\.ch\.(?:EPoll\.wait|KQueue\.poll|Net\.(?:poll|accept)|\w+Sockets?\.accept0?|\w*Dispatcher\w*\.read0)"
    r"|io\.netty\.channel\.(?:epoll|kqueue)\.Native\.\w+"
    r"|java\.net\.(?:PlainSocketImpl\.socketAccept|SocketInputStream\.socketRead0)"
    r"|java\.io\.FileInputStream\.read(?:Bytes|0)?|java\.lang\.ProcessHandleImpl\.waitForProcessExit0"
    r"|java\.lang\.ref\.Reference\.waitForReferencePendingList|jdk\.internal\.misc\.Unsafe\.park)(?::\d+)?"
)
"""The innermost frames of threads that are called runnable, and wait for the system."""
HELPERS = ("headgate-flamegraph",)
"""Threads that sample, and are not sampled."""


def sample_jvm(take: JvmSampler, samples: int, interval_ms: int, stop: threading.Event) -> tuple[Stacks, int]:
    """Samples of the JVM, and how many there are."""
    found, taken = Stacks(), 0
    while taken < samples and not stop.is_set():
        wanted = min(SAMPLES_AT_ONCE, samples - taken)
        if taken and stop.wait(interval_ms / 1000):
            break
        found.take(parse_jvm(take(wanted, interval_ms)))
        taken += wanted
    return found, taken


def parse_jvm(text: str) -> Stacks:
    """What the JVM answered. The name of its thread is the first frame of a stack."""
    found = Stacks()
    for line in text.splitlines():
        try:
            times, state, name, frames = line.split("\t")
            count = int(times)
        except ValueError as error:
            raise ExternalError(
                f"the JVM answered {line[:80]!r} for a stack: see that its jar is this release's"
            ) from error
        stack = tuple(frame for frame in frames.split(";") if frame)
        running = state == "RUNNABLE" and bool(stack) and WAITS.fullmatch(stack[-1]) is None
        found.add((thread_name(name), *stack), running=running, times=count)
    return found


def thread_name(name: str) -> str:
    """Threads that differ in a number, or an id, are drawn as one."""
    return NUMBERS.sub("#", name)


class OwnThreads:
    """The threads of this process."""

    def __init__(self) -> None:
        """Nothing was seen."""
        self._ran_ns: dict[int, int] = {}
        self._owed: dict[int, float] = {}
        self._seen_ns = 0

    def sample(self, samples: int, interval_ms: int, stop: threading.Event) -> tuple[Stacks, int]:
        """Samples, and how many there are."""
        found, taken = Stacks(), 0
        self.look(Stacks())
        while taken < samples and not stop.wait(interval_ms / 1000):
            self.look(found)
            taken += 1
        return found, taken

    def look(self, found: Stacks) -> None:
        """Add what every thread is at. It ran, if it has had the processor for its share of samples since."""
        now_ns = time.monotonic_ns()
        passed_ns, self._seen_ns = max(1, now_ns - self._seen_ns), now_ns
        frames = sys._current_frames()  # noqa: SLF001 - the documented way
        for thread in threading.enumerate():
            frame = frames.get(thread.ident or 0)
            if frame is None or thread.native_id is None or thread.name in HELPERS:
                continue
            ran_ns = _processor_ns(thread.native_id)
            owed = self._owed.get(thread.native_id, 0.0)
            owed += (ran_ns - self._ran_ns.get(thread.native_id, ran_ns)) / passed_ns
            running = owed >= 0.5
            self._ran_ns[thread.native_id] = ran_ns
            self._owed[thread.native_id] = owed - running
            found.add((thread_name(thread.name), *stack_of(frame)), running=running)


def stack_of(frame: FrameType | None) -> Stack:
    """A stack of this process, from its outermost frame."""
    found = []
    while frame is not None:
        code = frame.f_code
        found.append(f"{code.co_qualname} ({short(code.co_filename)}:{frame.f_lineno})")
        frame = frame.f_back
    return tuple(reversed(found))


def short(file: str) -> str:
    """A file, from the package that it is in."""
    for root in sorted(sys.path, key=len, reverse=True):
        if root and file.startswith(f"{root}/"):
            return file[len(root) + 1 :]
    return file


def _processor_ns(native: int) -> int:
    """For how long a thread has run; 0 where the system does not say."""
    try:
        return int(Path(f"/proc/self/task/{native}/schedstat").read_bytes().split()[0])
    except (OSError, ValueError, IndexError):
        return 0
