"""Kafka, as a way in and as a way out.

One rule: a transaction that was sealed can be ended by any process that knows its transactional id, producer id and
epoch.
"""

from headgate.connect.kafka.sink import sink
from headgate.connect.kafka.source import source

__all__ = ["sink", "source"]
