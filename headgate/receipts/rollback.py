"""What was published after a checkpoint: what going back to it would bring out again.

One rule: it lists, and changes nothing. It is told by receipts alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from headgate.errors import InvalidOption
from headgate.receipts.gather import JobReceipts
from headgate.receipts.receipt import Receipt
from headgate.receipts.sequence import batches, shown

TAKE_BACK = {
    "files": "yes, by hand: the files have names of their own, and can be moved away",
    "table": "by hand: rows of this job are not told from others",
    "topic": "no: what a topic has stays until it expires",
    "unknown": "nobody knows",
}


@dataclass(frozen=True)
class PublishedAfter:
    """What one sink published after a checkpoint."""

    sink: str
    receipts: tuple[Receipt, ...]
    in_doubt: tuple[Receipt, ...]

    @property
    def rows(self) -> int | None:
        """How many rows. None if nobody counted some."""
        counts = [each.rows for each in self.receipts]
        return None if None in counts else sum(count for count in counts if count is not None)

    @property
    def take_back(self) -> str:
        """Whether the sink could take it back."""
        place = next((each.place for each in reversed(self.receipts) if each.place), None)
        if place is None:
            return TAKE_BACK["unknown"]
        kind = "topic" if place.startswith("kafka:") else "table" if "://" in place else "files"
        return TAKE_BACK[kind]

    def data(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "sink": self.sink,
            "rows": self.rows,
            "take_back": self.take_back,
            "receipts": [each.data() for each in self.receipts],
            "in_doubt": [each.data() for each in self.in_doubt],
        }

    def text(self) -> str:
        """For people."""
        counted = "rows that nobody counted" if self.rows is None else f"{self.rows} rows"
        lines = [f"{self.sink}: {counted} in {len(self.receipts)} commits; can be taken back: {self.take_back}"]
        lines += [_line(each) for each in self.receipts]
        lines += [f"{_line(each)}, in doubt" for each in self.in_doubt]
        return "\n".join(lines)


def published_after(receipts: JobReceipts, checkpoint: int) -> list[PublishedAfter]:
    """What every sink published after a checkpoint that is known. ``InvalidOption`` if it is not."""
    known = {each.checkpoint for each in (*receipts.published, *receipts.in_doubt)}
    known |= {one.base for one in receipts.began if one.base is not None}
    if receipts.newest is not None:
        known.add(receipts.newest)
    if not known or checkpoint > max(known) or checkpoint < 0:
        last = f"the newest is {max(known)}" if known else "there is none"
        raise InvalidOption(f"checkpoint {checkpoint} is not known: {last}")
    return [
        PublishedAfter(
            name,
            tuple(each for each in receipts.published if each.sink == name and each.checkpoint > checkpoint),
            tuple(each for each in receipts.in_doubt if each.sink == name and each.checkpoint > checkpoint),
        )
        for name in receipts.sinks()
    ]


def _line(receipt: Receipt) -> str:
    rows = "?" if receipt.rows is None else str(receipt.rows)
    ranges = {**(receipt.sources or {}), **(receipt.channels or {})}
    read = "; ".join(f"{name} {shown(begin)} to {shown(end)}" for name, (begin, end) in ranges.items())
    what = f"  checkpoint {receipt.checkpoint}: {batches(receipt.after, receipt.through)}, {rows} rows"
    return f"{what}{f', read {read}' if read else ''}{f', {_named(receipt)}' if receipt.committable else ''}"


def _named(receipt: Receipt) -> str:
    text = receipt.committable or ""
    return f"committable of {len(text)} characters"


def total(found: Sequence[PublishedAfter]) -> str:
    """All of it, in a line."""
    commits = sum(len(each.receipts) for each in found)
    return f"{commits} commits of {len(found)} sinks; nothing was changed"
