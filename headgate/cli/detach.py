"""Run a job in the background: ``headgate run --detach``.

One rule: the command is over when the job runs, or when it is clear that it does not, and then it says so as a run in
the foreground would have, with the same exit code. From then on nothing ties the two together: the job's process has a
session of its own, and no terminal or pipe of ours.

The process that is started is `headgate run` again, with a pipe on which it announces that the job runs, and another
for what it says on standard error until then. What it says later is in its log.
"""

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from headgate.cli.app import say, show
from headgate.errors import InvalidOption
from headgate.view.recorder import PROGRESS

if TYPE_CHECKING:  # It takes its time to import.
    from headgate.serve.process import ControlServer


OnEvent = Callable[[dict[str, Any]], None]

NOT_PASSED_ON = ("detach", "announce", "as_json", "help")
LAST_LINES_S = 5.0
"""How long what the process said before is waited for, at most, once it has announced itself or is gone."""


# -- in the command that the user gave -------------------------------------------------------------------------------


def again(ctx: typer.Context) -> list[str]:
    """The arguments of the same command, for another process."""
    found: list[str] = []
    for parameter in ctx.command.params:
        value = ctx.params.get(parameter.name or "")
        if parameter.name in NOT_PASSED_ON or value in (None, False, (), []):
            continue
        name = parameter.opts[0] if parameter.param_type_name == "option" else None
        for each in value if isinstance(value, list | tuple) else [value]:
            found += [name] if name else []
            if each is not True:
                found.append(str(each.value if isinstance(each, Enum) else each))
    return found


def run_detached(arguments: Sequence[str], *, as_json: bool, command: Sequence[str] = ("-P", "-m", "headgate")) -> None:
    """Start `headgate run` with these arguments, and wait until the job runs. Ends the command if it does not."""
    hear, announce = os.pipe()
    errors, said = os.pipe()
    with os.fdopen(hear) as announced:
        try:
            process = subprocess.Popen(  # noqa: S603 - it is this very command
                [sys.executable, *command, "run", *arguments, "--announce", str(announce)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=said,
                pass_fds=(announce,),
                start_new_session=True,
            )
        finally:
            os.close(announce)
            os.close(said)
        relay = threading.Thread(target=_relay, args=(errors,), name="headgate-relay", daemon=True)
        relay.start()
        try:
            line = announced.readline()
        except KeyboardInterrupt:
            say(f"the job is still starting, as process {process.pid}: follow it with `headgate status`")
            raise typer.Exit(130) from None
        if not line:
            code = process.wait()
            relay.join(LAST_LINES_S)
            _ended(code)
        relay.join(LAST_LINES_S)
    seen = json.loads(line)
    if "text" in seen:  # It was over before anybody could see it run.
        show(seen, f"job {seen['job']}: {seen['text']} (log: {seen['log']})", as_json=as_json)
        raise typer.Exit(process.wait())
    process.returncode = 0  # It is not ours to wait for.
    text = f"job {seen['job']} runs as process {seen['pid']} at {seen['address']} (log: {seen['log']})"
    show(seen, text, as_json=as_json)


def _relay(errors: int) -> None:
    with contextlib.suppress(OSError, ValueError), os.fdopen(errors, errors="replace") as lines:
        for line in lines:
            sys.stderr.write(line)
            sys.stderr.flush()


def _ended(code: int) -> NoReturn:
    if code < 0:
        say(f"the job's process was killed by signal {-code} before the job ran")
    raise typer.Exit(code if code > 0 else 1)


# -- in the process that runs the job --------------------------------------------------------------------------------


class Announcement:
    """Tells whoever started this process in the background that the job runs."""

    def __init__(self, handle: int) -> None:
        """``handle`` is the pipe on which that is heard."""
        try:
            os.set_inheritable(handle, False)
        except OSError:
            raise InvalidOption("--announce is for a job that --detach has started: leave it out") from None
        self._handle: int | None = handle
        self._errors = os.fstat(2)
        self._about: dict[str, Any] = {"pid": os.getpid()}

    def begin(self, job: str, log: str) -> None:
        """It is this job, and what it writes is there."""
        self._about |= {"job": job, "log": log}

    def attach(self, control: "ControlServer", uri: str) -> None:
        """The job can be asked."""
        self._about |= {"address": control.address, "storage": uri.removesuffix(f"/{self._about['job']}")}

    def also(self, show: OnEvent) -> OnEvent:
        """Tell it as soon as an event shows that the job runs."""

        def tell(line: dict[str, Any]) -> None:
            show(line)
            if line["event"] == PROGRESS and line["state"] == "running":
                self._say({"state": "running", **self._about})

        return tell

    def over(self, text: str) -> None:
        """The job is over."""
        self._say({"state": "ended", **self._about, "text": text})

    def _say(self, seen: Mapping[str, Any]) -> None:
        """Once. From then on standard error is nobody's."""
        if self._handle is None:
            return
        handle, self._handle = self._handle, None
        _let_go(self._errors)
        with contextlib.suppress(OSError):  # Whoever waited has gone.
            os.write(handle, f"{json.dumps(seen)}\n".encode())
        os.close(handle)


def _let_go(was: os.stat_result) -> None:
    """Have nothing go any more to what was standard error at the start, whatever numbers it has by now."""
    null = os.open(os.devnull, os.O_WRONLY)
    for handle in [int(each.name) for each in Path("/dev/fd").iterdir()]:
        with contextlib.suppress(OSError):
            if handle != null and os.path.samestat(os.fstat(handle), was):
                os.dup2(null, handle, inheritable=handle <= 2)
    os.close(null)
