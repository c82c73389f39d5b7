"""How long markers are kept.

One rule: a marker that is not there proves nothing once the broker may have forgotten it.
"""

import time

from headgate.connect.kafka.broker import BrokerClient
from headgate.errors import UserError

RETENTION = "offsets.retention.minutes"
UNKNOWN_MS = 24 * 60 * 60 * 1000
"""What is taken for the retention when the broker does not say it."""


def may_be_forgotten(client: BrokerClient, begun_ms: int) -> bool:
    """Whether a marker that was set at that time or later may be gone. Half of the retention is left for clocks."""
    try:
        said = client.broker_config(RETENTION)
    except UserError:  # not for us to know
        said = None
    retention_ms = UNKNOWN_MS if said is None else int(said) * 60_000
    return int(time.time() * 1000) - begun_ms > retention_ms // 2
