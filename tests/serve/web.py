"""Asking a server over HTTP, as anybody might."""

import json
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPResponse
from typing import Any

from headgate.store.jobstore import JobStore

WAIT_S = 600.0


@dataclass(frozen=True)
class Said:
    """An answer."""

    code: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def data(self) -> Any:
        return json.loads(self.body)

    @property
    def errors(self) -> list[str]:
        found: list[str] = self.data["errors"]
        assert all(found)
        assert all("\n" not in one for one in found)
        return found


@dataclass(frozen=True)
class Web:
    """Somebody who knows the address."""

    host: str
    port: int
    headers: Mapping[str, str] = field(default_factory=dict)

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Said:
        with self.asking(method, path, body, **headers) as response:
            return Said(
                response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()
            )

    @contextmanager
    def asking(self, method: str, path: str, body: Any = None, **headers: str) -> Iterator[HTTPResponse]:
        """The same, with an answer that may go on."""
        connection = HTTPConnection(self.host, self.port, timeout=WAIT_S)
        raw = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if raw is not None:
            named.setdefault("Content-Type", "application/json")
        try:
            connection.request(method, path, raw, {**self.headers, **named})
            yield connection.getresponse()
        finally:
            connection.close()

    def get(self, path: str) -> Any:
        """What is at a path, which must be there."""
        said = self.ask("GET", path)
        assert said.code == 200, (path, said.code, said.body)
        return said.data

    def raw(self) -> socket.socket:
        """A connection on which anything may be said."""
        return socket.create_connection((self.host, self.port), WAIT_S)

    def without(self, **headers: str) -> "Web":
        """Somebody with other headers."""
        return Web(self.host, self.port, headers)


def web_of(store: JobStore, which: str = "token") -> Web:
    """Somebody who has read the address of a job."""
    there = store.read_control()
    assert there is not None
    return Web(there["host"], there["port"], {"Authorization": f"Bearer {there[which]}"})


class Events:
    """Server-sent events of a stream, one by one."""

    def __init__(self, response: HTTPResponse) -> None:
        assert response.status == 200
        assert response.headers["content-type"].startswith("text/event-stream")
        self._response = response

    def next(self) -> tuple[str, Any]:
        """The next event that is no comment."""
        name = ""
        while True:
            line = self._response.readline().decode().rstrip("\n")
            if line.startswith("event: "):
                name = line.removeprefix("event: ")
            elif line.startswith("data: "):
                return name, json.loads(line.removeprefix("data: "))

    def until(self, name: str) -> Any:
        """The next one of a kind; others are passed over."""
        while True:
            found, data = self.next()
            if found == name:
                return data
