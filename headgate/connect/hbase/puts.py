"""Puts through the REST gateway: what they look like, and what their answers mean.

One rule: a request is sent again as a whole until the gateway says that every row of it is put.
"""

from dataclasses import dataclass
from typing import ClassVar
from urllib.parse import quote

from headgate.connect.rest.client import Response
from headgate.connect.rest.writer import RequestWriter
from headgate.connect.text import Piece
from headgate.errors import UserError

_ANY_ROW = "rows"  # the gateway wants a key in the path, and takes those in the body


@dataclass(frozen=True, kw_only=True)
class PutWriter(RequestWriter):
    """Writes the rows of one partition. HBase has them in its log when the gateway has answered."""

    method: ClassVar[str] = "PUT"
    named: ClassVar[tuple[str, str]] = ("table", "key")

    @property
    def path(self) -> str:
        """Rows of the table."""
        return f"/{quote(self.target)}/{_ANY_ROW}"

    def body(self, rows: Piece) -> bytes:
        """The rows as one document. A row without cells is empty, and nothing is to be put."""
        texts = bytes(rows.body[1:])  # without the first comma
        # Spark may be set to break long Base64 texts into lines, which the gateway does not read.
        return b'{"Row":[' + texts.replace(rb"\r\n", b"") + b"]}" if texts else b""

    def undone(self, answer: Response, rows: int) -> None:
        """See ``RequestWriter.undone``. The gateway speaks of all rows at once."""
        del rows
        if answer.status == 404:
            raise UserError(
                f"{self.who}: table {self.target}, or a family of it, is gone: {answer.reason}: make it again"
            )
        if answer.status != 200:
            raise UserError(f"{self.who}: table {self.target} does not take the rows: {answer.reason}")
