"""``headgate server``: all jobs of storages, running and ended, at one address."""

import contextlib
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from headgate.cli import app
from headgate.errors import ExternalError
from headgate.serve import patience, server
from headgate.serve.access import ServerAccess
from headgate.serve.listening import HttpServer
from headgate.store.api import Entry, open_store
from headgate.store.history import HistoryReader
from headgate.store.jobstore import JobStore
from headgate.store.local import LocalStore
from tests.cli.live import Job, crashed, stopped
from tests.serve.described import DESCRIBED
from tests.serve.web import Events, Web
from tests.view.watched import keep

TOKEN = "0123456789abcdef"  # noqa: S105 - of a test
ABOUT: dict[str, Any] = {"pid": os.getpid(), "machine": "here", "job": None, "leader": None}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "LIST_AGAIN_S", 0.0)
    monkeypatch.setattr(server, "FOLLOW_S", 0.05)


@pytest.fixture
def storages(tmp_path: Path) -> list[Path]:
    return [tmp_path / "first", tmp_path / "second"]


def opened(storage: Path, name: str) -> JobStore:
    return JobStore.open(open_store(str(storage)), name)


@pytest.fixture
def web(storages: list[Path]) -> Iterator[Web]:
    """A server for both storages, in this process."""
    warned: list[str] = []
    listening = socket.create_server(("127.0.0.1", 0))
    stores = [open_store(str(each)) for each in storages]
    serving = HttpServer(listening, server.StoredJobs(stores, ABOUT, warned.append), ServerAccess(TOKEN, None))
    serving.start()
    yield Web("127.0.0.1", listening.getsockname()[1], {"Authorization": f"Bearer {TOKEN}"})
    serving.close()
    assert warned == []


def test_jobs_that_have_ended_are_told_from_their_storage(web: Web, storages: list[Path]) -> None:
    keep(stopped(), opened(storages[0], "orders"))
    keep(crashed(), opened(storages[0], "payments"))
    opened(storages[0], "payments").put_description(DESCRIBED)
    keep(crashed(), opened(storages[1], "orders"))
    found = {each["jid"]: each for each in web.get("/v1/jobs")["jobs"]}
    assert {jid: (each["name"], each["phase"], each["live"]) for jid, each in found.items()} == {
        "orders": ("orders", "stopped", False),
        "payments": ("payments", "crashed", False),
        "orders~2": ("orders", "crashed", False),
    }
    assert found["orders~2"]["storage"] == f"file://{storages[1]}"
    overview = web.get("/v1/overview")
    assert (overview["jobs-finished"], overview["jobs-suspended"], len(overview["storages"])) == (1, 2, 2)
    assert web.get("/v1/config")["features"]["web-history"] is True
    for path in (
        "",
        "/checkpoints",
        "/checkpoints/details/1",
        "/events",
        "/exceptions",
        "/restarts",
        "/metrics",
        "/plan",
    ):
        web.get(f"/v1/jobs/payments{path}")
    assert [node["id"] for node in web.get("/v1/jobs/payments/plan")["plan"]["nodes"]] == ["a", "b"]
    assert web.get("/v1/jobs/orders/plan")["plan"]["nodes"] == []
    assert [one["id"] for one in web.get("/v1/jobs/orders/savepoints")["savepoints"]] == [2]


def test_a_job_that_runs_is_looked_into_by_its_own_process_and_one_that_does_not_by_nobody(
    web: Web, storages: list[Path]
) -> None:
    paths = ("flamegraph?subject=python-workers", "checkpoints/details/1/waiting")
    keep(crashed(), opened(storages[0], "payments"))
    for path in paths:
        said = web.ask("GET", f"/v1/jobs/payments/{path}")
        words = "job payments is not running here: only a job that runs can be looked into"
        assert (said.code, said.errors) == (409, [words])
    job = Job(opened(storages[0], "orders"))
    try:
        job.core.ask()
        graph, waiting = (web.get(f"/v1/jobs/orders/{path}") for path in paths)
        assert graph["subject"] == "python-workers"
        assert [one["task"] for one in waiting["waiting_for"]] == ["a"]
    finally:
        job.server.close()


