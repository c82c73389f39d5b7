"""What is asked again, and for how long, beside a server that answers by a script."""

import time

import pytest

from headgate.connect.rest.client import Asking, Response, RestClient
from headgate.connect.rest.endpoint import Endpoint
from headgate.errors import ExternalError
from tests.connect.rest.scripted import Answering, Scripted, chunked, cut, dripping, reset, whole


def ask(*servers: Scripted, seconds: float = 20) -> Response:
    with RestClient(Endpoint(tuple(server.url for server in servers))) as client:
        return client.ask("POST", "/path", asking=Asking(seconds, "sink s"), body=b"rows")


@pytest.mark.parametrize("trouble", [whole(503), whole(429, b"busy"), cut, reset], ids=["503", "429", "cut", "reset"])
def test_what_leaves_the_outcome_open_is_asked_again(trouble: Answering) -> None:
    with Scripted(trouble, trouble, whole(200, b"done")) as server:
        assert ask(server) == Response(200, b"done")
        assert server.lines == ["POST /path"] * 3
        assert server.bodies == [b"rows"] * 3


def test_an_answer_that_says_no_is_an_answer() -> None:
    with Scripted(whole(404, b"none"), whole(200)) as server:
        assert ask(server) == Response(404, b"none")
        assert len(server.lines) == 1


def test_an_answer_may_come_in_chunks_and_the_connection_is_used_again() -> None:
    with Scripted(chunked(b"many chunks"), whole(503), whole(200)) as server:
        with RestClient(Endpoint((server.url,))) as client:
            asking = Asking(20, "sink s")
            assert client.ask("GET", "/", asking=asking).body == b"many chunks"
            assert client.ask("GET", "/", asking=asking).status == 200
        assert server.connections == 1


def test_another_node_is_asked_each_time() -> None:
    with Scripted(whole(503)) as one, Scripted(whole(503), whole(200)) as other:
        assert ask(one, other).status == 200
        assert (len(one.lines), len(other.lines)) == (2, 2)


@pytest.mark.parametrize(
    ("trouble", "reason"),
    [(whole(503, b"busy"), "is busy: 503: busy"), (dripping, "does not answer: the answer came too slowly")],
    ids=["busy", "dripping"],
)
def test_it_is_given_up_after_so_many_seconds_whatever_the_server_does(trouble: Answering, reason: str) -> None:
    with Scripted(trouble) as server:
        began = time.monotonic()
        with pytest.raises(ExternalError, match=rf"^sink s: {server.url} {reason}: tried for \d+ s: see that"):
            ask(server, seconds=0.5)
        assert time.monotonic() - began < 10  # half a second, and the rest for a busy machine
        assert len(server.lines) >= 1
