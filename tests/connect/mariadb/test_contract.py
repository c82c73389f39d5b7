"""Both sinks for MariaDB keep the contract of every exactly-once sink."""

from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest

from headgate.connect import mariadb as connect
from headgate.connect.mariadb.twophase import XASink
from headgate.sink.api import TwoPhaseSink
from headgate.testing import PreparedContract, Row, TwoPhaseContract
from services.mariadb import MariaDB
from tests.connect.mariadb.places import build, make_table, rows_in, xa


class OnMariaDB:
    server: MariaDB

    @pytest.fixture(autouse=True)
    def _server(self, mariadb: MariaDB) -> None:
        self.server = mariadb

    def visible(self, place: Path) -> Sequence[Row]:
        return rows_in(self.server, place)


class TestSink(OnMariaDB, TwoPhaseContract):
    def make_sink(self, place: Path) -> TwoPhaseSink:
        return build(connect.sink, self.server, make_table(self.server, place))


class TestXA(OnMariaDB, PreparedContract):
    def make_sink(self, place: Path) -> XASink:
        return cast("XASink", build(xa, self.server, make_table(self.server, place)))