def test_a_job_that_comes_later_is_found_and_one_that_is_forgotten_is_gone(web: Web, storages: list[Path]) -> None:
    assert web.ask("GET", "/v1/jobs/late").code == 404
    store = opened(storages[0], "late")
    keep(crashed(), store)
    assert web.get("/v1/jobs/late")["phase"] == "crashed"
    store.give_up_claim()
    assert [each["jid"] for each in web.get("/v1/jobs")["jobs"]] == []


def test_a_job_whose_storage_is_damaged_does_not_hide_the_others(web: Web, storages: list[Path]) -> None:
    keep(crashed(), opened(storages[0], "orders"))
    keep(crashed(), opened(storages[0], "payments"))
    record = next((storages[0] / "orders" / "checkpoint-log").iterdir())
    record.write_bytes(record.read_bytes()[:-20])
    found = {each["jid"]: each for each in web.get("/v1/jobs")["jobs"]}
    assert (found["orders"]["phase"], found["orders"]["state"]) == ("damaged", "FAILED")
    assert record.name in found["orders"]["text"]
    assert found["payments"]["phase"] == "crashed"
    said = web.ask("GET", "/v1/jobs/orders/checkpoints")
    assert said.code == 503
    assert record.name in said.errors[0]


def test_a_job_that_runs_is_asked_and_commanded_through_its_process(web: Web, storages: list[Path]) -> None:
    job = Job(opened(storages[0], "orders"), DESCRIBED)
    try:
        job.core.tell(job.core.committed("a", 7))
        found = web.get("/v1/jobs/orders")
        assert (found["live"], found["phase"], found["vertices"][0]["batch"]) == (True, "running", 7)
        assert found["isStoppable"]
        said = web.ask("POST", "/v1/jobs/orders/checkpoints", {"triggerId": "mine"})
        assert (said.code, said.data) == (202, {"request-id": "mine"})
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(web.get, "/v1/jobs/orders/operations/mine?wait=60")
            job.do(lambda: job.core.complete(1))
            assert waiting.result(60)["operation"]["checkpointId"] == 1
        assert [each["request-id"] for each in web.get("/v1/jobs/orders/operations")["operations"]] == ["mine"]
        assert web.ask("POST", "/v1/jobs/orders/stop", {"drains": True}).code == 400
        assert web.ask("GET", "/v1/jobs/orders/operations/other").code == 404
    finally:
        job.server.close()
    assert web.get("/v1/jobs/orders")["live"] is False


def test_a_job_that_does_not_run_cannot_be_asked(web: Web, storages: list[Path]) -> None:
    keep(crashed(), opened(storages[0], "orders"))
    for method, path in (("POST", "/checkpoints"), ("POST", "/cancel"), ("GET", "/operations")):
        said = web.ask(method, f"/v1/jobs/orders{path}")
        assert (said.code, said.errors) == (
            409,
            ["job orders is not running here: start it with `headgate run`"],
        )


