"""What the XA sink pre-commits for one checkpoint: see ``headgate.sink.transaction_committable``.

One rule: a transaction is its name, in the two parts that XA has.
"""

from typing import Any

from headgate.connect.mariadb.xid import Xid
from headgate.sink.api import WriteId
from headgate.sink.form import text
from headgate.sink.transaction_committable import TransactionCommittable


class XACommittable(TransactionCommittable[Xid]):
    """All that one commit shows."""

    @classmethod
    def transaction(cls, write_id: WriteId, fields: Any) -> Xid:
        """From its parts."""
        del write_id
        gtrid, bqual = map(text, fields)
        return Xid(gtrid, bqual)

    @classmethod
    def fields(cls, transaction: Xid) -> list[str]:
        """As plain data."""
        return [transaction.gtrid, transaction.bqual]
