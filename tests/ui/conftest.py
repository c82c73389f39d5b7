"""One browser for all pages; a page of its own for each test, which fails if anything goes wrong in it."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, sync_playwright

from headgate.run.logfiles import LOGS_VARIABLE
from headgate.store.api import open_store
from headgate.store.jobstore import JobStore
from tests.ui.answers import Recorded
from tests.ui.browser import chromium
from tests.ui.live import DrivenJob
from tests.ui.recorded import TOKEN, recorded_world, serving

WAIT_MS = 60_000
"""What is quick takes long on a machine that is busy."""

Opened = Callable[..., Page]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        found = chromium(playwright)
        yield found
        found.close()


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Opened]:
    """Open an address. What the page reports as wrong fails the test, but for answers that are no good ones."""
    wrong: list[str] = []
    contexts = []

    def hear(message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"} and "Failed to load resource" not in message.text:
            wrong.append(message.text)

    def opened(address: str, *, width: int = 1280, theme: str = "light") -> Page:
        context = browser.new_context(
            viewport={"width": width, "height": 860},
            color_scheme="dark" if theme == "dark" else "light",
            timezone_id="Europe/Vienna",
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(WAIT_MS)
        page.on("console", hear)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.goto(address)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert wrong == []


@pytest.fixture(autouse=True)
def no_logs_of_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Logs belong to a job by its name, and other tests have jobs of this name."""
    monkeypatch.setenv("HEADGATE_LOGS", str(tmp_path / "logs"))


@pytest.fixture
def store(tmp_path: Path) -> JobStore:
    return JobStore.open(open_store(str(tmp_path / "storage")), "orders")


@pytest.fixture
def job(store: JobStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DrivenJob]:
    monkeypatch.setenv(LOGS_VARIABLE, str(tmp_path / "logs"))  # Others on this machine may have run a job of its name.
    found = DrivenJob(store)
    yield found
    found.close()
    assert found.warned == []


@pytest.fixture
def at(job: DrivenJob, open_page: Opened) -> Opened:
    """Open a page of the job that runs. As everywhere here, pages are closed before what they look at."""

    def opened(path: str = "", **how: object) -> Page:
        return open_page(f"{job.address}#token={job.token}&/jobs/orders{path}", **how)

    return opened


@pytest.fixture
def world() -> Iterator[Callable[[str], tuple[Recorded, str]]]:
    """Serve a recorded world; say where, with the token."""
    ends = []

    def served(name: str) -> tuple[Recorded, str]:
        recorded = recorded_world(name)
        serving_it = serving(recorded)
        ends.append(serving_it)
        return recorded, f"{serving_it.__enter__()}#token={TOKEN}&"

    yield served
    for one in ends:
        one.__exit__(None, None, None)
