"""Open the web UI of a running job.

One rule: the token is never an argument of another program, where everybody on the machine could read it. A browser is
given a file of ours that leads on to the address, which only its owner can read.
"""

import contextlib
import os
import sys
import webbrowser
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import typer

from headgate.cli.app import JobArgument, JsonOption, StorageOption, found, refuse, say, show
from headgate.durable import temporary, write
from headgate.run.control import ControlClient
from headgate.run.logfiles import logs_folder

LEADS_ON = """\
<!doctype html><meta charset="utf-8"><title>{job}</title><meta http-equiv="refresh" content="0; url={address}">
"""
WINDOWS = ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY")
"""Without any of these there is no screen on Linux. A browser for terminals cannot show these pages."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(ui)


def ui(
    job: JobArgument,
    storage: StorageOption = None,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open a browser there.")] = True,
    read_only: Annotated[bool, typer.Option("--read-only", help="With the token that only reads.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Print the address of a running job's web UI, and open it in a browser.

    The address has a token in it, behind the #: whoever has that can command the job, or only see it with --read-only.
    It holds as long as the job's process lives. For jobs that have ended: headgate server.

    Example: headgate ui orders --storage file:///data/headgate

    Exit codes: 0 done; 2 the job is not running here, or its process does not answer.
    """
    with found(job, storage) as store:
        client = ControlClient(store)
        there = client.ping()
        control = client.leader()
        name = store.job
    if there is None or control is None:
        refuse(f"job {name} is not running here: see it with `headgate server STORAGE`")
    if not there["answers"]:
        refuse(f"process {there['pid']} of job {name} does not answer: see whether it is stuck or busy")
    address = address_of(control, name, read_only=read_only)
    show({"job": name, "address": address}, address, as_json=as_json)
    if browser and not open_in_browser(address, name):
        say("no browser could be opened here: open the address yourself")


def address_of(control: dict[str, Any], job: str, *, read_only: bool) -> str:
    """Where the pages of a job are, for whoever may see them."""
    token = control["read_token" if read_only else "token"]
    return f"http://{control['host']}:{control['port']}/#token={token}&/jobs/{quote(job, safe='')}"


def open_in_browser(address: str, job: str) -> bool:
    """Whether a browser was told. Its file is one for each job, and is replaced at the next time."""
    if sys.platform == "linux" and not any(os.environ.get(name) for name in WINDOWS):
        return False
    file = leading_on(logs_folder() / f"{job}.html", address, job)
    with contextlib.suppress(webbrowser.Error):
        return webbrowser.open(file.as_uri())
    return False


def leading_on(file: Path, address: str, job: str) -> Path:
    """Write the file that leads a browser on to an address, for its owner alone."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with temporary(file) as temp:
        write(temp, LEADS_ON.format(address=address.replace("&", "&amp;"), job=job).encode(), 0o600)
        os.replace(temp, file)  # noqa: PTH105 - both are paths, and it says what it does
    return file.absolute()
