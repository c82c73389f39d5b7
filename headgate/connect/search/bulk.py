"""Bulk requests, sent by executors.

One rule: what was not done is sent again from the first row that was not done on, in order, so that of two rows with
one id the later one stays.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any

import pyarrow as pa

from headgate.connect.rest import BUSY, Answer, Client, Endpoint, RetryPolicy, error_text, shortened
from headgate.connect.text import Piece, pieces
from headgate.core.ids import Batch
from headgate.errors import ExternalError, FencedOff, UserError
from headgate.sink.partitions import Place

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


@dataclass(frozen=True)
class BulkWriter:
    """Writes the lines of one partition."""

    who: str
    place: Endpoint
    index: str
    ids: tuple[str, ...]
    versions: "Versions"
    batch: Batch
    rows: int
    size: int
    seconds: float

    def __call__(self, place: Place, batches: Iterator[pa.RecordBatch]) -> str:
        """Send all lines. The server has them on its disk when it has answered."""
        del place
        missing = f"{self.who}: a row has no id, {', '.join(self.ids)} is null or empty: give every row one"
        with Client(self.place) as client:
            for batch in batches:
                for piece in pieces(batch, rows=self.rows, size=self.size, missing=missing):
                    self._send(client, piece)
        return ""

    def _send(self, client: Client, piece: Piece) -> None:
        patience = RetryPolicy(self.seconds, f"{self.who}: cannot write to index {self.index}")
        todo: Piece | None = piece
        while todo is not None:
            answer = client.ask(
                "POST",
                f"/{self.index}/_bulk?filter_path={_WANTED}",
                patience=patience,
                body=todo.body,
                kind="application/x-ndjson",
            )
            undone = self._undone(answer, len(todo))
            if undone is None:
                return
            row, reason = undone
            todo = todo.since(row)
            patience.rest(reason)

    def _undone(self, answer: Answer, rows: int) -> tuple[int, str] | None:
        """The first row to send again, and why; None if all is done. Raises what sending again cannot help."""
        if answer.status == 413:
            raise UserError(f"{self.who}: {answer.reason}: a request is too large for the server: lower bulk_bytes")
        if answer.status != 200:
            raise UserError(f"{self.who}: index {self.index} does not take the rows: {answer.reason}")
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
                f"{self.who}: index {self.index} does not take document {_named(refused[0])}: correct the row or the "
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
                    f"{self.who}: document {item.get('_id')} of index {self.index} has version {there}, one of "
                    f"Headgate's own, which is above all in the column of versions, like {given}: make the index anew"
                )


def _compared(item: dict[str, Any]) -> tuple[int, int]:
    """The version that a document has, and the one that was given, as far as the server says."""
    found = _VERSIONS.search(error_text(item.get("error") or {}))
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _named(item: dict[str, Any]) -> str:
    return shortened(f"{item.get('_id')}: {error_text(item.get('error') or {})}")
