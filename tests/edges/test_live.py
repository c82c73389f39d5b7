"""The live status of a job: in a real shell of IPython, and on a terminal."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from rich.text import Text
from traitlets.config import Config

from headgate.run import live
from headgate.view import text

EVERY_S = 60.0
"""So long that nothing is seen but what a test lets be seen."""


class Job:
    """What is shown of a job that a test drives by hand."""

    def __init__(self) -> None:
        self.state = "starting"
        self.over = False
        self._turn = threading.Semaphore(0)
        self._looked = threading.Semaphore(0)

    def look(self) -> Text:
        return Text(f"state {self.state}")

    def wait(self, timeout_s: float) -> bool:
        assert timeout_s == EVERY_S
        self._looked.release()
        assert self._turn.acquire(timeout=30)
        return self.over

    def becomes(self, state: str, *, over: bool = False) -> None:
        self._looked.acquire()
        self.state, self.over = state, over
        self._turn.release()


@pytest.fixture
def notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    config = Config()
    config.HistoryManager.enabled = False
    InteractiveShell.instance(config=config)
    yield
    InteractiveShell.clear_instance()


def followers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "headgate-live"]


@pytest.mark.usefixtures("notebook")
def test_in_a_notebook_one_output_follows_the_job_until_it_has_ended() -> None:
    job = Job()
    with capture_output() as seen:
        live.show(job.look, text.as_html, job.wait, EVERY_S)
        [follower] = followers()
        for state in ("running", "running", "stopping"):
            job.becomes(state)
        job.becomes("stopped", over=True)
        follower.join(30)
        assert not follower.is_alive()
    shown = [output.data["text/html"] for output in seen.outputs]
    states = [html.split("state ")[1].split("<")[0].strip() for html in shown]
    assert states == ["starting", "running", "stopping", "stopped"], "what looks the same is not shown again"
    assert len({output.transient["display_id"] for output in seen.outputs}) == 1, (
        "each takes the place of the one before"
    )
    assert [output.update for output in seen.outputs] == [False, True, True, True]


def test_elsewhere_it_is_shown_on_the_terminal_until_the_job_has_ended(capsys: pytest.CaptureFixture[str]) -> None:
    job = Job()

    def drive() -> None:
        job.becomes("running")
        job.becomes("finished", over=True)

    driver = threading.Thread(target=drive)
    driver.start()
    live.show(job.look, text.as_html, job.wait, EVERY_S)
    driver.join()
    assert "state finished" in capsys.readouterr().out
    assert followers() == []
