"""HBase as a service."""

import base64
from collections.abc import Iterator

import pytest

from services.hbase import HBase
from services.processes import family
from services.server import ServiceError

# The tests of the sink start the same server, kill it and start it again.
pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def hbase(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HBase]:
    with HBase(tmp_path_factory.mktemp("hbase")) as server:
        yield server


def _coded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def test_it_is_a_real_cluster_behind_a_real_gateway(hbase: HBase) -> None:
    status, answer = hbase.request("GET", "/version/cluster")
    assert (status, answer[:12]) == (200, b'{"Version":"')


def test_what_cannot_be_done_is_said(hbase: HBase) -> None:
    with pytest.raises(ServiceError, match="cannot make table empty: "):
        hbase.create_table("empty")
    assert hbase.request("GET", "/nowhere/schema")[0] == 404


def test_every_put_that_it_acknowledged_survives_a_kill(hbase: HBase) -> None:
    hbase.create_table("kept", "f")
    for number in range(100):
        cell = {"column": _coded("f:v"), "$": _coded("v" * (number % 7))}
        status, _ = hbase.request("PUT", "/kept/row", {"Row": [{"key": _coded(str(number)), "Cell": [cell]}]})
        assert status == 200
    assert hbase.pid is not None
    processes, url = family(hbase.pid), hbase.url
    assert len(processes) >= 2
    hbase.kill()
    assert not any(process.alive for process in processes)
    hbase.start()
    assert hbase.url == url
    assert hbase.rows("kept") == {str(number).encode(): {"f:v": b"v" * (number % 7)} for number in range(100)}
