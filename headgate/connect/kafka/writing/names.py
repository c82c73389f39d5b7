"""Where a Kafka sink writes to, what its things are called there, and what it pre-commits for one checkpoint.

One rule: all of these are plain values, which are pickled for executors or written into a checkpoint, so that any
process can find and end what another has left open.

A transactional id begins with the user's prefix, the job and the sink, so that rights can be given by prefix, and what
a dead process left open is found by it. Ids come from a pool: there are never more than the pool has. A committable
names every open transaction by all that is needed to end it, and the file in which its rows wait in case the broker has
given it up.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from headgate.connect.kafka.producer.settings import Option
from headgate.core.ids import Batch, Generation, Run, SinkId
from headgate.errors import BadStorage
from headgate.sink.api import WriteId
from headgate.sink.form import number
from headgate.sink.owner import escaped
from headgate.sink.transaction_committable import TransactionCommittable

BATCH_SIZE = "batch.size"
EARLIER = 64
"""How many generations before its own are searched for what they left open. What is older has gone with its timeout."""

_GENERATION_BITS, _USE_BITS = 20, 43
"""Of a token: an offset of Kafka has 63 bits."""


@dataclass(frozen=True)
class Target:
    """A topic of a cluster."""

    servers: str
    topic: str
    prefix: str
    timeout_ms: int
    """How long the broker lets a transaction stay open."""
    options: Mapping[str, Option] = field(default_factory=dict, repr=False)
    """Of librdkafka. There may be passwords among them."""
    takes: int | None = None
    """How many bytes the topic takes at once, if that is known."""

    @property
    def producer_options(self) -> Mapping[str, Option]:
        """The options, with batches no larger than the topic takes: librdkafka would send them and be refused."""
        return self.options if self.takes is None else {BATCH_SIZE: self.takes, **self.options}

    def describe(self) -> str:
        """For people."""
        return f"Kafka topic {self.topic} at {self.servers}"

    @property
    def place(self) -> str | None:
        """For an audit."""
        return f"kafka://{self.servers}/{self.topic}" if self.topic else None


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


@dataclass(frozen=True)
class Owned:
    """A target, in the hands of one sink of one job."""

    target: Target
    names: Names


def client_options(target: Target) -> dict[str, str]:
    """The options as the protocol client takes them."""
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in target.options.items()
    }


@dataclass(frozen=True)
class OpenTransaction:
    """What one partition of a batch wrote: pre-committed by flush, and open at the broker."""

    slot: Slot
    producer_id: int
    epoch: int
    rows: int
    file: str = ""
    """Below the attempt's staging directory. Empty if the rows wait nowhere else."""
    size: int = 0
    checksum: int | None = None
    """None without a file, and in what earlier versions of Headgate pre-committed."""

    def to_text(self) -> str:
        """What an executor answers."""
        return json.dumps(self.fields(), separators=(",", ":"))

    def fields(self) -> list[Any]:
        """As plain data."""
        checksum = [] if self.checksum is None else [self.checksum]
        numbers = (self.slot.number, self.slot.partition, self.producer_id, self.epoch, self.rows)
        return [*numbers, self.file, self.size, *checksum]

    @classmethod
    def of(cls, fields: Any) -> Self:
        """Read ``fields``."""
        number, partition, producer_id, epoch, rows, file, size, *rest = fields
        numbers = (number, partition, producer_id, epoch, rows, size, *rest)
        counted = len(rest) <= 1 and all(type(each) is int and each >= 0 for each in numbers)
        if not counted or not isinstance(file, str) or "/" in file:
            raise ValueError(f"{fields!r} is not a transaction")
        return cls(Slot(number, partition), producer_id, epoch, rows, file, size, *rest)


@dataclass(frozen=True)
class KafkaCommittable(TransactionCommittable[OpenTransaction]):
    """All that one commit ends."""

    PARTS: ClassVar[str] = "batches"

    pre_committed_ms: int = 0
    """When, by the clock of who pre-committed it. 0 in what earlier versions of Headgate pre-committed."""
    scheme: Scheme = NOW
    """By which the transactions have their ids."""

    @classmethod
    def transaction(cls, write_id: WriteId, fields: Any) -> OpenTransaction:
        """From its fields."""
        del write_id
        return OpenTransaction.of(fields)

    @classmethod
    def fields(cls, transaction: OpenTransaction) -> list[Any]:
        """As plain data."""
        return transaction.fields()

    def facts(self) -> Mapping[str, Any]:
        """By which scheme, and when."""
        when = {"pre_committed_ms": self.pre_committed_ms} if self.pre_committed_ms else {}
        return {"ids": self.scheme.number, **when}

    @classmethod
    def facts_in(cls, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        """The same, read again."""
        scheme = SCHEMES[number(fields.get("ids", FIRST.number))]
        return {"pre_committed_ms": number(fields.get("pre_committed_ms", 0)), "scheme": scheme}
