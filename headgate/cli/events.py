"""What happened to a job, and what its processes wrote.

One rule: whoever looks costs the job nothing. Both commands read files, and look again after a while if they follow.
"""

import json
import os
import time
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from headgate.cli.app import JobArgument, JsonOption, StorageOption, found, locate, refuse
from headgate.errors import InvalidOption
from headgate.run.control import ControlClient, may_be_there
from headgate.run.logfiles import LogFile, last_lines, log_files
from headgate.run.past import PAGE
from headgate.store.history import HistoryPosition, HistoryReader
from headgate.store.jobstore import JobStore
from headgate.values import duration_ms
from headgate.view import text

POLL_S = 0.5
"""How often a storage on this machine, or a log, is looked at again."""
POLL_FAR_S = 5.0
"""The same of a storage elsewhere, where each look is a listing."""
LAST_WORDS_S = 20.0
"""A process that no longer leads may take this long to write down how the job ended."""


wait = time.sleep
"""Between two looks."""


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(events)
    app.command()(logs)


def events(
    job: JobArgument,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with what happens, until the job ends.")
    ] = False,
    since: Annotated[
        str | None, typer.Option(metavar="10min|TIME", help="Only what happened within this time, or since then.")
    ] = None,
    types: Annotated[
        list[str] | None, typer.Option("--type", metavar="EVENT", help="Only events of this type. May be repeated.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="The newest N.")] = PAGE,
    before: Annotated[
        str | None, typer.Option(metavar="POSITION", help="Those before this one, as --json names it.")
    ] = None,
    storage: StorageOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what happened to a job, one line for each event, the newest last.

    With --json each line is an object, with its place in the history as `position`.

    Example: headgate events orders --follow --type checkpoint-failed --type restart

    Exit codes: 0, or 2 if there is no such job.
    """
    position = None if before is None else HistoryPosition.parse(before)
    if before is not None and position is None:
        refuse(f"--before {before}: write a position as `headgate events --json` prints it, such as 3.1.4096")
    since_ms = None if since is None else _since(since, int(time.time() * 1000))
    with found(job, storage) as store:
        history = store.history()
        history.look()
        seen = history.end()
        for at, line in history.events(limit, before=position, since_ms=since_ms, types=types or ()):
            _print(at, line, as_json=as_json)
        if follow:
            _follow(store, history, seen, types or (), as_json=as_json)


def _follow(
    store: JobStore, history: HistoryReader, seen: dict[Any, int], types: list[str] | tuple[str, ...], *, as_json: bool
) -> None:
    """Print what comes until the process that runs the job is gone, and what it said last."""
    wait_s = POLL_S if store.local_root is not None else POLL_FAR_S
    client = ControlClient(store)
    last: dict[str, Any] | None = None
    gone_s: float | None = None
    ended = False
    while True:
        leader = client.leader()  # First: what is written before it goes is then read below.
        came = history.follow(seen)
        for at, line in came:
            ended = line.get("event") == "ended" or (ended and line.get("event") != "generation")
            if not types or line.get("event") in types:
                _print(at, line, as_json=as_json)
        if leader is not None:
            last, gone_s = leader, None
        elif last is None or ended or not may_be_there(last):
            return
        else:
            gone_s = gone_s or time.monotonic()
            if time.monotonic() - gone_s > LAST_WORDS_S:
                return
        wait(wait_s)


def _print(at: HistoryPosition, line: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps({**line, "position": str(at)}))
    else:
        typer.echo(f"{text.moment(line.get('at'))} {' '.join(text.past_event(line).split())}")


def _since(given: str, now_ms: int) -> int:
    """A moment: a duration before now, or a time or date in ISO form, in the local zone unless it names one."""
    try:
        return now_ms - duration_ms(given)
    except InvalidOption:
        pass
    try:
        return int(datetime.fromisoformat(given).timestamp() * 1000)
    except ValueError:
        refuse(f"--since {given}: write a duration (10min), or a time (2026-01-31T12:00)")


# -- logs ------------------------------------------------------------------------------------------------------------


def logs(
    job: JobArgument,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on until the command that writes it ends.")
    ] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, metavar="N", help="The last N lines.")] = 100,
    path: Annotated[bool, typer.Option("--path", help="Print where the file is, and nothing of it.")] = False,
    storage: StorageOption = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print which files there are, the newest first, as JSON.")
    ] = False,
) -> None:
    """Show the log of the newest run of a job on this machine: what Headgate and Spark's processes wrote.

    `headgate run --log-format json` writes each line as an object. The files are in $HEADGATE_LOGS, or in
    ~/.local/state/headgate, those of the last five runs.

    Example: headgate logs orders --follow

    Exit codes: 0, or 2 if there is no log of such a job here.
    """
    name = locate(job, storage).job if job.endswith(".py") or "/" in job else job
    files = log_files(name)
    if not files:
        refuse(f"there is no log of job {name} on this machine: it was not run here, or HEADGATE_LOGS was another then")
    newest = files[0]
    if as_json:
        typer.echo(json.dumps([_described(file) for file in files]))
    elif path:
        typer.echo(str(newest.path))
    else:
        end = _print_last(newest.path, lines)
        if follow:
            _follow_file(newest, end)


def _described(file: LogFile) -> dict[str, object]:
    about = file.path.stat()
    return {
        "path": str(file.path),
        "pid": file.pid,
        "bytes": about.st_size,
        "written_ms": about.st_mtime_ns // 1_000_000,
        "running": file.is_written(),
    }


def _print_last(path: Path, count: int) -> int:
    """Print the last lines of a file, also those that were put aside, and say how far it was read."""
    found, size = last_lines(path, count)
    for line in found:
        typer.echo(line)
    return size


def _follow_file(log: LogFile, end: int) -> None:
    """Print what is written, until nobody is left to write. A file that was put aside is read to its end first."""
    file = log.path.open("rb")
    try:
        file.seek(end)
        while True:
            over = not log.is_written()
            while data := file.read(1 << 16):
                typer.echo(data.decode(errors="replace"), nl=False)
            if log.path.exists() and os.fstat(file.fileno()).st_ino != log.path.stat().st_ino:
                file.close()
                file = log.path.open("rb")
                continue
            if over:
                return
            wait(POLL_S)
    finally:
        file.close()
