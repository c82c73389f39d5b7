"""Which column of the rows goes to which column of the table, and in what form.

One rule: this happens in the driver, on names and types alone; what Spark itself can turn into another form it does
along with the rest of the batch, so nothing is turned row by row in Python.
"""

from collections.abc import Mapping

from pyspark.sql import Column as SparkColumn, DataFrame
from pyspark.sql.functions import col, spark_partition_id, to_json
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DateType,
    MapType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
    VariantType,
)

from headgate.connect.postgres.fields import TEXTS
from headgate.connect.postgres.table import ColumnType, PostgresColumn, PostgresTable
from headgate.errors import InvalidOption

_NESTED = (StructType, MapType, ArrayType, VariantType)
_JSON = ("json", "jsonb")


def matched(
    dataframe: DataFrame, table: PostgresTable, mapping: Mapping[str, str] | None, *, who: str
) -> tuple[DataFrame, tuple[PostgresColumn, ...]]:
    """The rows in the form that the table takes, and the table's columns in their order."""
    there = dataframe.columns
    if len(set(there)) < len(there):
        raise InvalidOption(f"{who}: two columns of the rows have the same name: rename one ({', '.join(there)})")
    wanted = {name: name for name in there} if mapping is None else dict(mapping)
    if missing := [name for name in wanted if name not in there]:
        raise InvalidOption(f"{who}: the rows have no column {', '.join(missing)}: they have {', '.join(there)}")
    columns = tuple(table.column(name, who) for name in wanted.values())
    if lacking := [each.name for each in table.columns if each.needed and each not in columns]:
        raise InvalidOption(
            f"{who}: table {table.describe()} needs a value in {', '.join(lacking)}, and the rows have none: "
            "add the column to the rows, or a default to the table"
        )
    forms = [
        _form(col(quoted(name)), dataframe.schema[name].dataType, column.type).alias(column.name)
        for name, column in zip(wanted, columns, strict=True)
    ]
    return dataframe.select(*forms), columns


def in_partitions(dataframe: DataFrame, parallelism: int | None) -> DataFrame:
    """At most this many partitions. Rows of one partition stay together, in their order."""
    if parallelism is None:
        return dataframe
    # Not coalesce: it would merge the tasks of a stateful operator, which go by the number of their partition.
    return dataframe.repartitionById(parallelism, spark_partition_id() % parallelism)


def partitioned_by_key(dataframe: DataFrame, parallelism: int | None, key: tuple[str, ...]) -> DataFrame:
    """At most this many partitions, each with all rows of its keys."""
    return (
        dataframe if parallelism is None else dataframe.repartition(parallelism, *(col(quoted(name)) for name in key))
    )


def quoted(name: str) -> str:
    """A column's name for Spark, whatever it has in it."""
    return "`" + name.replace("`", "``") + "`"


def _form(column: SparkColumn, kind: DataType, to: ColumnType) -> SparkColumn:
    """The column as it is, or as Spark casts it: times by the time zone of the session."""
    match to.name:
        case "json" | "jsonb" if isinstance(kind, _NESTED):
            return to_json(column)
        case "timestamp" if isinstance(kind, TimestampType | DateType):
            return column.cast("timestamp_ntz")
        case "timestamptz" if isinstance(kind, TimestampNTZType | DateType):
            return column.cast("timestamp")
        case "bytea" if isinstance(kind, StringType):
            return column.cast("binary")
        case name if name in TEXTS and name not in _JSON and not isinstance(kind, (StringType, BinaryType, *_NESTED)):
            return column.cast("string")
        case _:
            return column
