"""What is proven of a job: from source offsets, receipts, and the sinks themselves.

One rule: it says what was proven and what was not. No finding that is a problem does not mean that all was looked at;
what could not be looked at is a finding of its own.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from headgate.receipts.gather import JobReceipts
from headgate.receipts.looking import ToCompare, look
from headgate.receipts.receipt import Receipt
from headgate.receipts.sequence import AuditFinding, AuditKind, ReceiptSequence, batches, follow, shown


@dataclass(frozen=True)
class SinkProof:
    """What is proven of one sink."""

    sink: str
    receipts: int
    rows: int | None
    """How many rows the receipts have. None if nobody counted some."""
    found_rows: int | None
    first: int | None
    last: int | None
    """The first and the last checkpoint with a receipt."""
    sources: Mapping[str, tuple[str | None, str | None]]
    """What was read for it, from the first receipt to the last."""
    proven: str
    findings: tuple[AuditFinding, ...]

    @property
    def holds(self) -> bool:
        """Whether nothing is known to be missing or doubled."""
        return not any(each.kind.is_problem for each in self.findings)

    @property
    def complete(self) -> bool:
        """Whether all of it was proven."""
        return not self.findings

    def data(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "sink": self.sink,
            "holds": self.holds,
            "complete": self.complete,
            "receipts": self.receipts,
            "rows": self.rows,
            "found_rows": self.found_rows,
            "first_checkpoint": self.first,
            "last_checkpoint": self.last,
            "read": {name: list(each) for name, each in self.sources.items()},
            "proven": self.proven,
            "findings": [each.data() for each in self.findings],
        }

    def text(self) -> str:
        """For people."""
        said = "nothing is missing or doubled"
        if not self.complete:
            said = "nothing is known to be missing or doubled, but not all is proven"
        if not self.holds:
            said = "NOT exactly once"
        counted = "rows that nobody counted" if self.rows is None else f"{self.rows} rows"
        head = f"{self.sink}: {said}: {self.receipts} receipts, {counted}"
        if self.first is not None:
            head += f", checkpoints {self.first} to {self.last}"
        lines = [head]
        lines += [f"  read {name} from {shown(begin)} to {shown(end)}" for name, (begin, end) in self.sources.items()]
        if self.proven:
            lines.append(f"  compared: {self.proven}")
        lines += [f"  {each.kind.value}: {each.text}" for each in self.findings]
        return "\n".join(lines)


@dataclass(frozen=True)
class JobProof:
    """What is proven of all sinks of a job."""

    job: str
    sinks: tuple[SinkProof, ...]
    problems: tuple[str, ...]
    """What could not be read of the receipts themselves."""

    @property
    def holds(self) -> bool:
        """Whether nothing is known to be missing, doubled or damaged."""
        return not self.problems and all(each.holds for each in self.sinks)

    def data(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "job": self.job,
            "holds": self.holds,
            "sinks": [each.data() for each in self.sinks],
            "unreadable": list(self.problems),
        }

    def text(self) -> str:
        """For people."""
        parts = [each.text() for each in self.sinks]
        parts += [f"unreadable: {each}" for each in self.problems]
        return "\n".join(parts)


def prove(
    job: str,
    receipts: JobReceipts,
    options: Mapping[str, str] | None = None,
    again: Callable[[], JobReceipts] | None = None,
) -> JobProof:
    """Prove what can be proven of a job. ``options`` are for the client of Kafka.

    ``again`` gathers the receipts once more, if a sink has something of which there was none: the job may be running.
    """
    sinks = tuple(_prove(job, name, receipts, options or {}, again or (lambda: receipts)) for name in receipts.sinks())
    return JobProof(job, sinks, receipts.problems)


def _prove(
    job: str, name: str, receipts: JobReceipts, options: Mapping[str, str], again: Callable[[], JobReceipts]
) -> SinkProof:
    @cache
    def of_now() -> list[Receipt]:
        found = again()
        return [each for each in (*found.published, *found.in_doubt) if each.sink == name]

    published = [each for each in receipts.published if each.sink == name]
    in_doubt = [each for each in receipts.in_doubt if each.sink == name]
    sequence = follow(published, receipts.began)
    findings = [*sequence.findings, *_end(sequence, in_doubt, receipts)]
    findings += [_rebuilt(each) for each in published if each.key in receipts.rebuilt]
    findings += [_in_doubt(each) for each in in_doubt]
    findings += [
        AuditFinding(
            AuditKind.MISSING,
            f"the commit of checkpoint {each.checkpoint} was given up by a user, on record: "
            f"{batches(each.after, each.through)} may be missing",
            each.checkpoint,
            each.generation,
        )
        for each in receipts.abandoned
        if each.sink == name
    ]
    looked = look(job, name, ToCompare(published, in_doubt, sequence.whole, of_now), options)
    counts = [each.rows for each in published]
    return SinkProof(
        sink=name,
        receipts=len(published),
        rows=None if None in counts else sum(count for count in counts if count is not None),
        found_rows=looked.rows,
        first=published[0].checkpoint if published else None,
        last=published[-1].checkpoint if published else None,
        sources=_read(sequence.live),
        proven=looked.proven,
        findings=(*findings, *looked.findings),
    )


def _end(sequence: ReceiptSequence, in_doubt: Sequence[Receipt], receipts: JobReceipts) -> list[AuditFinding]:
    """Whether the receipts reach as far as the newest checkpoint was cut."""
    last = max((*sequence.live[-1:], *in_doubt), key=lambda one: (one.generation, one.through), default=None)
    if last is None or not last.task or last.task not in receipts.cuts:
        return []
    generation, batch = receipts.cuts[last.task]
    if generation < last.generation or batch <= last.through:
        return []
    return [
        AuditFinding(
            AuditKind.MISSING,
            f"checkpoint {receipts.newest} was cut after batch {batch}, and the receipts end with "
            f"batch {last.through}: there is none for {batches(last.through, batch)}",
            receipts.newest,
            generation,
        )
    ]


def _rebuilt(receipt: Receipt) -> AuditFinding:
    return AuditFinding(
        AuditKind.UNPROVEN,
        f"checkpoint {receipt.checkpoint}: its receipt is not in the history, and was taken from a checkpoint's "
        "record: when it was committed nobody knows",
        receipt.checkpoint,
        receipt.generation,
    )


def _in_doubt(receipt: Receipt) -> AuditFinding:
    rows = "rows that nobody counted" if receipt.rows is None else f"{receipt.rows} rows"
    return AuditFinding(
        AuditKind.IN_DOUBT,
        f"checkpoint {receipt.checkpoint} decided to commit {batches(receipt.after, receipt.through)} ({rows}), and "
        "nobody has written down that it is committed: run the job, which commits it",
        receipt.checkpoint,
        receipt.generation,
    )


def _read(live: Sequence[Receipt]) -> dict[str, tuple[str | None, str | None]]:
    found: dict[str, tuple[str | None, str | None]] = {}
    for receipt in live:
        for name, (before, after) in {**(receipt.sources or {}), **(receipt.channels or {})}.items():
            found[name] = (found[name][0] if name in found else before, after)
    return found
