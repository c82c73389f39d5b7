"""What all servers have in common, shown with a program that does nothing but listen."""

import os
import signal
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from services.processes import Process, family
from services.server import HOST, ROOT, Server, ServiceError, free_port, wait_until

LISTEN = """
import os, socket, subprocess, sys
child = subprocess.Popen(["sleep", "600"], start_new_session=True)
with socket.create_server(("127.0.0.1", int(sys.argv[1]))) as server:
    while True:
        connection, _ = server.accept()
        connection.sendall(str(os.getpid()).encode())
        connection.close()
"""


class Listener(Server):
    """It has a child in a session of its own, as PostgreSQL has."""

    name = "listener"

    def command(self) -> list[str]:
        return [sys.executable, "-c", LISTEN, str(self.port)]

    def ready(self) -> bool:
        return self.answer() == str(self.pid)

    def answer(self, seconds: float = 10) -> str | None:
        try:
            with socket.create_connection((HOST, self.port), timeout=seconds) as connection:
                return connection.recv(100).decode()
        except OSError:
            return None


class Failing(Server):
    name = "failing"

    def command(self) -> list[str]:
        return ["/bin/sh", "-c", "echo first; echo it has no wish to run; echo; exit 3"]

    def ready(self) -> bool:
        return False


def members(server: Server) -> list[Process]:
    assert server.pid is not None
    found = family(server.pid)
    assert len(found) == 2
    return found


def test_a_started_server_answers_and_a_stopped_one_has_left_no_process(tmp_path: Path) -> None:
    with Listener(tmp_path) as server:
        assert server.answer() == str(server.pid)
        processes = members(server)
    assert not server.running
    assert server.pid is None
    assert not any(process.alive for process in processes)


def test_a_killed_server_is_gone_with_its_children_and_comes_back_on_the_same_port(tmp_path: Path) -> None:
    with Listener(tmp_path) as server:
        processes, port = members(server), server.port
        server.kill()
        assert not server.running
        assert not any(process.alive for process in processes)
        assert server.answer() is None
        server.start()
        assert server.port == port
        assert server.answer() == str(server.pid)


def test_a_server_that_ended_by_itself_is_started_again(tmp_path: Path) -> None:
    with Listener(tmp_path) as server:
        assert server.pid is not None
        first = members(server)
        os.kill(server.pid, signal.SIGKILL)
        wait_until(lambda: not server.running)
        os.kill(first[1].pid, signal.SIGKILL)
        assert server.start().pid != first[0].pid


def test_a_paused_server_does_not_answer_until_it_is_resumed(tmp_path: Path) -> None:
    with Listener(tmp_path) as server:
        server.pause()
        assert server.running
        assert server.answer(seconds=0.3) is None
        server.resume()
        assert server.answer() == str(server.pid)
        server.pause()  # and it can be stopped while it is paused
    assert not server.running


def test_stop_and_kill_of_a_server_that_does_not_run_do_nothing(tmp_path: Path) -> None:
    server = Listener(tmp_path)
    server.stop()
    server.kill()
    server.pause()
    server.resume()
    assert not server.running


def test_a_port_in_use_is_said_in_one_line(tmp_path: Path) -> None:
    with socket.create_server((HOST, 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(ServiceError) as failure:
            Listener(tmp_path, port=port).start()
    assert str(failure.value) == f"listener cannot start: port {port} is in use; stop what listens there"


def test_a_server_that_ends_while_it_starts_is_reported_with_its_last_words(tmp_path: Path) -> None:
    server = Failing(tmp_path)
    with pytest.raises(ServiceError) as failure:
        server.start()
    assert str(failure.value) == "failing ended while it started: it has no wish to run"
    assert not server.running


def test_a_program_that_is_not_there_is_reported(tmp_path: Path) -> None:
    class Missing(Failing):
        def command(self) -> list[str]:
            return ["/no/such/program"]

    with pytest.raises(ServiceError, match=r"failing ended while it started: .*not found"):
        Missing(tmp_path).start()


def test_free_ports_differ_and_are_below_those_of_outgoing_connections() -> None:
    ports = [free_port() for _ in range(20)]
    assert len(set(ports)) == len(ports)
    assert max(ports) < 32_768


@pytest.mark.parametrize("paused", [False, True])
def test_a_server_dies_with_the_process_that_started_it(tmp_path: Path, paused: bool) -> None:
    program = textwrap.dedent(f"""
        import os, pathlib, sys
        from tests.services.test_server import Listener, members
        server = Listener({str(tmp_path)!r}).start()
        for process in members(server):
            print(process.pid, process.started)
        if {paused}:
            server.pause()
        sys.stdout.flush()
        os.kill(os.getpid(), 9)
    """)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == -signal.SIGKILL
    processes = [Process(*map(int, line.split())) for line in done.stdout.splitlines()]
    assert len(processes) == 2
    wait_until(lambda: not any(process.alive for process in processes), 60, "the end of the server")
