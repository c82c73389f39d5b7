"""What is asked of brokers, how their answers are read, and what they tell of transactions, topics and groups.

One rule: each request has one version, which every broker from Kafka 3.0 on understands, and is laid out as in Kafka's
own file for it; what is told is a plain value that compares and pickles, and holds no connection.

EndTxn stays below version 5 for good: from there on the end of a transaction gives its producer a new epoch, and a
repeat could not be told from the end of another transaction.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from headgate.connect.kafka.broker.codec import (
    BOOLEAN,
    CLASSIC_STRING,
    DATA,
    INT8,
    INT16,
    INT32,
    INT64,
    NULLABLE_STRING,
    STRING,
    Layout,
    array,
    classic_array,
    fields,
    structure,
)


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


T = TypeVar("T")

GROUP_COORDINATOR = 0
TRANSACTION_COORDINATOR = 1
TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4

OffsetAnswers = dict[Partition, tuple[int, CommittedOffset]]
"""For each partition a code and what is stored."""

THROTTLE = CONTROLLER = OPERATIONS = LEADER_EPOCH = INT32
CODE = INT16
REASON = RACK = CLUSTER = DOCUMENTATION = NULLABLE_STRING
NODES = array(INT32)


@dataclass(frozen=True)
class Api:
    """A request in one version, and its answer."""

    name: str
    key: int
    version: int
    request: Layout[tuple[Any, ...]]
    answer: Layout[tuple[Any, ...]]
    flexible: bool = True
    """Whether the headers have tagged fields."""


API_VERSIONS = Api("ApiVersions", 18, 0, fields(), fields(CODE, classic_array(fields(INT16, INT16, INT16))), False)
SASL_HANDSHAKE = Api("SaslHandshake", 17, 1, fields(CLASSIC_STRING), fields(CODE, classic_array(CLASSIC_STRING)), False)
SASL_AUTHENTICATE = Api("SaslAuthenticate", 36, 2, structure(DATA), structure(CODE, REASON, DATA, INT64))
FIND_COORDINATOR = Api(
    "FindCoordinator", 10, 3, structure(STRING, INT8), structure(THROTTLE, CODE, REASON, INT32, STRING, INT32)
)
END_TXN = Api("EndTxn", 26, 3, structure(STRING, INT64, INT16, BOOLEAN), structure(THROTTLE, CODE))
INIT_PRODUCER_ID = Api(
    "InitProducerId", 22, 4, structure(STRING, INT32, INT64, INT16), structure(THROTTLE, CODE, INT64, INT16)
)
DESCRIBED = structure(
    CODE, STRING, STRING, INT32, INT64, INT64, INT16, array(structure(STRING, array(INT32)))
)  # the id, its state, the timeout, the beginning, producer id and epoch, topics
DESCRIBE_TRANSACTIONS = Api(
    "DescribeTransactions", 65, 0, structure(array(STRING)), structure(THROTTLE, array(DESCRIBED))
)
LIST_TRANSACTIONS = Api(
    "ListTransactions",
    66,
    0,
    structure(array(STRING), array(INT64)),
    structure(THROTTLE, CODE, array(STRING), array(structure(STRING, INT64, STRING))),
)
PARTITION_METADATA = structure(CODE, INT32, INT32, LEADER_EPOCH, NODES, NODES, NODES)
METADATA = Api(
    "Metadata",
    3,
    9,
    structure(array(structure(STRING)), BOOLEAN, BOOLEAN, BOOLEAN),
    structure(
        THROTTLE,
        array(structure(INT32, STRING, INT32, RACK)),
        CLUSTER,
        CONTROLLER,
        array(structure(CODE, STRING, BOOLEAN, array(PARTITION_METADATA), OPERATIONS)),
        OPERATIONS,
    ),
)
OFFSET_FETCH = Api(
    "OffsetFetch",
    9,
    7,
    structure(STRING, array(structure(STRING, array(INT32))), BOOLEAN),
    structure(
        THROTTLE,
        array(structure(STRING, array(structure(INT32, INT64, LEADER_EPOCH, NULLABLE_STRING, CODE)))),
        CODE,
    ),
)
STORED_OFFSETS = array(structure(STRING, array(structure(INT32, INT64, LEADER_EPOCH, STRING))))
OFFSET_COMMIT = Api(
    "OffsetCommit",
    8,
    8,
    structure(STRING, INT32, STRING, NULLABLE_STRING, STORED_OFFSETS),
    structure(THROTTLE, array(structure(STRING, array(structure(INT32, CODE))))),
)
SYNONYM = structure(STRING, NULLABLE_STRING, INT8)
CONFIG = structure(STRING, NULLABLE_STRING, BOOLEAN, INT8, BOOLEAN, array(SYNONYM), INT8, DOCUMENTATION)
DESCRIBE_CONFIGS = Api(
    "DescribeConfigs",
    32,
    4,
    structure(array(structure(INT8, STRING, array(STRING))), BOOLEAN, BOOLEAN),
    structure(THROTTLE, array(structure(CODE, REASON, INT8, STRING, array(CONFIG)))),
)


@dataclass(frozen=True)
class Call(Generic[T]):
    """A request with its values, and what is made of those of its answer."""

    api: Api
    values: tuple[Any, ...]
    made: Callable[..., T]


@dataclass(frozen=True)
class TopicAnswer:
    """One topic in the answer to Metadata."""

    code: int
    name: str
    leaders: tuple[int, ...]


def api_versions() -> Call[tuple[int, dict[int, tuple[int, int]]]]:
    """What the broker understands: for each request the lowest and the highest version."""
    return Call(API_VERSIONS, (), lambda code, found: (code, {key: (low, high) for key, low, high in found}))


def sasl_handshake(mechanism: str) -> Call[tuple[int, list[str]]]:
    """Choose how to log in. The answer has what the broker would take."""
    return Call(SASL_HANDSHAKE, (mechanism,), lambda code, offered: (code, offered))


def sasl_authenticate(message: bytes) -> Call[tuple[int, str, bytes]]:
    """One message of the login. How long that lasts is passed over: what the broker closes is made anew."""
    return Call(SASL_AUTHENTICATE, (message,), lambda code, reason, answer, _: (code, reason or "", answer))


def find_coordinator(key: str, kind: int) -> Call[tuple[int, Broker]]:
    """Who looks after a transactional id or a group."""
    return Call(FIND_COORDINATOR, (key, kind), lambda _, code, __, *found: (code, Broker(*found)))


def end_txn(transactional_id: str, producer: Producer, *, commit: bool) -> Call[int]:
    """End the open transaction of a producer."""
    return Call(END_TXN, (transactional_id, producer.producer_id, producer.epoch, commit), lambda _, code: int(code))


def init_producer_id(transactional_id: str, timeout_ms: int) -> Call[tuple[int, Producer]]:
    """Take over a transactional id."""
    values = (transactional_id, timeout_ms, -1, -1)
    return Call(INIT_PRODUCER_ID, values, lambda _, code, *found: (code, Producer(*found)))


def describe_transactions(transactional_ids: Iterable[str]) -> Call[list[tuple[int, TransactionDescription]]]:
    """What the coordinator knows of ids that it looks after."""

    def transaction(values: tuple[Any, ...]) -> tuple[int, TransactionDescription]:
        code, name, state, timeout_ms, started_ms, producer_id, epoch, topics = values
        partitions = tuple(Partition(topic, number) for topic, numbers in topics for number in numbers)
        started = started_ms if started_ms >= 0 else None
        return code, TransactionDescription(name, state, producer_id, epoch, timeout_ms, started, partitions)

    return Call(
        DESCRIBE_TRANSACTIONS, (list(transactional_ids),), lambda _, found: [transaction(each) for each in found]
    )


def list_transactions(states: Iterable[str]) -> Call[tuple[int, list[ListedTransaction]]]:
    """The ids that a broker looks after, in these states, or in any if none is given."""

    def made(_: int, code: int, __: list[str], found: list[Any]) -> tuple[int, list[ListedTransaction]]:
        return code, [ListedTransaction(*each) for each in found]

    return Call(LIST_TRANSACTIONS, (list(states), []), made)


def metadata(topics: Iterable[str]) -> Call[tuple[list[Broker], list[TopicAnswer]]]:
    """The brokers, and these topics. No topic is made by asking."""

    def topic(code: int, name: str, _: object, partitions: list[Any], __: object) -> TopicAnswer:
        # A partition's own code says less than that it has no leader.
        leaders = sorted((number, leader) for _, number, leader, *_ in partitions)
        return TopicAnswer(code, name, tuple(leader for _, leader in leaders))

    def made(_: int, brokers: list[Any], *found: Any) -> tuple[list[Broker], list[TopicAnswer]]:
        return [Broker(*at) for *at, _ in brokers], [topic(*each) for each in found[2]]

    return Call(METADATA, ([(name,) for name in topics], False, False, False), made)


def offset_fetch(group: str, partitions: Iterable[Partition], *, stable: bool) -> Call[tuple[int, OffsetAnswers]]:
    """What a group has stored. If ``stable``, the broker asks for patience while a transaction with offsets is open."""

    def made(_: int, topics: list[Any], code: int) -> tuple[int, OffsetAnswers]:
        return code, {
            Partition(name, number): (each, CommittedOffset(offset, text or ""))
            for name, found in topics
            for number, offset, _, text, each in found
        }

    topics = [(name, [each.number for each in found]) for name, found in _by_topic(partitions).items()]
    return Call(OFFSET_FETCH, (group, topics, stable), made)


def offset_commit(group: str, offsets: Mapping[Partition, CommittedOffset]) -> Call[list[tuple[Partition, int]]]:
    """Store offsets for a group that has no members. The answer has a code for each."""

    def made(_: int, topics: list[Any]) -> list[tuple[Partition, int]]:
        return [(Partition(name, number), code) for name, found in topics for number, code in found]

    topics = [
        (name, [(each.number, offsets[each].offset, -1, offsets[each].metadata) for each in found])
        for name, found in _by_topic(offsets).items()
    ]
    return Call(OFFSET_COMMIT, (group, -1, "", None, topics), made)


def describe_config(kind: int, resource: str, name: str) -> Call[list[tuple[int, dict[str, str | None]]]]:
    """One setting of a broker, or of another resource. For each resource a code, and what was found."""

    def made(_: int, results: list[Any]) -> list[tuple[int, dict[str, str | None]]]:
        return [(code, {name: value for name, value, *_ in configs}) for code, *_, configs in results]

    return Call(DESCRIBE_CONFIGS, ([(kind, resource, [name])], False, False), made)


def _by_topic(partitions: Iterable[Partition]) -> dict[str, list[Partition]]:
    found: dict[str, list[Partition]] = {}
    for partition in partitions:
        found.setdefault(partition.topic, []).append(partition)
    return found
