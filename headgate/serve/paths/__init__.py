"""The paths of the API, a module for each group of them.

One rule: a handler finds the job, asks it, and shapes the answer. ``ALL`` is the list of groups: whoever adds one, adds
it there, its types to ``headgate.serve.models``, and its rows to docs/rest.md.
"""

from headgate.serve.paths import checkpoints, inspection, jobs, metrics, operations, past, receipts, state, stream

ALL = (
    *(jobs.add, checkpoints.add, past.add, receipts.add, inspection.add, state.add, operations.add, stream.add),
    metrics.add,
)
"""Paths with fixed names come before those with a parameter in the same place: Starlette takes the first that fits."""
