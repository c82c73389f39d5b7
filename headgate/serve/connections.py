"""Connections: how many, and for how long.

One rule: a connection that has not shown the token keeps nobody else out. A request must have come within its time,
however slowly; and where too many connections have not shown the token, the oldest of them is closed for a new one.

uvicorn's protocol reads requests and writes answers; here it is said when a connection ends.
"""

import asyncio
import contextlib
import logging
import socket
from typing import Any

from h11 import LocalProtocolError
from uvicorn import Config
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle
from uvicorn.server import ServerState

REQUEST_S = 5.0
"""A request must have come within this time."""
UNPROVEN_MAX = 64
"""How many connections may be open that have not shown the token, or are idle."""
HEADER_BYTES_MAX = 32 << 10
IDLE_S = 15.0
"""A connection without a request is closed after this time."""

logger = logging.getLogger("headgate.serve.connections")
logger.setLevel(logging.CRITICAL)
"""What whoever connects does wrong is answered, and written down nowhere: nobody fills a log from outside."""


class Connections:
    """All connections of one server. Used in the thread of its event loop alone."""

    def __init__(self, config: Config, *, tls: bool = False) -> None:
        """There are none. ``config`` says what answers."""
        self._config = config
        self._tls = tls
        self._greeting: dict[asyncio.Task[Any], None] = {}
        """Handshakes of TLS that are under way, in the order in which they came."""
        self._shared = ServerState()
        self._unproven: dict[GuardedProtocol, None] = {}  # In the order in which they came.

    def make(self) -> "GuardedProtocol":
        """The protocol of a new connection."""
        task = asyncio.current_task()
        if self._tls and task is not None:
            self._greets(task)
        return GuardedProtocol(self._config, self._shared, self)

    def came(self, connection: "GuardedProtocol") -> None:
        """Nothing speaks for this connection yet."""
        self._unproven.pop(connection, None)
        while len(self._unproven) >= UNPROVEN_MAX:
            oldest = next(iter(self._unproven))
            del self._unproven[oldest]
            oldest.transport.abort()
        self._unproven[connection] = None

    def _greets(self, task: asyncio.Task[Any]) -> None:
        """The task in which asyncio asks for a protocol waits for the handshake then. Cancelled, it closes both."""
        while len(self._greeting) >= UNPROVEN_MAX:
            oldest = next(iter(self._greeting))
            del self._greeting[oldest]
            oldest.cancel()
        self._greeting[task] = None
        task.add_done_callback(lambda done: self._greeting.pop(done, None))

    def left(self, connection: "GuardedProtocol") -> None:
        """It has shown the token, or is gone."""
        self._unproven.pop(connection, None)

    async def close(self, wait_s: float) -> None:
        """Let answers that are under way go out, for a moment, and close all.

        Nobody listens any more, but connections that were taken from the socket before may still be on their way here.
        """
        for connection in list(self._shared.connections):
            with contextlib.suppress(LocalProtocolError):  # What came on it was no request: it is closed below.
                connection.shutdown()
        under_way = asyncio.all_tasks() - {asyncio.current_task()}
        if under_way:
            await asyncio.wait(under_way, timeout=wait_s)
        for connection in list(self._shared.connections):
            connection.transport.abort()
        while self._shared.connections:  # noqa: ASYNC110 - what is aborted is gone in the next turn of the loop
            await asyncio.sleep(0)


class GuardedProtocol(H11Protocol):
    """One connection. ``scope["state"]["connection"]`` is this, for whoever judges its requests."""

    def __init__(self, config: Config, shared: ServerState, connections: Connections) -> None:
        """Nobody has connected yet."""
        super().__init__(config, shared, {"connection": self})
        self.logger = logger
        self._known = connections
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Somebody has.

        An answer goes out in two parts. asyncio has them go at once only where a socket says that it is of TCP, and
        most do not say; then the second waits, on a connection that is used again, until the first is acknowledged.
        """
        super().connection_made(transport)
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._known.came(self)
        self._begin()

    def data_received(self, data: bytes) -> None:
        """Something has come: the next request, if none is under way."""
        cycle: RequestResponseCycle | None = self.cycle
        if self._deadline is None and (cycle is None or cycle.response_complete):
            self._begin()
        super().data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone."""
        self._end()
        self._known.left(self)
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """An answer was given. The next request must show the token again."""
        self._known.came(self)
        super().on_response_complete()

    def arrived(self, *, proven: bool) -> None:
        """A request is here, whole; ``proven`` if it has shown the token."""
        self._end()
        if proven:
            self._known.left(self)

    def _begin(self) -> None:
        self._deadline = self.loop.call_later(REQUEST_S, self._too_late)

    def _end(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _too_late(self) -> None:
        self._deadline = None
        self.transport.abort()


def config_for(app: Any) -> Config:
    """How uvicorn reads and writes."""
    config = Config(
        app,
        http=GuardedProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=int(IDLE_S),
        h11_max_incomplete_event_size=HEADER_BYTES_MAX,
    )
    config.load()
    return config
