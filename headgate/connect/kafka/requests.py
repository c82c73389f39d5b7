"""The requests about connections and transactions, and how their answers are read.

One rule: each request has one version, which every broker from Kafka 3.0 on understands.

EndTxn stays below version 5 for good: from there on the end of a transaction gives its producer a new epoch, and a
repeat could not be told from the end of another transaction.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from headgate.connect.kafka.models import Broker, ListedTransaction, Partition, Producer, Transaction
from headgate.connect.kafka.wire import Reader, Writer

T = TypeVar("T")

GROUP_COORDINATOR = 0
TRANSACTION_COORDINATOR = 1


@dataclass(frozen=True)
class Call(Generic[T]):
    """A request with its body, and how its answer is read."""

    name: str
    key: int
    version: int
    body: bytes
    read: Callable[[Reader], T]
    flexible: bool = True
    """Whether the headers have tagged fields."""


def api_versions() -> Call[tuple[int, dict[int, tuple[int, int]]]]:
    """What the broker understands: for each request the lowest and the highest version."""

    def read(reader: Reader) -> tuple[int, dict[int, tuple[int, int]]]:
        code = reader.int16()
        ranges = reader.classic_array(lambda item: (item.int16(), (item.int16(), item.int16())))
        return code, dict(ranges)

    return Call("ApiVersions", 18, 0, b"", read, flexible=False)


def sasl_handshake(mechanism: str) -> Call[tuple[int, list[str]]]:
    """Choose how to log in. The answer has what the broker would take."""

    def read(reader: Reader) -> tuple[int, list[str]]:
        return reader.int16(), reader.classic_array(Reader.classic_string)

    return Call("SaslHandshake", 17, 1, Writer().classic_string(mechanism).done(), read, flexible=False)


def sasl_authenticate(message: bytes) -> Call[tuple[int, str, bytes]]:
    """One message of the login."""

    def read(reader: Reader) -> tuple[int, str, bytes]:
        code, reason, answer = reader.int16(), reader.nullable_string(), reader.data()
        reader.int64()  # how long the login lasts: a connection that the broker closes is made anew
        reader.tags()
        return code, reason or "", answer

    return Call("SaslAuthenticate", 36, 2, Writer().data(message).tags().done(), read)


def find_coordinator(key: str, kind: int) -> Call[tuple[int, Broker]]:
    """Who looks after a transactional id or a group."""

    def read(reader: Reader) -> tuple[int, Broker]:
        reader.int32()
        code = reader.int16()
        reader.nullable_string()
        broker = Broker(reader.int32(), reader.string(), reader.int32())
        reader.tags()
        return code, broker

    return Call("FindCoordinator", 10, 3, Writer().string(key).int8(kind).tags().done(), read)


def end_txn(transactional_id: str, producer: Producer, *, commit: bool) -> Call[int]:
    """End the open transaction of a producer."""

    def read(reader: Reader) -> int:
        reader.int32()
        code = reader.int16()
        reader.tags()
        return code

    body = Writer().string(transactional_id).int64(producer.producer_id).int16(producer.epoch).boolean(commit).tags()
    return Call("EndTxn", 26, 3, body.done(), read)


def init_producer_id(transactional_id: str, timeout_ms: int) -> Call[tuple[int, Producer]]:
    """Take over a transactional id."""

    def read(reader: Reader) -> tuple[int, Producer]:
        reader.int32()
        answer = reader.int16(), Producer(reader.int64(), reader.int16())
        reader.tags()
        return answer

    body = Writer().string(transactional_id).int32(timeout_ms).int64(-1).int16(-1).tags().done()
    return Call("InitProducerId", 22, 4, body, read)


def describe_transactions(transactional_ids: Iterable[str]) -> Call[list[tuple[int, Transaction]]]:
    """What the coordinator knows of ids that it looks after."""

    def topic(reader: Reader) -> list[Partition]:
        name, indexes = reader.string(), reader.array(Reader.int32)
        reader.tags()
        return [Partition(name, index) for index in indexes]

    def transaction(reader: Reader) -> tuple[int, Transaction]:
        code, transactional_id, state = reader.int16(), reader.string(), reader.string()
        timeout_ms, started_ms = reader.int32(), reader.int64()
        producer_id, epoch = reader.int64(), reader.int16()
        partitions = tuple(partition for found in reader.array(topic) for partition in found)
        reader.tags()
        started = started_ms if started_ms >= 0 else None
        return code, Transaction(transactional_id, state, producer_id, epoch, timeout_ms, started, partitions)

    body = Writer().array(transactional_ids, Writer.string).tags().done()
    return Call("DescribeTransactions", 65, 0, body, lambda reader: after_throttle(reader, transaction))


def list_transactions(states: Iterable[str]) -> Call[tuple[int, list[ListedTransaction]]]:
    """The ids that a broker looks after, in these states, or in any if none is given."""

    def item(reader: Reader) -> ListedTransaction:
        found = ListedTransaction(reader.string(), reader.int64(), reader.string())
        reader.tags()
        return found

    def read(reader: Reader) -> tuple[int, list[ListedTransaction]]:
        reader.int32()
        code = reader.int16()
        reader.array(Reader.string)  # states that the broker does not know: no id is in them
        found = reader.array(item)
        reader.tags()
        return code, found

    body = Writer().array(states, Writer.string).array([], Writer.int64).tags().done()
    return Call("ListTransactions", 66, 0, body, read)


def after_throttle(reader: Reader, item: Callable[[Reader], T]) -> list[T]:
    """The items of an answer that has nothing else but the time by which the broker slowed us down."""
    reader.int32()
    found = reader.array(item)
    reader.tags()
    return found
