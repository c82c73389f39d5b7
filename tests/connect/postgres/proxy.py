"""A connection that can be cut at a chosen word."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field


@dataclass
class Proxy:
    """Passes everything on, until a client says ``word``: then the connection is cut, before or after that passed.

    It cuts one connection, and passes everything again. Or it holds back what was said until ``go_on``, as if the
    client had been frozen there.
    """

    to: int
    listener: socket.socket = field(default_factory=lambda: socket.create_server(("127.0.0.1", 0)))
    word: bytes = b""
    passes: bool = False
    cut: threading.Event = field(default_factory=threading.Event)
    holds: bool = False
    held: threading.Event = field(default_factory=threading.Event)
    awake: threading.Event = field(default_factory=threading.Event)
    threads: list[threading.Thread] = field(default_factory=list)

    @property
    def port(self) -> int:
        return int(self.listener.getsockname()[1])

    def cut_at(self, word: bytes, *, passes: bool) -> None:
        """Cut the next connection on which a client says it. ``passes``: the server hears it, its answer is lost."""
        self.cut.clear()
        self.passes = passes
        self.word = word

    def hold_at(self, word: bytes) -> None:
        """Hold back what the next client says with this word in it."""
        self.holds = True
        self.word = word

    def go_on(self) -> None:
        """Pass on what was held back."""
        self.awake.set()

    def run(self) -> None:
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self.to))
            for work in (self._requests, self._answers):
                thread = threading.Thread(target=work, args=(client, server), daemon=True)
                thread.start()
                self.threads.append(thread)

    def _requests(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while data := client.recv(65_536):
                if self.word and self.word in data:
                    self.word = b""
                    if self.holds:
                        self.held.set()
                        self.awake.wait()
                        server.sendall(data)
                        continue
                    # First the client: so it never hears the answer.
                    client.shutdown(socket.SHUT_RDWR)
                    if self.passes:
                        server.sendall(data)
                    self.cut.set()
                    break
                server.sendall(data)
        with suppress(OSError):
            server.shutdown(socket.SHUT_WR)

    def _answers(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while data := server.recv(65_536):
                with suppress(OSError):
                    client.sendall(data)
        client.close()
        server.close()


@contextmanager
def proxy(port: int) -> Iterator[Proxy]:
    made = Proxy(port)
    accepting = threading.Thread(target=made.run)
    accepting.start()
    try:
        yield made
    finally:
        made.go_on()
        made.listener.shutdown(socket.SHUT_RDWR)
        made.listener.close()
        for thread in (accepting, *made.threads):
            thread.join(60)
