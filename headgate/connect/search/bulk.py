"""Bulk requests: what they look like, and what their answers mean.

One rule: a row is done if its document is there, or one of a higher version that the user gave; what the server was too
busy for is sent again, and all else is refused.
"""

import json
import re
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar

from headgate.connect.rest.client import BUSY, Response, error_text, shortened
from headgate.connect.rest.writer import RequestWriter
from headgate.connect.text import Piece
from headgate.core.ids import Batch
from headgate.errors import ExternalError, FencedOff, UserError

CONFLICT = 409
OURS_LEAST = 1 << 56
"""Versions of Headgate are above this, and numbers that people count with mostly below."""
_VERSIONS = re.compile(r"current version \[(\d+)\].*provided \[(\d+)\]")
_WANTED = "errors,items.*._id,items.*.status,items.*.error"


class Versions(Enum):
    """Whose versions documents get."""

    OURS = "ours"
    """Headgate's, by which what comes late is kept out."""
    THEIRS = "theirs"
    """The user's, from a column."""
    NONE = "none"
    """The server's own."""


@dataclass(frozen=True, kw_only=True)
class BulkWriter(RequestWriter):
    """Writes the lines of one partition. The server has them on its disk when it has answered."""

    versions: Versions
    batch: Batch

    method: ClassVar[str] = "POST"
    kind: ClassVar[str] = "application/x-ndjson"
    named: ClassVar[tuple[str, str]] = ("index", "id")

    @property
    def path(self) -> str:
        """The bulk requests of the index, with answers that say no more than is read here."""
        return f"/{self.target}/_bulk?filter_path={_WANTED}"

    def body(self, rows: Piece) -> memoryview:
        """The lines, as Spark wrote them."""
        return rows.body

    def undone(self, answer: Response, rows: int) -> tuple[int, str] | None:
        """See ``RequestWriter.undone``. The server says of each row how it went."""
        if answer.status == 413:
            raise UserError(f"{self.who}: {answer.reason}: a request is too large for the server: lower bulk_bytes")
        if answer.status != 200:
            raise UserError(f"{self.who}: index {self.target} does not take the rows: {answer.reason}")
        if answer.body.startswith(b'{"errors":false'):
            return None
        try:
            items = [next(iter(item.values())) for item in json.loads(answer.body)["items"]]
        except (ValueError, KeyError, TypeError, AttributeError):
            items = []
        if len(items) != rows:
            raise ExternalError(
                f"{self.who}: {self.place} answers a bulk request with something else: {shortened(str(answer.body))}"
            )
        self._refuse_conflicts(items)
        failed = [(row, item) for row, item in enumerate(items) if not self._is_done(item)]
        refused = [item for _, item in failed if item["status"] not in BUSY]
        if refused:
            raise UserError(
                f"{self.who}: index {self.target} does not take document {_named(refused[0])}: correct the row or the "
                f"mapping (one of {len(refused)} among {rows})"
            )
        return (failed[0][0], f"document {_named(failed[0][1])}") if failed else None

    def _is_done(self, item: dict[str, Any]) -> bool:
        """Whether the document is there; or one of a higher version, which it would not replace."""
        return item["status"] < 300 or (self.versions is Versions.THEIRS and item["status"] == CONFLICT)

    def _refuse_conflicts(self, items: list[dict[str, Any]]) -> None:
        """Raise if a document has a higher version that means something else than that a newer row is there."""
        conflicts = [item for item in items if item["status"] == CONFLICT]
        if conflicts and self.versions is Versions.OURS:
            raise FencedOff(
                f"{self.who}: batch {self.batch} is fenced off: document {_named(conflicts[0])}: let the process that "
                "leads now go on; or if others write the same documents, use fenced=False"
            )
        for item in conflicts if self.versions is Versions.THEIRS else ():
            there, given = _compared(item)
            if given < OURS_LEAST <= there:
                raise UserError(
                    f"{self.who}: document {item.get('_id')} of index {self.target} has version {there}, one of "
                    f"Headgate's own, which is above all in the column of versions, like {given}: make the index anew"
                )


def _compared(item: dict[str, Any]) -> tuple[int, int]:
    """The version that a document has, and the one that was given, as far as the server says."""
    found = _VERSIONS.search(error_text(item.get("error") or {}))
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _named(item: dict[str, Any]) -> str:
    return shortened(f"{item.get('_id')}: {error_text(item.get('error') or {})}")
