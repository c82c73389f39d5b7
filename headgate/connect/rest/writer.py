"""Rows on their way to a server, in requests of bounded size, sent by executors.

One rule: a request is sent until all its rows are done, or one is refused: each time from the first row that is not
done on, in order, so that of two rows with one key the later one stays.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from headgate.connect.rest.client import Asking, Response, RestClient
from headgate.connect.rest.endpoint import Endpoint
from headgate.connect.text import Piece, pieces
from headgate.sink.partitions import Place
from headgate.values import Duration, count, duration_ms


@dataclass(frozen=True)
class Bounds:
    """How much goes with one request, and how long one is tried."""

    rows: int
    size: int
    """Bytes; a single row may have more."""
    seconds: float

    @classmethod
    def of(cls, *, bulk_rows: int, bulk_bytes: int, timeout: Duration) -> "Bounds":
        """The options that users write, checked."""
        return cls(
            rows=count(bulk_rows, name="bulk_rows", example=1_000, least=1),
            size=count(bulk_bytes, name="bulk_bytes", example=5 << 20, least=1),
            seconds=duration_ms(timeout, name="timeout", example="60s", least=1) / 1_000,
        )


@dataclass(frozen=True, kw_only=True)
class RequestWriter(ABC):
    """Writes the rows of one partition. A subclass says what a request is, and what its answer means."""

    who: str
    place: Endpoint
    target: str
    """The index or table."""
    keys: tuple[str, ...]
    """The columns that the key of a row is made of."""
    bounds: Bounds

    method: ClassVar[str]
    kind: ClassVar[str] = "application/json"
    """The content type of a request."""
    named: ClassVar[tuple[str, str]]
    """What the server calls a target, and the key of a row."""

    @property
    @abstractmethod
    def path(self) -> str:
        """Where requests go."""

    @abstractmethod
    def body(self, rows: Piece) -> bytes | memoryview:
        """A request with these rows; empty if there is nothing to be written."""

    @abstractmethod
    def undone(self, answer: Response, rows: int) -> tuple[int, str] | None:
        """The first row to send again, and why; None if all is done. Raises what sending again cannot help."""

    def __call__(self, place: Place, batches: Iterator[pa.RecordBatch]) -> str:
        """Send all rows. The server has them for good when it has answered."""
        del place
        keys, key = ", ".join(self.keys), self.named[1]
        missing = f"{self.who}: a row has no {key}, {keys} is null or empty: give every row one"
        with RestClient(self.place) as client:
            for batch in batches:
                for piece in pieces(batch, rows=self.bounds.rows, size=self.bounds.size, missing=missing):
                    self._send(client, piece)
        return ""

    def _send(self, client: RestClient, rows: Piece) -> None:
        asking = Asking(self.bounds.seconds, f"{self.who}: cannot write to {self.named[0]} {self.target}")
        while body := self.body(rows):
            answer = client.ask(self.method, self.path, asking=asking, body=body, kind=self.kind)
            undone = self.undone(answer, len(rows))
            if undone is None:
                return
            first, reason = undone
            rows = rows.since(first)
            asking.again_or_raise(reason)
