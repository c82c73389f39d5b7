"""The sink for HBase.

One rule: every row is put under a key that is made of its own columns, all its cells at once, and with timestamps that
rise with every batch, so that what comes late hides nothing that is newer.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Literal, get_args
from urllib.parse import quote

from pyspark.sql import Column, DataFrame, functions as F  # noqa: N812 - as everywhere with Spark
from pyspark.sql.types import BinaryType

from headgate.connect.hbase.puts import PutWriter
from headgate.connect.rest.client import Response
from headgate.connect.rest.endpoint import Endpoint, endpoint
from headgate.connect.rest.sink import RestSink
from headgate.connect.rest.writer import Bounds
from headgate.connect.text import as_text, column, fits, key_text, names_of, require
from headgate.errors import ExternalError, InvalidOption
from headgate.sink.api import WriteId
from headgate.sink.partitions import Write
from headgate.values import Duration

Nulls = Literal["keep", "empty"]

FOREVER = str((1 << 31) - 1)
"""How long cells are kept that never expire, in seconds."""
_TABLE = re.compile(r"([\w.-]+:)?(?![.-])[\w.-]+", re.ASCII)
_FAMILY = re.compile(r"[^:/\s\x00-\x1f.][^:/\x00-\x1f]*")
_CELL = re.compile(rf"{_FAMILY.pattern}:.*", re.DOTALL)


def sink(
    url: str | Sequence[str],
    *,
    table: str,
    row_key: str | Sequence[str],
    family: str | None = None,
    columns: Mapping[str, str] | None = None,
    timestamp: str | None = None,
    fenced: bool = True,
    nulls: Nulls = "keep",
    user: str | None = None,
    password: str | None = None,
    ca: str | None = None,
    certificate: str | None = None,
    key: str | None = None,
    bulk_rows: int = 1_000,
    bulk_bytes: int = 2 << 20,
    timeout: Duration = "60s",
) -> "HBaseSink":
    """Put rows into a table that is there, through a REST gateway. Effectively once.

    ``url``: the gateway, or several. ``table``: its name, with its namespace if it has one (``ns:table``). ``row_key``:
    the column, or the columns, whose value is the key. Either ``family``: every other column goes to this family under
    its own name; or ``columns``: which column goes where, ``{"amount": "f:amount"}``. Values are put as text, binary
    ones as they are, timestamps as microseconds since 1970.

    ``timestamp``: a column with the milliseconds that the cells get. Then a row that is put again is the very same
    cells, and a row never hides a newer one, in whatever order they are put.

    ``fenced``: without ``timestamp``, cells get versions of Headgate for their timestamps, which rise with every batch:
    so what a process that was frozen puts later is hidden by what is newer. They are far ahead of every clock: such
    cells do not expire, and what others put or delete by the clock does not cover them. A family whose cells expire is
    refused. With ``fenced=False`` the server's clock counts, and whoever puts last is seen. Keep to what a table has
    begun with. In a family that keeps several versions a row that is put again is one more of them.

    ``nulls``: ``"keep"`` leaves a cell as it is where a value is null, because the gateway cannot delete a cell with
    the same request; ``"empty"`` puts an empty value. ``user`` and ``password``, ``ca``, ``certificate`` and ``key``:
    for a gateway behind TLS or a password. ``bulk_rows`` and ``bulk_bytes``: how much goes with one request.
    ``timeout``: how long to go on when the server is away or busy, before the batch fails.
    """
    if not fits(_TABLE, table):
        raise InvalidOption(f"table={table!r} is not a valid name of a table: write table or namespace:table")
    if nulls not in get_args(Nulls):
        raise InvalidOption(f'nulls={nulls!r} is not known: write nulls="keep" or nulls="empty"')
    if timestamp is not None:
        names_of((timestamp,), option="timestamp")
    if (family is None) == (columns is None):
        raise InvalidOption('family and columns say where values go: give one of them, family="f" for instance')
    if family is not None and not fits(_FAMILY, family):
        raise InvalidOption(f"family={family!r} is not a valid name of a column family")
    if columns is not None:
        _check_columns(columns)
    return HBaseSink(
        endpoint(url, user=user, password=password, ca=ca, certificate=certificate, key=key),
        target=table,
        keys=names_of(row_key, option="row_key"),
        family=family,
        columns=None if columns is None else dict(columns),
        timestamp=timestamp,
        fenced=fenced,
        nulls=nulls,
        bounds=Bounds.of(bulk_rows=bulk_rows, bulk_bytes=bulk_bytes, timeout=timeout),
    )


class HBaseSink(RestSink):
    """Made by ``sink``."""

    _who = "hbase"

    def __init__(
        self,
        place: Endpoint,
        *,
        target: str,
        keys: tuple[str, ...],
        family: str | None,
        columns: Mapping[str, str] | None,
        timestamp: str | None,
        fenced: bool,
        nulls: Nulls,
        bounds: Bounds,
    ) -> None:
        super().__init__(place, target=target, keys=keys, fenced=fenced and timestamp is None, bounds=bounds)
        self._family = family
        self._columns = columns
        self._timestamp = timestamp
        self._nulls = nulls

    def describe(self) -> str:
        """Table, gateway and key."""
        return f"rows in HBase table {self._target} through {self._place}, by {', '.join(self._keys)}"

    @property
    def _description(self) -> str:
        return f"/{quote(self._target)}/schema"

    def _check(self, answer: Response) -> None:
        """See that the gateway reaches HBase, and that the table is there with its families."""
        if answer.status == 404:
            raise InvalidOption(
                f"{self._who}: there is no table {self._target} at {self._place}: make it, or give another"
            )
        try:
            found = {each["name"]: each for each in json.loads(answer.body)["ColumnSchema"]}
        except (ValueError, KeyError, TypeError):
            raise ExternalError(
                f"{self._who}: {self._place} answers about table {self._target}: {answer.reason}: "
                "see that this is HBase's REST gateway"
            ) from None
        for family in sorted(self._families() - found.keys()):
            raise InvalidOption(
                f"{self._who}: table {self._target} has no column family {family}: it has {', '.join(sorted(found))}"
            )
        for family in sorted(self._families()):
            keeps = str(found[family].get("TTL", FOREVER))
            if self._fenced and keeps.isdecimal() and keeps != FOREVER:
                raise InvalidOption(
                    f"{self._who}: cells of family {family} in table {self._target} expire after {keeps} s, and with "
                    "timestamps ahead of the clock they never would: name a column with timestamp=..., or use "
                    "fenced=False, which does not keep out what comes late"
                )

    def writer(self, write_id: WriteId) -> Write:
        """Put the rows that ``_prepare`` makes."""
        del write_id
        return PutWriter(
            who=self._who,
            place=self._place,
            target=self._target,
            keys=self._keys,
            bounds=self._bounds,
        )

    def _prepare(self, write_id: WriteId, dataframe: DataFrame) -> DataFrame:
        """Each row as JSON after a comma; null if it has no key, empty if it has no cells."""
        extra = [self._timestamp] if self._timestamp is not None else []
        require(dataframe, [*self._keys, *extra, *(self._columns or {})], who=self._who)
        targets = self._columns
        if targets is None:
            names = [name for name in dataframe.columns if name not in {*self._keys, *extra}]
            targets = {name: f"{self._family}:{name}" for name in names}
        if not targets:
            raise InvalidOption(f"{self._who}: the rows have no column but their key: HBase keeps no row without cells")
        at = self._at(write_id)
        cells = F.array(*(self._cell(dataframe, name, target, at) for name, target in targets.items()))
        if self._nulls == "keep":
            cells = F.array_compact(cells)
        key = self._key(dataframe)
        row = F.concat(F.lit(","), F.to_json(F.struct(F.base64(key).alias("key"), cells.alias("Cell"))))
        text = F.when(key.isNotNull(), F.when(F.size(cells) > 0, row).otherwise(F.lit("")))
        return dataframe.select(text.alias("row"))

    def _key(self, dataframe: DataFrame) -> Column:
        """The key as bytes; null if there is none."""
        first = self._keys[0]
        if len(self._keys) == 1 and isinstance(dataframe.schema[first].dataType, BinaryType):
            return F.when(F.octet_length(column(first)) > 0, column(first))
        return key_text(dataframe, self._keys, who=self._who).cast("binary")

    def _at(self, write_id: WriteId) -> Column | None:
        """The timestamp of all cells of a row. None if it is the server's."""
        if self._timestamp is not None:
            return column(self._timestamp).cast("long")
        if not self._fenced:
            return None
        return F.lit(self._context.version(write_id))

    def _cell(self, dataframe: DataFrame, name: str, target: str, at: Column | None) -> Column:
        """One cell as the gateway takes it; null if it is to be left as it is."""
        binary = isinstance(dataframe.schema[name].dataType, BinaryType)
        value = column(name) if binary else as_text(dataframe, name).cast("binary")
        if self._nulls == "empty":
            value = F.coalesce(value, F.lit(b""))
        parts = [F.base64(F.lit(target.encode())).alias("column"), F.base64(value).alias("$")]
        if at is not None:
            parts.append(at.alias("timestamp"))
        cell = F.struct(*parts)
        return cell if self._nulls == "empty" else F.when(value.isNotNull(), cell)

    def _families(self) -> set[str]:
        if self._columns is None:
            assert self._family is not None, "one of the two is given"
            return {self._family}
        return {target.partition(":")[0] for target in self._columns.values()}


def _check_columns(columns: Mapping[str, str]) -> None:
    """``InvalidOption`` unless every column goes to a place of its own."""
    if not columns:
        raise InvalidOption(f'columns={columns!r} says nothing: write columns={{"amount": "f:amount"}}')
    for name, target in columns.items():
        names_of((name,), option="columns")
        if not fits(_CELL, target):
            raise InvalidOption(f"columns: {target!r} is not a place for {name!r}: write family:qualifier")
    if len(set(columns.values())) < len(columns):
        raise InvalidOption("columns: two columns go to the same place: give each its own")
