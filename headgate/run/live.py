"""The status of a job, live: below a notebook's cell, which is over at once, or on the terminal until the job ends.

One rule: it shows what ``status`` says, and only when that looks different; a job does not notice that it is watched.
"""

import sys
import threading
from collections.abc import Callable
from typing import Any, Protocol

from rich.console import Console, RenderableType
from rich.live import Live

ShowNow = Callable[[], RenderableType]
"""What there is to see now."""
EndedWithin = Callable[[float], bool]
"""Waits this many seconds at most, or until the job has ended. Whether it has."""


class Handle(Protocol):
    """What IPython gives back for something that it shows."""

    def update(self, shown: object) -> None:
        """Show this in its place."""


def show(look: ShowNow, as_html: Callable[[RenderableType], str], wait: EndedWithin, every_s: float) -> None:
    """Show it until the job has ended, and then once more."""
    shell = _notebook()
    if shell is None:
        _on_terminal(look, wait, every_s)
        return
    in_page: Any = sys.modules["IPython.display"]
    before = as_html(look())
    handle: Handle = in_page.display(in_page.HTML(before), display_id=True)

    def follow() -> None:
        shown, over = before, False
        while not over:
            over = wait(every_s)
            now = as_html(look())
            if now != shown:
                handle.update(in_page.HTML(now))
                shown = now

    threading.Thread(target=follow, name="headgate-live", daemon=True).start()


def _notebook() -> object | None:
    """The shell of the notebook in which this runs. In plain Python nobody has imported IPython."""
    shell: Any = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return shell if shell is not None and shell.__class__.__name__ != "TerminalInteractiveShell" else None


def _on_terminal(look: ShowNow, wait: EndedWithin, every_s: float) -> None:
    console = Console(markup=False, emoji=False, highlight=False)
    with Live(look(), console=console, auto_refresh=False) as live:
        over = False
        while not over:
            over = wait(every_s)
            live.update(look(), refresh=True)
