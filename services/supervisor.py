"""A command under a supervisor: it ends when the process that started it is gone, however that happened.

One rule: the command does not begin before its watchdog is there, so there is no moment in which it could be left
alone; and a start that is broken off, by Ctrl-C for example, leaves nothing.
"""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from services.processes import Process, family, kill_family, kill_group


class Supervisor:
    """One run of a command, in a session of its own, with nothing on its input."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        directory: Path | str,
        stdout: int | IO[bytes],
        stderr: int | IO[bytes],
        account: str | None = None,
    ) -> None:
        """Start it. ``account`` is the user that it runs as; None for the same user."""
        self.process = subprocess.Popen(
            # It waits for a word on its input, and the word comes when the watchdog is there.
            ["/bin/sh", "-c", 'read go && exec "$@" </dev/null', name, *command],
            stdin=subprocess.PIPE,
            stdout=stdout,
            stderr=stderr,
            cwd=directory,
            env=environment,
            start_new_session=True,
            user=account,
            group=account,
            extra_groups=None if account is None else [],
        )
        self._command: Process | None = None
        self._watchdog: subprocess.Popen[bytes] | None = None
        try:
            self._command = family(self.process.pid)[0]
            self._watchdog = subprocess.Popen(
                [sys.executable, "-m", "services.watchdog", *(str(part) for part in self._command)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd=Path(__file__).resolve().parent.parent,
                start_new_session=True,
            )
            assert self.process.stdin is not None
            os.write(self.process.stdin.fileno(), b"go\n")
            self.process.stdin.close()
            self.process.stdin = None
        except BaseException:
            with self.process:
                kill_family(self.process.pid)
            self.release()
            raise

    def release(self) -> None:
        """Wait for the command's end, kill what is left of its group, and end the watchdog."""
        self.process.wait()
        if self._command is not None:
            kill_group(self._command)
        if self._watchdog is not None:
            self._watchdog.kill()
            self._watchdog.communicate()
            self._watchdog = None
