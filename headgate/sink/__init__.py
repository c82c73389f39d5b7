"""The sinks of a job.

One rule: readers see only what was committed. What a batch writes is kept apart by (generation, batch, run) until it
is pre-committed for a checkpoint, and shown when that checkpoint is complete.

``api``        the two-phase interface, for Headgate's own sinks and for those of users
``staged``     a base: rows wait in files until their checkpoint is complete
``wal``        a base: staged rows are applied to another system once, with a marker
``prepared``   a base: rows wait in transactions of another system, which are committed by their names
``idempotent`` a base: rows are written at once, over themselves when they are replayed
``partitions`` work on rows, where the rows are
``files``      files in a directory, exactly once
``owner``      the names of transactions in other systems
``transactions``    what all sinks with such transactions share
``transaction_committable``     what they pre-commit
``committable``     what a sink with staged files pre-commits
``tally``      how many rows an attempt has written
``form``       committables as text
``staging``    where its files wait
``placing``    how they are put in place
``console``    for trying out: prints each batch

Not here: the tests that every sink passes (``headgate.testing``); when to pre-commit, commit or throw away. The core
decides that, and ``run`` calls the hooks.
"""

from headgate.sink.api import (
    AbortScope,
    FailedAttempts,
    Guarantee,
    SinkContext,
    StagedFile,
    StaleGenerations,
    TwoPhaseSink,
    Unpublished,
    WriteId,
)

__all__ = [
    "AbortScope",
    "FailedAttempts",
    "Guarantee",
    "SinkContext",
    "StagedFile",
    "StaleGenerations",
    "TwoPhaseSink",
    "Unpublished",
    "WriteId",
]
