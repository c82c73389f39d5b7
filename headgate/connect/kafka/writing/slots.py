"""The pool of transactional ids.

One rule: a slot has one attempt at a time, from its beginning until what it wrote is committed or thrown away.
"""

import threading
import time
from collections import deque

from headgate.errors import ExternalError
from headgate.sink.api import WriteId


class Slots:
    """A bounded pool. Any thread may take and give back."""

    def __init__(self, bound: int, wait_s: float) -> None:
        """``bound`` slots at most; who finds none waits this long for one."""
        self._bound = bound
        self._wait_s = wait_s
        self._free: deque[int] = deque()
        self._made = 0
        self._taken: dict[WriteId, int] = {}
        self._changed = threading.Condition()

    def take(self, write_id: WriteId) -> int:
        """The attempt's slot: the one it has, else the one that was free longest."""
        deadline = time.monotonic() + self._wait_s
        with self._changed:
            while write_id not in self._taken:
                if self._free:
                    self._taken[write_id] = self._free.popleft()
                elif self._made < self._bound:
                    self._taken[write_id] = self._made
                    self._made += 1
                elif not self._changed.wait(deadline - time.monotonic()) and not self._free:
                    raise ExternalError(
                        f"sink {write_id.sink}: {self._bound} batches are written and not committed yet, and no room "
                        f"was left for another within {self._wait_s:g} s: take checkpoints more often, or raise "
                        "max_open"
                    )
            return self._taken[write_id]

    @property
    def has_room(self) -> bool:
        """Whether somebody who has no slot would get one at once."""
        with self._changed:
            return bool(self._free) or self._made < self._bound

    def of(self, write_id: WriteId) -> int | None:
        """The slot that an attempt has."""
        with self._changed:
            return self._taken.get(write_id)

    def write_ids(self) -> list[WriteId]:
        """Who has a slot."""
        with self._changed:
            return list(self._taken)

    def give_back(self, write_id: WriteId) -> None:
        """The attempt is over. If it had no slot, nothing happens."""
        with self._changed:
            slot = self._taken.pop(write_id, None)
            if slot is not None:
                self._free.append(slot)
                self._changed.notify_all()
