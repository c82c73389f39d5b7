"""Commands that ask something of a running job. One rule: the core answers, and its answer is the exit code."""

from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from headgate.cli.app import JobArgument, JsonOption, StorageOption, found, load, refuse, say, show
from headgate.cli.progress import waiting
from headgate.core.effects import Outcome
from headgate.run import forgetting
from headgate.run.control import ControlClient
from headgate.run.decisions import ABANDON, checked_reason, decision, note
from headgate.run.exporting import absolute
from headgate.run.requests import REQUEST_S, SAVING, Reply
from headgate.store.jobstore import JobStore

TimeoutOption = Annotated[
    float, typer.Option("--timeout", min=0.1, metavar="SECONDS", help="How long to wait for the job's answer.")
]
TargetOption = Annotated[
    str | None,
    typer.Option(
        metavar="DIR",
        help="Write the savepoint there as well: to a directory, or a folder of a storage, that is empty or not there.",
    ),
]
DetachOption = Annotated[
    bool, typer.Option("--detach", help="Do not wait: print the ID of the request; the REST API shows its state.")
]
EXIT_CODES = {Outcome.DONE: 0, Outcome.FAILED: 1, Outcome.REFUSED: 2}


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (checkpoint, stop, cancel, forget):
        app.command()(command)


def checkpoint(
    job: JobArgument, storage: StorageOption = None, timeout: TimeoutOption = REQUEST_S, as_json: JsonOption = False
) -> None:
    """Take a checkpoint now, and wait until it is complete.

    Example: headgate checkpoint orders --storage file:///data/headgate

    Exit codes: 0 it is complete, 1 it failed or took too long, 2 the job is not running here, or refused.
    """
    _ask("checkpoint", job, storage, timeout, as_json=as_json)


def is_at_rest(store: JobStore) -> bool:
    """Whether no process runs a job, here or, as far as anybody knows, elsewhere."""
    client = ControlClient(store)
    machine = client.elsewhere()
    if machine is not None:
        refuse(f"job {store.job} was last run on {machine}: do this there")
    return client.ping() is None


def stop(
    job: JobArgument,
    storage: StorageOption = None,
    with_savepoint: Annotated[  # noqa: ARG001 - said for the reader: there is no other way to stop
        bool, typer.Option("--savepoint", help="Take a savepoint first. A stop always does; cancel ends a job without.")
    ] = False,
    drain: Annotated[
        bool,
        typer.Option("--drain", help="For good: read nothing more, and let all that was read come out before the end."),
    ] = False,
    target: TargetOption = None,
    detach: DetachOption = False,
    timeout: TimeoutOption = REQUEST_S,
    as_json: JsonOption = False,
) -> None:
    """Stop a job in good order: take a savepoint, commit all that it pre-committed, then end. Waits for the end.

    `headgate run` goes on from the savepoint. If the savepoint fails the job runs on. If only --target cannot be
    written to any more, the job stops all the same, and its savepoint is in its own storage.

    With --drain the sources end where they stand, time comes to its end, so that every window comes out, and the
    savepoint is taken then. Nothing goes on from there. `headgate cancel` ends a drain that takes too long.

    Example: headgate stop orders --savepoint

    Exit codes: 0 it has stopped, 1 the savepoint failed or it took too long, 2 the job is not running here, or refused.
    """
    ask_or_leave("stop", job, storage, timeout, as_json=as_json, detach=detach, target=target, drain=drain)


