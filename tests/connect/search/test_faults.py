"""A search server that is away, busy, killed, or that refuses the login."""

import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headgate.connect import search
from headgate.errors import ExternalError, InvalidOption
from headgate.testing import CONTEXT, write_id
from services.opensearch import OpenSearch
from services.server import HOST, free_port
from services.tls import Certificates
from tests.connect.proxy import Proxy, Trouble, Troubles

ROWS = 2_000


def test_a_server_that_is_killed_in_the_middle_and_started_again_has_every_row(
    spark: SparkSession, opensearch: OpenSearch
) -> None:
    opensearch.create_index("killed")
    killed = threading.Event()

    def kill_at_the_fifth(number: int) -> None:
        if number == 5:
            opensearch.kill()
            killed.set()

    with Proxy(opensearch.port, plan=kill_at_the_fifth) as proxy, ThreadPoolExecutor(1) as pool:
        sink = search.sink(proxy.url, index="killed", id="id", bulk_rows=100, timeout="120s")
        sink.open(CONTEXT)
        writing = pool.submit(sink.invoke, write_id(0), spark.range(ROWS))
        assert killed.wait(60)
        opensearch.start()
        writing.result(180)
    assert {int(key) for key in opensearch.documents("killed")} == set(range(ROWS))


def test_requests_that_are_lost_or_whose_answers_are_lost_or_that_find_it_busy_are_sent_again(
    spark: SparkSession, opensearch: OpenSearch
) -> None:
    opensearch.create_index("troubled")
    troubles = Troubles({1: Trouble.LOST, 3: Trouble.ANSWER_LOST, 5: 429, 6: 503, 7: Trouble.ANSWER_LOST})
    with Proxy(opensearch.port, plan=troubles.happens) as proxy:
        sink = search.sink(proxy.url, index="troubled", id="id", bulk_rows=200)
        sink.open(CONTEXT)
        sink.invoke(write_id(0), spark.range(ROWS))
        assert proxy.requests == 1 + ROWS // 200 + len(troubles.planned)
    assert {int(key) for key in opensearch.documents("troubled")} == set(range(ROWS))


def test_another_node_is_asked_when_one_is_away(spark: SparkSession, opensearch: OpenSearch) -> None:
    opensearch.create_index("nodes")
    sink = search.sink([f"http://{HOST}:{free_port()}", opensearch.url], index="nodes", id="id")
    sink.open(CONTEXT)
    sink.invoke(write_id(0), spark.range(10))
    assert len(opensearch.documents("nodes")) == 10


def test_a_server_that_stays_busy_is_given_up_after_the_timeout(spark: SparkSession, opensearch: OpenSearch) -> None:
    with Proxy(opensearch.port, plan=lambda _: 429) as proxy:
        sink = search.sink(proxy.url, index="busy", id="id", timeout="1s")
        with pytest.raises(ExternalError, match=r"cannot write to index busy: .* is busy: 429: test_exception: as the"):
            sink.invoke(write_id(0), spark.range(10))


def test_what_a_busy_server_said_is_told_although_it_fell_silent_then(
    spark: SparkSession, opensearch: OpenSearch
) -> None:
    answered = threading.Event()

    def happens(number: int) -> int:
        if number > 1:
            answered.wait(60)  # longer than anybody waits for it
        return 429

    with Proxy(opensearch.port, plan=happens) as proxy:
        sink = search.sink(proxy.url, index="busy", id="id", timeout="1s")
        with pytest.raises(ExternalError, match=r"cannot write to index busy: .* is busy: 429"):
            sink.invoke(write_id(0), spark.range(1))
        assert proxy.requests > 1
        answered.set()


def test_a_missing_index_is_refused_at_open(opensearch: OpenSearch) -> None:
    with pytest.raises(InvalidOption, match=r"^sink sink: there is no index missing at http.*: make it"):
        search.sink(opensearch.url, index="missing", id="id").open(CONTEXT)


@pytest.mark.heavy
def test_a_server_that_is_down_is_said_at_open_within_10_s() -> None:
    port = free_port()
    began = time.monotonic()
    with pytest.raises(ExternalError, match=rf"^sink sink: http://{HOST}:{port} does not answer: Connection refused"):
        search.sink(f"http://{HOST}:{port}", index="i", id="id").open(CONTEXT)
    assert time.monotonic() - began < 30  # ten, and the rest for a busy machine


@pytest.mark.heavy
def test_a_server_that_says_nothing_is_said_at_open_within_10_s() -> None:
    with socket.create_server((HOST, 0)) as silent:
        port = silent.getsockname()[1]
        began = time.monotonic()
        with pytest.raises(ExternalError, match=rf"http://{HOST}:{port} does not answer: .*timed out"):
            search.sink(f"http://{HOST}:{port}", index="i", id="id").open(CONTEXT)
        assert time.monotonic() - began < 30  # ten, and the rest for a busy machine


def test_something_else_at_the_address_is_said(opensearch: OpenSearch) -> None:
    with Proxy(opensearch.port, plan=lambda _: 400) as proxy, pytest.raises(InvalidOption, match="see that this is"):
        search.sink(proxy.url, index="i", id="id").open(CONTEXT)


def test_a_wrong_password_is_refused_and_not_shown(spark: SparkSession, opensearch: OpenSearch) -> None:
    opensearch.create_index("guarded")
    with Proxy(opensearch.port, login=("me", "right")) as proxy:
        wrong = search.sink(proxy.url, index="guarded", id="id", user="me", password="secret")  # noqa: S106 - not one
        with pytest.raises(InvalidOption, match="refused access: 401: security_exception") as caught:
            wrong.open(CONTEXT)
        assert "secret" not in str(caught.value)
        sink = search.sink(proxy.url, index="guarded", id="id", user="me", password="right")  # noqa: S106 - not one
        sink.open(CONTEXT)
        sink.invoke(write_id(0), spark.range(10))
    assert len(opensearch.documents("guarded")) == 10


def test_a_server_with_tls_is_trusted_by_its_authority_alone(
    spark: SparkSession, opensearch: OpenSearch, tmp_path: Path
) -> None:
    opensearch.create_index("trusted")
    certificates = Certificates(tmp_path)
    certificates.make()
    with Proxy(opensearch.port, certificates=certificates) as proxy:
        with pytest.raises(InvalidOption, match=r"is not trusted: .*: give its authority as ca="):
            search.sink(proxy.url, index="trusted", id="id").open(CONTEXT)
        with pytest.raises(InvalidOption, match=r"ca='nowhere' cannot be read"):
            search.sink(proxy.url, index="trusted", id="id", ca="nowhere").open(CONTEXT)
        sink = search.sink(proxy.url, index="trusted", id="id", ca=str(certificates.authority))
        sink.open(CONTEXT)
        sink.invoke(write_id(0), spark.range(10))
    assert len(opensearch.documents("trusted")) == 10


def test_a_server_without_tls_is_said(opensearch: OpenSearch) -> None:
    url = opensearch.url.replace("http:", "https:")
    with pytest.raises(InvalidOption, match="does not speak TLS: write http://"):
        search.sink(url, index="i", id="id").open(CONTEXT)
