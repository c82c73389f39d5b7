"""OpenSearch as a service."""

import json
from collections.abc import Iterator

import pytest

from services.opensearch import VERSION, OpenSearch
from services.processes import family
from services.server import ServiceError

# The tests of the sink start the same server, kill it and start it again.
pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def opensearch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenSearch]:
    with OpenSearch(tmp_path_factory.mktemp("opensearch")) as server:
        yield server


def test_it_is_a_real_node(opensearch: OpenSearch) -> None:
    status, answer = opensearch.request("GET", "/")
    about = json.loads(answer)
    assert status == 200
    assert (about["version"]["distribution"], about["version"]["number"]) == ("opensearch", VERSION)


def test_what_cannot_be_done_is_said(opensearch: OpenSearch) -> None:
    with pytest.raises(ServiceError, match=r"cannot make index Upper: .*must be lowercase"):
        opensearch.create_index("Upper")
    with pytest.raises(ServiceError, match=r"cannot read index nowhere: .*no such index"):
        opensearch.documents("nowhere")


def test_what_it_acknowledged_survives_a_kill_and_a_stop(opensearch: OpenSearch) -> None:
    opensearch.create_index("kept")
    for number in range(50):
        status, _ = opensearch.request("PUT", f"/kept/_doc/{number}", {"number": number})
        assert status == 201
    assert opensearch.pid is not None
    processes, url = family(opensearch.pid), opensearch.url
    opensearch.kill()
    assert not any(process.alive for process in processes)
    opensearch.start()
    assert opensearch.url == url
    assert opensearch.documents("kept") == {str(number): {"number": number} for number in range(50)}
    opensearch.stop()
    assert not opensearch.running
    opensearch.start()
    assert len(opensearch.documents("kept")) == 50
