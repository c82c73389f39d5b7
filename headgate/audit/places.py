"""What a user writes for a place, and who reads it.

One rule: what is written can be a path or a URI; what is wrong with it is said in one line, and never with a password.

::

    /data/out, file:///data/out                       files: Parquet, JSON or CSV
    kafka://host:9092/orders                          a topic
    postgres://user@host:5432/database/table          a table; schema.table for one of another schema
"""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import SplitResult, parse_qsl, unquote, urlencode, urlsplit

import pyarrow as pa

from headgate import redact
from headgate.errors import InvalidOption

EXAMPLES = "/data/out, kafka://host:9092/orders or postgres://user@host/database/table"


@dataclass(frozen=True)
class Columns:
    """Where the key and the sequence number of a record stand. A dot leads into an object: ``order.user``."""

    key: str | None
    seq: str

    @property
    def names(self) -> list[str]:
        """All of them."""
        return [self.seq] if self.key is None else [self.key, self.seq]


def read(place: str, *, key: str | None, seq: str, options: Mapping[str, str] | None = None) -> pa.Table:
    """The records at a place, as ``count`` takes them. ``options`` are for the client of Kafka, as librdkafka's."""
    columns = Columns(key, seq)
    parts = _split(place)
    if parts.scheme == "kafka":
        from headgate.audit import topics  # noqa: PLC0415 - it needs a client that only its users have

        name = unquote(parts.path.strip("/"))
        if not parts.netloc or not name or "/" in name:
            raise InvalidOption(f"{place} names no topic: write kafka://host:9092/orders")
        return topics.read(parts.netloc, name, columns, options or {})
    if parts.scheme in ("postgres", "postgresql"):
        from headgate.audit import tables  # noqa: PLC0415 - as above

        database, _, table = parts.path.strip("/").partition("/")
        if not database or not table or "/" in table:
            raise InvalidOption(f"{shown(place)} names no table: write postgres://user@host/database/table")
        return tables.read(_dsn(parts, database), unquote(table), columns, shown(place))
    from headgate.audit import files  # noqa: PLC0415 - as above

    return files.read(parts.path if parts.scheme == "file" else place, columns)


def count_rows(place: str, options: Mapping[str, str] | None = None) -> int:
    """How many records are in a topic or a table."""
    parts = _split(place)
    if parts.scheme in ("postgres", "postgresql"):
        from headgate.audit import tables  # noqa: PLC0415 - as above

        database, _, table = parts.path.strip("/").partition("/")
        return tables.count_rows(_dsn(parts, unquote(database)), unquote(table), shown(place))
    return len(read(place, key=None, seq="@partition", options=options))


def shown(place: str) -> str:
    """A place for people: without a password, and without what follows the path."""
    parts = _split(place)
    if not parts.scheme or parts.scheme == "file":
        return place
    user, at, _ = parts.netloc.rpartition("@")
    place = redact.shown(place)
    return place.replace("://", f"://{user.partition(':')[0]}@", 1) if at and redact.HIDDEN not in place else place


def _split(place: str) -> SplitResult:
    if "://" not in place:
        return SplitResult("", "", place, "", "")
    parts = urlsplit(place)
    if parts.scheme not in ("file", "kafka", "postgres", "postgresql"):
        raise InvalidOption(f"{parts.scheme}:// is not a place that can be counted: write {EXAMPLES}")
    return parts


def _dsn(parts: SplitResult, database: str) -> str:
    asked = dict(parse_qsl(parts.query))
    query = urlencode({"connect_timeout": "10", "application_name": "headgate audit", **asked})
    return f"postgresql://{parts.netloc}/{database}?{query}"
