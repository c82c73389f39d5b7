"""Tests for sinks of your own, and what they are made of.

One rule: whoever passes a contract may call itself what the contract says; Headgate's own sinks pass the same.

``TwoPhaseContract``     for exactly-once sinks: ``TwoPhaseSink``, ``WriteAheadSink``
``PreparedContract``     the same and more, for a ``PreparedSink``
``IdempotentContract``   for an ``IdempotentSink``
the rest                 for tests of one sink alone: who writes, what, and what must be seen

pytest runs them; a fixture ``spark`` gives them a session. Nothing here is loaded by a job.
"""

from headgate.testing.idempotent import IdempotentContract
from headgate.testing.prepared import PreparedContract
from headgate.testing.two_phase import (
    CONTEXT,
    ROWS,
    SINK,
    Row,
    TwoPhaseContract,
    compare,
    context_in,
    pre_commit,
    rows_in,
    rows_of,
    write,
    write_id,
)

__all__ = [
    "CONTEXT",
    "ROWS",
    "SINK",
    "IdempotentContract",
    "PreparedContract",
    "Row",
    "TwoPhaseContract",
    "compare",
    "context_in",
    "pre_commit",
    "rows_in",
    "rows_of",
    "write",
    "write_id",
]
