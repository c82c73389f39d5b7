"""Ends a server when the process that started it is gone. A program of its own, started before the server.

One rule: it waits for nothing but the end of its standard input, which the starting process holds open while it lives.
Its two arguments are the server's `Process`.
"""

import contextlib
import os
import signal
import sys

from services.processes import Process, kill_family


def main() -> None:
    """Wait for the end of standard input, then end the server with all its processes."""
    server = Process(int(sys.argv[1]), int(sys.argv[2]))
    sys.stdin.read()
    if server.alive:
        kill_family(server.pid)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGKILL)


if __name__ == "__main__":
    main()
