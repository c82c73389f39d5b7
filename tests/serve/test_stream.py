"""What happens in a job is told as it happens, to whoever listens, and nothing is done for nobody."""

import time
from contextlib import ExitStack
from typing import Any

import pytest

from headgate.serve import broadcast
from headgate.serve.broadcast import Broadcast
from headgate.serve.paths import stream
from tests.cli.live import Job
from tests.serve.web import Events, Web

STREAM = "/v1/jobs/orders/stream"


def test_who_listens_gets_the_job_at_once_and_events_as_they_come(job: Job, web: Web) -> None:
    with web.asking("GET", STREAM) as response:
        events = Events(response)
        name, data = events.next()
        assert (name, data["jid"], data["state"]) == ("job", "orders", "RUNNING")
        job.server.publish([{"at": 7, "event": "notice", "text": "one"}, {"at": 8, "event": "notice", "text": "two"}])
        assert events.until("event") == {"at": 7, "event": "notice", "text": "one"}
        assert events.until("event")["text"] == "two"
        job.core.tell(job.core.committed("a", 7))
        assert events.until("job")["vertices"][0]["batch"] == 7


def test_time_that_goes_by_is_no_news(job: Job, web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job whose tasks run and have nothing to do: they have run for longer, and were idle for longer."""
    monkeypatch.setattr(stream, "EVERY_S", 0.02)
    with web.asking("GET", STREAM) as response:
        events = Events(response)
        [before] = events.until("job")["vertices"]
        job.core.now_ms += 400
        time.sleep(0.4)
        [after] = web.get("/v1/jobs/orders")["vertices"]
        assert after["duration"] > before["duration"]
        assert after["metrics"]["accumulated-idle-time"] > before["metrics"]["accumulated-idle-time"]
        job.server.publish([{"at": 7, "event": "notice", "text": "one"}])
        assert events.next()[0] == "event", "not the job again"


def test_when_the_process_ends_it_says_so_and_the_stream_is_over(job: Job, web: Web) -> None:
    with web.asking("GET", STREAM) as response:
        events = Events(response)
        events.until("job")
        job.server.close()
        assert events.until("over") == {"text": "the job's process has ended"}
        assert response.read().strip() == b""


def test_for_nobody_nothing_is_computed(job: Job, web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    told = job.server._state_of
    served = job.server._job
    assert served is not None

    def state() -> Any:
        asked.append(1)
        return told()

    monkeypatch.setattr(served, "_state_of", state)
    with web.asking("GET", STREAM) as response:
        Events(response).until("job")
        heard = served.broadcast.is_heard
    assert (heard, bool(asked)) == (True, True)
    while served.broadcast.is_heard:  # Until the server has seen that the listener has gone.
        web.get("/v1/config")
    count = len(asked)
    job.server.publish([{"event": "notice"}])
    web.get("/v1/config")
    assert len(asked) == count


def test_a_listener_that_does_not_keep_up_hears_what_it_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broadcast, "WAITING_MAX", 3)
    told, woken = Broadcast(), []
    listener = told.join(lambda: woken.append(1))
    assert listener is not None
    for number in range(10):
        told.publish([{"number": number}])
    lines, missed, over = listener.take()
    assert [line["number"] for line in lines] == [7, 8, 9]
    assert (missed, over) == (7, None)
    assert len(woken) == 1, "it is woken once, until it takes what waits"
    assert listener.take() == ([], 0, None)
    told.leave(listener)
    told.publish([{"number": 11}])
    assert listener.take() == ([], 0, None)
    assert not told.is_heard


def test_only_so_many_may_listen(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broadcast, "LISTENERS_MAX", 2)
    with ExitStack() as stack:
        for _ in range(2):
            Events(stack.enter_context(web.asking("GET", STREAM))).until("job")
        said = web.ask("GET", STREAM)
        assert said.code == 503
        assert "listen to job orders already" in said.errors[0]


def test_who_comes_after_the_end_hears_that_it_is_over() -> None:
    told = Broadcast()
    told.close("gone")
    listener = told.join(lambda: None)
    assert listener is not None
    assert listener.take() == ([], 0, "gone")


def test_a_server_has_so_many_streams_for_all_jobs(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "STREAMS_MAX", 2)
    with ExitStack() as stack:
        for _ in range(2):
            Events(stack.enter_context(web.asking("GET", STREAM))).until("job")
        said = web.ask("GET", STREAM)
        assert (said.code, said.errors) == (503, ["2 streams are open already: close one, or try again later"])
    while (said := web.ask("GET", "/v1/config")).code == 200:  # Until the server has seen that both have gone.
        with web.asking("GET", STREAM) as response:
            if response.status == 200:
                break


def test_a_stream_that_cannot_begin_takes_no_place(job: Job, web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    served = job.server._job
    assert served is not None

    def broken() -> None:
        raise RuntimeError("no thread can be started")

    with monkeypatch.context() as patched:
        patched.setattr(served, "follow", broken)
        for _ in range(2 * broadcast.LISTENERS_MAX):
            assert web.ask("GET", STREAM).code == 500
        assert not served.broadcast.is_heard
    with web.asking("GET", STREAM) as response:
        Events(response).until("job")
