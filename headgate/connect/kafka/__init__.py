"""Kafka, as a source and as a sink.

One rule: a transaction that was pre-committed can be ended by any process that knows its transactional id, producer id
and epoch.
"""

from headgate.connect.kafka.sink import sink
from headgate.connect.kafka.source import source

__all__ = ["sink", "source"]
