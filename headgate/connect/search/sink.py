"""The sink for Elasticsearch and OpenSearch.

One rule: every row is indexed as a whole document under an id that is made of its own columns, and with a version that
rises with every batch, so that what comes late replaces nothing that is newer.
"""

import re
from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, functions as F  # noqa: N812 - as everywhere with Spark

from headgate.connect.rest.client import Response
from headgate.connect.rest.endpoint import Endpoint, endpoint
from headgate.connect.rest.sink import RestSink
from headgate.connect.rest.writer import Bounds
from headgate.connect.search.bulk import BulkWriter, Versions
from headgate.connect.text import JSON_OPTIONS, as_text, column, fits, key_text, names_of, require
from headgate.errors import InvalidOption
from headgate.sink.api import WriteId
from headgate.sink.partitions import Write
from headgate.values import Duration

_INDEX = re.compile(r'(?![-_+.])[^A-Z\s\\/*?"<>|,#:]{1,255}')


def sink(
    url: str | Sequence[str],
    *,
    index: str,
    id: str | Sequence[str],  # noqa: A002 - what the servers call it
    user: str | None = None,
    password: str | None = None,
    api_key: str | None = None,
    ca: str | None = None,
    certificate: str | None = None,
    key: str | None = None,
    routing: str | None = None,
    version: str | None = None,
    bulk_rows: int = 1_000,
    fenced: bool = True,
    bulk_bytes: int = 5 << 20,
    timeout: Duration = "60s",
) -> "SearchSink":
    """Write rows as documents into an index that is there, or an alias of one. Effectively once.

    ``url``: the server, or several nodes of a cluster. ``id``: the column, or the columns, whose value is the id of the
    document; two rows with the same id are one document. ``user`` and ``password``, or ``api_key``: to be let in.
    ``ca``: a file with the certificates to trust; ``certificate`` and ``key``: files of our own. ``routing``: a column
    that says which shard has the document. ``version``: a column of whole numbers; a row does not replace a document of
    a higher version, in whatever order they are written. ``fenced``: without ``version``, documents get the versions of
    Headgate, which rise with every batch: so a process that was frozen writes over nothing that is newer, and stops.
    Set it to False where others write the same documents with versions of their own, or where several sinks do.
    ``bulk_rows`` and ``bulk_bytes``: how much goes with one request. ``timeout``: how long to go on when the server is
    away or busy, before the batch fails.
    """
    if not fits(_INDEX, index):
        raise InvalidOption(
            f"index={index!r} is not a valid name of an index: it is in lower case, without spaces or wildcards"
        )
    for option, value in (("routing", routing), ("version", version)):
        if value is not None:
            names_of((value,), option=option)
    return SearchSink(
        endpoint(url, user=user, password=password, api_key=api_key, ca=ca, certificate=certificate, key=key),
        target=index,
        keys=names_of(id, option="id"),
        routing=routing,
        version=version,
        fenced=fenced,
        bounds=Bounds.of(bulk_rows=bulk_rows, bulk_bytes=bulk_bytes, timeout=timeout),
    )


class SearchSink(RestSink):
    """Made by ``sink``."""

    _who = "search"

    def __init__(
        self,
        place: Endpoint,
        *,
        target: str,
        keys: tuple[str, ...],
        routing: str | None,
        version: str | None,
        fenced: bool,
        bounds: Bounds,
    ) -> None:
        super().__init__(place, target=target, keys=keys, fenced=fenced and version is None, bounds=bounds)
        self._routing = routing
        self._version = version

    def describe(self) -> str:
        """Index, address and id."""
        return f"documents in index {self._target} at {self._place}, by {', '.join(self._keys)}"

    @property
    def _description(self) -> str:
        return f"/{self._target}"

    def _check(self, answer: Response) -> None:
        """See that there is an index."""
        if answer.status == 404:
            raise InvalidOption(
                f"{self._who}: there is no index {self._target} at {self._place}: make it, with its mapping, "
                "or give another"
            )
        if answer.status != 200:
            raise InvalidOption(
                f"{self._who}: {self._place} answers about index {self._target}: {answer.reason}: "
                "see that this is Elasticsearch or OpenSearch"
            )

    def writer(self, write_id: WriteId) -> Write:
        """Send the lines that ``_prepare`` makes."""
        return BulkWriter(
            who=self._who,
            place=self._place,
            target=self._target,
            keys=self._keys,
            versions=Versions.OURS if self._fenced else Versions.NONE if self._version is None else Versions.THEIRS,
            batch=write_id.batch,
            bounds=self._bounds,
        )

    def _prepare(self, write_id: WriteId, dataframe: DataFrame) -> DataFrame:
        """Each row as the two lines of the bulk request; null if it has no id."""
        extra = [name for name in (self._routing, self._version) if name is not None]
        require(dataframe, [*self._keys, *extra], who=self._who)
        action: list[Column] = [key_text(dataframe, self._keys, who=self._who).alias("_id")]
        if self._routing is not None:
            action.append(as_text(dataframe, self._routing).alias("routing"))
        version: Column | None = None
        if self._fenced:
            version = F.lit(self._context.version(write_id))
        elif self._version is not None:
            version = column(self._version).cast("long")
        if version is not None:
            action.append(version.alias("version"))
            action.append(F.lit("external_gte").alias("version_type"))
        identity = F.struct(*action)
        order = F.to_json(F.struct(identity.alias("index")))
        document = F.to_json(F.struct(*(column(name) for name in dataframe.columns)), JSON_OPTIONS)
        lines = F.concat(order, F.lit("\n"), document, F.lit("\n"))
        return dataframe.select(F.when(identity["_id"].isNotNull(), lines).alias("lines"))
