"""How long the job of one process has been in which state.

One rule: a state begins where the core's phase changes, and the time in it grows until the next. What is read from
other threads is replaced, never changed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from headgate.view.history import Line

RESTARTING, RUNNING = "restarting", "running"


@dataclass(frozen=True)
class _Spell:
    """A state: since when the job was in it last, and how long before that."""

    entered_ms: int
    before_ms: int = 0


class States:
    """The states of one process."""

    def __init__(self) -> None:
        """None yet."""
        self._spells: Mapping[str, _Spell] = {}
        self._now: str | None = None

    def take(self, now_ms: int, state: str) -> None:
        """The job is in a state, by its word."""
        if state == self._now:
            return
        spells = dict(self._spells)
        if self._now is not None:
            left = spells[self._now]
            spells[self._now] = replace(left, before_ms=left.before_ms + now_ms - left.entered_ms)
        known = spells.get(state)
        spells[state] = _Spell(now_ms, 0 if known is None else known.before_ms)
        self._spells, self._now = spells, state

    def of(self, now_ms: int, state: str) -> Line:
        """Each state that there was, if the job is in ``state`` now: when it last began, for how long it has been there
        (0 if it is not), and how long in all.
        """
        found: Line = {}
        for name, spell in self._spells.items():
            ms = now_ms - spell.entered_ms if name == state else 0
            found[name] = {"entered_ms": spell.entered_ms, "current_ms": ms, "total_ms": spell.before_ms + ms}
        return found


def downtime_ms(states: Mapping[str, Line], state: str) -> int | None:
    """For how long the whole job has been going back: 0 while it runs. None of a job that begins, or ends."""
    if state == RUNNING:
        return 0
    return int(states[state]["current_ms"]) if state == RESTARTING and state in states else None
