"""What brokers are asked besides records: a small client of Kafka's protocol, which ends transactions from any process.

One rule: others import from here, and never from the modules inside, so that all of them can be replaced without
anybody noticing.
"""

from headgate.connect.kafka.broker.problems import KafkaProblem
from headgate.connect.kafka.broker.protocol import BrokerClient, Ended, TransactionOutcome
from headgate.connect.kafka.broker.requests import (
    Broker,
    CommittedOffset,
    ListedTransaction,
    Metadata,
    Partition,
    Producer,
    TransactionDescription,
)

__all__ = [
    "Broker",
    "BrokerClient",
    "CommittedOffset",
    "Ended",
    "KafkaProblem",
    "ListedTransaction",
    "Metadata",
    "Partition",
    "Producer",
    "TransactionDescription",
    "TransactionOutcome",
]
