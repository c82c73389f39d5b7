"""Flame graphs on demand.

One rule: one sampling at a time, and of each subject at most one in ``REFRESH_S``, whoever asks and however often.
Nobody waits for one: whoever asks gets what there is, and what is too old is sampled anew meanwhile.
"""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum

from headgate.errors import ExternalError, HeadgateError
from headgate.profile import workers
from headgate.profile.stacks import Stacks
from headgate.profile.threads import HELPERS, JvmSampler, OwnThreads, sample_jvm

SAMPLES = 100
INTERVAL_MS = 50
REFRESH_S = 60.0
"""What was sampled is shown for this long before it is sampled again."""
AGAIN_S = 5.0
"""What could not be sampled is tried again after this time."""
FORGET_S = 600.0
"""What is older is not shown any more."""
NO_JVM = "the JVM of Spark's driver cannot be sampled: it runs without Headgate's jar, or has not started yet"

Sampler = Callable[[threading.Event], tuple[Stacks, int]]
"""Takes samples until it has enough or is told to stop, and says how many it took."""


class Subject(Enum):
    """What can be sampled."""

    DRIVER = "driver"
    """The JVM of Spark's driver; on a `local` master also that of its only executor."""
    DRIVER_PYTHON = "driver-python"
    """The job's own Python process."""
    PYTHON_WORKERS = "python-workers"
    """Python processes that Spark started for the job, on this machine."""


@dataclass(frozen=True)
class Profile:
    """What was seen of one subject. ``why`` says why nothing was."""

    begun_ms: int
    ended_ms: int
    stacks: Stacks
    samples: int
    why: str | None = None


class Profiler:
    """Samples for whoever asks."""

    def __init__(self, samplers: Mapping[Subject, Sampler], clock_s: Callable[[], float] = time.monotonic) -> None:
        """Nothing is sampled yet, and no thread runs for it."""
        self._samplers = samplers
        self._clock_s = clock_s
        self._lock = threading.Lock()
        self._wanted: dict[Subject, None] = {}
        self._found: dict[Subject, tuple[float, Profile]] = {}
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()

    def look(self, subject: Subject) -> tuple[Profile | None, bool]:
        """What was seen last of a subject, and whether it is being sampled, or will be in a moment."""
        with self._lock:
            at_s, profile = self._found.get(subject, (0.0, None))
            age_s = self._clock_s() - at_s
            fresh_s = AGAIN_S if profile is not None and profile.why is not None else REFRESH_S
            if (profile is None or age_s >= fresh_s) and not self._stop.is_set():
                self._wanted[subject] = None
                if self._thread is None:
                    self._thread = threading.Thread(target=self._serve, name=HELPERS[0], daemon=True)
                    self._thread.start()
            return (None if age_s >= FORGET_S else profile), subject in self._wanted

    def close(self) -> None:
        """Sample no more. What is under way ends within a second or so; nobody waits for it."""
        self._stop.set()

    def _serve(self) -> None:
        while True:
            with self._lock:
                subject = next(iter(self._wanted), None)
                if subject is None or self._stop.is_set():
                    self._thread = None
                    return
            profile = self._sample(subject)
            with self._lock:
                del self._wanted[subject]
                self._found[subject] = self._clock_s(), profile

    def _sample(self, subject: Subject) -> Profile:
        begun_ms = _now_ms()
        try:
            stacks, samples = self._samplers[subject](self._stop)
        except HeadgateError as error:
            return Profile(begun_ms, _now_ms(), Stacks(), 0, str(error))
        except Exception as error:  # noqa: BLE001 - Py4J raises whatever its socket does when Spark is gone
            said = " ".join(f"{type(error).__name__}: {error}".split())
            return Profile(begun_ms, _now_ms(), Stacks(), 0, f"it could not be sampled: {said[:300]}")
        return Profile(begun_ms, _now_ms(), stacks, samples)


def profiler_of(jvm: Callable[[], JvmSampler | None]) -> Profiler:
    """Of this process, and what it started. ``jvm`` gives how the JVM is sampled, if it can be."""

    def driver(stop: threading.Event) -> tuple[Stacks, int]:
        take = jvm()
        if take is None:
            raise ExternalError(NO_JVM)
        return sample_jvm(take, SAMPLES, INTERVAL_MS, stop)

    return Profiler(
        {
            Subject.DRIVER: driver,
            Subject.DRIVER_PYTHON: lambda stop: OwnThreads().sample(SAMPLES, INTERVAL_MS, stop),
            Subject.PYTHON_WORKERS: lambda stop: workers.sample(SAMPLES, INTERVAL_MS, stop),
        }
    )


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
