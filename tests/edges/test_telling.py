"""Whoever watches a job holds up nobody."""

import threading
from typing import Any

import pytest

from headgate.run import telling
from headgate.run.telling import WAITING_MAX, Teller

WAIT_S = 120.0


class Watcher:
    """Takes events only when it may."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []
        self.may = threading.Event()
        self.has_one = threading.Event()

    def __call__(self, line: dict[str, Any]) -> None:
        self.has_one.set()
        assert self.may.wait(WAIT_S)
        self.lines.append(line)

    def events(self) -> list[str]:
        return [line["event"] for line in self.lines]


def line(event: str, number: int = 0) -> dict[str, Any]:
    return {"at": number, "event": event, "number": number}


def test_events_come_in_their_order_and_all_before_the_end() -> None:
    watcher = Watcher()
    watcher.may.set()
    teller = Teller(watcher)
    for number in range(WAITING_MAX):
        teller.put(line("notice", number))
    teller.close()
    assert [each["number"] for each in watcher.lines] == list(range(WAITING_MAX))


def test_a_watcher_that_takes_nothing_holds_up_nobody_and_what_waits_is_bounded() -> None:
    watcher = Watcher()
    teller = Teller(watcher)
    teller.put(line("generation"))
    assert watcher.has_one.wait(WAIT_S)
    for number in range(3 * WAITING_MAX):  # None of these waits.
        teller.put(line("progress", number))
        teller.put(line("checkpoint-completed", number))
    teller.put(line("task-failed"))
    teller.put(line("ended"))
    assert len(teller._waiting) <= WAITING_MAX + 1
    watcher.may.set()
    teller.close()
    assert watcher.events()[0] == "generation"
    assert watcher.events()[-2:] == ["task-failed", "ended"]
    progress = [each["number"] for each in watcher.lines if each["event"] == "progress"]
    assert progress == [3 * WAITING_MAX - 1], "the newest says it all"
    (warning,) = [each for each in watcher.lines if each["event"] == "warning"]
    missed = 3 * WAITING_MAX - watcher.events().count("checkpoint-completed")
    assert warning["text"].startswith(f"{missed} events are not shown here")


def test_the_end_does_not_wait_for_a_watcher_that_never_takes_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telling, "CLOSE_S", 0.2)
    watcher = Watcher()
    teller = Teller(watcher)
    teller.put(line("ended"))
    assert watcher.has_one.wait(WAIT_S)
    teller.close()
    assert watcher.lines == []
    assert telling.is_stuck()
    watcher.may.set()
    teller._thread.join(WAIT_S)
    assert not telling.is_stuck()


def test_what_a_watcher_raises_is_heard_and_nothing_more_is_told() -> None:
    heard: list[BaseException] = []
    came = threading.Event()

    def failed(error: BaseException) -> None:
        heard.append(error)
        came.set()

    def watch(_: dict[str, Any]) -> None:
        raise ValueError("I do not like it")

    teller = Teller(watch)
    teller.when_failed(failed)
    teller.put(line("notice"))
    assert came.wait(WAIT_S)
    teller.put(line("notice"))
    teller.close()
    assert [str(error) for error in heard] == ["I do not like it"]
    late: list[BaseException] = []
    teller.when_failed(late.append)
    assert late == heard


def test_a_reader_that_has_gone_is_no_error() -> None:
    heard: list[BaseException] = []

    def watch(_: dict[str, Any]) -> None:
        raise BrokenPipeError

    teller = Teller(watch)
    teller.when_failed(heard.append)
    teller.put(line("notice"))
    teller.close()
    teller._thread.join(WAIT_S)
    assert heard == []
