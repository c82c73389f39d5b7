"""How quick the pages are: ``python -m tests.ui.timing`` prints a table of milliseconds. Nothing is asserted: machines
differ. What makes the pages quick is held by ``tests/ui/test_states.py``, without a clock.

One rule: what is timed is what a user waits for, in the browser, against recorded answers at the loopback address.
"""

import sys
from collections.abc import Callable
from typing import NamedTuple

from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.ui.browser import chromium
from tests.ui.recorded import TOKEN, recorded_world, serving

LOADS = 9
ROWS = 10_000
PAGE = 200
"""As many checkpoints the page of the history asks for at once."""
SEEN = """
new MutationObserver((_, observer) => {
  if (document.querySelector(".node.task .node-line")) {
    window.seen = performance.now();
    observer.disconnect();
  }
}).observe(document, { childList: true, subtree: true });
"""
SCROLL = """async ([selector, step]) => {
  const box = document.querySelector(selector);
  const spent = [];
  for (let top = 0; top < box.scrollHeight; top += step) {
    const begin = performance.now();
    box.scrollTop = top;
    await new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
    spent.push(performance.now() - begin);
  }
  return spent;
}"""
STEP = 1_700
"""Pixels: about fifty rows, so that each step shows other rows."""


class Timed(NamedTuple):
    """Milliseconds of something that was done several times."""

    what: str
    times: list[float]
    processor: list[float]
    """How long the thread of the page had a processor for it: what it takes on a machine that does nothing else."""


def first_view(browser: Browser, what: str, world: str, job: str) -> Timed:
    """From the beginning of the navigation until the graph with its figures is there, in a browser that has seen
    nothing.
    """
    spent, busy = [], []
    with serving(recorded_world(world)) as address:
        for _ in range(LOADS):
            context = browser.new_context()
            page = context.new_page()
            page.add_init_script(SEEN)
            processor = processor_of(page)
            page.goto(f"{address}#token={TOKEN}&/jobs/{job}")
            page.locator(".node.task .node-name").first.wait_for()
            spent.append(float(page.evaluate("window.seen")))
            busy.append(processor())
            context.close()
    return Timed(what, spent, busy)


def processor_of(page: Page) -> Callable[[], float]:
    """Asks how many milliseconds the thread of a page has had a processor."""
    devtools = page.context.new_cdp_session(page)
    devtools.send("Performance.enable", {"timeDomain": "threadTicks"})

    def ask() -> float:
        metrics = {one["name"]: one["value"] for one in devtools.send("Performance.getMetrics")["metrics"]}
        return float(metrics["TaskDuration"]) * 1000

    return ask


def scrolling(browser: Browser) -> Timed:
    """Two frames at each step through all checkpoints, once they are loaded."""
    with serving(recorded_world("busy")) as address:
        page = browser.new_page()
        page.goto(f"{address}#token={TOKEN}&/jobs/sensors/checkpoints/history")
        load(page, ROWS)
        processor = processor_of(page)
        before = processor()
        found: list[float] = page.evaluate(SCROLL, ["[role=table]", STEP])
        mean = (processor() - before) / len(found)
        page.close()
    return Timed(f"two frames at each step of 50 rows through {ROWS:,} checkpoints", found, [mean])


def load(page: Page, rows: int) -> None:
    """Scroll down until so many checkpoints are in the table."""
    table = page.get_by_role("table", name="Checkpoints, the newest first")
    table.wait_for()
    for loaded in range(PAGE, rows + 1, PAGE):
        expect(table).to_have_attribute("aria-rowcount", str(loaded + 1), timeout=60_000)
        if loaded < rows:
            table.evaluate("box => { box.scrollTop = box.scrollHeight }")


def table_of(found: list[Timed]) -> str:
    """A row for each, in Markdown."""
    lines = ["| what | least | median | most | of a processor |", "| --- | --- | --- | --- | --- |"]
    for what, times, processor in found:
        ordered = sorted(times)
        cells = [f"{one:.0f} ms" for one in (ordered[0], ordered[len(ordered) // 2], ordered[-1])]
        cells.append(f"{sorted(processor)[len(processor) // 2]:.0f} ms")
        lines.append(f"| {what} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    with sync_playwright() as playwright:
        chrome = chromium(playwright)
        figures = [
            first_view(chrome, "first view of a job of 5 tasks", "busy", "orders"),
            first_view(chrome, "first view of a job of 200 tasks", "large", "large"),
            scrolling(chrome),
        ]
        chrome.close()
    sys.stdout.write(f"{table_of(figures)}\n")
