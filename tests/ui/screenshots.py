"""Pictures of every page: ``make screenshots`` puts them into build/screenshots.

One rule: the pages are as they are built, and only the answers are made up, so that every state can be seen.
"""

import shutil
import sys
import time
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from tests.ui.browser import chromium
from tests.ui.recorded import READ_TOKEN, TOKEN, recorded_world, serving

PLACE = Path(__file__).parents[2] / "build" / "screenshots"
WIDE, NARROW = (1280, 860), (400, 800)
UNDER_WAY, BETWEEN = 1.7, 6.0
"""Seconds after a checkpoint began: while its barriers are on their way, and when it is long complete."""

JOB = "/jobs/orders"
PAGES = {
    "jobs": "/",
    "overview": JOB,
    "task": f"{JOB}/tasks/user-windows",
    "checkpoints": f"{JOB}/checkpoints",
    "history": f"{JOB}/checkpoints/history",
    "summary": f"{JOB}/checkpoints/summary",
    "settings": f"{JOB}/checkpoints/configuration",
    "checkpoint": f"{JOB}/checkpoints/1280",
    "partitions": f"{JOB}/checkpoints/1280/tasks/enriched",
    "savepoints": f"{JOB}/savepoints",
    "exceptions": f"{JOB}/recovery",
    "restarts": f"{JOB}/recovery/restarts",
    "sinks": f"{JOB}/sinks",
    "diagnosis": f"{JOB}/diagnosis",
    "events": f"{JOB}/events",
    "state": f"{JOB}/state",
    "flamegraph": f"{JOB}/flamegraph",
    "flamegraph-mixed": f"{JOB}/flamegraph/driver-python/full",
    "flamegraph-none": f"{JOB}/flamegraph/python-workers",
    "configuration": f"{JOB}/configuration",
    "logs": f"{JOB}/logs",
}
OTHERS = {
    "failed": ("busy", "/jobs/payments"),
    "failed-exceptions": ("busy", "/jobs/payments/recovery"),
    "failed-diagnosis": ("busy", "/jobs/payments/diagnosis"),
    "restarting": ("busy", "/jobs/clicks"),
    "finished": ("busy", "/jobs/backfill-2025"),
    "idle": ("busy", "/jobs/sensors"),
    "stuck-sinks": ("busy", "/jobs/clicks/sinks"),
    "no-jobs": ("none", "/"),
    "empty": ("empty", "/jobs/first"),
    "empty-checkpoints": ("empty", "/jobs/first/checkpoints"),
    "empty-savepoints": ("empty", "/jobs/first/savepoints"),
    "empty-diagnosis": ("empty", "/jobs/first/diagnosis"),
    "empty-events": ("empty", "/jobs/first/events"),
    "empty-logs": ("empty", "/jobs/first/logs"),
    "large": ("large", "/jobs/large"),
    "large-history": ("large", "/jobs/large/checkpoints/history"),
    "ended-state": ("busy", "/jobs/payments/state"),
    "ended-flamegraph": ("busy", "/jobs/payments/flamegraph"),
    "no-such-job": ("busy", "/jobs/nobody"),
}


def page_of(address: str, route: str) -> str:
    return f"{address}#token={TOKEN}&{route}"


class Camera:
    """A browser, and where its pictures go."""

    def __init__(self, only: list[str]) -> None:
        self.only = only
        self.made: list[str] = []

    def wants(self, name: str) -> bool:
        return not self.only or any(part in name for part in self.only)

    def run(self) -> None:
        if not self.only:
            shutil.rmtree(PLACE, ignore_errors=True)
        PLACE.mkdir(parents=True, exist_ok=True)
        with sync_playwright() as playwright:
            browser = chromium(playwright)
            for theme in ("light", "dark"):
                for size in (WIDE, NARROW):
                    context = browser.new_context(viewport={"width": size[0], "height": size[1]}, color_scheme=theme)
                    self.context = context
                    look = f"{theme}-{size[0]}"
                    self.busy(look)
                    self.others(look)
                    self.entry(look)
                    context.close()
            browser.close()

    def busy(self, look: str) -> None:
        names = {name: route for name, route in PAGES.items() if self.wants(f"{name}-{look}")}
        if not names:
            return
        recorded = recorded_world("busy")
        with serving(recorded) as address:
            page = self.context.new_page()
            for name, route in names.items():
                recorded.stands_at, recorded.speed = None, 8.0
                page.goto("about:blank")
                page.goto(f"{address}#token={TOKEN}&{route}")
                page.wait_for_selector("main")
                if name == "overview":
                    time.sleep(6)  # as long as it takes a chart to have a line
                moment = UNDER_WAY if name in {"overview", "checkpoints", "history", "task"} else BETWEEN
                recorded.stands_at = (recorded.at // 10) * 10 + moment
                self.shoot(page, f"{name}-{look}")
            if not self.only:
                self.dialogs(page, look, address)
            page.close()

    def dialogs(self, page: Page, look: str, address: str) -> None:
        page.goto("about:blank")
        page.goto(page_of(address, f"{JOB}/state"))
        for before, name in enumerate(("state-rows", "state-difference")):
            page.get_by_label("Compared with").select_option(index=before)
            page.get_by_role("button", name="Compare" if before else "Show rows").click()
            self.shoot(page, f"{name}-{look}")
        page.goto("about:blank")
        page.goto(page_of(address, f"{JOB}/recovery/restarts"))
        page.get_by_role("table").get_by_role("button").first.click()
        self.shoot(page, f"restart-{look}", whole=False)
        page.goto("about:blank")
        page.goto(page_of(address, f"{JOB}/savepoints"))
        page.get_by_role("button", name="Cancel").click()
        self.shoot(page, f"cancel-{look}", whole=False)
        page.keyboard.press("Escape")
        page.keyboard.press("?")
        self.shoot(page, f"shortcuts-{look}", whole=False)
        page.keyboard.press("Escape")
        page.get_by_role("button", name="Savepoint", exact=True).click()
        self.shoot(page, f"operation-{look}", whole=False)

    def others(self, look: str) -> None:
        for name, (world, route) in OTHERS.items():
            if not self.wants(f"{name}-{look}"):
                continue
            recorded = recorded_world(world)
            with serving(recorded) as address:
                page = self.context.new_page()
                page.goto(f"{address}#token={TOKEN}&{route}")
                page.wait_for_selector("main")
                recorded.stands_at = UNDER_WAY
                self.shoot(page, f"{name}-{look}")
                page.close()

    def entry(self, look: str) -> None:
        if self.wants(f"entry-{look}"):
            recorded = recorded_world("busy")
            with serving(recorded) as address:
                for name, fragment in (
                    ("token-missing", ""),
                    ("token-wrong", "#token=other"),
                    ("read-only", f"#token={READ_TOKEN}&{JOB}"),
                ):
                    page = self.context.new_page()
                    page.goto(f"{address}{fragment}")
                    self.shoot(page, f"{name}-{look}")
                    if name == "read-only":
                        recorded.gone.set()
                        page.get_by_text("does not answer").first.wait_for()
                        self.shoot(page, f"unreachable-{look}")
                    page.close()

    def shoot(self, page: Page, name: str, *, whole: bool = True) -> None:
        page.locator(".loading").first.wait_for(state="detached")
        page.wait_for_timeout(900)  # until barriers stand still
        page.screenshot(path=PLACE / f"{name}.png", full_page=whole)
        self.made.append(name)
        sys.stdout.write(f"{name}.png\n")
        sys.stdout.flush()


if __name__ == "__main__":
    Camera(sys.argv[1:]).run()
