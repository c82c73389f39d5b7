"""What things of a sink are called at the broker.

One rule: a transactional id begins with the user's prefix, the job and the sink, so that rights can be given by prefix,
and what a dead process left open is found by it. Ids come from a pool: there are never more than the pool has.
"""

import re
from dataclasses import dataclass

from headgate.core.ids import Batch, Generation, Run, SinkId
from headgate.errors import BadStorage
from headgate.sink.owner import escaped

EARLIER = 64
"""How many generations before its own are searched for what they left open. What is older has gone with its timeout."""

_GENERATION_BITS, _USE_BITS = 20, 43
"""Of a token: an offset of Kafka has 63 bits."""


@dataclass(frozen=True)
class Scheme:
    """How generations become ids, and batches tokens. A committable says by which its transactions were written."""

    number: int
    classes: int
    """Generations that are so far apart share ids. One that is nearer never takes up an id under another's hands."""
    run_bits: int
    """How much of a token is the run's. The run is not needed: of a batch, one run at most is ever pre-committed."""


FIRST = Scheme(1, classes=16, run_bits=15)
NOW = Scheme(2, classes=1024, run_bits=0)
SCHEMES = {scheme.number: scheme for scheme in (FIRST, NOW)}


@dataclass(frozen=True)
class Slot:
    """Where one partition of one batch is written: a place in the pool, and the partition."""

    number: int
    partition: int


@dataclass(frozen=True)
class Names:
    """The names of one sink of one job."""

    prefix: str
    job: str
    sink: SinkId
    incarnation: str

    @property
    def owner(self) -> str:
        """What all ids begin with."""
        return f"{self.prefix}.{escaped(self.job)}.{escaped(self.sink)}."

    def transactional_id(self, generation: Generation, slot: Slot, scheme: Scheme = NOW) -> str:
        """The id under which a slot is written."""
        return f"{self.slot_prefix(generation, slot.number, scheme)}{slot.partition}"

    def publisher_id(self, partition: int) -> str:
        """The id under which a partition of staged rows is published."""
        return f"{self.owner}partition.{partition}"

    def slot_prefix(self, generation: Generation, slot: int, scheme: Scheme = NOW) -> str:
        """What the ids of all partitions of a slot begin with."""
        return f"{self.owner}g{generation % scheme.classes}.{slot}."

    def is_earlier(self, transactional_id: str, below: Generation) -> bool:
        """Whether an id is that of a slot of a generation before ``below``.

        Classes go round. So only the nearest are taken for earlier ones, and all others for later ones, of a process
        that has taken over meanwhile: what it has open is not ours to touch.
        """
        found = re.fullmatch(re.escape(self.owner) + r"g(\d+)\.\d+\.\d+", transactional_id)
        return found is not None and 0 < (below - int(found[1])) % NOW.classes <= EARLIER

    def marker_group(self, transactional_id: str) -> str:
        """The consumer group whose offset says what was committed last under an id, in this incarnation of the job."""
        return f"{transactional_id}.{self.incarnation}"


def token(generation: Generation, batch: Batch, run: Run, scheme: Scheme = NOW) -> int:
    """Which use of an id. The uses of one id come in this order, so a marker only grows."""
    for value, bits, what in (
        (generation, _GENERATION_BITS, "generation"),
        (batch, _USE_BITS - scheme.run_bits, "batch"),
        (run if scheme.run_bits else 0, scheme.run_bits, "run"),
    ):
        if value >= 1 << bits:
            raise BadStorage(f"{what} {value} is past what a Kafka sink can number: begin anew under another job name")
    return (generation << _USE_BITS) | (batch << scheme.run_bits) | (run if scheme.run_bits else 0)
