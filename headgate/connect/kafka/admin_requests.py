"""The requests about topics, groups and settings, and how their answers are read.

One rule: as in ``requests``, one version each, which every broker from Kafka 3.0 on understands.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headgate.connect.kafka.models import Broker, CommittedOffset, Partition
from headgate.connect.kafka.requests import Call, after_throttle
from headgate.connect.kafka.wire import Reader, Writer

TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4

OffsetAnswers = dict[Partition, tuple[int, CommittedOffset]]
"""For each partition a code and what is stored."""


@dataclass(frozen=True)
class TopicAnswer:
    """One topic in the answer to Metadata."""

    code: int
    name: str
    leaders: tuple[int, ...]


def metadata(topics: Iterable[str]) -> Call[tuple[list[Broker], list[TopicAnswer]]]:
    """The brokers, and these topics. No topic is made by asking."""

    def broker(reader: Reader) -> Broker:
        found = Broker(reader.int32(), reader.string(), reader.int32())
        reader.nullable_string()  # rack
        reader.tags()
        return found

    def partition(reader: Reader) -> tuple[int, int]:
        reader.int16()  # code: without a leader it is seen there
        index, leader = reader.int32(), reader.int32()
        reader.int32()  # leader epoch
        for _ in ("replicas", "in sync", "offline"):
            reader.array(Reader.int32)
        reader.tags()
        return index, leader

    def topic(reader: Reader) -> TopicAnswer:
        code, name = reader.int16(), reader.string()
        reader.boolean()  # internal
        leaders = tuple(leader for _, leader in sorted(reader.array(partition)))
        reader.int32()  # operations allowed
        reader.tags()
        return TopicAnswer(code, name, leaders)

    def read(reader: Reader) -> tuple[list[Broker], list[TopicAnswer]]:
        reader.int32()
        brokers = reader.array(broker)
        reader.nullable_string()  # cluster
        reader.int32()  # controller
        found = reader.array(topic)
        reader.int32()  # operations allowed
        reader.tags()
        return brokers, found

    body = Writer().array(topics, lambda writer, name: writer.string(name).tags())
    return Call("Metadata", 3, 9, body.boolean(False).boolean(False).boolean(False).tags().done(), read)


def offset_fetch(group: str, partitions: Iterable[Partition], *, stable: bool) -> Call[tuple[int, OffsetAnswers]]:
    """What a group has stored. If ``stable``, the broker asks for patience while a transaction with offsets is open."""

    def partition(reader: Reader) -> tuple[int, int, CommittedOffset]:
        index, offset = reader.int32(), reader.int64()
        reader.int32()  # leader epoch
        stored = CommittedOffset(offset, reader.nullable_string() or "")
        code = reader.int16()
        reader.tags()
        return index, code, stored

    def topic(reader: Reader) -> OffsetAnswers:
        name = reader.string()
        found = {Partition(name, index): (code, stored) for index, code, stored in reader.array(partition)}
        reader.tags()
        return found

    def read(reader: Reader) -> tuple[int, OffsetAnswers]:
        reader.int32()
        found = {key: value for each in reader.array(topic) for key, value in each.items()}
        code = reader.int16()
        reader.tags()
        return code, found

    def write(writer: Writer, item: tuple[str, list[Partition]]) -> None:
        writer.string(item[0]).array([partition.number for partition in item[1]], Writer.int32).tags()

    body = Writer().string(group).array(_by_topic(partitions).items(), write).boolean(stable).tags().done()
    return Call("OffsetFetch", 9, 7, body, read)


def offset_commit(group: str, offsets: Mapping[Partition, CommittedOffset]) -> Call[list[tuple[Partition, int]]]:
    """Store offsets for a group that has no members."""

    def topic(reader: Reader) -> list[tuple[Partition, int]]:
        name = reader.string()

        def partition(inner: Reader) -> tuple[Partition, int]:
            answer = Partition(name, inner.int32()), inner.int16()
            inner.tags()
            return answer

        found = reader.array(partition)
        reader.tags()
        return found

    def read(reader: Reader) -> list[tuple[Partition, int]]:
        return [item for found in after_throttle(reader, topic) for item in found]

    def write_partition(writer: Writer, partition: Partition) -> None:
        stored = offsets[partition]
        writer.int32(partition.number).int64(stored.offset).int32(-1).string(stored.metadata).tags()

    def write(writer: Writer, item: tuple[str, list[Partition]]) -> None:
        writer.string(item[0]).array(item[1], write_partition).tags()

    body = Writer().string(group).int32(-1).string("").string(None).array(_by_topic(offsets).items(), write).tags()
    return Call("OffsetCommit", 8, 8, body.done(), read)


def describe_config(kind: int, resource: str, name: str) -> Call[list[tuple[int, dict[str, str | None]]]]:
    """One setting of a broker, or of another resource."""

    def config(reader: Reader) -> tuple[str, str | None]:
        found = reader.string(), reader.nullable_string()
        reader.boolean()  # read only
        reader.int8()  # source
        reader.boolean()  # sensitive
        reader.array(synonym)
        reader.int8()  # type
        reader.nullable_string()  # documentation
        reader.tags()
        return found

    def synonym(reader: Reader) -> None:
        reader.string()
        reader.nullable_string()
        reader.int8()
        reader.tags()

    def result(reader: Reader) -> tuple[int, dict[str, str | None]]:
        code = reader.int16()
        reader.nullable_string()
        reader.int8()
        reader.string()
        found = dict(reader.array(config))
        reader.tags()
        return code, found

    def write(writer: Writer, named: str) -> None:
        writer.int8(kind).string(resource).array([named], Writer.string).tags()

    body = Writer().array([name], write).boolean(False).boolean(False).tags().done()
    return Call("DescribeConfigs", 32, 4, body, lambda reader: after_throttle(reader, result))


def _by_topic(partitions: Iterable[Partition]) -> dict[str, list[Partition]]:
    found: dict[str, list[Partition]] = {}
    for partition in partitions:
        found.setdefault(partition.topic, []).append(partition)
    return found
