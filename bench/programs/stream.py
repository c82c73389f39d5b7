"""What the jobs from files to files are told, by a variable of the environment. Only the standard library.

``out``, ``inbox``, ``where``: directories. ``interval``: of checkpoints. ``stateful``: whether every row's number is
remembered. ``conf``: settings of the peer. ``fails_at``: seconds since 1970 at which the job fails, once. ``restore``:
what Flink begins with.
"""

import json
import os
from typing import Any

VARIABLE = "HEADGATE_BENCH_STREAM"
DELAY_MS = 200
"""From a failure to the restart."""
FAILS_FOR_MS = 120
"""Flink's SQL knows the time and nothing else of the world, so it fails on every row within so long."""


def told() -> dict[str, Any]:
    """What this job is to be."""
    found: dict[str, Any] = json.loads(os.environ[VARIABLE])
    return found
