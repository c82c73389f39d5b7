"""The browser in which the pages are looked at: Debian's chromium, without anything that it would do by itself."""

from pathlib import Path

from playwright.sync_api import Browser, Playwright

PROGRAM = Path("/usr/bin/chromium")
ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def chromium(playwright: Playwright) -> Browser:
    """``make services`` installs it."""
    return playwright.chromium.launch(executable_path=PROGRAM, args=ARGUMENTS)
