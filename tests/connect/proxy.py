"""Stands between a client and a real server that speaks HTTP: with a password, with TLS, or with trouble.

One rule: all that it passes on it passes on unchanged. What it does not pass on is said by the test.
"""

import base64
import http.client
import ssl
import threading
from collections.abc import Callable
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self

from services.server import HOST
from services.tls import Certificates


class Trouble(Enum):
    """What happens to a request, other than an answer with a status of its own."""

    LOST = "it never arrives"
    ANSWER_LOST = "it is done, and the answer never arrives"


class Troubles:
    """What happens to some requests, by number. All others are passed on."""

    def __init__(self, planned: "dict[int, Trouble | int]") -> None:
        self.planned = planned

    def happens(self, number: int) -> "Trouble | int | None":
        return self.planned.get(number)


Plan = Callable[[int], "Trouble | int | None"]
"""What happens to the request of this number, from 0: trouble, the status of an answer, or nothing."""


class Proxy:
    """A proxy before the server at a port. A context manager."""

    def __init__(
        self,
        port: int,
        *,
        plan: Plan = lambda _: None,
        login: tuple[str, str] | None = None,
        certificates: Certificates | None = None,
    ) -> None:
        self.target = port
        self.plan = plan
        self.wanted = None
        if login is not None:
            self.wanted = "Basic " + base64.b64encode(":".join(login).encode()).decode()
        self.requests = 0
        self._lock = threading.Lock()
        proxy = self

        class Handler(_Handler):
            front = proxy

        self._server = ThreadingHTTPServer((HOST, 0), Handler)
        self._scheme = "http"
        if certificates is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificates.certificate, certificates.key)
            self._server.socket = context.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
            self._scheme = "https"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    @property
    def url(self) -> str:
        return f"{self._scheme}://{HOST}:{self._server.server_address[1]}"

    def count(self) -> int:
        """The number of the next request."""
        with self._lock:
            self.requests += 1
            return self.requests - 1

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 60
    front: Proxy

    def handle(self) -> None:
        try:
            super().handle()
        except (OSError, ValueError):
            self.close_connection = True  # a client that does not trust us, or that has gone

    def finish(self) -> None:
        try:
            super().finish()
        except (OSError, ValueError):
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as in the base class
        pass

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.front.wanted is not None and self.headers.get("Authorization") != self.front.wanted:
            self._answer(401, b'{"error": {"type": "security_exception", "reason": "unknown user"}}')
            return
        what = self.front.plan(self.front.count())
        if isinstance(what, int):
            self._answer(what, b'{"error": {"type": "test_exception", "reason": "as the test says"}}')
            return
        if what is Trouble.LOST:
            self.close_connection = True
            return
        connection = http.client.HTTPConnection(HOST, self.front.target, timeout=60)
        try:
            headers = {name: self.headers[name] for name in ("Accept", "Content-Type")}
            connection.request(self.command, self.path, body, headers)
            response = connection.getresponse()
            status, answer = response.status, response.read()
        except (OSError, http.client.HTTPException):
            self.close_connection = True
            return
        finally:
            connection.close()
        if what is Trouble.ANSWER_LOST:
            self.close_connection = True
        else:
            self._answer(status, answer)

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_PUT = do_POST = _serve  # noqa: N815 - the names that the base class looks for
