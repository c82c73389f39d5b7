"""Ends a command when the process that started it is gone. A program of its own: see `services.supervisor`.

One rule: it waits for nothing but the end of its standard input, which the starting process holds open while it lives.
Its two arguments are the command's `Process`.
"""

import sys

from services.processes import Process, kill_family, kill_group


def main() -> None:
    """Wait for the end of standard input, then end the command with all its processes."""
    command = Process(int(sys.argv[1]), int(sys.argv[2]))
    sys.stdin.read()
    if command.alive:
        kill_family(command.pid)
        kill_group(command)


if __name__ == "__main__":
    main()
