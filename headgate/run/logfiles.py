"""The log files of jobs on this machine: which there are, and the last lines of one.

One rule: whoever looks costs the job nothing. ``headgate run`` writes them (``headgate.cli.log``); here they are read.
"""

import contextlib
import glob
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headgate.processes import is_alive

LOGS_VARIABLE = "HEADGATE_LOGS"
MARK = "-- the command has ended --"
TAIL_BYTES = 512
"""So close to its end a log says that it has one."""
READ_BYTES = 64 << 10


@dataclass(frozen=True)
class LogFile:
    """The log of one run of a job, and the process that writes it, or has."""

    path: Path
    pid: int

    def is_written(self) -> bool:
        """Whether that process is still there. Another one may have its number by now: then the file has its end."""
        return is_alive(self.pid) and not self._is_at_its_end()

    def _is_at_its_end(self) -> bool:
        with contextlib.suppress(OSError), self.path.open("rb") as file:
            file.seek(max(0, self.path.stat().st_size - len(MARK) - TAIL_BYTES))
            return MARK.encode() in file.read()
        return True


def log_files(name: str) -> list[LogFile]:
    """The logs of a job on this machine, the newest first."""
    directory = logs_folder()
    found = [(each, _pid(each, name)) for each in directory.glob(f"{glob.escape(name)}.*.log")]
    files = [(_written_s(path), LogFile(path, pid)) for path, pid in found if pid is not None]
    return [file for at_s, file in sorted(files, key=lambda each: each[0] or 0.0, reverse=True) if at_s is not None]


def _written_s(path: Path) -> float | None:
    """When a file was written last. None if it is gone: a job that begins takes the logs of old runs away."""
    with contextlib.suppress(FileNotFoundError):
        return path.stat().st_mtime
    return None


def _pid(path: Path, name: str) -> int | None:
    middle = path.name.removeprefix(f"{name}.").removesuffix(".log")
    return int(middle) if middle.isascii() and middle.isdecimal() else None


def logs_folder() -> Path:
    """Where the files are."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(os.environ.get(LOGS_VARIABLE) or Path(state) / "headgate")


def last_lines(path: Path, count: int) -> tuple[list[str], int]:
    """The last lines of a file, also those that were put aside, and how far it was read."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        found = _last(file, size, count)
    aside = path.with_name(f"{path.name}.1")
    if len(found) < count and aside.exists():
        with aside.open("rb") as older:
            found = _last(older, older.seek(0, os.SEEK_END), count - len(found)) + found
    return [line.decode(errors="replace") for line in found], size


def _last(file: Any, size: int, count: int) -> list[bytes]:
    """The last lines before an offset, read from the end as far as it takes."""
    blocks: list[bytes] = []
    begin, ends = size, 0
    while begin > 0 and ends <= count:
        end, begin = begin, max(0, begin - READ_BYTES)
        file.seek(begin)
        blocks.append(file.read(end - begin))
        ends += blocks[-1].count(b"\n")
    return b"".join(reversed(blocks)).splitlines()[-count:] if count else []
