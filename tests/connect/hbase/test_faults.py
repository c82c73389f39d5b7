"""HBase or its gateway away, busy, killed, or not letting us in."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from pyspark.sql import SparkSession, functions as F  # noqa: N812 - as everywhere with Spark

from headgate.connect import hbase as connector
from headgate.errors import ExternalError, InvalidOption, UserError
from headgate.testing import CONTEXT, write_id
from services.hbase import HBase
from services.server import HOST, free_port
from tests.connect.proxy import Proxy, Trouble, Troubles

ROWS = 1_000


def test_a_server_that_is_killed_in_the_middle_and_started_again_has_every_row(
    spark: SparkSession, hbase: HBase
) -> None:
    hbase.create_table("killed", "f")
    killed = threading.Event()

    def kill_at_the_fifth(number: int) -> None:
        if number == 5:
            hbase.kill()
            killed.set()

    with Proxy(hbase.port, plan=kill_at_the_fifth) as proxy, ThreadPoolExecutor(1) as pool:
        sink = connector.sink(proxy.url, table="killed", row_key="id", family="f", bulk_rows=50, timeout="180s")
        sink.open(CONTEXT)
        writing = pool.submit(sink.invoke, write_id(0), spark.range(ROWS).select("id", F.lit(1).alias("one")))
        assert killed.wait(60)
        hbase.start()
        writing.result(240)
    assert {int(key) for key in hbase.rows("killed")} == set(range(ROWS))


def test_requests_that_are_lost_or_whose_answers_are_lost_or_that_find_it_busy_are_sent_again(
    spark: SparkSession, hbase: HBase
) -> None:
    hbase.create_table("troubled", "f")
    troubles = Troubles({1: Trouble.LOST, 3: Trouble.ANSWER_LOST, 5: 429, 6: 503, 7: Trouble.ANSWER_LOST})
    with Proxy(hbase.port, plan=troubles.happens) as proxy:
        sink = connector.sink(proxy.url, table="troubled", row_key="id", family="f", bulk_rows=100)
        sink.open(CONTEXT)
        sink.invoke(write_id(0), spark.range(ROWS).select("id", F.lit(1).alias("one")))
        assert proxy.requests == 1 + ROWS // 100 + len(troubles.planned)
    assert {int(key) for key in hbase.rows("troubled")} == set(range(ROWS))


def test_a_missing_table_or_family_is_refused_at_open(hbase: HBase) -> None:
    hbase.create_table("families", "f", "g")
    with pytest.raises(InvalidOption, match=r"^sink sink: there is no table missing at http.*: make it"):
        connector.sink(hbase.url, table="missing", row_key="id", family="f").open(CONTEXT)
    with pytest.raises(InvalidOption, match=r"^sink sink: table families has no column family h: it has f, g"):
        connector.sink(hbase.url, table="families", row_key="id", family="h").open(CONTEXT)


def test_a_table_that_is_gone_is_said(spark: SparkSession, hbase: HBase) -> None:
    sink = connector.sink(hbase.url, table="gone", row_key="id", family="f")
    with pytest.raises(UserError, match=r"table gone, or a family of it, is gone: 404: .*TableNotFoundException"):
        sink.invoke(write_id(0), spark.range(1).select("id", F.lit(1).alias("one")))


@pytest.mark.heavy
def test_a_server_that_is_down_is_said_at_open_within_10_s() -> None:
    port = free_port()
    began = time.monotonic()
    with pytest.raises(ExternalError, match=rf"^sink sink: http://{HOST}:{port} does not answer: Connection refused"):
        connector.sink(f"http://{HOST}:{port}", table="t", row_key="id", family="f").open(CONTEXT)
    assert time.monotonic() - began < 30  # ten, and the rest for a busy machine


def test_something_else_at_the_address_is_said(hbase: HBase) -> None:
    with Proxy(hbase.port, plan=lambda _: 400) as proxy, pytest.raises(ExternalError, match="see that this is HBase"):
        connector.sink(proxy.url, table="t", row_key="id", family="f").open(CONTEXT)


def test_a_wrong_password_is_refused_and_not_shown(spark: SparkSession, hbase: HBase) -> None:
    hbase.create_table("guarded", "f")
    with Proxy(hbase.port, login=("me", "right")) as proxy:
        options: dict[str, Any] = {"table": "guarded", "row_key": "id", "family": "f", "user": "me"}
        with pytest.raises(InvalidOption, match="refused access: 401") as caught:
            connector.sink(proxy.url, **options, password="secret").open(CONTEXT)  # noqa: S106 - not one
        assert "secret" not in str(caught.value)
        sink = connector.sink(proxy.url, **options, password="right")  # noqa: S106 - not one
        sink.open(CONTEXT)
        sink.invoke(write_id(0), spark.range(3).select("id", F.lit(1).alias("one")))
    assert len(hbase.rows("guarded")) == 3
