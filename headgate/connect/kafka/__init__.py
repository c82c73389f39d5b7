"""Kafka, as a source and as a sink.

One rule: a transaction that was pre-committed can be ended by any process that knows its transactional id, producer id
and epoch.

::

    reading    the source: Spark's own connector, and what is asked and remembered beside it
    writing    the sink, in two phases or staged
    producer   librdkafka: rows into a transaction that stays open
    broker     a small client of Kafka's protocol: ends transactions that anybody left open
    security   how all of them are let in

The rooms are not called ``source`` and ``sink`` because the functions here are, and would hide them.
"""

from headgate.connect.kafka.reading.source import source
from headgate.connect.kafka.writing.sink import sink

__all__ = ["sink", "source"]
