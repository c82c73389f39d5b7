"""The Iceberg sink keeps the contract of exactly-once sinks, as a scan of the table sees it."""

from collections.abc import Sequence
from pathlib import Path

import pyiceberg.io.pyarrow
from pyiceberg.catalog.sql import SqlCatalog

from headgate.connect import iceberg
from headgate.connect.iceberg.sink import IcebergSink
from headgate.sink.api import TwoPhaseSink
from headgate.testing import Row, TwoPhaseContract

__all__ = ["pyiceberg"]


class ImportedSink(IcebergSink):
    """A process that unpickles it imports this module, and so all that is above: not after each fork again."""


def catalog_in(place: Path) -> dict[str, str]:
    properties = {"type": "sql", "uri": f"sqlite:///{place}/catalog.db", "warehouse": f"file://{place}/warehouse"}
    catalog = SqlCatalog("headgate", **properties)
    catalog.create_namespace_if_not_exists("sales")
    catalog.close()
    return properties


def rows_in(place: Path) -> list[Row]:
    catalog = SqlCatalog("headgate", **catalog_in(place))
    try:
        if not catalog.table_exists("sales.orders"):
            return []
        read = catalog.load_table("sales.orders").scan().to_arrow().to_pylist()
        return [(row["number"], row["writer"]) for row in read]
    finally:
        catalog.close()


class TestIceberg(TwoPhaseContract):
    def make_sink(self, place: Path) -> TwoPhaseSink:
        made = iceberg.sink("sales.orders", catalog=catalog_in(place))
        assert isinstance(made, IcebergSink)
        return ImportedSink(made._name, made._catalog, made._partition_by)

    def visible(self, place: Path) -> Sequence[Row]:
        return rows_in(place)
