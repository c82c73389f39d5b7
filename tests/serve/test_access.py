"""Nobody gets in without the token, by another name, with too much, or too slowly; and nobody is kept out."""

import asyncio
import contextlib
import gc
import json
import socket
import ssl
import subprocess
import threading
import time
import warnings
from contextlib import ExitStack
from http.client import HTTPSConnection
from pathlib import Path

import pytest

from headgate.run.control import ControlClient
from headgate.serve import connections, gate, listening
from headgate.serve.access import Right, ServerAccess, access_for, is_loopback
from headgate.serve.connections import GuardedProtocol
from headgate.serve.listening import HttpServer
from headgate.serve.server import StoredJobs
from headgate.store.api import open_store
from headgate.store.jobstore import JobStore
from tests.cli.live import Job
from tests.serve.web import Web, web_of

PATHS = ("/v1/overview", "/v1/jobs", "/v1/jobs/orders", "/v1/openapi.json", "/v1/jobs/orders/stream", "/v1", "/v1/x")


@pytest.mark.parametrize("authorization", [None, "", "Bearer", "Bearer ", "Bearer wrong", "Basic {token}", "{token}"])
def test_nothing_of_the_api_is_answered_without_the_token(authorization: str | None, web: Web, store: JobStore) -> None:
    token = (store.read_control() or {})["token"]
    headers = {} if authorization is None else {"Authorization": authorization.format(token=token)}
    for path in PATHS:
        said = web.without(**headers).ask("GET", path)
        assert said.code == 401, path
        assert said.headers["www-authenticate"] == "Bearer"
        assert said.headers["connection"] == "close"
        assert said.errors == ["this is not for you: send `Authorization: Bearer TOKEN` with the token of this server"]


def test_the_token_for_reading_changes_nothing(job: Job, web: Web, store: JobStore) -> None:
    reader = web_of(store, "read_token")
    assert reader.get("/v1/jobs/orders")["name"] == "orders"
    assert reader.get("/v1/config")["features"]["web-cancel"] is False
    assert web.get("/v1/config")["features"]["web-cancel"] is True
    for method, path in (
        ("POST", "/v1/jobs/orders/checkpoints"),
        ("POST", "/v1/jobs/orders/cancel"),
        ("DELETE", "/v1/jobs/orders/savepoints/details/1"),
        ("OPTIONS", "/v1/jobs/orders"),
    ):
        said = reader.ask(method, path)
        assert said.code == 403
        assert "needs the token that may command" in said.errors[0]
    assert not job.asked.is_set()


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "10.0.0.7", "[::2]", "local host", "[", "::1x"],
)
def test_a_request_by_another_name_is_refused_whatever_it_carries(host: str, job: Job, web: Web) -> None:
    said = web.ask("POST", "/v1/jobs/orders/cancel", {}, Host=host)
    assert said.code == 421
    assert "Host names another server" in said.errors[0]
    assert web.ask("GET", "/", Host=host).code == 421, "files are not served either"
    assert not job.asked.is_set()


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:1", "localhost.", "127.0.0.1", "127.0.0.1:9000", "[::1]:8081"]
)
def test_names_of_this_machine_are_ours(host: str, web: Web) -> None:
    assert web.ask("GET", "/v1/overview", Host=host).code == 200


def test_no_other_origin_may_read(web: Web) -> None:
    said = web.ask("GET", "/v1/overview", Origin="https://evil.example")
    assert said.code == 200
    assert not any(name.startswith("access-control-") for name in said.headers)
    assert said.headers["x-content-type-options"] == "nosniff"
    assert "default-src 'self'" in said.headers["content-security-policy"]
    assert web.without().ask("OPTIONS", "/v1/overview", Origin="https://evil.example").code == 401


