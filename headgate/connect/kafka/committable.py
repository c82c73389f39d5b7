"""What a two-phase Kafka sink pre-commits for one checkpoint, and its form as text.

One rule: a committable names every open transaction by all that is needed to end it from any process, and the file in
which its rows wait in case the broker has given it up.
"""

import json
from dataclasses import dataclass
from typing import Any, Self

from headgate.connect.kafka.names import FIRST, NOW, SCHEMES, Scheme, Slot
from headgate.core.ids import Batch, CheckpointId, Generation, Run, SinkId
from headgate.sink.api import WriteId
from headgate.sink.form import Whose, from_text, number, to_text


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
class KafkaCommittable:
    """All that one commit ends."""

    job: str
    sink: SinkId
    generation: Generation
    checkpoint: CheckpointId
    batches: tuple[tuple[Batch, Run, tuple[OpenTransaction, ...]], ...]
    pre_committed_ms: int = 0
    """When, by the clock of who pre-committed it. 0 in what earlier versions of Headgate pre-committed."""
    scheme: Scheme = NOW
    """By which the transactions have their ids."""

    def write_ids(self) -> list[tuple[WriteId, tuple[OpenTransaction, ...]]]:
        """The transactions, with whose they are."""
        return [
            (WriteId(self.job, self.sink, self.generation, batch, run), transactions)
            for batch, run, transactions in self.batches
        ]

    def to_text(self) -> str:
        """The text that goes into the checkpoint."""
        batches = [[batch, run, [each.fields() for each in transactions]] for batch, run, transactions in self.batches]
        when = {"pre_committed_ms": self.pre_committed_ms} if self.pre_committed_ms else {}
        fields = {"ids": self.scheme.number, "batches": batches, **when}
        return to_text(Whose(self.job, self.sink, self.generation, self.checkpoint), fields)

    @staticmethod
    def from_text(committable: str) -> "KafkaCommittable":
        """Read what ``to_text`` wrote. Anything else is refused."""

        def read(whose: Whose, fields: Any) -> KafkaCommittable:
            batches = tuple(
                (Batch(number(batch)), Run(number(run)), tuple(OpenTransaction.of(each) for each in transactions))
                for batch, run, transactions in fields["batches"]
            )
            pre_committed_ms = number(fields.get("pre_committed_ms", 0))
            scheme = SCHEMES[number(fields.get("ids", FIRST.number))]
            return KafkaCommittable(
                whose.job, whose.sink, whose.generation, whose.checkpoint, batches, pre_committed_ms, scheme
            )

        return from_text(committable, read)
