"""Which column of a state has changed, and whether a processor asks for the state that it had."""

import json
from typing import Any

import pytest
from pyspark.sql.types import DataType, DoubleType, LongType, StringType, StructField, StructType

import headgate as hg
from headgate import layout
from headgate.job.node import Node, NodeKind
from headgate.run import declared
from headgate.run.schema import differences

KEY = "StructField(key,StringType,true)"
WINDOW = (
    "StructField(window,StructType(StructField(start,TimestampType,true),StructField(end,TimestampType,true)),true)"
)


def struct(*fields: str) -> str:
    return f"StructType({','.join(fields)})"


@pytest.mark.parametrize(
    ("was", "now", "said"),
    [
        (struct(KEY), struct("StructField(key,LongType,true)"), ["column key of its key was string and is now bigint"]),
        (
            struct(KEY, WINDOW),
            struct("StructField(n,DecimalType(10,2),true)", WINDOW),
            ["column key (now n) of its key was string and is now DecimalType(10,2)"],
        ),
        (struct(KEY), struct(KEY, "StructField(a,b,IntegerType,true)"), ["column a,b of its key (int) is new"]),
        (struct(KEY, WINDOW), struct(WINDOW), None),
        (
            struct("StructField(key,StringType,false)"),
            struct(KEY),
            ["column key of its key could not be null and now can"],
        ),
        (struct(), struct(KEY), ["column key of its key (string) is new"]),
        ("something", struct(KEY), [f"the key was something and is now {struct(KEY)}"]),
    ],
)
def test_columns_that_differ_are_named_with_what_they_were(was: str, now: str, said: list[str] | None) -> None:
    found = differences("key", was, now)
    if said is None:
        assert found[0].startswith("column key (now window) of its key was string and is now StructType(")
        assert found[1].startswith("column window of its key (StructType(")
    else:
        assert found == said


def test_a_column_of_a_processors_state_is_named_with_the_state() -> None:
    was, now = struct("StructField(value,LongType,true)"), struct("StructField(value,StringType,true)")
    assert differences("value", was, now, "seen") == ["column value of state seen was bigint and is now string"]


# -- processors ------------------------------------------------------------------------------------------------------


class Keeping(hg.Processor):
    output = "n bigint"
    time = "processing"

    def __init__(self, last: DataType, *, ttl: str | None = "1h", more: bool = False) -> None:
        self._asked = (last, ttl, more)

    def open(self, state: Any) -> None:
        last, ttl, more = self._asked
        state.value("last", last, ttl=ttl)
        state.map("seen", StringType(), LongType())
        if more:
            state.list("more", StringType())

    def process(self, key: Any, rows: Any, context: hg.Context) -> Any:
        raise AssertionError((key, rows, context))


def columns(**types: DataType) -> StructType:
    return StructType([StructField(name, of) for name, of in types.items()])


PROPERTIES = {
    "timeMode": "ProcessingTime",
    "outputMode": "Append",
    "stateVariables": [
        {"stateName": "seen", "stateVariableType": "MapState", "ttlEnabled": False},
        {"stateName": "last", "stateVariableType": "ValueState", "ttlEnabled": True},
        {"stateName": "$procTimers_keyToTimestamp", "stateVariableType": "TimerState", "ttlEnabled": False},
    ],
}
ONE = columns(key=StringType())
SCHEMAS = {
    "last": (ONE, columns(value=columns(value=DoubleType()), ttlExpirationMs=LongType())),
    "seen": (columns(key=ONE, userKey=columns(value=StringType())), columns(value=LongType())),
}


def utf(text: str) -> bytes:
    return len(text.encode()).to_bytes(2, "big") + text.encode()


def long_utf(*chunks: str) -> bytes:
    return len(chunks).to_bytes(4, "big") + b"".join(map(utf, chunks))


def written(version: str = "v3") -> bytes:
    """The file that Spark writes of what the processor keeps."""
    data = utf(version) + len(SCHEMAS).to_bytes(4, "big")
    for name, (key, value) in SCHEMAS.items():
        text = key.json()
        data += utf(name) + bytes(2) + long_utf(text[:9], text[9:]) + bytes(2) + long_utf(value.json())
        data += long_utf('{"keyStateEncoderType":"NoPrefixKeyStateEncoderSpec"}') + long_utf("{    }")
    return data


def as_before(processor: hg.Processor, key: DataType, output_mode: str = "append") -> bool:
    read = {name: tuple(map(json.loads, texts)) for name, texts in layout.parse_schemas(written()).items()}
    schemas = {name: (StructType.fromJson(key), StructType.fromJson(value)) for name, (key, value) in read.items()}
    node = Node("keep", NodeKind.PROCESS, ("rows",), processor, output_mode, key="key")
    return declared.as_before(node, columns(key=key), PROPERTIES, schemas)


def test_a_processor_that_asks_for_what_it_had_is_as_before() -> None:
    assert as_before(Keeping(DoubleType()), StringType())


def test_of_any_other_spark_is_asked() -> None:
    assert not as_before(Keeping(LongType()), StringType())
    assert not as_before(Keeping(DoubleType(), ttl=None), StringType())
    assert not as_before(Keeping(DoubleType(), more=True), StringType())
    assert not as_before(Keeping(DoubleType()), LongType())
    assert not as_before(Keeping(DoubleType()), StringType(), "update")


def test_schemas_in_another_format_are_not_guessed_at() -> None:
    with pytest.raises(ValueError, match="known is 'v3'"):
        layout.parse_schemas(written("v4"))
