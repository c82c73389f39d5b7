"""What a receipt says, and its form as plain data.

One rule: what does not read back as a receipt is refused, and never guessed at.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Self

from headgate.core.records import Transaction
from headgate.errors import BadStorage

SECTION = "receipts"
"""The section of a checkpoint's record with receipts of what it names."""
EVENT = "receipt"
"""The event of a receipt in the history."""
COMMITTABLE_MAX = 64 << 10
"""A longer committable is not kept in the history: its checkpoint's record has it for as long as that is kept."""
OFFSET_MAX = 8 << 10
"""A longer offset is kept as its digest, by which it can still be compared."""

Range = tuple[str | None, str | None]
"""Where something stood before and after. None: it had not begun."""


@dataclass(frozen=True)
class Receipt:
    """What one sink published of the batches after ``after`` through ``through`` of its task."""

    sink: str
    task: str
    generation: int
    checkpoint: int
    """The checkpoint for which it was pre-committed."""
    after: int
    through: int
    rows: int | None = None
    """How many rows were written. None if the sink cannot tell."""
    hash: str | None = None
    """A sum over what was published that does not depend on its order: of files, of their sizes and checksums. None if
    the sink has none.
    """
    sources: Mapping[str, Range] | None = None
    """Of each source that the task reads, its offsets before and after. None if nobody knows them."""
    channels: Mapping[str, Range] | None = None
    """Of each channel that it reads, the upstream batches."""
    place: str | None = None
    """Where any reader finds what was written."""
    committable: str | None = None
    """What the sink pre-committed. None if it is too long to be kept here."""
    pre_committed_ms: int | None = None
    committed_ms: int | None = None
    """When the commit was known here. None if nobody wrote that down."""
    published_with: int | None = None
    """The checkpoint with which it was published: a later one, if its own was given up."""
    recovered: bool = False
    """A later generation committed it, or committed it again."""

    @property
    def key(self) -> tuple[str, int, int]:
        """What tells it apart: sink, generation, checkpoint."""
        return self.sink, self.generation, self.checkpoint

    def data(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)

    def without_committable(self) -> Self:
        """The same, for where the committable stands beside it."""
        return replace(self, committable=None)

    @classmethod
    def of(cls, data: Any, where: str) -> Self:
        """Read ``data``. ``BadStorage`` if it is no receipt; what a later Headgate added is passed over."""
        try:
            known = {each.name: data[each.name] for each in fields(cls) if each.name in data}
            receipt = cls(**known)
        except (KeyError, TypeError, AttributeError) as error:
            raise BadStorage(f"{where} has a receipt that cannot be read: {error}") from error
        numbers = (receipt.generation, receipt.checkpoint, receipt.after, receipt.through)
        maybe = (receipt.rows, receipt.pre_committed_ms, receipt.committed_ms, receipt.published_with)
        texts = (receipt.sink, receipt.task)
        whole = all(type(each) is int for each in numbers) and all(each is None or type(each) is int for each in maybe)
        if not whole or not all(isinstance(each, str) for each in texts) or receipt.after > receipt.through:
            raise BadStorage(f"{where} has a receipt that cannot be read: {str(data)[:80]}")
        for name in ("place", "committable", "hash"):
            if not isinstance(getattr(receipt, name), str | None):
                raise BadStorage(f"{where} has a receipt whose {name} is not a text")
        try:
            return replace(receipt, sources=_ranges(receipt.sources), channels=_ranges(receipt.channels))
        except (TypeError, ValueError, AttributeError) as error:
            raise BadStorage(f"{where} has a receipt whose offsets cannot be read: {error}") from error


def receipts_in(extra: Mapping[str, Any], where: str) -> list[Receipt]:
    """The receipts that a record has. None of those that earlier releases wrote."""
    found = extra.get(SECTION, [])
    if not isinstance(found, list):
        raise BadStorage(f"{where} has receipts that are not a list: put back a good copy of it")
    return [Receipt.of(each, where) for each in found]


def bare(transaction: Transaction, task: str) -> Receipt:
    """What is known of a transaction of which nobody kept a receipt."""
    return Receipt(
        sink=transaction.sink,
        task=task,
        generation=transaction.generation,
        checkpoint=transaction.checkpoint,
        after=transaction.after,
        through=transaction.through,
    )


def _ranges(found: Any) -> Mapping[str, Range] | None:
    if found is None:
        return None
    ranges = {}
    for name, (before, after) in found.items():
        if not all(isinstance(each, str | None) for each in (before, after)):
            raise TypeError(f"{name} has no offsets")
        ranges[str(name)] = (before, after)
    return ranges
