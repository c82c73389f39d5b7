"""What ``headgate run`` shows, and what interrupts it."""

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from headgate.cli import run
from headgate.core.restart import FailureClass
from headgate.task import session
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
def test_a_committabler_that_spark_sets_does_not_stay() -> None:
    run.Interruption()
    with session._own_signals():
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # As Spark does when it starts.
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)


PRINTS = """
import sys
import headgate.cli as cli
from headgate.cli.run import _print_json
from headgate.run import telling

telling.CLOSE_S = 0.5

def app():
    teller = telling.Teller(_print_json)
    for number in range(20):
        teller.put({"at": 0, "event": "notice", "text": "x" * 100_000})
    teller.close()
    print("ended", file=sys.stderr, flush=True)
    raise SystemExit(3)

cli.app = app
cli.main()
"""


@pytest.mark.parametrize("goes", [False, True])
def test_a_reader_that_reads_nothing_or_goes_holds_nothing_up(goes: bool) -> None:
    root = Path(run.__file__).parent.parent.parent
    process = subprocess.Popen(
        [sys.executable, "-c", PRINTS],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(root)},
    )
    assert process.stdout is not None
    assert process.stderr is not None
    with process:
        if goes:
            process.stdout.close()
        assert process.wait(120) == 3
        assert process.stderr.read() == "ended\n"