def test_a_process_that_does_not_answer_is_said_to_be_silent_and_not_asked_each_time(
    web: Web, storages: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    from headgate.run import control  # noqa: PLC0415 - to be patched

    monkeypatch.setattr(control, "ANSWER_S", 0.1)
    store = opened(storages[0], "orders")
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        port = deaf.getsockname()[1]
        there = {"host": "127.0.0.1", "port": port, "token": "x", "speaks": "http"}
        store.put_control({**there, "pid": os.getpid(), "machine": socket.gethostname()})
        for _ in range(2):
            found = web.get("/v1/jobs/orders")
            assert (found["phase"], found["state"], found["live"]) == ("unknown", "RECONCILING", False)
            assert "does not answer: see whether it is stuck or busy" in found["text"]
        deaf.setblocking(False)
        deaf.accept()[0].close()
        with pytest.raises(BlockingIOError):
            deaf.accept()
        assert web.ask("POST", "/v1/jobs/orders/checkpoints").code == 503


def test_a_stream_tells_what_comes_into_the_storage(web: Web, storages: list[Path]) -> None:
    store = opened(storages[0], "orders")
    keep(crashed(), store)
    with web.asking("GET", "/v1/jobs/orders/stream") as response:
        events = Events(response)
        assert events.until("job")["phase"] == "crashed"
        told = threading.Event()

        def tell() -> None:
            number = 0
            while not told.wait(0.05):  # Until the follower has begun, which nobody can see.
                number += 1
                store.append_history([{"at": number, "event": "notice", "text": "hello"}])

        thread = threading.Thread(target=tell)
        thread.start()
        try:
            assert events.until("event")["text"] == "hello"
        finally:
            told.set()
            thread.join()


# -- storages that cannot be reached ---------------------------------------------------------------------------------


class Unsteady(LocalStore):
    """A storage that can be away, or hang."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.why: str | None = None
        self.answers = threading.Event()
        self.answers.set()
        self.asked = 0

    def _hangs_or_fails(self) -> None:
        self.asked += 1
        self.answers.wait(60)
        if self.why is not None:
            raise ExternalError(self.why)

    def read(self, path: str) -> bytes:
        self._hangs_or_fails()
        return super().read(path)

    def list(self, prefix: str = "", *, depth: int | None = None) -> Iterator[Entry]:
        self._hangs_or_fails()
        return super().list(prefix, depth=depth)


@pytest.fixture
def unsteady(storages: list[Path]) -> Iterator[tuple[list[Unsteady], Web]]:
    """A server for two such storages, with a job in each."""
    stores = [Unsteady(each) for each in storages]
    for path in storages:
        keep(crashed(), opened(path, "orders"))
    listening = socket.create_server(("127.0.0.1", 0))
    serving = HttpServer(listening, server.StoredJobs(stores, ABOUT, lambda _: None), ServerAccess(TOKEN, None))
    serving.start()
    yield stores, Web("127.0.0.1", listening.getsockname()[1], {"Authorization": f"Bearer {TOKEN}"})
    for each in stores:
        each.answers.set()
    serving.close()


def phases(web: Web) -> dict[str, str]:
    return {each["jid"]: each["phase"] for each in web.get("/v1/jobs")["jobs"]}


def test_a_storage_that_fails_takes_nothing_away_of_the_others(unsteady: tuple[list[Unsteady], Web]) -> None:
    (first, _), web = unsteady
    first.why = "s3a://user:secret@bucket is away"
    assert phases(web) == {"orders~2": "crashed"}
    assert web.get("/v1/overview")["unreachable"] == {first.uri: "s3a://user:***@bucket is away"}
    first.why = None
    assert phases(web) == {"orders": "crashed", "orders~2": "crashed"}
    first.why = "it is away again"
    assert phases(web) == {"orders": "unknown", "orders~2": "crashed"}, "what was there is still known"
    assert web.get("/v1/jobs/orders/status")["view"]["text"] == "it is away again"
    assert web.ask("GET", "/v1/jobs/orders").errors == ["it is away again"]


def test_a_storage_that_hangs_holds_up_nobody_for_long(
    unsteady: tuple[list[Unsteady], Web], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience, "ANSWER_S", 3.0)
    monkeypatch.setattr(server, "SILENT_S", 0.2)
    (first, _), web = unsteady
    assert phases(web) == {"orders": "crashed", "orders~2": "crashed"}
    first.answers.clear()
    words = f"{first.uri} has not answered for 3 s: see whether it can be reached from here"
    with ThreadPoolExecutor(8) as many:
        for found in many.map(lambda _: phases(web), range(24)):
            assert found == {"orders": "unknown", "orders~2": "crashed"}
    assert web.get("/v1/overview")["unreachable"] == {first.uri: words}
    asked = first.asked
    for path in ("", "/checkpoints", "/events", "/exceptions", "/diagnosis"):
        assert web.ask("GET", f"/v1/jobs/orders{path}").code in (200, 503)
    assert first.asked == asked, "nobody is sent where somebody waits already"
    first.answers.set()
    while phases(web)["orders"] != "crashed":  # Those that hung have to come back first.
        pass
    assert web.get("/v1/overview")["unreachable"] == {}


def test_the_id_of_a_job_never_comes_to_mean_another(unsteady: tuple[list[Unsteady], Web]) -> None:
    (first, second), web = unsteady
    first.why = "it is away"
    assert web.ask("GET", "/v1/jobs/orders").code == 404, "and not the one in the other storage"
    assert web.get("/v1/jobs/orders~2")["storage"] == second.uri
    first.why = None
    assert web.get("/v1/jobs/orders")["storage"] == first.uri
    opened(first.local_root, "orders").give_up_claim()
    assert phases(web) == {"orders~2": "crashed"}
    assert web.ask("POST", "/v1/jobs/orders/cancel", {}).code == 404


def test_following_a_job_goes_on_after_whatever_went_wrong(
    web: Web, storages: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = opened(storages[0], "orders")
    keep(crashed(), store)
    follow, failed = HistoryReader.follow, threading.Event()

    def once(self: HistoryReader, seen: dict[Any, int]) -> Any:
        if not failed.is_set():
            failed.set()
            raise ValueError("nobody has thought of it")
        return follow(self, seen)

    monkeypatch.setattr(HistoryReader, "follow", once)
    with web.asking("GET", "/v1/jobs/orders/stream") as response:
        events, told = Events(response), threading.Event()

        def tell() -> None:
            assert failed.wait(60)
            while not told.wait(0.05):
                store.append_history([{"at": 1, "event": "notice", "text": "hello"}])

        thread = threading.Thread(target=tell)
        thread.start()
        try:
            assert events.until("event")["text"] == "hello"
        finally:
            told.set()
            thread.join()


def test_logs_are_of_the_job_that_is_asked_for(
    web: Web, storages: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    monkeypatch.setenv("HEADGATE_LOGS", str(logs))
    for storage, pid in zip(storages, (11, 12), strict=True):
        store = opened(storage, "orders")
        keep(crashed(), store)
        store.append_history([{"at": 9, "event": "generation", "generation": 2, "base": None, "leader": f"{pid}-abc"}])
        (logs / f"orders.{pid}.log").write_text(f"of {storage.name}\n")
    (logs / "orders.13.log").write_text("of a third one\n")
    for jid, line in (("orders", "of first"), ("orders~2", "of second")):
        found = web.get(f"/v1/jobs/{jid}/logs")
        assert (len(found["logs"]), found["lines"]) == (1, [line])
    assert web.ask("GET", "/v1/jobs/orders~2/logs?name=orders.11.log").code == 404
    opened(storages[1], "orders").give_up_claim()
    assert len(web.get("/v1/jobs/orders/logs")["logs"]) == 3, "only one has the name: all that is there is its own"


def test_what_is_asked_of_a_process_is_asked_by_the_name_that_was_given(
    web: Web, storages: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    job = Job(opened(storages[0], "orders"))
    forward = server.StoredJob.forward

    def see(self: server.StoredJob, method: str, path: str, body: Any, wait_s: float) -> Any:
        asked.append(path)
        return forward(self, method, path, body, wait_s)

    monkeypatch.setattr(server.StoredJob, "forward", see)
    try:
        assert web.ask("GET", "/v1/jobs/orders/operations/x%3Fwait=60&y").code == 404
        assert web.ask("GET", "/v1/jobs/orders/operations/a%20b%0D%0AX").code == 404
    finally:
        job.server.close()
    assert [each.partition("?")[0] for each in asked] == ["/operations/x%3Fwait%3D60%26y", "/operations/a%20b%0D%0AX"]


# -- the command -----------------------------------------------------------------------------------------------------


def headgate(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["server", *map(str, arguments)], env={"HEADGATE_STORAGE": ""})


def refused(result: Result) -> str:
    assert result.exit_code == 2, result.output
    [said] = result.stderr.splitlines()
    return said.removeprefix("headgate: ")


@contextlib.contextmanager
def started(*arguments: str | Path) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    command = [sys.executable, "-m", "headgate", "server", "--port", "0", "--json", *map(str, arguments)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process, json.loads(process.stdout.readline())
    finally:
        process.kill()
        process.communicate()


def test_it_serves_until_it_is_told_to_end(storages: list[Path]) -> None:
    keep(stopped(), opened(storages[0], "orders"))
    with started(storages[0]) as (process, said):
        assert (said["host"], said["address"]) == ("127.0.0.1", f"http://127.0.0.1:{said['port']}/")
        web = Web("127.0.0.1", said["port"], {"Authorization": f"Bearer {said['token']}"})
        assert web.get("/v1/jobs")["jobs"][0]["phase"] == "stopped"
        assert web.get("/v1/overview")["process"]["pid"] == process.pid
        assert web.without().ask("GET", "/v1/jobs").code == 401
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out, err) == (0, "", "")


def test_beyond_this_machine_nothing_is_served_without_a_token_of_the_users(
    storages: list[Path], tmp_path: Path
) -> None:
    storages[0].mkdir()
    assert "--host 0.0.0.0 can be reached from other machines: say --token-file" in refused(
        headgate(storages[0], "--host", "0.0.0.0")  # noqa: S104 - it is refused
    )
    tokens = tmp_path / "tokens"
    for text, mode, words in (
        (TOKEN, 0o644, "can be read by others: chmod 600"),
        ("short", 0o600, "write a token of 16 characters or more"),
        ("", 0o600, "write a token of 16 characters or more"),
        (f"{TOKEN}\n{TOKEN}\n", 0o600, "both tokens are the same"),
        ("ä" * 16, 0o600, "cannot be read"),
    ):
        tokens.write_text(text)
        tokens.chmod(mode)
        assert words in refused(headgate(storages[0], "--token-file", tokens))
    assert "cannot be read" in refused(headgate(storages[0], "--token-file", tmp_path / "none"))


def test_with_the_tokens_of_a_file_none_is_printed(storages: list[Path], tmp_path: Path) -> None:
    storages[0].mkdir()
    tokens = tmp_path / "tokens"
    tokens.write_text(f"{TOKEN}\n{TOKEN[::-1]}\n")
    tokens.chmod(0o600)
    with started(storages[0], "--token-file", tokens) as (_, said):
        assert "token" not in said
        assert Web("127.0.0.1", said["port"], {"Authorization": f"Bearer {TOKEN}"}).get("/v1/jobs") == {"jobs": []}
        reader = Web("127.0.0.1", said["port"], {"Authorization": f"Bearer {TOKEN[::-1]}"})
        assert reader.ask("POST", "/v1/jobs/x/cancel").code == 403


def test_with_a_certificate_it_serves_https(storages: list[Path], tmp_path: Path) -> None:
    storages[0].mkdir()
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    named = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", *named]
    subprocess.run([*made, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    assert "give both, or none" in refused(headgate(storages[0], "--tls-cert", certificate))
    assert "no certificate with its key" in refused(headgate(storages[0], "--tls-cert", key, "--tls-key", key))
    with started(storages[0], "--tls-cert", certificate, "--tls-key", key) as (_, said):
        assert said["address"].startswith("https://127.0.0.1:")
        context = ssl.create_default_context(cafile=certificate)
        connection = HTTPSConnection("127.0.0.1", said["port"], timeout=60, context=context)
        connection.request("GET", "/v1/jobs", headers={"Authorization": f"Bearer {said['token']}"})
        assert json.loads(connection.getresponse().read()) == {"jobs": []}
        connection.close()
        with socket.create_connection(("127.0.0.1", said["port"]), 60) as plain:
            plain.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            with contextlib.suppress(ConnectionError):
                assert not plain.recv(100).startswith(b"HTTP/")


def test_what_cannot_be_served_is_refused(storages: list[Path]) -> None:
    assert refused(headgate()).startswith("no storage is given")
    assert "there is no such directory" in refused(headgate(storages[0], "--port", "0"))
    storages[0].mkdir()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"127.0.0.1:{port} cannot be served" in refused(headgate(storages[0], "--port", str(port)))
