"""Rows on their way to a server: how they are cut, and what is sent again. The server answers by a script."""

import json

import pyarrow as pa
import pytest

from headgate.connect.hbase.puts import PutWriter
from headgate.connect.rest.endpoint import Endpoint
from headgate.connect.rest.writer import Bounds, RequestWriter
from headgate.connect.search.bulk import BulkWriter, Versions
from headgate.core.ids import Batch
from headgate.errors import ExternalError, UserError
from headgate.sink.partitions import Place
from tests.connect.rest.scripted import Answering, Scripted, cut, whole


def bulk(server: Scripted, *, rows: int = 10, seconds: float = 20) -> BulkWriter:
    return BulkWriter(
        who="sink s",
        place=Endpoint((server.url,)),
        target="orders",
        keys=("id",),
        bounds=Bounds(rows=rows, size=1_000, seconds=seconds),
        versions=Versions.NONE,
        batch=Batch(7),
    )


def put(server: Scripted, *, rows: int = 10) -> PutWriter:
    bounds = Bounds(rows=rows, size=1_000, seconds=20)
    return PutWriter(who="sink s", place=Endpoint((server.url,)), target="ns:orders", keys=("id",), bounds=bounds)


def write(writer: RequestWriter, *texts: str | None) -> None:
    batch = pa.RecordBatch.from_arrays([pa.array(texts, pa.string())], ["text"])
    assert writer(Place(0, 0), iter([batch])) == ""


def items(*statuses: int) -> Answering:
    found = [{"index": {"_id": str(number), "status": status}} for number, status in enumerate(statuses)]
    return whole(200, json.dumps({"errors": max(statuses) > 299, "items": found}).encode())


def test_a_bulk_request_is_sent_again_from_the_first_row_that_is_not_done() -> None:
    with Scripted(items(201, 429, 201), cut, items(201, 503), items(201)) as server:
        write(bulk(server), "a\n", "b\n", "c\n")
        assert server.bodies == [b"a\nb\nc\n", b"b\nc\n", b"b\nc\n", b"c\n"]
        assert server.lines[0].startswith("POST /orders/_bulk?filter_path=")
        assert b"application/x-ndjson" in server.heads[0]


def test_a_put_is_sent_again_as_a_whole() -> None:
    with Scripted(whole(503), whole(200)) as server:
        write(put(server), ',{"key":"a\\r\\n"}', "", ',{"key":"b"}')
        assert server.bodies == [b'{"Row":[{"key":"a"},{"key":"b"}]}'] * 2
        assert server.lines == ["PUT /ns%3Aorders/rows"] * 2


def test_rows_go_in_requests_of_so_many_and_those_without_anything_in_none() -> None:
    with Scripted(whole(200, b'{"errors":false}')) as server:
        write(bulk(server, rows=2), *"abcde")
        assert server.bodies == [b"ab", b"cd", b"e"]
        assert server.connections == 1
    with Scripted(whole(200)) as server:
        write(put(server, rows=2), "", "", ",1")
        assert server.bodies == [b'{"Row":[1]}']


def test_rows_that_stay_undone_are_given_up_after_the_timeout() -> None:
    with (
        Scripted(items(201, 429), items(429)) as server,
        pytest.raises(ExternalError, match=r"^sink s: cannot write to index orders: document 0: .*: tried for 0 s"),
    ):
        write(bulk(server, seconds=0.3), "a", "b")


def test_a_row_that_is_refused_ends_it_at_once() -> None:
    with Scripted(items(201, 400)) as server, pytest.raises(UserError, match="index orders does not take document 1"):
        write(bulk(server), "a", "b")
    with Scripted(whole(404, b"gone")) as server:
        with pytest.raises(UserError, match="table ns:orders, or a family of it, is gone: 404: gone"):
            write(put(server), ",1")
        assert len(server.lines) == 1


def test_a_row_without_a_key_is_refused_in_the_words_of_the_server() -> None:
    with Scripted(whole(200)) as server:
        with pytest.raises(UserError, match="a row has no id, id is null or empty"):
            write(bulk(server), "a", None)
        with pytest.raises(UserError, match="a row has no key, id is null or empty"):
            write(put(server), "a", None)
        assert server.lines == []
