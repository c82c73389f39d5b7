"""Metrics for a Prometheus: at the address of the job, at a port of their own, and of all jobs of storages."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from headgate.serve import connections, server
from headgate.serve.access import ServerAccess
from headgate.serve.listening import HttpServer
from headgate.store.api import open_store
from headgate.store.jobstore import JobStore
from tests.cli.live import Job, crashed, stopped
from tests.serve.web import Web, web_of
from tests.view.watched import keep

TOKEN = "0123456789abcdef"  # noqa: S105 - of a test


def states(body: bytes) -> dict[str, str]:
    """The state of each job."""
    families = {each.name: each for each in text_string_to_metric_families(body.decode())}
    return {one.labels["job"]: one.labels["state"] for one in families["headgate_job_state"].samples if one.value == 1}


@pytest.fixture
def scraped(job: Job) -> Web:
    """Somebody who knows the port at which there are metrics alone."""
    host, _, port = job.server.serve_metrics(0).removeprefix("http://").removesuffix("/metrics").partition(":")
    return Web(host, int(port))


def test_a_job_serves_its_metrics_at_its_own_address_to_those_who_may_read(store: JobStore, web: Web) -> None:
    reader = web_of(store, "read_token")
    said = reader.ask("GET", "/metrics")
    assert (said.code, states(said.body)) == (200, {"orders": "running"})
    assert said.headers["content-type"].startswith("text/plain; version=")
    modern = reader.ask("GET", "/metrics", Accept="application/openmetrics-text;version=1.0.0")
    assert modern.headers["content-type"].startswith("application/openmetrics-text")
    assert modern.body.endswith(b"# EOF\n")
    assert web.without().ask("GET", "/metrics").code == 401
    assert web.without(Authorization="Bearer wrong").ask("GET", "/metrics").code == 401
    assert reader.ask("GET", "/metrics", Host="evil.example").code == 421
    assert reader.ask("POST", "/metrics").code == 403


def test_a_port_of_its_own_has_metrics_and_nothing_else_for_whoever_is_on_this_machine(
    scraped: Web, store: JobStore
) -> None:
    assert states(scraped.ask("GET", "/metrics").body) == {"orders": "running"}
    token = (store.read_control() or {})["token"]
    for path in ("/", "/v1/jobs", "/v1/jobs/orders/stream", "/metrics/"):
        said = scraped.ask("GET", path, Authorization=f"Bearer {token}")
        assert (said.code, said.errors) == (404, [f"there is no path {path}: only /metrics is served at this port"])
    assert scraped.ask("POST", "/v1/jobs/orders/cancel", {}, Authorization=f"Bearer {token}").code == 404
    assert scraped.ask("POST", "/metrics", {}).code == 405


def test_a_port_of_its_own_is_guarded_as_the_other_is(scraped: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    assert scraped.ask("GET", "/metrics", Host="evil.example").code == 421
    with ExitStack() as open_ones:
        silent = [open_ones.enter_context(scraped.raw()) for _ in range(2 * connections.UNPROVEN_MAX)]
        assert scraped.ask("GET", "/metrics").code == 200
        with suppress(ConnectionError):
            assert silent[0].recv(1) == b"", "the oldest has made room"
    monkeypatch.setattr(connections, "REQUEST_S", 0.2)
    with scraped.raw() as slow:
        slow.settimeout(30)
        slow.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nX: ")
        with suppress(ConnectionError):
            assert slow.recv(1) == b""


def test_a_port_of_its_own_is_closed_with_the_job(scraped: Web, job: Job) -> None:
    assert scraped.ask("GET", "/metrics").code == 200
    job.server.close()
    with pytest.raises(ConnectionRefusedError):
        scraped.raw()


def test_a_port_that_is_taken_is_said(job: Job) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="in use"):
        job.server.serve_metrics(taken.getsockname()[1])


# -- all jobs of storages --------------------------------------------------------------------------------------------


@pytest.fixture
def storages(tmp_path: Path) -> Iterator[tuple[list[Path], Web]]:
    """A server for two storages."""
    found = [tmp_path / "first", tmp_path / "second"]
    listening = socket.create_server(("127.0.0.1", 0))
    jobs = server.StoredJobs([open_store(str(each)) for each in found], {}, lambda _: None)
    serving = HttpServer(listening, jobs, ServerAccess(TOKEN, None))
    serving.start()
    yield found, Web("127.0.0.1", listening.getsockname()[1], {"Authorization": f"Bearer {TOKEN}"})
    serving.close()


def test_a_server_tells_what_processes_tell_and_of_all_other_jobs_the_state(
    storages: tuple[list[Path], Web],
) -> None:
    (first, second), web = storages
    for place, name, core in ((first, "done", stopped()), (second, "orders", crashed())):
        keep(core, JobStore.open(open_store(str(place)), name))
    job = Job(JobStore.open(open_store(str(first)), "orders"))
    try:
        said = web.ask("GET", "/metrics")
    finally:
        job.server.close()
    assert said.code == 200
    assert states(said.body) == {"orders": "running", "done": "stopped", "orders~2": "crashed"}
    families = list(text_string_to_metric_families(said.body.decode()))
    assert len({each.name for each in families}) == len(families), "all samples of a metric stand together"
    [generation] = [each for each in families if each.name == "headgate_job_generation"]
    assert [each.labels["job"] for each in generation.samples] == ["orders"]
    assert web.without().ask("GET", "/metrics").code == 401