def cancel(
    job: JobArgument,
    storage: StorageOption = None,
    abandon_commits: Annotated[
        list[str] | None,
        typer.Option(metavar="SINK", help="Do not wait for commits that this sink cannot do. May be repeated."),
    ] = None,
    reason: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Why commits are given up; written into the job's history.")
    ] = None,
    timeout: TimeoutOption = REQUEST_S,
    as_json: JsonOption = False,
) -> None:
    """End a job at once, without a last checkpoint. Waits for the end.

    What was decided is committed, the rest is thrown away. Checkpoints are deleted unless the job's settings retain
    them on cancellation; savepoints, and checkpoints that somebody holds, stay.

    A commit that fails is tried until it succeeds; meanwhile it is said what the job waits for. --abandon-commits gives
    up what a sink owes: those rows may be missing there, and the job's checkpoint log and history say which, and why.

    A job that does not run is cancelled in its storage: nobody takes it over any more, and its checkpoints are kept.

    Example: headgate cancel orders

    Exit codes: 0 it is cancelled, 1 that failed or took too long, 2 refused.
    """
    why = checked_reason(reason, "giving up commits") if abandon_commits else ""
    with found(job, storage) as store:
        if is_at_rest(store):
            text = forgetting.cancel(store, abandon_commits or [])
            if abandon_commits:
                note(store, decision(ABANDON, abandon_commits, why, "cancel"))
            told("cancel", Reply(Outcome.DONE, text), as_json=as_json)
    _ask("cancel", job, storage, timeout, as_json=as_json, abandon=abandon_commits or [], reason=why)


def forget(
    job: JobArgument,
    storage: StorageOption = None,
    yes: Annotated[bool, typer.Option("--yes", help="Yes, delete all of it.")] = False,
    abandon_commits: Annotated[
        list[str] | None,
        typer.Option(metavar="SINK", help="Give up commits that this sink owes. May be repeated."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Delete all that the storage knows of a job that does not run: checkpoints, savepoints, history.

    What its sinks have in other systems is not touched. A working directory elsewhere goes if the job is given by its
    file. A job that owes commits is refused, unless they are given up by name.

    Example: headgate forget orders --yes

    Exit codes: 0 it is forgotten, 1 the storage does not answer, 2 refused.
    """
    elsewhere = None
    if job.endswith(".py"):
        described = load(job)
        wanted = described.checkpoint.working_directory
        elsewhere = None if wanted is None else Path(str(wanted).removeprefix("file://")).absolute() / described.name
    with found(job, storage) as store:
        if not is_at_rest(store):
            refuse(f"job {store.job} is running: stop it, or cancel it, first")
        if not yes:
            count = len(store.copied())
            refuse(f"forget {store.job} deletes {store.uri} with all checkpoints and {count} savepoints: say --yes")
        text = forgetting.forget(store, abandon_commits or [], elsewhere)
    told("forget", Reply(Outcome.DONE, text), as_json=as_json)


def ask_or_leave(
    command: str,
    job: str,
    storage: str | None,
    timeout_s: float,
    *,
    as_json: bool,
    detach: bool,
    target: str | None,
    drain: bool = False,
) -> None:
    """Ask for a savepoint or a stop; with ``detach`` only that."""
    target = None if target is None else absolute(target)
    if not detach:
        _ask(command, job, storage, timeout_s, as_json=as_json, target=target, drain=drain)
        return
    with found(job, storage) as store:
        begun = ControlClient(store).begin(command, timeout_s=timeout_s, target=target, drain=drain)
    if isinstance(begun, Reply):
        told(command, begun, as_json=as_json)
    said = f"{command} is asked for: request {begun.request}"
    show({"outcome": None, "text": said, "checkpoint": None, "request": begun.request}, said, as_json=as_json)


def _ask(command: str, job: str, storage: str | None, timeout_s: float, *, as_json: bool, **arguments: Any) -> None:
    with found(job, storage) as store, waiting(command) as watch:
        reply = ControlClient(store).ask(command, timeout_s=timeout_s, notice=say, watch=watch, **arguments)
    told(command, reply, as_json=as_json)


def told(command: str, reply: Reply, *, as_json: bool) -> NoReturn:
    """Print what became of a request, and end."""
    view: dict[str, object] = {"outcome": reply.outcome.value, "text": reply.text, "checkpoint": reply.checkpoint}
    if command in SAVING:
        view["path"] = reply.location
    if as_json or reply.outcome is Outcome.DONE:
        said = reply.text if reply.location is None else f"{reply.text}: {reply.location}"
        show(view, said, as_json=as_json)
    else:
        say(reply.text)
    raise typer.Exit(EXIT_CODES[reply.outcome])
