"""What a two-phase Kafka sink pre-commits for one checkpoint, and its form as text.

One rule: a committable names every open transaction by all that is needed to end it from any process, and the file in
which its rows wait in case the broker has given it up.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from headgate.connect.kafka.writing.names import FIRST, NOW, SCHEMES, Scheme, Slot
from headgate.sink.api import WriteId
from headgate.sink.form import number
from headgate.sink.transaction_committable import TransactionCommittable


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
