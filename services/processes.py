"""Processes and their descendants, read from ``/proc``.

One rule: whoever descends from a process is found even when it has a session of its own, as PostgreSQL's backends have;
and nobody gets a signal who only got the number of a process that has ended.
"""

import contextlib
import os
import signal
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple


class Process(NamedTuple):
    """A process: its number, and the kernel's tick at which it started."""

    pid: int
    started: int

    @property
    def alive(self) -> bool:
        """Whether it is there and no zombie."""
        found = _look(self.pid)
        return found is not None and found.process == self

    @property
    def stopped(self) -> bool:
        """Whether a signal holds it, or it is gone."""
        found = _look(self.pid)
        return found is None or found.process != self or found.state == "T"


class _Seen(NamedTuple):
    process: Process
    parent: int
    state: str


def family(pid: int) -> list[Process]:
    """The process and all its descendants that live, parents first. Empty when it is gone."""
    children: dict[int, list[Process]] = defaultdict(list)
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and (found := _look(int(entry.name))) is not None:
            children[found.parent].append(found.process)
    head = _look(pid)
    members = [] if head is None else [head.process]
    for member in members:  # grows while it is walked
        members.extend(children[member.pid])
    return members


def _look(pid: int) -> _Seen | None:
    """What the kernel says of the process, or None when it is gone or a zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    # The name in parentheses may hold anything, so fields are counted after the last one.
    fields = text.rpartition(")")[2].split()
    # A process whose first thread has ended is called a zombie while its other threads still hold its sockets.
    gone = fields[0] == "X" or (fields[0] == "Z" and int(fields[17]) <= 1)
    return None if gone else _Seen(Process(pid, int(fields[19])), int(fields[1]), fields[0])


def send(processes: Iterable[Process], number: signal.Signals) -> None:
    """Send the signal to each of the processes that is still there."""
    for process in processes:
        if process.alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, number)


def kill_group(leader: Process) -> None:
    """End what is left of a process's group with SIGKILL, unless its number is somebody else's by now."""
    found = _look(leader.pid)
    if found is None or found.process == leader:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(leader.pid, signal.SIGKILL)


def kill_family(pid: int) -> list[Process]:
    """End the process and its descendants with SIGKILL, and tell which ones they were.

    They are stopped first, parents before children, so that none of them starts another unseen.
    """
    found: list[Process] = []
    while new := [process for process in family(pid) if process not in found]:
        send(new, signal.SIGSTOP)
        found += new
    send(found, signal.SIGKILL)
    return found
