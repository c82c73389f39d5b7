"""What a user decides about commits by hand, as the history has it.

One rule: nothing is given up or committed by hand without a written reason.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from headgate.errors import InvalidOption
from headgate.redact import redact
from headgate.store.jobstore import JobStore

REASON_MAX = 2_000
ABANDON, COMMIT = "abandon-commits", "commit"


def checked_reason(reason: str | None, what: str) -> str:
    """The reason, as it is written down. ``InvalidOption`` if there is none."""
    text = " ".join((reason or "").split())
    if not text:
        raise InvalidOption(f'{what} is recorded with a reason: say --reason "why"')
    if len(text) > REASON_MAX:
        raise InvalidOption(f"the reason has {len(text)} characters: say it in {REASON_MAX}")
    return redact(text)


def decision(what: str, sinks: Sequence[str], reason: str, command: str) -> dict[str, Any]:
    """What the history has of it."""
    return {"decision": what, "sinks": list(sinks), "reason": reason, "command": command}


def note(store: JobStore, fields: Mapping[str, Any]) -> None:
    """Write a decision down for a job that nobody runs."""
    store.append_history([{"at": time.time_ns() // 1_000_000, "event": "decision", **fields}])
