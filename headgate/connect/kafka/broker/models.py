"""What brokers tell of transactions, topics and groups.

One rule: plain values that compare and pickle; whoever holds one holds no connection.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple


class Partition(NamedTuple):
    """A partition of a topic."""

    topic: str
    number: int


class CommittedOffset(NamedTuple):
    """What a group has stored for a partition."""

    offset: int
    metadata: str = ""


@dataclass(frozen=True)
class Broker:
    """Where a broker listens."""

    node: int
    host: str
    port: int


@dataclass(frozen=True)
class Producer:
    """The identity under which a producer writes."""

    producer_id: int
    epoch: int


@dataclass(frozen=True)
class TransactionDescription:
    """What the coordinator knows of a transactional id."""

    transactional_id: str
    state: str
    """``Empty``, ``Ongoing``, ``PrepareCommit``, ``CompleteCommit``, ``PrepareAbort``, ``CompleteAbort`` and others."""
    producer_id: int
    epoch: int
    timeout_ms: int
    started_ms: int | None
    """When the transaction began; none if it has not."""
    partitions: tuple[Partition, ...]
    """What it wrote to; none once it is over."""


@dataclass(frozen=True)
class ListedTransaction:
    """A transactional id in a list."""

    transactional_id: str
    producer_id: int
    state: str


@dataclass(frozen=True)
class Metadata:
    """The brokers, and what was asked about topics."""

    brokers: tuple[Broker, ...]
    topics: Mapping[str, tuple[int, ...]]
    """For each topic the node that leads each partition, by number; -1 where there is none now."""
    missing: tuple[str, ...]
