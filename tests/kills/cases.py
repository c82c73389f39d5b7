"""Every sink that a campaign of kills tries: what it needs, the sink itself, and an independent reader.

One rule: a reader knows nothing of Headgate. It is ``psql``, ``mariadb``, a consumer that sees committed rows, a plain
HTTP request, or the table format's own reader.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import headgate as hg
from tests.kills.ground import DATABASE, Ground

Settings = Mapping[str, Any]
PLAIN = ("n", "key AS k", "seq")
AS_JSON = ("key", "to_json(struct(n, seq)) AS value")
TABLE = "n BIGINT, k VARCHAR(40), seq BIGINT"
BLOCK = 500
"""The rows of a block: more than a batch has, so that every block's total changes a few times."""


@dataclass(frozen=True)
class Case:
    """A sink under test."""

    name: str
    server: str | None
    """Which server it needs, and may lose."""
    columns: tuple[str, ...]
    prepare: Callable[[Ground], None]
    sink: Callable[[Settings], hg.TwoPhaseSink]
    numbers: Callable[[Ground], Counter[int]]
    """How often a reader finds each row."""
    ahead: bool = False
    """Whether readers may see rows before their checkpoint is complete: at a stop, those of a batch under way."""
    totals: bool = False
    """Whether it takes a running total of each block of rows, one row a block, and not the rows themselves. A block is
    over soon, and its total is written no more: one that an old process writes over it stays for good."""


def _postgres_table(name: str, key: str = "") -> Callable[[Ground], None]:
    return lambda ground: _nothing(ground.postgres.query(f"CREATE TABLE {name} ({TABLE}{key})", DATABASE))


def _mariadb_table(name: str) -> Callable[[Ground], None]:
    return lambda ground: _nothing(ground.mariadb.query(f"CREATE TABLE {name} ({TABLE}) ENGINE=InnoDB", DATABASE))


def _nothing(_: object) -> None:
    return None


def _in_postgres(name: str) -> Callable[[Ground], Counter[int]]:
    return lambda ground: Counter(int(row[0]) for row in ground.postgres.query(f"SELECT n FROM {name}", DATABASE))  # noqa: S608


def _in_mariadb(name: str) -> Callable[[Ground], Counter[int]]:
    return lambda ground: Counter(int(row[0]) for row in ground.mariadb.query(f"SELECT n FROM {name}", DATABASE))  # noqa: S608


def _in_kafka(topic: str) -> Callable[[Ground], Counter[int]]:
    return lambda ground: Counter(json.loads(row.value or b"")["n"] for row in ground.read_topic(topic))


def _kafka(topic: str, **options: Any) -> Callable[[Settings], hg.TwoPhaseSink]:
    return lambda settings: hg.kafka.sink(
        settings["kafka"], topic=topic, transactional_id_prefix=f"kills-{topic}", **options
    )


def _mariadb(settings: Settings) -> dict[str, Any]:
    return dict(settings["mariadb"])


def _files(ground: Ground) -> Counter[int]:
    found = [path for path in (ground.directory / "files").iterdir() if path.name[0] not in "_."]
    return Counter(n for path in found for n in pq.read_table(path, columns=["n"])["n"].to_pylist())


def _in_search(ground: Ground) -> Counter[int]:
    """All ids, page by page: one answer has no more than this many."""
    ground.opensearch.request("POST", "/numbers/_refresh")
    found: Counter[int] = Counter()
    after: list[int] = []
    while True:
        asked = {"size": 10_000, "sort": [{"n": "asc"}], "_source": False, **({"search_after": after} if after else {})}
        status, answer = ground.opensearch.request("POST", "/numbers/_search", asked)
        assert status == 200, answer
        hits = json.loads(answer)["hits"]["hits"]
        if not hits:
            return found
        found.update(int(hit["_id"]) for hit in hits)
        after = hits[-1]["sort"]


def _delta(ground: Ground) -> Counter[int]:
    import deltalake  # noqa: PLC0415

    return Counter(deltalake.DeltaTable(str(ground.directory / "delta")).to_pyarrow_table()["n"].to_pylist())


def _catalog(directory: str) -> dict[str, str]:
    return {
        "type": "sql",
        "uri": f"sqlite:///{directory}/catalog.db",
        "warehouse": f"file://{directory}/warehouse",
    }


def _iceberg_namespace(ground: Ground) -> None:
    from pyiceberg.catalog import load_catalog  # noqa: PLC0415

    (ground.directory / "warehouse").mkdir()
    catalog = load_catalog("headgate", **_catalog(str(ground.directory)))
    catalog.create_namespace("kills")
    catalog.close()


def _iceberg(ground: Ground) -> Counter[int]:
    from pyiceberg.catalog import load_catalog  # noqa: PLC0415

    catalog = load_catalog("headgate", **_catalog(str(ground.directory)))
    try:
        return Counter(catalog.load_table("kills.numbers").scan().to_arrow()["n"].to_pylist())
    finally:
        catalog.close()


def _totals_in_search(ground: Ground) -> Counter[int]:
    ground.opensearch.request("POST", "/totals/_refresh")
    status, answer = ground.opensearch.request("POST", "/totals/_search", {"size": 10_000})
    assert status == 200, answer
    return Counter({int(hit["_id"]): int(hit["_source"]["total"]) for hit in json.loads(answer)["hits"]["hits"]})


