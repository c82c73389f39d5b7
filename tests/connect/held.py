"""An upsert that stops its own worker just before the statement that writes, where somebody asks for that.

One rule: a file named ``hold`` stops whoever takes it away, once. What became of its rows it says in ``woken``.
"""

import os
import signal
from dataclasses import dataclass, fields
from pathlib import Path

from psycopg import sql

from headgate.connect.postgres.client import PostgresConnection
from headgate.connect.postgres.upserting import Upserting, UpsertSink
from headgate.errors import FencedOff
from headgate.sink.partitions import Write

HOLD, HELD, WOKEN = "hold", "held", "woken"


@dataclass(frozen=True)
class Held(Upserting):
    """Writes the partitions of one attempt, but for one that waits to be woken."""

    directory: Path

    def _merge(self, connection: PostgresConnection, names: sql.Composed) -> None:
        try:
            (self.directory / HOLD).rename(self.directory / f".{HELD}")
        except FileNotFoundError:
            super()._merge(connection, names)
            return
        (self.directory / f".{HELD}").write_text(str(os.getpid()))
        (self.directory / f".{HELD}").rename(self.directory / HELD)
        os.kill(os.getpid(), signal.SIGSTOP)
        outcome = "written"
        try:
            super()._merge(connection, names)
        except FencedOff:
            outcome = "fenced off"
            raise
        finally:
            (self.directory / f".{WOKEN}").write_text(outcome)
            (self.directory / f".{WOKEN}").rename(self.directory / WOKEN)


def listen(directory: Path) -> None:
    """Look for the file in every worker that this process has write."""
    upserting = UpsertSink._upserting

    def held(*arguments: object) -> Write:
        made = upserting(*arguments)  # type: ignore[arg-type]
        assert isinstance(made, Upserting)
        return Held(**{field.name: getattr(made, field.name) for field in fields(made)}, directory=directory)

    UpsertSink._upserting = held  # type: ignore[method-assign, assignment]
