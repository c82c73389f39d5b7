"""What ``headgate run`` shows, and what interrupts it."""

import io
import json
import os
import signal
from collections.abc import Iterator

import pytest
from rich.console import Console

from headgate.cli import run
from headgate.core.restart import FailureClass
from tests.helpers import line
from tests.view.watched import Watched, watched


@pytest.fixture
def core() -> Watched:
    """A job with a failure and a few seconds of progress."""
    made = watched(line("a"))
    made.tell(made.failed("a", FailureClass.EXTERNAL))
    for _ in range(12):
        made.wait(1_000)
    return made


def everything(core: Watched) -> list[dict[str, object]]:
    return sorted((*core.lines, *core.progress), key=lambda one: one["at"])


def test_json_is_one_object_a_line(core: Watched, capsys: pytest.CaptureFixture[str]) -> None:
    with run.watcher(as_json=True) as show:
        for one in everything(core):
            show(one)
    assert [json.loads(shown) for shown in capsys.readouterr().out.splitlines()] == everything(core)


def test_without_a_terminal_progress_comes_every_few_seconds(core: Watched, capsys: pytest.CaptureFixture[str]) -> None:
    with run.watcher(as_json=False) as show:
        for one in everything(core):
            show(one)
    shown = [text[9:] for text in capsys.readouterr().out.splitlines()]
    assert "task a failed (external): boom" in shown
    assert len([text for text in shown if text.startswith(("starting |", "running |"))]) == 3


def test_on_a_terminal_events_stay_and_progress_is_one_line_that_goes(core: Watched) -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=100, markup=False, highlight=False)
    with run._Terminal(console) as show:
        for one in everything(core):
            show(one)
    assert "task a failed (external): boom\n" in out.getvalue()
    assert out.getvalue().count("running | a ") >= len(core.progress) - 1
    assert out.getvalue().endswith("\x1b[2K")


@pytest.fixture
def handlers() -> Iterator[None]:
    """Whatever a test does to signals is undone."""
    before = {number: signal.getsignal(number) for number in run.SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("handlers")
@pytest.mark.parametrize("number", run.SIGNALS)
def test_the_first_signal_ends_the_run_and_the_second_would_kill(number: signal.Signals) -> None:
    interruption = run.Interruption()
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), number)
    assert interruption.number == number
    assert [signal.getsignal(each) for each in run.SIGNALS] == [signal.SIG_DFL, signal.SIG_DFL]


@pytest.mark.usefixtures("handlers")
def test_a_handler_that_spark_sets_is_replaced_when_a_generation_begins() -> None:
    interruption = run.Interruption()
    seen: list[str] = []
    show = interruption.guard(lambda one: seen.append(one["event"]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    show({"event": "notice"})
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    show({"event": "generation"})
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
    assert seen == ["notice", "generation"]