def _totals_in_postgres(ground: Ground) -> Counter[int]:
    return Counter(
        {int(row[0]): int(row[1]) for row in ground.postgres.query("SELECT block, total FROM totals", DATABASE)}
    )


def _totals_in_hbase(ground: Ground) -> Counter[int]:
    return Counter({int(key): int(row["f:total"]) for key, row in ground.hbase.rows("totals").items()})


CASES = {
    case.name: case
    for case in (
        Case("files", None, PLAIN, _nothing, lambda it: hg.files.sink(f"{it['directory']}/files"), _files),
        Case(
            "kafka-two-phase",
            "kafka",
            AS_JSON,
            lambda ground: ground.kafka.create_topic("two-phase", partitions=2),
            _kafka("two-phase"),
            _in_kafka("two-phase"),
        ),
        Case(
            "kafka-no-write-ahead",
            "kafka",
            AS_JSON,
            lambda ground: ground.kafka.create_topic("no-write-ahead", partitions=2),
            _kafka("no-write-ahead", write_ahead=False),
            _in_kafka("no-write-ahead"),
        ),
        Case(
            "kafka-staged",
            "kafka",
            AS_JSON,
            lambda ground: ground.kafka.create_topic("staged", partitions=2),
            _kafka("staged", mode="staged"),
            _in_kafka("staged"),
        ),
        Case(
            "postgres-two-phase",
            "postgres",
            PLAIN,
            _postgres_table("two_phase"),
            lambda it: hg.postgres.sink(it["postgres"], table="two_phase"),
            _in_postgres("two_phase"),
        ),
        Case(
            "mariadb-staged",
            "mariadb",
            PLAIN,
            _mariadb_table("staged"),
            lambda it: hg.mariadb.sink(**_mariadb(it), table="staged"),
            _in_mariadb("staged"),
        ),
        Case(
            "mariadb-xa",
            "mariadb",
            PLAIN,
            _mariadb_table("xa"),
            lambda it: hg.mariadb.sink(**_mariadb(it), table="xa", mode="xa"),
            _in_mariadb("xa"),
        ),
        Case(
            "postgres-upsert",
            "postgres",
            PLAIN,
            _postgres_table("upserted", ", PRIMARY KEY (n)"),
            lambda it: hg.postgres.sink(it["postgres"], table="upserted", mode="upsert", key=["n"]),
            _in_postgres("upserted"),
            ahead=True,
        ),
        Case(
            "jdbc",
            "postgres",
            PLAIN,
            _postgres_table("through_jdbc"),
            lambda it: hg.jdbc.sink(**it["jdbc"], table="through_jdbc"),
            _in_postgres("through_jdbc"),
        ),
        Case(
            "search",
            "opensearch",
            PLAIN,
            lambda ground: ground.opensearch.create_index("numbers"),
            lambda it: hg.search.sink(it["opensearch"], index="numbers", id="n"),
            _in_search,
            ahead=True,
        ),
        Case(
            "hbase",
            "hbase",
            ("CAST(n AS STRING) AS n", "key AS k", "CAST(seq AS STRING) AS seq"),
            lambda ground: ground.hbase.create_table("numbers", "f"),
            lambda it: hg.hbase.sink(it["hbase"], table="numbers", row_key="n", family="f"),
            lambda ground: Counter(int(key) for key in ground.hbase.rows("numbers")),
            ahead=True,
        ),
        Case("delta", None, PLAIN, _nothing, lambda it: hg.delta.sink(f"{it['directory']}/delta"), _delta),
        Case(
            "iceberg",
            None,
            PLAIN,
            _iceberg_namespace,
            lambda it: hg.iceberg.sink("kills.numbers", catalog=_catalog(str(Path(it["directory"])))),
            _iceberg,
        ),
        Case(
            "postgres-totals",
            "postgres",
            ("block", "total"),
            lambda ground: _nothing(
                ground.postgres.query("CREATE TABLE totals (block BIGINT PRIMARY KEY, total BIGINT)", DATABASE)
            ),
            lambda it: hg.postgres.sink(it["postgres"], table="totals", mode="upsert", key=["block"]),
            _totals_in_postgres,
            totals=True,
        ),
        Case(
            "search-totals",
            "opensearch",
            ("block", "total"),
            lambda ground: ground.opensearch.create_index("totals"),
            lambda it: hg.search.sink(it["opensearch"], index="totals", id="block"),
            _totals_in_search,
            totals=True,
        ),
        Case(
            "hbase-totals",
            "hbase",
            ("CAST(block AS STRING) AS block", "CAST(total AS STRING) AS total"),
            lambda ground: ground.hbase.create_table("totals", "f"),
            lambda it: hg.hbase.sink(it["hbase"], table="totals", row_key="block", family="f"),
            _totals_in_hbase,
            totals=True,
        ),
    )
}

GROUPS = {
    "transactions": (
        "files",
        "kafka-two-phase",
        "kafka-no-write-ahead",
        "kafka-staged",
        "postgres-two-phase",
        "mariadb-staged",
        "mariadb-xa",
    ),
    "others": ("postgres-upsert", "jdbc", "search", "hbase", "delta", "iceberg"),
    "totals": ("postgres-totals", "search-totals", "hbase-totals"),
}
"""Each group is one job: every row goes to all sinks of the group."""
