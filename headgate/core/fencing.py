"""Which writes still count in a sink that writes at once, before any checkpoint.

One rule: attempts are ordered by generation, then batch, then run, and what is older never covers what is newer. A
process that was frozen, or an executor that outlives its driver, may come with its rows at any time: the other system
must be able to tell that they are old.

There are two ways to tell it. A system with transactions has one *leader row*: it is raised to each attempt before the
attempt writes, and whoever writes locks it and sees that it is still its own. A system that compares one number for
each row gets a *version*, which has the whole order in it.
"""

from headgate.core.ids import Batch, Generation, Run

Order = tuple[Generation, Batch, Run]

COUNT_BITS = 32
"""Room for batches and runs in a version: more than 13 years of ten batches a second."""
EPOCH_S = 1_735_689_600
"""Seconds are counted from the beginning of 2025: there is room for 68 years."""


def may_lead(leader: Order, order: Order) -> bool:
    """Whether an attempt may take the leader row, which says who wrote last."""
    return leader <= order


def still_leads(leader: Order, order: Order) -> bool:
    """Whether an attempt that has taken the leader row may write."""
    return leader == order


def version(begun_ms: int, order: Order) -> int:
    """The order of an attempt as one number below 2^63, in a storage that was begun at ``begun_ms``.

    When a storage is deleted and the job begins anew, generations are counted from 1 again. So the time at which the
    storage was begun is added to them, in seconds: as long as a job has fewer generations than seconds, whoever begins
    later is ahead. Inside a generation neither batch nor run ever goes back, and one of the two goes on with each
    attempt: so does their sum.
    """
    generation, batch, run = order
    epoch = max(0, begun_ms // 1_000 - EPOCH_S) + generation
    return (epoch << COUNT_BITS) + min(batch + run, (1 << COUNT_BITS) - 1)
