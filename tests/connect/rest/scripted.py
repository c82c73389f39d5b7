"""A small HTTP server on this machine that does with each request what a script says."""

import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

Answering = Callable[[socket.socket], bool]
"""Answers a request; whether the connection stays."""


def whole(status: int, body: bytes = b"") -> Answering:
    """An answer as it should be."""

    def answer(connection: socket.socket) -> bool:
        connection.sendall(b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%b" % (status, len(body), body))
        return True

    return answer


def chunked(body: bytes) -> Answering:
    """An answer in chunks of a byte each."""

    def answer(connection: socket.socket) -> bool:
        chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body)
        connection.sendall(b"HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n")
        return True

    return answer


def cut(connection: socket.socket) -> bool:
    """Half an answer, and the end of the connection."""
    connection.sendall(b"HTTP/1.1 200 X\r\nContent-Length: 100\r\n\r\nhalf")
    return False


def reset(connection: socket.socket) -> bool:
    """Half an answer, and a reset."""
    cut(connection)
    time.sleep(0.02)  # so that the half is read before
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return False


def dripping(connection: socket.socket) -> bool:
    """An answer that comes byte by byte, and takes longer than anybody waits."""
    connection.sendall(b"HTTP/1.1 200 X\r\nContent-Length: 200\r\n\r\n")
    for _ in range(200):
        connection.sendall(b"x")
        time.sleep(0.05)
    return True


class Scripted:
    """Answers by the script; when that is at its end, by its last line."""

    def __init__(self, *script: Answering) -> None:
        self._script = script
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self.heads: list[bytes] = []
        self.bodies: list[bytes] = []
        self.connections = 0

    @property
    def lines(self) -> Sequence[str]:
        """The first line of each request, without the version."""
        return [head.split(b"\r\n")[0].decode().removesuffix(" HTTP/1.1") for head in self.heads]

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listening.close()
        for connection in self._open:
            connection.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            self.connections += 1
            self._open.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            with connection, connection.makefile("rb") as lines:
                while True:
                    head = b""
                    while not head.endswith(b"\r\n\r\n"):
                        line = lines.readline()
                        if not line:
                            return
                        head += line
                    size = next(
                        (int(line[15:]) for line in head.lower().split(b"\r\n") if line[:15] == b"content-length:"), 0
                    )
                    self.bodies.append(lines.read(size))
                    self.heads.append(head)
                    if not self._script[min(len(self.heads), len(self._script)) - 1](connection):
                        return
        except OSError:
            return
