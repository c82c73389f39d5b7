"""Puts through the REST gateway, sent by executors.

One rule: a request is sent again as a whole until the gateway says that every row of it is put.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import quote

import pyarrow as pa

from headgate.connect.rest import Answer, Client, Endpoint, RetryPolicy
from headgate.connect.text import Piece, pieces
from headgate.errors import UserError
from headgate.sink.partitions import Place

_ANY_ROW = "rows"  # the gateway wants a key in the path, and takes those in the body


@dataclass(frozen=True)
class PutWriter:
    """Writes the rows of one partition."""

    who: str
    place: Endpoint
    table: str
    keys: tuple[str, ...]
    rows: int
    size: int
    seconds: float

    def __call__(self, place: Place, batches: Iterator[pa.RecordBatch]) -> str:
        """Put all rows. HBase has them in its log when the gateway has answered."""
        del place
        missing = f"{self.who}: a row has no key, {', '.join(self.keys)} is null or empty: give every row one"
        with Client(self.place) as client:
            for batch in batches:
                for piece in pieces(batch, rows=self.rows, size=self.size, missing=missing):
                    self._put(client, piece)
        return ""

    def _put(self, client: Client, piece: Piece) -> None:
        texts = bytes(piece.body[1:])  # without the first comma
        if not texts:
            return
        # Spark may be set to break long Base64 texts into lines, which the gateway does not read.
        body = b'{"Row":[' + texts.replace(rb"\r\n", b"") + b"]}"
        patience = RetryPolicy(self.seconds, f"{self.who}: cannot put into table {self.table}")
        self._check(client.ask("PUT", f"/{quote(self.table)}/{_ANY_ROW}", patience=patience, body=body))

    def _check(self, answer: Answer) -> None:
        if answer.status == 404:
            raise UserError(
                f"{self.who}: table {self.table}, or a family of it, is gone: {answer.reason}: make it again"
            )
        if answer.status != 200:
            raise UserError(f"{self.who}: table {self.table} does not take the rows: {answer.reason}")
