"""What a PostgreSQL sink pre-commits for one checkpoint: see ``headgate.sink.transaction_committable``.

One rule: a transaction is the two numbers by which its name differs from those of the same attempt.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headgate.connect.postgres.names import Part
from headgate.sink.api import WriteId
from headgate.sink.form import number, text
from headgate.sink.partitions import Place
from headgate.sink.transaction_committable import TransactionCommittable


@dataclass(frozen=True)
class PostgresCommittable(TransactionCommittable[Part]):
    """All that one commit shows."""

    schema: str
    """Where the markers of its transactions are."""

    @classmethod
    def transaction(cls, write_id: WriteId, fields: Any) -> Part:
        """Partition, and attempt of the task."""
        partition, task_attempt = map(number, fields)
        return Part(write_id, Place(partition, task_attempt))

    @classmethod
    def fields(cls, transaction: Part) -> list[int]:
        """As plain data."""
        return [transaction.place.partition, transaction.place.task_attempt]

    def facts(self) -> Mapping[str, Any]:
        """Where the markers are."""
        return {"schema": self.schema}

    @classmethod
    def facts_in(cls, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        """The same, read again."""
        return {"schema": text(fields["schema"])}
