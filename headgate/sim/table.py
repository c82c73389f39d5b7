"""A table under keys, into which every batch writes at once: the newest record of a key is what readers see.

One rule: it takes whatever comes, whenever it comes. Whether rows are too old is told by the leader row, or by the
version of each row; a table has one of the two.
"""

from typing import TYPE_CHECKING

from headgate.core import fencing
from headgate.core.fencing import Order
from headgate.core.ids import Batch, Generation, Run
from headgate.sim.disk import SimRow, key_of

if TYPE_CHECKING:
    from headgate.sim.world import World

MUCH_LATER = 10
"""What such a table gets from executors that nobody waits for comes so late that a job may have ended meanwhile."""
NOBODY: Order = (Generation(0), Batch(-1), Run(0))


class SimTable:
    """One idempotent sink of the simulated world."""

    def __init__(self, *, versioned: bool) -> None:
        """Begin empty."""
        self.versioned = versioned
        self.leader = NOBODY
        self.rows: dict[tuple[int, int, int], tuple[int, SimRow]] = {}
        self.under_way: list[tuple[Order, list[SimRow]]] = []
        """What executors that nobody waits for any more have yet to write."""

    def lead(self, order: Order) -> bool:
        """A driver is about to have an attempt written. Whether it may."""
        if self.versioned:
            return True
        if not fencing.may_lead(self.leader, order):
            return False
        self.leader = order
        return True

    def merge(self, order: Order, rows: list[SimRow]) -> bool:
        """Executors write the rows of an attempt. False if they are told that they are too late."""
        if not self.versioned and not fencing.still_leads(self.leader, order):
            return False
        version = fencing.version(0, order) if self.versioned else 0
        in_time = True
        for row in rows:
            there = self.rows.get(key_of(row))
            if there is not None and there[0] > version:
                in_time = False
            else:
                self.rows[key_of(row)] = (version, row)
        return in_time

    def expect(self, world: "World", delay_ms: int, order: Order, rows: list[SimRow]) -> None:
        """Executors that nobody waits for any more will write these rows."""
        late = (order, rows)
        self.under_way.append(late)
        world.at(delay_ms * MUCH_LATER, self.land, late)

    def land(self, late: tuple[Order, list[SimRow]]) -> None:
        """What was under way arrives, and nobody hears what becomes of it."""
        if late in self.under_way:
            self.under_way.remove(late)
            self.merge(*late)

    def land_all(self) -> None:
        """Whatever is under way arrives."""
        for late in list(self.under_way):
            self.land(late)
