import re
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from headgate.connect.kafka.producer.messages import check, check_frame, milliseconds, partitions
from headgate.connect.kafka.producer.native import library
from headgate.connect.kafka.producer.settings import OWNED, check_options
from headgate.errors import InvalidOption, UserError

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


@pytest.mark.parametrize("kind", [pa.string(), pa.binary(), pa.large_string(), pa.large_binary()])
def test_value_and_key_are_text_or_bytes(kind: pa.DataType) -> None:
    check(pa.schema([("value", kind), ("key", kind)]), topic="t")


def test_every_column_may_be_there() -> None:
    check(
        pa.schema(
            [
                ("value", pa.string()),
                ("key", pa.binary()),
                ("topic", pa.string()),
                ("partition", pa.int32()),
                ("timestamp", pa.timestamp("us", "UTC")),
                ("headers", HEADERS),
            ]
        ),
        topic=None,
    )


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ([("key", pa.string())], "there is no column 'value'"),
        ([("value", pa.int64())], "column 'value' must be string or binary, is int64: cast it"),
        ([("value", pa.string()), ("key", pa.float64())], "column 'key' must be string or binary"),
        ([("value", pa.string()), ("user", pa.string())], "column 'user' has no place in a Kafka row"),
        ([("value", pa.string()), ("partition", pa.string())], "column 'partition' must be an integer"),
        ([("value", pa.string()), ("timestamp", pa.int64())], "column 'timestamp' must be a timestamp"),
        ([("value", pa.string()), ("topic", pa.binary())], "column 'topic' must be string"),
        ([("value", pa.string()), ("headers", pa.string())], "column 'headers' must be array<struct<"),
        ([("value", pa.string()), ("value", pa.string())], "there are 2 columns 'value': keep one"),
    ],
)
def test_what_is_no_kafka_row_is_refused_by_name(fields: list[tuple[str, pa.DataType]], message: str) -> None:
    with pytest.raises(InvalidOption, match=re.escape(message)):
        check(pa.schema(fields), topic="t")


def test_a_row_needs_a_topic_from_somewhere() -> None:
    with pytest.raises(InvalidOption, match="no topic: name one"):
        check(pa.schema([("value", pa.string())]), topic=None)


def test_a_data_frame_is_checked_before_it_is_computed() -> None:
    header = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
    every = {
        "value": StringType(),
        "key": BinaryType(),
        "timestamp": TimestampType(),
        "partition": IntegerType(),
        "headers": ArrayType(header),
    }
    check_frame(StructType([StructField(name, kind) for name, kind in every.items()]), topic="t")
    with pytest.raises(InvalidOption, match="sink out: column 'value' must be string or binary"):
        check_frame(StructType([StructField("value", LongType())]), topic="t", who="sink out")


def test_a_partition_that_is_not_there_is_refused() -> None:
    assert partitions(pa.array([1, None, 0], pa.int32()), 2, "t").tolist() == [1, -1, 0]
    with pytest.raises(UserError, match="partition 2 is not there: topic t has 2"):
        partitions(pa.array([2]), 2, "t")
    with pytest.raises(UserError, match="a partition of -1"):
        partitions(pa.array([-1, None]), 2, "t")


def test_times_are_milliseconds_and_null_is_now() -> None:
    times = pa.array([1_500_000, None], pa.timestamp("us", "UTC"))
    assert milliseconds(times).tolist() == [1500, 0]
    with pytest.raises(UserError, match="not after 1970"):
        milliseconds(pa.array([0], pa.timestamp("us")))


@pytest.mark.parametrize("name", sorted(OWNED))
def test_an_option_that_the_guarantee_rests_on_is_refused(name: str) -> None:
    with pytest.raises(InvalidOption, match=f"option '{re.escape(name)}' is set by Headgate"):
        check_options({name: "1"})


def test_an_option_that_nobody_knows_is_refused_without_showing_secrets() -> None:
    check_options({"compression.type": "zstd", "sasl.password": "secret", "queue.buffering.max.messages": 10})
    with pytest.raises(InvalidOption, match=r"option 'no.such' is not valid: No such configuration property"):
        check_options({"no.such": "x", "sasl.password": "secret"})
    with pytest.raises(InvalidOption, match=r"option 'compression.type' is not valid"):
        check_options({"compression.type": "rar"})


def test_the_library_is_the_one_that_confluent_kafka_brings() -> None:
    assert library() is library()
    lines = Path("/proc/self/maps").read_text().splitlines()
    loaded = {line.split()[-1] for line in lines if "librdkafka" in line}
    assert len(loaded) == 1
