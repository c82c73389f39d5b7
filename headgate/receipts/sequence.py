"""Whether the receipts of one sink follow on each other.

One rule: what a receipt covers begins where the one before it ended, in batches and in offsets. A gap is something of
which nobody says that it was published, an overlap something that was published twice; both are named, with the
checkpoint, the batches and the offsets. Pure: receipts in, findings out.

A generation that began at a checkpoint before what was published last publishes that part again.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from headgate.receipts.receipt import Range, Receipt

NO_BATCH = -1
SHOWN_MAX = 120


class AuditKind(Enum):
    """What is wrong, or not known."""

    MISSING = "missing"
    DOUBLED = "doubled"
    CHANGED = "changed"
    FOREIGN = "foreign"
    IN_DOUBT = "in doubt"
    UNPROVEN = "not proven"

    @property
    def is_problem(self) -> bool:
        """Whether something is wrong, and not only unknown."""
        return self in (AuditKind.MISSING, AuditKind.DOUBLED, AuditKind.CHANGED, AuditKind.FOREIGN)


@dataclass(frozen=True)
class AuditFinding:
    """One thing that is wrong with a sink, or that could not be proven."""

    kind: AuditKind
    text: str
    checkpoint: int | None = None
    generation: int | None = None

    def data(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "kind": self.kind.value,
            "checkpoint": self.checkpoint,
            "generation": self.generation,
            "text": self.text,
        }


@dataclass(frozen=True)
class GenerationBegan:
    """A generation, and the checkpoint that it went on from."""

    generation: int
    base: int | None


@dataclass(frozen=True)
class ReceiptSequence:
    """What the receipts of a sink come to."""

    findings: tuple[AuditFinding, ...]
    live: tuple[Receipt, ...]
    """Those that follow on each other, up to now."""
    whole: bool
    """Whether they begin with the first batch."""


def follow(receipts: Iterable[Receipt], began: Sequence[GenerationBegan]) -> ReceiptSequence:
    """Follow the receipts of one sink through the generations of its job."""
    of_generation: dict[int, list[Receipt]] = {}
    for receipt in receipts:
        of_generation.setdefault(receipt.generation, []).append(receipt)
    bases = {each.generation: each.base for each in began}
    findings: list[AuditFinding] = []
    live: list[Receipt] = []
    whole = True
    for generation in sorted({*of_generation, *bases}):
        if generation in bases:
            base = bases[generation]
            again = [one for one in live if base is None or one.checkpoint > base]
            live = [one for one in live if base is not None and one.checkpoint <= base]
            findings += [_again(one, generation, base) for one in again]
        for receipt in sorted(of_generation.get(generation, ()), key=lambda one: (one.after, one.through)):
            before = live[-1] if live else None
            moved = before is not None and "" not in (before.task, receipt.task) and before.task != receipt.task
            if before is None or moved:
                if receipt.after != NO_BATCH:
                    whole = False
                    findings.append(_unknown_beginning(receipt))
            else:
                findings += _follows(before, receipt)
            live.append(receipt)
    return ReceiptSequence(tuple(findings), tuple(live), whole)


def batches(after: int, through: int) -> str:
    """The batches of a range, in words."""
    return f"batch {through}" if through == after + 1 else f"batches {after + 1} to {through}"


def _again(receipt: Receipt, generation: int, base: int | None) -> AuditFinding:
    where = "from the beginning" if base is None else f"from checkpoint {base}"
    return AuditFinding(
        AuditKind.DOUBLED,
        f"checkpoint {receipt.checkpoint} published {batches(receipt.after, receipt.through)}"
        f"{_offsets(receipt)}, and generation {generation} began {where}, before that: they come out again",
        receipt.checkpoint,
        receipt.generation,
    )


def _unknown_beginning(receipt: Receipt) -> AuditFinding:
    return AuditFinding(
        AuditKind.UNPROVEN,
        f"the receipts begin with checkpoint {receipt.checkpoint}, after batch {receipt.after}: of what was published "
        "before there are none",
        receipt.checkpoint,
        receipt.generation,
    )


def _follows(before: Receipt, receipt: Receipt) -> Iterator[AuditFinding]:
    about = receipt.checkpoint, receipt.generation
    if receipt.after > before.through:
        yield AuditFinding(
            AuditKind.MISSING,
            f"there is no receipt for {batches(before.through, receipt.after)}, between checkpoints "
            f"{before.checkpoint} and {receipt.checkpoint}{_between(before, receipt)}: whether they were "
            "published is not proven",
            *about,
        )
    elif receipt.after < before.through:
        yield AuditFinding(
            AuditKind.DOUBLED,
            f"checkpoints {before.checkpoint} and {receipt.checkpoint} both published "
            f"{batches(receipt.after, min(before.through, receipt.through))}",
            *about,
        )
    else:
        yield from _offsets_follow(before, receipt)


def _offsets_follow(before: Receipt, receipt: Receipt) -> Iterator[AuditFinding]:
    for what, first, second in _pairs(before, receipt):
        for name in first:
            if name in second and first[name][1] != second[name][0]:
                yield AuditFinding(
                    AuditKind.MISSING,
                    f"{what} {name}: checkpoint {before.checkpoint} read through {shown(first[name][1])}, and "
                    f"checkpoint {receipt.checkpoint} from {shown(second[name][0])}: what is between was left out, or "
                    "read twice",
                    receipt.checkpoint,
                    receipt.generation,
                )


def _pairs(before: Receipt, receipt: Receipt) -> Iterator[tuple[str, Mapping[str, Range], Mapping[str, Range]]]:
    if before.sources is not None and receipt.sources is not None:
        yield "source", before.sources, receipt.sources
    if before.channels is not None and receipt.channels is not None:
        yield "channel", before.channels, receipt.channels


def _between(before: Receipt, receipt: Receipt) -> str:
    said = [
        f"{what} {name} from {shown(first[name][1])} to {shown(second[name][0])}"
        for what, first, second in _pairs(before, receipt)
        for name in first
        if name in second
    ]
    return f" ({'; '.join(said)})" if said else ""


def _offsets(receipt: Receipt) -> str:
    ranges = {**(receipt.sources or {}), **(receipt.channels or {})}
    said = [f"{name} from {shown(before)} to {shown(after)}" for name, (before, after) in ranges.items()]
    return f" ({'; '.join(said)})" if said else ""


def shown(offset: str | None) -> str:
    """An offset for people."""
    if offset is None:
        return "the beginning"
    return offset if len(offset) <= SHOWN_MAX else f"{offset[:SHOWN_MAX]}..."
