"""What the JDBC sink pre-commits for one checkpoint: see ``headgate.sink.transaction_committable``.

One rule: a committable says how many rows each attempt wrote, so that none can go missing unnoticed.
"""

from dataclasses import dataclass, field
from typing import Any

from headgate.sink.api import WriteId
from headgate.sink.form import number
from headgate.sink.transaction_committable import TransactionCommittable


@dataclass(frozen=True)
class Stage:
    """The table in which the rows of an attempt wait."""

    write_id: WriteId
    rows: int = field(compare=False)


class JdbcCommittable(TransactionCommittable[Stage]):
    """All that one commit takes over."""

    @classmethod
    def transaction(cls, write_id: WriteId, fields: Any) -> Stage:
        """The attempt's table, with how many rows it has."""
        (rows,) = map(number, fields)
        return Stage(write_id, rows)

    @classmethod
    def fields(cls, transaction: Stage) -> list[int]:
        """As plain data."""
        return [transaction.rows]
