"""A thread that serves HTTP, beside whatever else the process does.

One rule: nobody waits for it. What it needs takes a second to import, so that is done in a thread of its own while
Spark starts; whoever connects before it is ready waits in the queue of the socket. This module imports none of it.
"""

import asyncio
import contextlib
import errno
import socket
import ssl
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headgate.errors import InvalidOption
from headgate.serve.access import ServerAccess

if TYPE_CHECKING:
    from headgate.serve.catalog import JobCatalog

BACKLOG = 128
HANDSHAKE_S = 5.0
"""The handshake of TLS must be done within this time."""
GOODBYE_S = 1.0
"""Answers that are under way at the end may take this long."""
JOIN_S = 5.0
TELL_AGAIN_S = 60.0
MAKING = threading.Lock()
"""FastAPI has warnings held back for the whole process while it makes an app, which two threads cannot do at once."""
SHORT = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


def prepare() -> None:
    """Begin to import what serving needs, in the background."""
    threading.Thread(target=_import, name="headgate-serve-import", daemon=True).start()


def _import() -> None:
    import headgate.serve.app  # noqa: F401, PLC0415 - the whole point


def tls_context(certificate: Path, key: Path) -> ssl.SSLContext:
    """For connections that are encrypted, with these files."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise InvalidOption(
            f"{certificate}, {key}: no certificate with its key, in PEM ({error.strerror or error})"
        ) from None
    return context


class HttpServer:
    """Serves the jobs of a catalog at one socket, in a thread of its own."""

    def __init__(
        self, listening: socket.socket, catalog: "JobCatalog", access: ServerAccess, tls: ssl.SSLContext | None = None
    ) -> None:
        """Nobody is served yet."""
        self._socket = listening
        self._catalog = catalog
        self._access = access
        self._tls = tls
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._closing = False
        self._lock = threading.Lock()
        self._told_s = -TELL_AGAIN_S
        self._thread = threading.Thread(target=self._run, name="headgate-serve", daemon=True)

    def start(self) -> None:
        """Serve from now on."""
        self._thread.start()

    def close(self) -> None:
        """Serve no more. Answers that are under way go out, for a moment."""
        with self._lock:
            self._closing = True
            if self._loop is not None and self._stop is not None:
                with contextlib.suppress(RuntimeError):  # It has ended by itself.
                    self._loop.call_soon_threadsafe(self._stop.set)
        if self._thread.ident is not None:
            self._thread.join(JOIN_S)
        self._socket.close()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except Exception as error:  # noqa: BLE001 - the job goes on without; whoever asks finds that nobody answers
            self._catalog.warn(f"commands cannot reach this process any more: {type(error).__name__}: {error}")

    async def _serve(self) -> None:
        from headgate.serve.app import make_app  # noqa: PLC0415 - it takes a second
        from headgate.serve.connections import Connections, config_for  # noqa: PLC0415
        from headgate.serve.gate import Gate  # noqa: PLC0415

        loop, stop = asyncio.get_running_loop(), asyncio.Event()
        loop.set_exception_handler(self._heard)
        with MAKING:
            app = make_app(self._catalog)
        connections = Connections(config_for(Gate(app, self._access)), tls=self._tls is not None)
        with self._lock:
            if self._closing:
                return
            self._loop, self._stop = loop, stop
        server = await loop.create_server(
            connections.make,
            sock=self._socket,
            ssl=self._tls,
            backlog=BACKLOG,
            ssl_handshake_timeout=None if self._tls is None else HANDSHAKE_S,
        )
        try:
            await stop.wait()
        finally:
            # asyncio drops a connection that it has taken and not yet begun to serve when its server is closed.
            loop.remove_reader(self._socket)
            await asyncio.sleep(0)
            server.close()
            await connections.close(GOODBYE_S)

    def _heard(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """What goes wrong outside of any request. Of what whoever connects does wrong nothing is written down."""
        error = context.get("exception")
        if isinstance(error, OSError) and error.errno in SHORT and time.monotonic() - self._told_s >= TELL_AGAIN_S:
            self._told_s = time.monotonic()
            self._catalog.warn(
                f"this process can take no connection and tries again: {error.strerror}; "
                "raise its limits (ulimit -n), or close what it has open"
            )
        elif "protocol" not in context and not isinstance(error, OSError):
            loop.default_exception_handler(context)
