"""Every page of a job that runs, as its own process serves it."""

import re

import pytest
from playwright.sync_api import Page, expect

from headgate.receipts.receipt import Receipt
from headgate.store.jobstore import JobStore
from tests.ui.conftest import WAIT_MS, Opened
from tests.ui.live import DrivenJob

expect.set_options(timeout=WAIT_MS)


@pytest.fixture(autouse=True)
def past(job: DrivenJob) -> None:
    """What all pages have something to show of."""
    job.batch("a", 0)
    job.batch("b", 0, 0)
    job.checkpoint()
    job.checkpoint()


def no_wider_than_its_window(page: Page) -> bool:
    return bool(page.evaluate("document.documentElement.scrollWidth <= innerWidth"))


PAGES = {
    "": ["Graph", "Tasks", "Rows per second", "Checkpoint duration", "exactly-once"],
    "/tasks/a": ["Task a", "Operators", "job.py:7"],
    "/checkpoints": ["Triggered", "Latest completed checkpoint", "Latest savepoint", "Latest restore"],
    "/checkpoints/history": ["Start delay → commit", "completed", "2 of 2"],
    "/checkpoints/summary": ["End to end duration", "99.9 %", "2 checkpoints"],
    "/checkpoints/configuration": ["exactly once", "rocksdb", "10 s"],
    "/checkpoints/1": ["Checkpoint 1", "Where the time went", "By task", "62.5 KiB"],
    "/checkpoints/1/tasks/a": ["Task a", "By state partition"],
    "/savepoints": ["Take a savepoint", "No savepoint yet"],
    "/recovery": ["Restarts of the job", "Nothing has failed"],
    "/recovery/restarts": ["No restart yet"],
    "/sinks": ["files in data/out", "job.py:10", "Commit retries", "To commit", "No receipts yet"],
    "/diagnosis": ["Nothing found", "rules looked", "Look again"],
    "/events": ["checkpoint 2 completed", "generation 1 begins from nothing"],
    "/events/operations": ["Nothing was asked for"],
    "/state": ["Compared with", "No state"],
    "/flamegraph/driver-python/full": ["Driver Python: Mixed", "100 times in"],
    "/configuration": ["exponential-delay: initial_ms=1000", "spark.sql.shuffle.partitions", "local[2]"],
    "/logs": ["No log on this machine"],
}


def test_every_page_shows_what_is_known(at: Opened) -> None:
    page = at()
    for path, words in PAGES.items():
        page.evaluate("path => { location.hash = path }", f"#/jobs/orders{path}")
        for word in words:
            expect(page.get_by_text(word).first, f"{path}: {word}").to_be_visible()
        expect(page.locator("[role=alert]")).to_have_count(0)
        assert no_wider_than_its_window(page), path


def test_every_page_can_be_read_at_400_pixels_in_the_dark(at: Opened) -> None:
    page = at(width=400, theme="dark")
    assert page.evaluate("getComputedStyle(document.documentElement).colorScheme") == "dark"
    for path, words in PAGES.items():
        page.evaluate("path => { location.hash = path }", f"#/jobs/orders{path}")
        expect(page.get_by_text(words[0]).first, path).to_be_visible()
        assert no_wider_than_its_window(page), path


def test_the_theme_is_the_systems_until_somebody_chooses_another(at: Opened) -> None:
    page = at(theme="dark")
    ground = "getComputedStyle(document.documentElement).backgroundColor"
    root = page.locator("html")
    expect(page.get_by_text("live", exact=True)).to_be_visible()  # It listens to keys a moment after it is drawn.
    expect(root).to_have_attribute("data-theme", "dark")
    dark = page.evaluate(ground)
    page.keyboard.press("t")
    expect(root).to_have_attribute("data-theme", "light")
    light = page.evaluate(ground)
    assert light != dark
    page.reload()
    expect(page.locator("h1")).to_have_text("orders")
    expect(root).to_have_attribute("data-theme", "light")
    assert page.evaluate(ground) == light
    page.get_by_role("button", name="Theme: light").click()
    expect(root).to_have_attribute("data-theme", "dark")
    assert page.evaluate(ground) == dark


def test_the_process_of_a_job_begins_with_that_job_and_keeps_its_token_out_of_the_address(
    job: DrivenJob, open_page: Opened
) -> None:
    page = open_page(f"{job.address}#token={job.token}")
    expect(page.locator("h1")).to_have_text("orders")
    expect(page).to_have_url(f"{job.address}#/jobs/orders")
    page.reload()
    expect(page.locator("h1")).to_have_text("orders")
    page.get_by_role("link", name="Headgate").click()
    expect(page.get_by_role("table", name="Jobs").get_by_role("link", name="orders")).to_be_visible()


def test_a_time_is_local_and_its_title_says_utc(at: Opened) -> None:
    page = at("/checkpoints/1")
    time = page.locator("main time").first
    expect(time).to_have_attribute(
        "title",
        page.evaluate(
            "e => new Date(e.dateTime).toISOString().replace('T', ' ').replace('Z', '') + ' UTC'", time.element_handle()
        ),
    )
    assert time.text_content() == page.evaluate(
        "e => new Date(e.dateTime).toLocaleTimeString('en-GB')", time.element_handle()
    )


def test_pages_are_reached_by_keys_alone(at: Opened) -> None:
    page = at()
    expect(page.locator("h1")).to_be_visible()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the page"
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Shortcuts")).to_contain_text("Checkpoints")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.keyboard.press("g")
    page.keyboard.press("c")
    expect(page.get_by_text("Latest completed checkpoint")).to_be_visible()
    page.get_by_role("link", name="History").focus()
    page.keyboard.press("Enter")
    page.get_by_role("table").get_by_role("link", name="2", exact=True).focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Checkpoint 1")).to_be_visible()


def test_the_graph_shows_tasks_sources_and_sinks_and_tells_more_of_a_task(at: Opened) -> None:
    page = at()
    for name in ("a", "b"):
        expect(page.locator(".node.task", has=page.locator(f".node-name:text-is('{name}')"))).to_be_visible()
    expect(page.locator(".node.source")).to_have_text("a")
    expect(page.locator(".node.sink")).to_contain_text("out")
    expect(page.locator(".road")).to_have_count(3)
    page.locator(".node.task", has=page.locator(".node-name:text-is('b')")).click()
    drawer = page.get_by_role("complementary")
    expect(drawer).to_contain_text("Task b")
    expect(page).to_have_url(re.compile("#/jobs/orders/tasks/b$"))
    expect(drawer).to_be_focused()
    page.keyboard.press("Escape")
    expect(drawer).to_have_count(0)


def test_receipts_are_listed_with_what_they_say(at: Opened, store: JobStore) -> None:
    receipt = Receipt(
        sink="out",
        task="b",
        generation=1,
        checkpoint=2,
        after=0,
        through=3,
        rows=12_345,
        hash="files:00ff",
        sources={"in": ("7", "19")},
        channels={},
        pre_committed_ms=1_000,
        committed_ms=2_000,
    )
    store.append_history([{"at": 2_000, "event": "receipt", "id": 2, "sink": "out", "receipt": receipt.data()}])
    table = at("/sinks").get_by_role("table", name="Receipts")
    for words in ("12,345", "1 to 3", "in: 7 to 19", "files:00ff"):
        expect(table.get_by_text(words).first, words).to_be_visible()
