"""Options of the search sink that are not valid, and what is shown of them. No server is needed."""

import pickle
from typing import Any

import pytest

from headgate.connect import search
from headgate.connect.rest.client import Response
from headgate.errors import InvalidOption

GOOD: dict[str, Any] = {"url": "https://host:9200", "index": "orders", "id": "number"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"url": "host:9200"}, "is not a valid address of a server"),
        ({"url": "http://"}, "is not a valid address of a server"),
        ({"url": "http://host:port"}, "is not a valid address"),
        ({"url": "http://host/?a=b"}, "is not a valid address of a server"),
        ({"url": 9200}, "is not a text"),
        ({"url": []}, "no url is given"),
        ({"url": "https://me:secret@host"}, "give user and password as options"),
        ({"index": "Orders"}, "is not a valid name of an index"),
        ({"index": "a,b"}, "is not a valid name of an index"),
        ({"index": "_all"}, "is not a valid name of an index"),
        ({"index": ""}, "is not a valid name of an index"),
        ({"id": []}, "names no column"),
        ({"id": ["a", "a"]}, "names a column twice"),
        ({"routing": ""}, "routing=.*names no column"),
        ({"version": ""}, "version=.*names no column"),
        ({"user": "me"}, "user and password go together"),
        ({"user": "me", "password": "x", "api_key": "y"}, "give only one of them"),
        ({"key": "file"}, "key is given without certificate"),
        ({"url": "http://host", "ca": "file"}, "has no TLS"),
        ({"bulk_rows": 0}, "bulk_rows=0 is too few"),
        ({"bulk_bytes": "5MB"}, "bulk_bytes='5MB' is not a valid whole number"),
        ({"timeout": "soon"}, "timeout='soon' is not a valid duration"),
    ],
)
def test_an_option_that_cannot_hold_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidOption, match=message) as caught:
        search.sink(**{**GOOD, **options})
    assert "secret" not in str(caught.value)


def test_the_password_is_not_shown_and_the_sink_can_be_pickled() -> None:
    sink = search.sink(**GOOD, user="me", password="secret")  # noqa: S106 - not one
    again = pickle.loads(pickle.dumps(sink))  # noqa: S301 - our own
    assert again.describe() == "documents in index orders at https://host:9200, by number"
    assert "secret" not in repr(sink._place)
    assert sink._place.authorization is not None
    assert sink._place.authorization not in repr(sink._place)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b'{"error":{"type":"t","reason":"r","caused_by":{"reason":"c"}},"status":400}', "400: t: r: c"),
        (b'{"error":"no handler"}', "400: no handler"),
        (b"Bad\norg.Exception: why\n\tat org.Class\n", "400: Bad: org.Exception: why"),
        (b"[]", "400: []"),
        (b"", "400"),
    ],
)
def test_the_reason_of_an_answer_is_one_line(body: bytes, reason: str) -> None:
    assert Response(400, body).reason == reason
    assert len(Response(400, b"x" * 10_000).reason) < 500
