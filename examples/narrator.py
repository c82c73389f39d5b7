"""What an example says while it runs. One rule: the verdict is a line of its own, and whole, for people and scripts."""

import time

from rich.console import Console
from rich.text import Text

OFTEN_S = 2.0
"""What happens again and again is told this often."""
STYLES = {"SIGKILL": "bold red", "audit": "bold"}


class Narrator:
    """Tells what happens, each line with the seconds since the beginning and with who does it."""

    def __init__(self) -> None:
        """The clock starts."""
        self._console = Console(markup=False, emoji=False, highlight=False)
        self._begun = time.monotonic()
        self._often = 0.0

    def title(self, text: str, *facts: str) -> None:
        """What is to be seen."""
        self._print(Text(text, style="bold"))
        for fact in facts:
            self._print(Text(f"  {fact}"))
        self._print(Text())

    def say(self, who: str, text: str) -> None:
        """One thing that happened."""
        line = Text(f"{time.monotonic() - self._begun:6.1f} s  ", style="dim")
        line.append(f"{who:<8}  ", style=STYLES.get(who, "cyan"))
        line.append(text, style="bold red" if who == "SIGKILL" else "default")
        self._print(line)

    def often(self, who: str, text: str) -> None:
        """One of many things of a kind, if none was told just now."""
        if time.monotonic() - self._often >= OFTEN_S:
            self._often = time.monotonic()
            self.say(who, text)

    def verdict(self, text: str, *, good: bool) -> None:
        """How it ended."""
        self._print(Text(text, style="bold green" if good else "bold red"))

    def _print(self, text: Text) -> None:
        self._console.print(text, soft_wrap=True)
