"""Rows as text that Spark writes, and Python only cuts.

One rule: no value passes through a Python call of its own. Spark makes one text of each row, in the JVM; in Arrow the
texts of a batch lie one after the other, so that many rows are sent as one piece of memory.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import Column, DataFrame, functions as F  # noqa: N812 - as everywhere with Spark
from pyspark.sql.types import ArrayType, BinaryType, MapType, NullType, StructType, TimestampType, VariantType

from headgate.errors import InvalidOption, UserError

JSON_OPTIONS = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX", "timeZone": "UTC"}
"""The same text in every session, and no microsecond lost."""

_NAME = re.compile(".+", re.DOTALL)
_NESTED = (ArrayType, MapType, StructType, VariantType)


def fits(pattern: re.Pattern[str], value: object) -> bool:
    """Whether an option is text of this pattern."""
    return isinstance(value, str) and pattern.fullmatch(value) is not None


def names_of(value: str | Sequence[str], *, option: str) -> tuple[str, ...]:
    """The columns that an option names: one, or several."""
    names = (value,) if isinstance(value, str) else tuple(value)
    if not names or not all(fits(_NAME, name) for name in names):
        raise InvalidOption(f"{option}={value!r} names no column: write the name of a column, or several")
    if len(set(names)) < len(names):
        raise InvalidOption(f"{option}={value!r} names a column twice: name it once")
    return names


def require(dataframe: DataFrame, names: Sequence[str], *, who: str) -> None:
    """``InvalidOption`` unless all these columns are there, as they are written."""
    for name in names:
        if name not in dataframe.columns:
            raise InvalidOption(f"{who}: there is no column {name!r}: the rows have {', '.join(dataframe.columns)}")


def column(name: str) -> Column:
    """A column whose name may have anything in it."""
    return F.col("`" + name.replace("`", "``") + "`")


def as_text(dataframe: DataFrame, name: str) -> Column:
    """The value of a column as text, the same in every session: a timestamp is its microseconds since 1970."""
    kind = dataframe.schema[name].dataType
    if isinstance(kind, _NESTED):
        return F.to_json(column(name), JSON_OPTIONS)
    if isinstance(kind, TimestampType):
        return F.unix_micros(column(name)).cast("string")
    return column(name).cast("string")


def key_text(dataframe: DataFrame, names: Sequence[str], *, who: str) -> Column:
    """The key of a row: of one column its value; of several their values with a colon between them.

    A colon within a value of several is written %3A, and a percent sign %25, so that different values never give the
    same key. It is null where a part is null, or where it would be empty.
    """
    for name in names:
        kind = dataframe.schema[name].dataType
        if isinstance(kind, (*_NESTED, BinaryType, NullType)):
            raise InvalidOption(f"{who}: column {name!r} of type {kind.simpleString()} can be no key: cast it to text")
    parts = [as_text(dataframe, name) for name in names]
    if len(parts) > 1:
        parts = [F.replace(F.replace(part, F.lit("%"), F.lit("%25")), F.lit(":"), F.lit("%3A")) for part in parts]
    joined = parts[0]
    for part in parts[1:]:
        joined = F.concat(joined, F.lit(":"), part)
    return F.nullif(joined, F.lit(""))


@dataclass(frozen=True)
class Piece:
    """Some rows of a batch that follow each other."""

    memory: memoryview
    ends: npt.NDArray[np.int64]
    """Where the first text begins in ``memory``, and where each one ends."""

    def __len__(self) -> int:
        return len(self.ends) - 1

    @property
    def body(self) -> memoryview:
        """All texts, one after the other."""
        return self.memory[int(self.ends[0]) : int(self.ends[-1])]

    def since(self, row: int) -> "Piece":
        """The same without the rows before this one."""
        return Piece(self.memory, self.ends[row:])


def pieces(batch: pa.RecordBatch, *, rows: int, size: int, missing: str) -> Iterator[Piece]:
    """The texts of a batch's only column, this many rows and bytes at a time; one row at least.

    ``UserError`` with what ``missing`` says if a text is null.
    """
    texts = batch.column(0)
    if texts.null_count:
        raise UserError(missing)
    if len(texts) == 0:
        return
    _, offsets, memory = texts.buffers()
    width = np.int64 if pa.types.is_large_string(texts.type) else np.int32
    ends = np.frombuffer(offsets, width, len(texts) + 1, texts.offset * np.dtype(width).itemsize).astype(np.int64)
    view = memoryview(memory) if memory is not None else memoryview(b"")
    first = 0
    while first < len(texts):
        fit = int(np.searchsorted(ends, ends[first] + size, side="right")) - 1
        last = max(first + 1, min(first + rows, fit))
        yield Piece(view, ends[first : last + 1])
        first = last
