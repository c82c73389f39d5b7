"""Records in a topic of Kafka, as a read-committed consumer sees them.

One rule: every partition is read from its beginning to its end, or it is said which was not.

A value is a JSON object, and the names of key and sequence number are its fields. ``@key``, ``@value`` and
``@partition`` mean the record's own key and value, as text, and its partition.
"""

import io
import time
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pa_json

from headgate.audit.counting import SCHEMA
from headgate.audit.fields import picked
from headgate.audit.places import Columns
from headgate.errors import ExternalError, InvalidOption, UserError

try:
    import confluent_kafka
    from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, TopicPartition
except ImportError as error:
    raise InvalidOption("kafka needs confluent-kafka: pip install 'headgate[kafka]'") from error

ANSWER_S = 10.0
SILENCE_S = 60.0
"""A topic of which nothing more comes for this long cannot be read to its end."""
PIECE = 50_000
"""How many records are read together."""
OWN = {"@key": lambda m: m.key(), "@value": lambda m: m.value(), "@partition": lambda m: m.partition()}
_END = confluent_kafka.KafkaError._PARTITION_EOF  # noqa: SLF001 - that is how librdkafka's own codes are written


def read(servers: str, topic: str, columns: Columns, options: Mapping[str, str]) -> pa.Table:
    """All records of a topic that are committed."""
    who = f"Kafka topic {topic} at {servers}"
    settings: dict[str, Any] = {
        "log_level": "0",
        "enable.metrics.push": "false",
        **options,
        "bootstrap.servers": servers,
        "group.id": "headgate-audit",
        "enable.auto.commit": "false",
        "isolation.level": "read_committed",
        "enable.partition.eof": "true",
        "auto.offset.reset": "earliest",
        "error_cb": lambda _: None,
    }
    try:
        consumer = Consumer(settings)
    except (KafkaException, ValueError) as error:
        raise InvalidOption(f"{who}: {_text(error)}") from error
    try:
        partitions = _partitions(consumer, topic, who)
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in partitions])
        return _all(consumer, set(partitions), columns, who)
    finally:
        consumer.close()


def _partitions(consumer: Consumer, topic: str, who: str) -> list[int]:
    try:
        found = consumer.list_topics(topic, timeout=ANSWER_S).topics[topic]
    except KafkaException as error:
        raise ExternalError(f"{who} does not answer within {ANSWER_S:g} s: {_text(error)}") from error
    if found.error is not None:
        raise UserError(f"{who}: {found.error.str()}: name a topic that is there, and that you may read")
    return sorted(found.partitions)


def _all(consumer: Consumer, waiting: set[int], columns: Columns, who: str) -> pa.Table:
    tables = [SCHEMA.empty_table()]
    piece: list[Any] = []
    heard = time.monotonic()
    while waiting:
        messages = consumer.consume(PIECE, timeout=0.5)
        if messages:
            heard = time.monotonic()
        elif time.monotonic() - heard > SILENCE_S:
            raise ExternalError(
                f"{who}: partition {min(waiting)} could not be read to its end: see that it has a leader"
            )
        for message in messages:
            problem = message.error()
            if problem is None:
                continue
            if problem.code() != _END:
                raise ExternalError(f"{who}: {problem.str()}")
            waiting.discard(message.partition())
        piece += [message for message in messages if message.error() is None]
        if len(piece) >= PIECE:
            tables.append(_records(piece, columns, who))
            piece = []
    if piece:
        tables.append(_records(piece, columns, who))
    return pa.concat_tables(tables)


def _records(messages: Sequence[Any], columns: Columns, who: str) -> pa.Table:
    """Key and sequence number of each record. Values are parsed all at once."""
    found: dict[str, Any] = {}
    for name in columns.names:
        if name in OWN:
            values = pa.array([OWN[name](message) for message in messages])
            found[name] = pc.cast(values, pa.string()) if pa.types.is_binary(values.type) else values
    if set(columns.names) <= set(found):
        return picked(pa.table(found), columns, who)
    values = [message.value() for message in messages]
    if None in values:
        raise UserError(f"{who} has records without a value, {values.count(None)} times: they prove nothing")
    try:
        parsed = pa_json.read_json(
            io.BytesIO(b"\n".join(values)),
            read_options=pa_json.ReadOptions(block_size=max(1 << 20, 2 * max(map(len, values)) + 2)),
            parse_options=pa_json.ParseOptions(newlines_in_values=True),
        )
    except pa.ArrowInvalid as error:
        reason = str(error).splitlines()[0]
        raise UserError(
            f"{who} has values that are not JSON objects ({reason}): use @key, @value or another topic"
        ) from error
    if len(parsed) != len(values):
        raise UserError(f"{who} has values that are not JSON objects: use @key, @value or another topic")
    for name, own in found.items():
        parsed = parsed.append_column(name, own)
    return picked(parsed, columns, who)


def _text(error: Any) -> str:
    return str(error.args[0].str() if error.args and hasattr(error.args[0], "str") else error)
