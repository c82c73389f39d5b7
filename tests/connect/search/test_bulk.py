"""How the answers to bulk requests are read, and how texts are cut. No server is needed."""

import json

import pyarrow as pa
import pytest

from headgate.connect.rest.client import Response
from headgate.connect.rest.endpoint import Endpoint
from headgate.connect.rest.writer import Bounds
from headgate.connect.search.bulk import BulkWriter, Versions
from headgate.connect.text import pieces
from headgate.core.ids import Batch
from headgate.errors import ExternalError, FencedOff, UserError


def writer(versions: Versions = Versions.NONE) -> BulkWriter:
    place = Endpoint(("http://127.0.0.1:1",))
    bounds = Bounds(rows=10, size=100, seconds=1)
    return BulkWriter(
        who="sink s", place=place, target="i", keys=("id",), bounds=bounds, versions=versions, batch=Batch(7)
    )


def answer(*statuses: int) -> Response:
    items = [
        {"index": {"_id": f"d{number}", "status": status}}
        if status < 300
        else {"index": {"_id": f"d{number}", "status": status, "error": {"type": "t", "reason": f"r{number}"}}}
        for number, status in enumerate(statuses)
    ]
    return Response(200, json.dumps({"errors": max(statuses) >= 300, "items": items}).encode())


def test_rows_that_found_the_server_busy_are_sent_again_from_the_first_on() -> None:
    assert writer().undone(answer(200, 201, 429, 200, 503), 5) == (2, "document d2: t: r2")


def test_nothing_is_sent_again_when_all_is_done() -> None:
    assert writer().undone(answer(200, 201), 2) is None
    assert writer().undone(Response(200, b'{"errors":false}'), 2) is None


def test_a_refused_row_counts_more_than_a_busy_server() -> None:
    with pytest.raises(UserError, match=r"document d1: t: r1: .*one of 2 among 3"):
        writer().undone(answer(429, 400, 404), 3)


def test_a_conflict_of_versions_is_done_only_where_versions_are_given() -> None:
    assert writer(Versions.THEIRS).undone(answer(200, 409), 2) is None
    with pytest.raises(UserError, match="document d1"):
        writer().undone(answer(200, 409), 2)


def test_a_conflict_with_a_version_of_our_own_means_that_somebody_newer_has_written() -> None:
    with pytest.raises(FencedOff, match="sink s: batch 7 is fenced off: document d1: t: r1: let the process that"):
        writer(Versions.OURS).undone(answer(200, 409, 429), 3)


def test_versions_of_a_column_that_ours_are_above_are_not_passed_over() -> None:
    reason = f"[x]: version conflict, current version [{1 << 58}] is higher than the one provided [1763300000000]"
    items = [{"index": {"_id": "x", "status": 409, "error": {"type": "version_conflict", "reason": reason}}}]
    body = json.dumps({"errors": True, "items": items}).encode()
    with pytest.raises(UserError, match="one of Headgate's own, which is above all in the column"):
        writer(Versions.THEIRS).undone(Response(200, body), 1)


def test_an_answer_of_another_kind_is_refused() -> None:
    for body in (b"<html>", b'{"errors":true}', b'{"errors":true,"items":[]}', b"[1]"):
        with pytest.raises((ExternalError, UserError), match="answers a bulk request with something else"):
            writer().undone(Response(200, body), 2)


def test_a_request_that_is_too_large_says_what_to_lower() -> None:
    with pytest.raises(UserError, match="lower bulk_bytes"):
        writer().undone(Response(413, b""), 2)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_texts_are_cut_by_rows_and_by_bytes(kind: pa.DataType) -> None:
    texts = pa.array(["skipped", "a", "bb", "", "cccccc", "dd", "e"], kind).slice(1)
    batch = pa.RecordBatch.from_arrays([texts], ["t"])
    by_rows = [bytes(piece.body) for piece in pieces(batch, rows=4, size=100, missing="")]
    assert by_rows == [b"abbcccccc", b"dde"]
    by_bytes = [bytes(piece.body) for piece in pieces(batch, rows=100, size=3, missing="")]
    assert by_bytes == [b"abb", b"cccccc", b"dde"]
    assert [len(piece) for piece in pieces(batch, rows=100, size=3, missing="")] == [3, 1, 2]
    (whole,) = pieces(batch, rows=100, size=100, missing="")
    assert bytes(whole.since(3).body) == b"ccccccdde"


def test_an_empty_batch_gives_nothing_and_a_missing_text_is_refused() -> None:
    empty = pa.RecordBatch.from_arrays([pa.array([], pa.string())], ["t"])
    assert list(pieces(empty, rows=1, size=1, missing="")) == []
    missing = pa.RecordBatch.from_arrays([pa.array(["a", None])], ["t"])
    with pytest.raises(UserError, match="no id"):
        list(pieces(missing, rows=1, size=1, missing="no id"))
