"""Whoever listens on a port that is not a broker's, or nobody: one line says so, in time."""

import contextlib
import http.server
import socket
import socketserver
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from headgate.connect.kafka.broker import BrokerClient
from headgate.errors import ExternalError, UserError
from services.server import HOST, free_port
from services.tls import Certificates

Serve = Callable[[socket.socket], None]


@contextlib.contextmanager
def _listening(serve: Serve, host: str = HOST) -> Iterator[str]:
    """A server that treats every connection so. The address is ``host:port``."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with contextlib.suppress(OSError):
                serve(self.request)

    class Listener(socketserver.ThreadingTCPServer):
        allow_reuse_address = True

    with Listener((host, 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"{host}:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def _refused(servers: str, options: dict[str, str] | None = None, timeout_s: float = 30.0) -> UserError | ExternalError:
    """What a client says, which must be one line with the address, and in time."""
    began = time.monotonic()
    with (
        BrokerClient(servers, options, timeout_s=timeout_s) as client,
        pytest.raises((UserError, ExternalError)) as refused,
    ):
        client.metadata()
    assert time.monotonic() - began < timeout_s + 5
    text = str(refused.value)
    assert "\n" not in text
    assert servers.rpartition(",")[2] in text
    assert isinstance(refused.value, UserError | ExternalError)
    return refused.value


def _take(connection: socket.socket) -> None:
    connection.recv(4096)


def _wait(ended: threading.Event) -> None:
    ended.wait(60)


def test_nobody_listens() -> None:
    found = _refused(f"{HOST}:{free_port()}", timeout_s=0.3)
    assert isinstance(found, ExternalError)
    assert "cannot be reached: Connection refused" in str(found)


def test_a_host_that_cannot_exist_is_named() -> None:
    assert isinstance(_refused(f"{'x' * 64}.invalid:9092", timeout_s=0.3), ExternalError)


def test_whoever_never_answers_is_waited_for_no_longer_than_told() -> None:
    ended = threading.Event()
    with _listening(lambda _: _wait(ended)) as address:
        found = _refused(address, timeout_s=0.5)
        ended.set()
    assert isinstance(found, ExternalError)
    assert "did not answer ApiVersions within" in str(found)


def test_an_answer_that_trickles_in_does_not_stretch_the_deadline() -> None:
    ended = threading.Event()

    def trickle(connection: socket.socket) -> None:
        _take(connection)
        connection.sendall((1000).to_bytes(4, "big"))
        while not ended.wait(0.05):
            connection.sendall(b"\0")

    with _listening(trickle) as address:
        found = _refused(address, timeout_s=0.5)
        ended.set()
    assert "did not answer" in str(found)


def test_whoever_closes_every_connection_may_want_another_security_protocol() -> None:
    with _listening(_take) as address:
        found = _refused(address, timeout_s=0.5)
    assert isinstance(found, ExternalError)
    assert "is security.protocol PLAINTEXT right for this port?" in str(found)


def test_an_http_server_is_told_at_once() -> None:
    class Quiet(http.server.BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    def serve(connection: socket.socket) -> None:
        _take(connection)
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with _listening(serve) as address:
        assert isinstance(_refused(address), UserError)
        assert "is an HTTP server: give the port of a Kafka broker" in str(_refused(address))
    with http.server.ThreadingHTTPServer((HOST, 0), Quiet) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        _refused(f"{HOST}:{server.server_address[1]}", timeout_s=0.5)
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"\x00\x00\x00\x04\x00\x00\x00\x63",
        b"\x00\x00\x00\x0a\x00\x00\x00\x01\x00\x00\x00\x00\x00\x09",
        b"\x00\x00\x00\x00",
        b"\xff\xff\xff\xff",
    ],
)
def test_whatever_else_answers_is_no_kafka(answer: bytes) -> None:
    def serve(connection: socket.socket) -> None:
        _take(connection)
        connection.sendall(answer)

    with _listening(serve) as address:
        found = _refused(address)
    assert isinstance(found, UserError)
    assert "as Kafka does" in str(found)


def test_a_broker_that_is_too_old_is_told_so() -> None:
    def serve(connection: socket.socket) -> None:
        request = connection.recv(4096)
        # Metadata up to version 5, and nothing else.
        body = request[8:12] + b"\x00\x00" + b"\x00\x00\x00\x01" + b"\x00\x03\x00\x00\x00\x05"
        connection.sendall(len(body).to_bytes(4, "big") + body)

    with _listening(serve) as address:
        found = _refused(address)
    assert isinstance(found, UserError)
    assert "does not understand Metadata version 9: use a broker of Kafka 3.0 or newer" in str(found)


def test_of_several_servers_one_that_answers_is_enough() -> None:
    reached = threading.Event()

    def serve(connection: socket.socket) -> None:
        _take(connection)
        reached.set()
        connection.sendall(b"HTTP")

    with _listening(serve) as address:
        _refused(f"{HOST}:{free_port()},{address}")
    assert reached.is_set()


@contextlib.contextmanager
def _with_tls(certificates: Certificates, host: str = HOST, *, ask_client: bool = False) -> Iterator[str]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.certificate, certificates.key)
    if ask_client:
        context.load_verify_locations(certificates.authority)
        context.verify_mode = ssl.CERT_REQUIRED

    def serve(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as secured:
            secured.recv(4096)
            secured.sendall(b"HTTP")  # a client that comes so far has accepted the certificate

    with _listening(serve, host) as address:
        yield address


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    made = Certificates(tmp_path_factory.mktemp("tls"))
    made.make()
    return made


def _trusting(certificates: Certificates) -> dict[str, str]:
    return {"security.protocol": "SSL", "ssl.ca.location": str(certificates.authority)}


def test_a_port_with_tls_is_told_from_one_without() -> None:
    def serve(connection: socket.socket) -> None:
        _take(connection)
        connection.sendall(b"\x15\x03\x03\x00\x02\x02\x46")  # the alert that this is not TLS

    with _listening(serve) as address:
        found = _refused(address)
    assert isinstance(found, UserError)
    assert "expects TLS: set security.protocol to SSL or SASL_SSL" in str(found)


def test_a_port_without_tls_is_told_from_one_with() -> None:
    def serve(connection: socket.socket) -> None:
        _take(connection)
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with _listening(serve) as address:
        found = _refused(address, {"security.protocol": "SSL"})
    assert "security.protocol" in str(found)


def test_a_certificate_of_an_unknown_authority_is_refused(certificates: Certificates) -> None:
    with _with_tls(certificates) as address:
        found = _refused(address, {"security.protocol": "SSL"})
        assert "is an HTTP server" in str(_refused(address, _trusting(certificates)))
    assert isinstance(found, UserError)
    assert "not trusted" in str(found)


def test_a_certificate_for_another_name_is_refused_unless_names_do_not_count(certificates: Certificates) -> None:
    anybody = {"ssl.endpoint.identification.algorithm": "none"}
    with _with_tls(certificates, "127.0.0.2") as address:
        found = _refused(address, _trusting(certificates))
        assert "is an HTTP server" in str(_refused(address, _trusting(certificates) | anybody))
    assert isinstance(found, UserError)
    assert "not trusted" in str(found)
    assert "127.0.0.2" in str(found)


def test_a_client_shows_its_own_certificate_where_one_is_asked_for(certificates: Certificates) -> None:
    options = _trusting(certificates)
    own = {
        "ssl.certificate.location": str(certificates.certificate),
        "ssl.key.location": str(certificates.key),
    }
    with _with_tls(certificates, ask_client=True) as address:
        assert "is an HTTP server" in str(_refused(address, options | own))
        assert "is an HTTP server" not in str(_refused(address, options, timeout_s=1.0))


@pytest.mark.parametrize("reset", [True, False])
def test_a_secure_connection_that_is_cut_off_is_no_mistake_of_the_user(certificates: Certificates, reset: bool) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.certificate, certificates.key)

    def serve(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as secured:
            secured.recv(4096)
            if reset:
                secured.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    with _listening(serve) as address:
        found = _refused(address, _trusting(certificates), timeout_s=0.5)
    assert isinstance(found, ExternalError)
