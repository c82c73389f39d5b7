"""Whether a processor asks for the state that it had.

One rule: yes is said only of what is the same to the letter. Of everything else Spark is asked, which takes it a Python
process: most jobs go on as they were, and begin without one.
"""

from collections.abc import Mapping
from typing import Any

from pyspark.sql.types import LongType, StructField, StructType

from headgate.job.keyed import Declared, KeyedProcessor
from headgate.job.node import Node
from headgate.job.processor import TIME_MODES, rehearse

DeclaredSchemas = Mapping[str, tuple[StructType, StructType]]
"""The columns of the key and of the value of each state, by its name."""

INTERNAL = "$"
"""So begin the names of what Spark keeps for itself: timers, times to live, counters."""
_NO_TIME = {"None": "NoTime"}


def as_before(node: Node, key: StructType, properties: Mapping[str, Any], schemas: DeclaredSchemas) -> bool:
    """Whether it does, by what Spark wrote down of it: its properties, and what its states look like.

    ``key`` has the columns that its input is keyed by.
    """
    processor = node.what
    assert isinstance(processor, KeyedProcessor)
    asked = rehearse(processor)
    mode = TIME_MODES[processor.time]
    if properties["timeMode"] != _NO_TIME.get(mode, mode) or properties["outputMode"] != node.output_mode.capitalize():
        return False
    found = [one for one in properties["stateVariables"] if not one["stateName"].startswith(INTERNAL)]
    had = {(one["stateName"], one["stateVariableType"], one["ttlEnabled"]) for one in found}
    if not asked or had != {(one.name, one.kind, one.ttl) for one in asked}:
        return False
    return all(_same(one, key, schemas) for one in asked)


def _same(one: Declared, key: StructType, schemas: DeclaredSchemas) -> bool:
    had_key, had_value = schemas[one.name]
    value = one.value
    if one.ttl:
        value = StructType([StructField("value", value), StructField("ttlExpirationMs", LongType())])
    if one.key is not None:
        key = StructType([StructField("key", key), StructField("userKey", one.key)])
    return had_value.json() == value.json() and _types(had_key) == _types(key)


def _types(columns: StructType) -> list[str]:
    """Spark makes the columns of a key nullable, and does not look at their names."""
    return [field.dataType.simpleString() for field in columns.fields]
