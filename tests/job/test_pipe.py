"""The pipe against a server that answers as Spark's does: in order, one at a time, and with nothing after an error."""

import pickle
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyspark
import pyspark.sql.streaming.proto.StateMessage_pb2 as messages
import pytest

from headgate.errors import ExternalError
from headgate.job import pipe
from headgate.job.pipe import Pipe

Answer = Callable[[messages.StateRequest], bytes | None]

HEAD = (
    b"\x80\x02cpyspark.sql.types\n_create_row_inbound_converter\nq\x00cpyspark.sql.types\n"
    b"_parse_datatype_json_string\nX\x02\x00\x00\x00{}q\x01\x85Rq\x02\x85R"
)
"""How Spark begins every value: with its schema, which is left out here."""


class Client:
    """What a pipe needs of Spark's client."""

    def __init__(self, connection: socket.socket) -> None:
        self.sockfile = connection.makefile("rwb", 65536)


@contextmanager
def served(answer: Answer) -> Iterator[tuple[Any, list[int]]]:
    """A client, and how many bytes of requests had come whenever the server answered."""
    ours, theirs = socket.socketpair()
    came: list[int] = []

    def serve() -> None:
        with theirs, theirs.makefile("rb") as requests:
            while header := requests.read(8):
                version, size = struct.unpack("!ii", header)
                assert version == 0
                reply = answer(messages.StateRequest.FromString(requests.read(size)))
                if reply is None:
                    return
                came.append(8 + size)
                theirs.sendall(struct.pack("!i", len(reply)) + reply)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    client = Client(ours)
    try:
        yield client, came
    finally:
        client.sockfile.close()
        ours.close()
        thread.join(10)
        assert not thread.is_alive()


def echoes_keys(request: messages.StateRequest) -> bytes:
    """Answers a key with itself, as a value."""
    raw = request.implicitGroupingKeyRequest.setImplicitKey.key
    return bytes(messages.StateResponse(value=raw).SerializeToString())


@pytest.mark.parametrize("window_bytes", [0, 100, pipe.WINDOW_BYTES])
def test_answers_come_in_the_order_of_the_requests_whatever_their_size(window_bytes: int) -> None:
    sent = [bytes([65 + number % 26]) * size for number, size in enumerate([1, 5, 70_000, 3, 300_000, 40, 1] * 30)]
    with served(echoes_keys) as (client, _):
        answers = Pipe(client, window_bytes=window_bytes).ask(map(pipe.key, sent))
    assert [pipe.checked(answer).value for answer in answers] == sent


def test_the_bytes_of_a_request_are_those_that_spark_sends() -> None:
    for raw in (b"k", b"x" * 127, b"x" * 128, b"x" * 70_000):
        keyed = messages.ImplicitGroupingKeyRequest(setImplicitKey=messages.SetImplicitKey(key=raw))
        sent = pipe.key(raw)
        assert messages.StateRequest.FromString(sent[8:]) == messages.StateRequest(implicitGroupingKeyRequest=keyed)
        assert struct.unpack("!ii", sent[:8]) == (0, len(sent) - 8)
        call = messages.ValueStateCall(stateName="ü", valueStateUpdate=messages.ValueStateUpdate(value=raw))
        whole = messages.StateRequest(stateVariableRequest=messages.StateVariableRequest(valueStateCall=call))
        assert pipe.update("ü", raw)[8:] == whole.SerializeToString()


def test_what_spark_answers_with_an_error_is_raised_with_its_text() -> None:
    refusal = messages.StateResponse(statusCode=1, errorMessage="Value state nope is not initialized.")
    with (
        served(lambda _: refusal.SerializeToString()) as (client, _),
        pytest.raises(ExternalError, match="nope is not initialized"),
    ):
        Pipe(client).tell([pipe.get("nope")])


def test_a_connection_that_spark_closes_is_an_error_that_says_where_to_look() -> None:
    answers = iter([b"", b""])
    with (
        served(lambda _: next(answers, None)) as (client, _),
        pytest.raises(ExternalError, match=r"closed the connection: .* the log of the executor says why"),
    ):
        Pipe(client).tell([pipe.key(b"a")] * 5)


def names_back(request: messages.StateRequest) -> bytes:
    name = request.utilsRequest.parseStringSchema.schema.split()[0]
    text = f'{{"type":"struct","fields":[{{"name":"{name}"}}]}}'
    return bytes(messages.StateResponseWithStringTypeVal(value=text).SerializeToString())


def says_nothing(_: messages.StateRequest) -> bytes:
    return b""


@pytest.mark.parametrize(("answer", "many"), [(names_back, True), (says_nothing, False)])
def test_many_requests_are_sent_at_once_only_where_the_trial_went_well(
    monkeypatch: pytest.MonkeyPatch, answer: Answer, many: bool
) -> None:
    monkeypatch.setattr(pipe, "_trials", {})
    with served(answer) as (client, came):
        assert Pipe.open(client).sends_many is many
        tried = len(came)
        assert Pipe.open(client).sends_many is many
        assert len(came) == tried == 3, "it is tried once in a process"


def test_another_release_of_spark_is_not_tried_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipe, "_trials", {})
    monkeypatch.setattr(pyspark, "__version__", "4.4.0")
    assert not pipe.is_known()
    with served(names_back) as (client, came):
        assert not Pipe.open(client).sends_many
        assert came == []


def test_values_are_read_as_they_are_inside_spark() -> None:
    one, none = HEAD + b"(K\x01tRq\x03.", HEAD + b"(NtRq\x03."
    inner = b"h\x00cpyspark.sql.types\n_parse_datatype_json_string\nX\x02\x00\x00\x00{}q\x04\x85Rq\x05\x85R"
    rows = HEAD + b"(]q\x03(" + inner + b"(K\x01tRq\x06h\x00h\x05\x85R(K\x02tRq\x07etRq\x08."
    assert pipe.loads([one, none, one]) == [(1,), (None,), (1,)]
    assert pipe.loads([rows, rows]) == [([(1,), (2,)],), ([(1,), (2,)],)]
    answers = [messages.StateResponse(value=one).SerializeToString(), b""]
    assert pipe.values([*answers, *answers]) == [(1,), None, (1,), None]


def test_values_that_are_not_written_in_the_known_way_are_read_one_by_one() -> None:
    known = HEAD + b"(K\x01tRq\x03."
    for other in (pickle.dumps((2,)), HEAD + b"(K\x02tRr\x03\x00\x00\x00."):
        assert pipe.loads([known, other, known]) == [(1,), (2,), (1,)]
        assert pipe.loads([other, known, other]) == [(2,), (1,), (2,)]
