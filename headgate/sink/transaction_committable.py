"""What a sink with transactions pre-commits for one checkpoint, and its form as text.

One rule: a committable names every transaction, down to the attempt of the task, so that none can go missing unnoticed,
and one that a forgotten task prepares later is none of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Self, TypeVar

from headgate.sink.api import WriteId
from headgate.sink.form import Whose, from_text, text, to_text

T = TypeVar("T")


@dataclass(frozen=True)
class TransactionCommittable(Generic[T]):
    """All that one commit shows. Here a transaction is a name; a subclass may know more of one, and says how."""

    PARTS: ClassVar[str] = "parts"
    """Where the transactions are in the text."""

    whose: Whose
    parts: tuple[tuple[WriteId, tuple[T, ...]], ...]
    """The attempts, with the transactions of each."""

    @classmethod
    def transaction(cls, write_id: WriteId, fields: Any) -> T:
        """One transaction of an attempt, from what ``fields`` made of it."""
        del write_id
        return text(fields)  # type: ignore[return-value]  # a subclass with another kind has another way

    @classmethod
    def fields(cls, transaction: T) -> Any:
        """A transaction as plain data."""
        return transaction

    def facts(self) -> Mapping[str, Any]:
        """What else the text has, as plain data."""
        return {}

    @classmethod
    def facts_in(cls, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        """The same read again, as arguments of the class."""
        del fields
        return {}

    @property
    def transactions(self) -> list[T]:
        """All transactions, in the order of batches."""
        return [each for _, transactions in self.parts for each in transactions]

    @property
    def write_ids(self) -> list[WriteId]:
        """The attempts, also those without a row."""
        return [write_id for write_id, _ in self.parts]

    def to_text(self) -> str:
        """The text that goes into the checkpoint."""
        parts = [
            [write_id.batch, write_id.run, [self.fields(each) for each in transactions]]
            for write_id, transactions in self.parts
        ]
        return to_text(self.whose, {**self.facts(), self.PARTS: parts})

    @classmethod
    def from_text(cls, committable: str) -> Self:
        """Read what ``to_text`` wrote. Anything else is refused."""
        return from_text(committable, cls._read)

    @classmethod
    def _read(cls, whose: Whose, fields: Any) -> Self:
        parts: dict[WriteId, tuple[T, ...]] = {}
        for batch, run, *rest in fields[cls.PARTS]:
            write_id = whose.write_id(batch, run)
            # Earlier versions of Headgate wrote the fields of a transaction one by one, for each transaction a part.
            listed = rest[0] if len(rest) == 1 and isinstance(rest[0], list) else [rest]
            found = tuple(cls.transaction(write_id, each) for each in listed)
            parts[write_id] = parts.get(write_id, ()) + found
        return cls(whose, tuple(parts.items()), **cls.facts_in(fields))
