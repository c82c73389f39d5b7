"""Access: what every request must show before anything else looks at it.

One rule: a request is refused here or was asked by somebody who may, has come whole and is not too large. What is
refused costs a line, and closes the connection.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from headgate.serve.access import METRICS, Right, ServerAccess
from headgate.serve.connections import REQUEST_S, GuardedProtocol

Scope = MutableMapping[str, Any]
AsgiMessage = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[AsgiMessage]]
Send = Callable[[AsgiMessage], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

API = "/v1"
BODY_BYTES_MAX = 64 << 10
REQUESTS_MAX = 128
"""How many requests are answered at once."""
READING = ("GET", "HEAD")
HEADERS = {
    b"cache-control": b"no-store",
    b"content-security-policy": b"default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    b"frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    b"cross-origin-resource-policy": b"same-origin",
    b"referrer-policy": b"no-referrer",
    b"x-content-type-options": b"nosniff",
}
"""With every answer. None of them lets another origin read."""


def is_api(path: str) -> bool:
    """Whether a path needs the token. All others are of files."""
    return path in (API, METRICS) or path.startswith(f"{API}/")


class _Refused(Exception):
    """A request that is not answered."""

    def __init__(self, code: int, why: str) -> None:
        super().__init__(why)
        self.code = code
        self.why = why


class Gate:
    """Around the app: an ASGI app itself."""

    def __init__(self, app: App, access: ServerAccess) -> None:
        """Nobody is inside."""
        self._app = app
        self._access = access
        self._inside = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        send = _guarded(send)
        try:
            right = self._may_enter(scope)
            connection: GuardedProtocol = scope["state"]["connection"]
            connection.arrived(proven=right is not None)
            body = await _body(scope, receive)
            self._see_that_there_is_room()
        except _Refused as refused:
            await _refuse(send, refused)
            return
        scope["state"]["right"] = right
        self._inside += 1
        try:
            await self._app(scope, _replay(body, receive), send)
        finally:
            self._inside -= 1

    def _see_that_there_is_room(self) -> None:
        if self._inside >= REQUESTS_MAX:
            raise _Refused(503, f"{REQUESTS_MAX} requests are being answered already: try again")

    def _may_enter(self, scope: Scope) -> Right | None:
        """What the request may. None for what is open to all."""
        headers = dict(scope["headers"])
        if not self._access.is_ours(headers.get(b"host")):
            raise _Refused(421, "Host names another server: use the address that this one was given out with")
        path = scope["path"]
        if self._access.metrics_alone and path != METRICS:
            raise _Refused(404, f"there is no path {path}: only {METRICS} is served at this port")
        if self._access.metrics_alone or not is_api(path):
            if scope["method"] not in READING:
                raise _Refused(405, f"{scope['method']} is for paths under {API}")
            return None
        right = self._access.right_of(headers.get(b"authorization"))
        if right is None:
            raise _Refused(401, "this is not for you: send `Authorization: Bearer TOKEN` with the token of this server")
        if right is Right.READ and scope["method"] not in READING:
            raise _Refused(403, f"{scope['method']} needs the token that may command; this one only reads")
        return right


async def _body(scope: Scope, receive: Receive) -> bytes:
    """All of the body, if it is small and comes in time."""
    announced = dict(scope["headers"]).get(b"content-length", b"0")
    too_large = _Refused(413, f"the body is larger than {BODY_BYTES_MAX >> 10} KB")
    if int(announced) > BODY_BYTES_MAX:  # h11 has seen that it is a number.
        raise too_large
    found = bytearray()
    try:
        async with asyncio.timeout(REQUEST_S):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise _Refused(408, "the connection was closed")
                found += message.get("body", b"")
                if len(found) > BODY_BYTES_MAX:
                    raise too_large
                if not message.get("more_body", False):
                    return bytes(found)
    except TimeoutError:
        raise _Refused(408, f"the body did not come within {REQUEST_S:g} s") from None


def _replay(body: bytes, receive: Receive) -> Receive:
    """The body again, and then whatever else comes."""
    given = False

    async def again() -> AsgiMessage:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


def _guarded(send: Send) -> Send:
    """With headers that keep a browser from doing more with an answer than it should."""

    async def more(message: AsgiMessage) -> None:
        if message["type"] == "http.response.start":
            headers = list(message.get("headers", ()))
            named = {name.lower() for name, _ in headers}
            headers += [(name, value) for name, value in HEADERS.items() if name not in named]
            message = {**message, "headers": headers}
        await send(message)

    return more


async def _refuse(send: Send, refused: _Refused) -> None:
    body = json.dumps({"errors": [refused.why]}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    if refused.code == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": refused.code, "headers": headers})
    await send({"type": "http.response.body", "body": body})
