"""The receipts of a job, from its history and from the records that are kept.

One rule: what the history lost and a record still names is taken from there, and said to be. What neither has is
missing, and nothing is put in its place.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from headgate.core import recovery
from headgate.core.records import CompletedCheckpoint, EpochRecord, Record, Transaction
from headgate.errors import BadStorage
from headgate.receipts.receipt import EVENT, Receipt, bare, receipts_in
from headgate.receipts.sequence import GenerationBegan
from headgate.store.jobstore import JobStore


@dataclass(frozen=True)
class JobReceipts:
    """All that is known of what a job has published."""

    published: tuple[Receipt, ...]
    """In the order of generations and batches."""
    rebuilt: frozenset[tuple[str, int, int]]
    """Of these the history has nothing: they are told by a record, without the time of their commit."""
    in_doubt: tuple[Receipt, ...]
    """The newest checkpoint names them, and nobody has written down that they are committed."""
    abandoned: tuple[Transaction, ...]
    """Given up by a user, on record."""
    began: tuple[GenerationBegan, ...]
    cuts: Mapping[str, tuple[int, int]]
    """Of each task, the generation and the batch of its cut in the newest completed checkpoint."""
    newest: int | None
    problems: tuple[str, ...]
    """What could not be read."""

    def sinks(self) -> list[str]:
        """All sinks of which anything is known."""
        return sorted({*(each.sink for each in (*self.published, *self.in_doubt)), *(a.sink for a in self.abandoned)})


def gather(store: JobStore) -> JobReceipts:
    """Read all there is. Records first: what is committed meanwhile is in the history then, and in doubt nowhere."""
    kept = list(store.read_records())
    history = store.history()
    history.look()
    return put_together(kept, history.lines())


def put_together(kept: Collection[tuple[Record, Mapping[str, Any]]], lines: Iterable[Mapping[str, Any]]) -> JobReceipts:
    """What records and lines of the history come to."""
    told: dict[tuple[str, int, int], Receipt] = {}
    began: dict[int, GenerationBegan] = {}
    problems: list[str] = []
    committed: set[object] = set()
    """Checkpoints of which every sink has committed what it owed."""
    for line in lines:
        event = line.get("event")
        if event == EVENT:
            try:
                receipt = receipt_of(line)
            except BadStorage as error:
                problems.append(str(error))
                continue
            told[receipt.key] = _earlier(told.get(receipt.key), receipt)
        elif event == "checkpoint-committed":
            committed.add(line.get("id"))
        elif event == "generation" and type(line.get("generation")) is int:
            began[line["generation"]] = GenerationBegan(line["generation"], line.get("base"))
        elif event == "unreadable":
            problems.append(f"{line.get('bytes')} bytes of {line.get('where')} cannot be read: it may have receipts")
        elif event == "gap":
            problems.append(f"the history lacks {line.get('lines')} lines: {line.get('why')}; some may be receipts")
    records = tuple(record for record, _ in kept)
    named = _named(kept, problems)
    owed = {_key(each) for permit, each in recovery.owed(records) if permit.checkpoint not in committed}
    abandoned = tuple(each for record in records if isinstance(record, EpochRecord) for each in record.abandoned)
    given_up = {_key(each) for each in abandoned}
    lost = {key: receipt for key, receipt in named.items() if key not in told and key not in given_up}
    rebuilt = {key: receipt for key, receipt in lost.items() if key not in owed}
    for record in records:
        if isinstance(record, EpochRecord) and record.ending is None:
            began.setdefault(record.generation, GenerationBegan(record.generation, record.base))
    completed = [record for record in records if isinstance(record, CompletedCheckpoint)]
    newest = completed[-1] if completed else None
    published = sorted((told | rebuilt).values(), key=lambda one: (one.generation, one.after, one.through, one.sink))
    return JobReceipts(
        published=tuple(published),
        rebuilt=frozenset(rebuilt),
        in_doubt=tuple(receipt for key, receipt in lost.items() if key in owed),
        abandoned=abandoned,
        began=tuple(began[each] for each in sorted(began)),
        cuts={} if newest is None else {one.task: (newest.generation, one.batch) for one in newest.tasks},
        newest=None if newest is None else newest.id,
        problems=tuple(problems),
    )


def receipt_of(line: Mapping[str, Any]) -> Receipt:
    """The receipt in a line of the history. ``BadStorage`` if there is none that can be read."""
    return Receipt.of(line.get(EVENT), f"the history, at {line.get('at')},")


def of_checkpoint(lines: Iterable[Mapping[str, Any]], checkpoint: int) -> list[Receipt]:
    """The receipts of one checkpoint, in the order of sinks. One that cannot be read raises."""
    found: dict[tuple[str, int, int], Receipt] = {}
    for line in lines:
        if line.get("event") == EVENT and line.get("id") == checkpoint:
            receipt = receipt_of(line)
            found[receipt.key] = _earlier(found.get(receipt.key), receipt)
    return sorted(found.values(), key=lambda one: (one.sink, one.generation))


def _named(
    kept: Collection[tuple[Record, Mapping[str, Any]]], problems: list[str]
) -> dict[tuple[str, int, int], Receipt]:
    """Every transaction that a record names, as a receipt."""
    found: dict[tuple[str, int, int], Receipt] = {}
    for record, extra in kept:
        if not isinstance(record, CompletedCheckpoint):
            continue
        try:
            named = named_by(record, extra)
        except BadStorage as error:
            problems.append(str(error))
            named = named_by(record, {})
        for each in named:
            found.setdefault(each.key, each)
    return found


def named_by(record: CompletedCheckpoint, extra: Mapping[str, Any]) -> list[Receipt]:
    """What a checkpoint's record says of the transactions that it names. ``BadStorage`` if that cannot be read."""
    there = {each.key: each for each in receipts_in(extra, f"the record of checkpoint {record.id}")}
    return [
        replace(
            there.get(_key(each)) or bare(each, ""),
            committable=each.committable,
            published_with=record.id,
        )
        for each in record.transactions
    ]


def _earlier(one: Receipt | None, other: Receipt) -> Receipt:
    """A commit that is repeated after a crash is told twice: the first time counts, with what either knows."""
    if one is None:
        return other
    return replace(one, rows=other.rows if one.rows is None else one.rows, hash=one.hash or other.hash)


def _key(transaction: Transaction) -> tuple[str, int, int]:
    return transaction.sink, transaction.generation, transaction.checkpoint
