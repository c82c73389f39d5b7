"""One sampling at a time, at most one in a minute for each subject, and nobody waits for it."""

import threading
from collections.abc import Callable

import pytest

from headgate.errors import ExternalError
from headgate.profile.sampling import (
    AGAIN_S,
    FORGET_S,
    NO_JVM,
    REFRESH_S,
    Profile,
    Profiler,
    Sampler,
    Subject,
    profiler_of,
)
from headgate.profile.stacks import FlameGraphType, Stacks

WAIT_S = 60


class Sampled:
    """Samplers that a test lets go on, and a clock that it sets."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.begun: list[Subject] = []
        self.at_once = self.most_at_once = 0
        self.begins = threading.Semaphore(0)
        self.goes_on = threading.Semaphore(0)
        self.fails: Exception | None = None
        samplers = {subject: self.sampler(subject) for subject in Subject}
        self.profiler = Profiler(samplers, lambda: self.now_s)

    def sampler(self, subject: Subject) -> Sampler:
        def sample(stop: threading.Event) -> tuple[Stacks, int]:
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
            self.begun.append(subject)
            self.begins.release()
            assert self.goes_on.acquire(timeout=WAIT_S)
            self.at_once -= 1
            if self.fails is not None:
                raise self.fails
            found = Stacks()
            found.add([subject.value], running=not stop.is_set())
            return found, 1

        return sample

    def until(self, condition: Callable[[], bool]) -> None:
        for _ in range(WAIT_S * 200):
            if condition():
                return
            threading.Event().wait(0.005)
        raise AssertionError("it never came to that")

    def finish(self, subject: Subject) -> Profile:
        """Let the sampling of a subject end."""
        assert self.begins.acquire(timeout=WAIT_S)
        self.goes_on.release()
        self.until(lambda: not self.profiler.look(subject)[1])
        found, _ = self.profiler.look(subject)
        assert found is not None
        return found


def test_whoever_asks_first_gets_nothing_yet_and_then_what_was_sampled() -> None:
    it = Sampled()
    assert it.profiler.look(Subject.DRIVER) == (None, True)
    assert it.profiler.look(Subject.DRIVER) == (None, True)
    found = it.finish(Subject.DRIVER)
    assert found.stacks.counted(FlameGraphType.FULL) == {("driver",): 1}
    it.now_s += REFRESH_S - 1
    assert it.profiler.look(Subject.DRIVER) == (found, False)
    assert it.begun == [Subject.DRIVER]


def test_what_is_old_is_shown_while_it_is_sampled_anew_and_then_forgotten() -> None:
    it = Sampled()
    it.profiler.look(Subject.DRIVER)
    found = it.finish(Subject.DRIVER)
    it.now_s += REFRESH_S
    assert it.profiler.look(Subject.DRIVER) == (found, True)
    again = it.finish(Subject.DRIVER)
    assert again is not found
    it.now_s += FORGET_S
    assert it.profiler.look(Subject.DRIVER) == (None, True)
    it.finish(Subject.DRIVER)


def test_subjects_are_sampled_one_after_the_other() -> None:
    it = Sampled()
    for subject in Subject:
        assert it.profiler.look(subject) == (None, True)
    for subject in Subject:
        it.finish(subject)
    assert it.begun == list(Subject)
    assert it.most_at_once == 1


def test_why_it_failed_is_told_and_it_is_tried_again_soon() -> None:
    it = Sampled()
    it.fails = ExternalError("no such luck: try again")
    it.profiler.look(Subject.PYTHON_WORKERS)
    assert it.finish(Subject.PYTHON_WORKERS).why == "no such luck: try again"
    it.now_s += AGAIN_S
    it.fails = ConnectionError("gone\nfor good")
    assert it.profiler.look(Subject.PYTHON_WORKERS)[1]
    assert it.finish(Subject.PYTHON_WORKERS).why == "it could not be sampled: ConnectionError: gone for good"
    it.now_s += AGAIN_S
    it.fails = None
    assert it.profiler.look(Subject.PYTHON_WORKERS)[1]
    assert it.finish(Subject.PYTHON_WORKERS).why is None


def test_when_the_job_is_over_nothing_is_begun() -> None:
    it = Sampled()
    it.profiler.close()
    assert it.profiler.look(Subject.DRIVER) == (None, False)
    assert it.begun == []


def test_a_jvm_without_our_jar_is_refused_in_one_line() -> None:
    profiler = profiler_of(lambda: None)
    profiler.look(Subject.DRIVER)
    Sampled().until(lambda: not profiler.look(Subject.DRIVER)[1])
    found, _ = profiler.look(Subject.DRIVER)
    assert found is not None
    assert found.why == NO_JVM


@pytest.mark.parametrize("subject", list(Subject))
def test_every_subject_can_be_asked_for(subject: Subject) -> None:
    profiler = profiler_of(lambda: None)
    assert profiler.look(subject)[1]
    profiler.close()
