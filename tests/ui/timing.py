"""How quick the pages are: ``python -m tests.ui.timing`` prints milliseconds. Nothing is asserted: machines differ.

One rule: what is timed is what a user waits for, in the browser, against recorded answers at the loopback address.
"""

import json
import sys

from playwright.sync_api import Browser, expect, sync_playwright

from tests.ui.browser import chromium
from tests.ui.recorded import TOKEN, recorded_world, serving

LOADS = 9
SEEN = """
new MutationObserver((_, observer) => {
  if (document.querySelector(".node.task .node-line")) {
    window.seen = performance.now();
    observer.disconnect();
  }
}).observe(document, { childList: true, subtree: true });
"""
SCROLL = """async selector => {
  const box = document.querySelector(selector);
  const spent = [];
  for (let top = 0; top < box.scrollHeight; top += 400) {
    const begin = performance.now();
    box.scrollTop = top;
    await new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
    spent.push(performance.now() - begin);
  }
  spent.sort((a, b) => a - b);
  return { frames: spent.length, median: spent[spent.length >> 1], slowest: spent[spent.length - 1] };
}"""


def first_view(browser: Browser, world: str, job: str) -> dict[str, float]:
    """From the beginning of the navigation until the graph with its figures is there; and how long the page's thread
    had a processor for it, which is what it takes on a machine that does nothing else.
    """
    spent, busy = [], []
    with serving(recorded_world(world)) as address:
        for _ in range(LOADS):
            context = browser.new_context()
            page = context.new_page()
            page.add_init_script(SEEN)
            devtools = context.new_cdp_session(page)
            devtools.send("Performance.enable", {"timeDomain": "threadTicks"})
            page.goto(f"{address}#token={TOKEN}&/jobs/{job}")
            page.locator(".node.task .node-name").first.wait_for()
            spent.append(float(page.evaluate("window.seen")))
            metrics = {one["name"]: one["value"] for one in devtools.send("Performance.getMetrics")["metrics"]}
            busy.append(metrics["TaskDuration"] * 1000)
            context.close()
    spent.sort()
    busy.sort()
    return {
        "processor": round(busy[len(busy) // 2]),
        "least": round(spent[0]),
        "median": round(spent[len(spent) // 2]),
        "most": round(spent[-1]),
    }


def scrolling(browser: Browser) -> dict[str, float]:
    """Two frames at each step through 2,000 checkpoints."""
    with serving(recorded_world("busy")) as address:
        page = browser.new_page()
        page.goto(f"{address}#token={TOKEN}&/jobs/sensors/checkpoints/history")
        table = page.get_by_role("table", name="Checkpoints, the newest first")
        table.wait_for()
        for loaded in range(200, 2001, 200):
            expect(table).to_have_attribute("aria-rowcount", str(loaded + 1))
            table.evaluate("box => { box.scrollTop = box.scrollHeight }")
        found: dict[str, float] = page.evaluate(SCROLL, "[role=table]")
        page.close()
    return {name: round(value, 1) for name, value in found.items()}


if __name__ == "__main__":
    with sync_playwright() as playwright:
        chrome = chromium(playwright)
        figures = {
            "first view, 5 tasks": first_view(chrome, "busy", "orders"),
            "first view, 200 tasks": first_view(chrome, "large", "large"),
            "scrolling, two frames": scrolling(chrome),
        }
        chrome.close()
    json.dump(figures, sys.stdout, indent=2)
    sys.stdout.write("\n")