def test_a_body_that_is_too_large_is_refused_before_it_is_read(job: Job, web: Web) -> None:
    with web.raw() as raw:
        token = web.headers["Authorization"]
        head = f"POST /v1/jobs/orders/cancel HTTP/1.1\r\nHost: localhost\r\nAuthorization: {token}\r\n"
        raw.sendall(f"{head}Content-Length: {1 << 40}\r\n\r\n".encode())
        assert raw.recv(1000).startswith(b"HTTP/1.1 413 ")
    with web.raw() as raw:
        raw.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
        chunk = b"8000\r\n" + b" " * 0x8000 + b"\r\n"
        for _ in range(gate.BODY_BYTES_MAX // 0x8000):
            raw.sendall(chunk)
        raw.sendall(b"1\r\n \r\n")  # Nothing is left unread, which would reset the connection.
        assert raw.recv(1000).startswith(b"HTTP/1.1 413 ")
    assert not job.asked.is_set()
    assert web.get("/v1/overview")["jobs-running"] == 1


def test_headers_that_are_too_large_are_refused(web: Web) -> None:
    head = b"GET / HTTP/1.1\r\nHost: localhost\r\nX: "
    with web.raw() as raw:
        raw.sendall(head.ljust(connections.HEADER_BYTES_MAX + 1, b"x"))  # All of it is read, as above.
        assert raw.recv(1000).startswith(b"HTTP/1.1 400 ")
    assert web.get("/v1/overview")["jobs-running"] == 1


@pytest.mark.parametrize(
    "nonsense", [b"\r\n\r\n", b"{}\n", b'{"token": 5}\n', b"GET\r\n\r\n", b"\x16\x03\x01\x02\x00", b"\x00" * 99]
)
def test_what_is_no_request_harms_nothing(nonsense: bytes, web: Web) -> None:
    with web.raw() as raw:
        raw.sendall(nonsense)
        raw.shutdown(socket.SHUT_WR)
        with contextlib.suppress(ConnectionError):
            assert raw.recv(1000)[:12] in (b"", b"HTTP/1.1 400")
    assert web.get("/v1/overview")["jobs-running"] == 1


def whole(raw: socket.socket) -> bytes:
    """An answer with all of its body, which is an object."""
    found = b""
    while not found.endswith(b"}"):
        more = raw.recv(4000)
        assert more, found
        found += more
    return found


def gone_within(raw: socket.socket, seconds: float, drip: bytes) -> bool:
    """Whether the other end closes a connection on which one byte comes after the other."""
    raw.settimeout(0.05)
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s:
        try:
            raw.sendall(drip)
            if raw.recv(1000) == b"":
                return True
        except TimeoutError:
            continue
        except ConnectionError:
            return True
    return False


def test_a_request_that_comes_byte_by_byte_has_one_deadline(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "REQUEST_S", 0.2)
    with web.raw() as silent, web.raw() as head:
        head.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ")
        assert gone_within(head, 30, b"x")
        silent.settimeout(30)
        with contextlib.suppress(ConnectionError):
            assert silent.recv(1) == b""


def test_the_second_request_on_a_connection_has_a_deadline_too(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "REQUEST_S", 0.3)
    head = f"GET /v1/overview HTTP/1.1\r\nHost: localhost\r\nAuthorization: {web.headers['Authorization']}\r\n"
    with web.raw() as raw:
        raw.sendall(f"{head}\r\n".encode())
        assert whole(raw).startswith(b"HTTP/1.1 200 ")
        raw.sendall(head.encode())
        assert gone_within(raw, 10, b"x")


def test_a_body_that_does_not_come_is_not_waited_for(job: Job, web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "REQUEST_S", 0.2)
    with web.raw() as raw:
        token = web.headers["Authorization"]
        head = f"POST /v1/jobs/orders/cancel HTTP/1.1\r\nHost: localhost\r\nAuthorization: {token}\r\n"
        raw.sendall(f"{head}Content-Length: 2\r\n\r\n{{".encode())
        assert raw.recv(1000).startswith(b"HTTP/1.1 408 ")
    assert not job.asked.is_set()


def test_connections_that_say_nothing_keep_nobody_out(
    job: Job, store: JobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "REQUEST_S", 600.0)
    web = web_of(store)
    with ExitStack() as open_ones:
        silent = [open_ones.enter_context(web.raw()) for _ in range(2 * connections.UNPROVEN_MAX)]
        assert (ControlClient(store).ping() or {})["answers"] is True
        assert ControlClient(store).status() == job.status()
        with contextlib.suppress(ConnectionError):
            assert silent[0].recv(1) == b"", "the oldest has made room"


def test_handshakes_that_do_not_end_keep_nobody_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "HANDSHAKE_S", 600.0)
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    named = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", *named]
    subprocess.run([*made, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    bound = socket.create_server(("127.0.0.1", 0), backlog=listening.BACKLOG)
    jobs = StoredJobs([open_store(str(tmp_path))], {}, lambda _: None)
    serving = HttpServer(bound, jobs, ServerAccess("0" * 32, None), listening.tls_context(certificate, key))
    serving.start()
    context = ssl.create_default_context(cafile=certificate)
    with ExitStack() as open_ones:
        silent = [
            open_ones.enter_context(socket.create_connection(bound.getsockname(), 60))
            for _ in range(2 * connections.UNPROVEN_MAX)
        ]
        for _ in range(2):
            asking = HTTPSConnection("127.0.0.1", bound.getsockname()[1], timeout=60, context=context)
            asking.request("GET", "/v1/jobs", headers={"Authorization": f"Bearer {'0' * 32}"})
            assert asking.getresponse().status == 200
            asking.close()
        for each in silent[: connections.UNPROVEN_MAX]:
            assert each.recv(1) == b"", "the oldest have made room"
    serving.close()


def test_an_answer_on_a_connection_that_is_used_again_is_not_held_back(
    job: Job, store: JobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert job.server is not None
    made: list[GuardedProtocol] = []
    came = connections.Connections.came

    def see(self: connections.Connections, connection: GuardedProtocol) -> None:
        made.append(connection)
        came(self, connection)

    monkeypatch.setattr(connections.Connections, "came", see)
    with web_of(store).raw() as raw:
        raw.sendall(b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n")
        whole(raw)
        asked = made[-1].transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    assert asked, "Nagle's algorithm is off"


def test_connections_that_wait_for_the_next_request_keep_nobody_out(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "UNPROVEN_MAX", 2)
    head = f"GET /v1/config HTTP/1.1\r\nHost: localhost\r\nAuthorization: {web.headers['Authorization']}\r\n\r\n"
    with web.raw() as first, web.raw() as second:
        for raw in (first, second):
            raw.sendall(head.encode())
            assert whole(raw).startswith(b"HTTP/1.1 200 ")
        assert web.get("/v1/overview")["jobs-running"] == 1
        with contextlib.suppress(ConnectionError):
            assert first.recv(1) == b"", "the oldest has made room"
        second.sendall(head.encode())
        assert whole(second).startswith(b"HTTP/1.1 200 "), "and only that"


def test_more_requests_than_may_be_answered_at_once_are_refused(
    job: Job, web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate, "REQUESTS_MAX", 1)
    name = web.ask("POST", "/v1/jobs/orders/checkpoints").data["request-id"]
    with web.raw() as first:
        path = f"/v1/jobs/orders/operations/{name}?wait=60"
        first.sendall(
            f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: {web.headers['Authorization']}\r\n\r\n".encode()
        )
        said = web.ask("GET", "/v1/overview")
        while said.code == 200:  # The first may not be there yet.
            said = web.ask("GET", "/v1/overview")
        assert said.code == 503
        assert said.errors == ["1 requests are being answered already: try again"]
        job.do(lambda: job.core.complete(1))
        assert b"COMPLETED" in whole(first)


@pytest.mark.parametrize(
    "path", ["/", "/ui", "/index.html", "/../models.py", "/%2e%2e/models.py", "//etc/passwd", "/paths/"]
)
def test_no_folder_is_listed_and_no_path_leads_out(path: str, web: Web) -> None:
    said = web.without().ask("GET", path)
    assert said.code == 404 or (path in ("/", "/index.html") and said.code == 200), said.body
    assert b"class " not in said.body


def test_files_are_only_read(web: Web) -> None:
    assert web.ask("POST", "/").code == 405


def test_a_server_says_its_tokens_to_nobody() -> None:
    access = ServerAccess("secret-token", "reading-token")
    assert "secret" not in repr(access)
    assert "reading" not in repr(access)
    assert access.right_of(b"Bearer secret-token") is Right.COMMAND
    assert access.right_of(b"bearer  reading-token ") is Right.READ
    assert access.right_of(b"Bearer \xff") is None
    assert ServerAccess("secret-token", None).right_of(b"Bearer ") is None


def test_beyond_loopback_a_server_goes_by_its_names_and_addresses() -> None:
    access = access_for("0.0.0.0", "a" * 16, None)  # noqa: S104 - nothing listens
    assert access.is_ours(b"10.1.2.3:8081")
    assert access.is_ours(socket.gethostname().encode())
    assert not access.is_ours(b"evil.example")
    assert not access.is_ours(None)
    assert not access.is_ours(b"\xff")
    assert not is_loopback("0.0.0.0")  # noqa: S104 - as above
    assert is_loopback("::1")


def test_what_is_refused_is_json_for_all(web: Web) -> None:
    said = web.without().ask("GET", "/v1/jobs")
    assert json.loads(said.body) == {"errors": said.errors}
    assert said.headers["content-type"] == "application/json"
    assert said.headers["cache-control"] == "no-store"


def test_a_connection_that_comes_at_the_end_is_closed(job: Job, web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was taken from the socket before the end, and comes after all others were closed."""
    here, closing = threading.Event(), connections.Connections.close
    made: list[asyncio.Transport] = []

    async def close(self: connections.Connections, wait_s: float) -> None:
        loop = asyncio.get_running_loop()
        begun = loop.create_task(closing(self, wait_s))
        await asyncio.sleep(0)
        ours, theirs = socket.socketpair()
        transport, _ = await loop.connect_accepted_socket(self.make, sock=ours)
        made.append(transport)
        await begun
        with theirs:
            theirs.setblocking(True)
            assert await asyncio.to_thread(theirs.recv, 1) == b""
        here.set()

    monkeypatch.setattr(connections.Connections, "close", close)
    assert web.get("/v1/overview")["jobs-running"] == 1
    assert job.server is not None
    job.server.close()
    assert here.wait(60)
    assert made[0].is_closing()


def test_a_connection_that_is_taken_as_the_end_comes_is_closed(
    tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    """It has left the queue of the socket, and nothing serves it yet: asyncio would forget it without closing it."""
    bound = socket.create_server(("127.0.0.1", 0))
    warned: list[str] = []
    jobs = StoredJobs([open_store(str(tmp_path))], {}, warned.append)
    server = HttpServer(bound, jobs, ServerAccess("0" * 32, None))
    server.start()
    with socket.create_connection(bound.getsockname()) as first:
        first.sendall(b"GET /v1/overview HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert first.recv(1)  # It serves.
    assert server._loop is not None
    assert server._stop is not None
    loop, stop = server._loop, server._stop
    late = socket.socket()

    def end() -> None:
        late.connect(bound.getsockname())
        loop.call_soon(stop.set)  # In the turn of the loop in which the connection is taken.

    warnings.simplefilter("always", ResourceWarning)
    loop.call_soon_threadsafe(end)
    server._thread.join(60)
    with late:
        late.settimeout(60)
        assert late.recv(1) == b""
    server.close()
    gc.collect()
    assert [str(each.message) for each in recwarn] == warned == []
