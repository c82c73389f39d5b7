"""The key and the sequence number among the columns of a table. One rule: a column that is not there is named, with
those that are.
"""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from headgate.audit.counting import KEY, SEQ, pairs_of
from headgate.audit.places import Columns
from headgate.errors import UserError

SHOWN_MAX = 10


def picked(table: pa.Table, columns: Columns, who: str, there: Sequence[str] | None = None) -> pa.Table:
    """The records of a table, as ``count`` takes them. ``there``: all columns of the place."""
    there = table.schema.names if there is None else there
    seq = _column(table, columns.seq, who, there)
    key = None if columns.key is None else _column(table, columns.key, who, there)
    pairs = pairs_of((key, seq), who)
    if columns.key is not None and pairs[KEY].null_count:
        raise UserError(f"{who} has no {columns.key}, {pairs[KEY].null_count} times: name another key")
    return pairs.select([KEY, SEQ])


def _column(table: pa.Table, name: str, who: str, there: Sequence[str]) -> pa.ChunkedArray:
    if name in table.schema.names:
        return table[name]
    first, *path = name.split(".")
    if path and first in table.schema.names:
        try:
            return pc.struct_field(table[first], path)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, KeyError) as error:
            raise UserError(f"{who} has no {name}: {first} is {table[first].type}") from error
    known = ", ".join(there[:SHOWN_MAX]) + (", ..." if len(there) > SHOWN_MAX else "")
    raise UserError(f"{who} has no column {name}; there are: {known or 'none'}")
