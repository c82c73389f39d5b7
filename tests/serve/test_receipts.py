"""Receipts and transactions in doubt, over HTTP."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.serve.access import ServerAccess
from headgate.serve.listening import HttpServer
from headgate.serve.server import StoredJobs
from headgate.store.api import open_store
from tests.receipts.published import ROWS, PublishedJob
from tests.serve.web import Web

TOKEN = "0123456789abcdef"  # noqa: S105 - of a test
ORDERS = "/v1/jobs/orders"


@pytest.fixture
def published(tmp_path: Path) -> PublishedJob:
    found = PublishedJob(tmp_path)
    for batch in range(3):
        found.publish(batch)
    found.complete(found.next, 3, [found.pre_commit(3, found.next)])
    return found


@pytest.fixture
def web(published: PublishedJob) -> Iterator[Web]:
    listening = socket.create_server(("127.0.0.1", 0))
    about = {"pid": os.getpid(), "machine": "here", "job": None, "leader": None}
    warned: list[str] = []
    serving = HttpServer(
        listening, StoredJobs([open_store(published.uri)], about, warned.append), ServerAccess(TOKEN, None)
    )
    serving.start()
    yield Web("127.0.0.1", listening.getsockname()[1], {"Authorization": f"Bearer {TOKEN}"})
    serving.close()
    assert warned == []


def test_the_receipts_of_a_checkpoint_say_what_was_published(published: PublishedJob, web: Web) -> None:
    said = web.ask("GET", f"{ORDERS}/checkpoints/details/3/receipts").data
    [one] = said["receipts"]
    assert (said["id"], one["sink"], one["rows"], one["after"], one["through"]) == (3, "out", ROWS, 0, 1)
    assert one["sources"] == {"in": ["1", "2"]}
    assert (one["pre_committed_ms"], one["committed_ms"], one["in_history"]) == (1_001, 2_000, True)
    assert one["hash"].startswith("files:")
    assert one["place"] == str(published.target)
    assert '"checkpoint":3' in one["committable"]


def test_what_only_a_record_tells_is_not_in_the_history(web: Web) -> None:
    [one] = web.ask("GET", f"{ORDERS}/checkpoints/details/5/receipts").data["receipts"]
    assert (one["rows"], one["committed_ms"], one["in_history"]) == (ROWS, None, False)
    assert web.ask("GET", f"{ORDERS}/transactions").data["in_doubt"] == [one]


def test_a_checkpoint_that_nobody_knows_has_no_receipts(web: Web) -> None:
    said = web.ask("GET", f"{ORDERS}/checkpoints/details/99/receipts")
    assert (said.code, said.errors) == (404, ["checkpoint 99 of job orders is not known"])


def test_receipts_come_by_pages_the_newest_first(published: PublishedJob, web: Web) -> None:
    published.append({"event": "receipt", "id": 5, "receipt": "nothing"})
    first = web.ask("GET", f"{ORDERS}/receipts?limit=2").data
    assert ([one["checkpoint"] for one in first["receipts"]], first["unreadable"]) == ([4], 1)
    rest = web.ask("GET", f"{ORDERS}/receipts?limit=2&before={first['next_before']}").data
    assert ([one["checkpoint"] for one in rest["receipts"]], rest["next_before"]) == ([3, 2], None)
    assert {one["committable"] for one in (*first["receipts"], *rest["receipts"])} == {None}
    assert web.ask("GET", f"{ORDERS}/receipts?before=x").code == 400


def test_events_leave_committables_out(web: Web) -> None:
    events = web.ask("GET", f"{ORDERS}/events?type=receipt").data["events"]
    assert [(one["id"], one["receipt"]["committable"]) for one in events] == [(2, None), (3, None), (4, None)]


def test_commits_are_given_up_only_with_a_reason(web: Web) -> None:
    said = web.ask("POST", f"{ORDERS}/cancel", {"abandon": ["out"]})
    assert (said.code, said.errors[0].startswith("reason: giving up commits is recorded with a reason")) == (400, True)
