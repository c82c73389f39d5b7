"""Whoever is out of descriptors answers again when there are some."""

import contextlib
import os
import resource
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.channel import accepting
from headgate.channel.gates import Gates, Planner
from headgate.core.ids import Batch, ChannelId, Generation, LeaderId, TaskId
from headgate.run.control import ControlClient
from headgate.serve.process import ControlServer
from headgate.store.api import open_store
from headgate.store.jobstore import JobStore

WAIT_S = 120.0


class Warned:
    """Hears warnings."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.came = threading.Event()

    def __call__(self, text: str) -> None:
        self.texts.append(text)
        self.came.set()


@contextlib.contextmanager
def no_descriptors() -> Iterator[None]:
    """All descriptors of this process are in use."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = [os.open(os.devnull, os.O_RDONLY)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (taken[0] + 1, hard))
    try:
        with contextlib.suppress(OSError):
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for handle in taken:
            os.close(handle)


def test_a_planner_is_answered_once_there_are_descriptors_again() -> None:
    warned = Warned()
    gates = Gates(warned)
    gates.open(Generation(1), ChannelId("reader.0"), TaskId("reader"), Batch(7))
    planner = Planner(gates.address, 1, "reader", "reader.0")
    planner._socket = socket.socket(socket.AF_UNIX)  # It has its descriptor; the other end has none yet.
    planner._lines = planner._socket.makefile("rw", encoding="utf-8")
    try:
        with no_descriptors():
            planner._socket.connect(gates.address)
            assert warned.came.wait(WAIT_S)
        planner._socket.settimeout(WAIT_S)
        assert planner.through(0) == 7
        assert "can take no connection and tries again: Too many open files" in warned.texts[0]
        assert len(warned.texts) == 1, "it is not told at every try"
        later = Planner(gates.address, 1, "reader", "reader.0")
        assert later.through(0) == 7
        later.close()
    finally:
        planner.close()
        gates.close()


def test_a_command_is_answered_once_there_are_descriptors_again(tmp_path: Path) -> None:
    warned = Warned()
    store = JobStore.open(open_store(str(tmp_path)), "job")
    server = ControlServer(lambda: {"state": "running"}, lambda _: None, "job", LeaderId("me"), warned).open(store)
    client = ControlClient(store)
    assert (client.ping() or {})["answers"] is True, "it is up"
    there = store.read_control()
    assert there is not None
    asking = socket.socket()
    asking.settimeout(WAIT_S)
    try:
        with no_descriptors():
            asking.connect((there["host"], there["port"]))
            assert warned.came.wait(WAIT_S)
        request = f"GET /v1/config HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {there['token']}\r\n\r\n"
        asking.sendall(request.encode())
        assert asking.recv(1000).startswith(b"HTTP/1.1 200 ")
    finally:
        asking.close()
        server.close()
    assert "can take no connection and tries again: Too many open files" in warned.texts[0]
    assert len(warned.texts) == 1, "it is not told at every try"


def test_a_connection_without_a_thread_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = socket.socketpair()
    thread = threading.Thread(target=lambda: None)

    def none_left() -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(thread, "start", none_left)
    with theirs:
        assert not accepting.start(thread, ours)
        assert theirs.recv(1) == b""
