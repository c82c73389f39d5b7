"""Commands that show something. One rule: they change nothing, and need no running job."""

import time
from typing import Annotated, Any

import typer

from headgate.cli.app import (
    FileArgument,
    JobArgument,
    JsonOption,
    StorageOption,
    VerboseOption,
    found,
    load,
    opened,
    refuse,
    say,
    show,
    storage_of,
)
from headgate.cli.log import run_log
from headgate.errors import BadStorage, ExternalError
from headgate.run.control import ControlClient
from headgate.run.past import PAGE, JobPast
from headgate.store import jobstore
from headgate.store.jobstore import JobStore
from headgate.view import job as view, text

KNOWN_SHOWN = 20
"""How many ids are named to whoever asked for one that is not there."""


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("list")(list_jobs)
    for command in (status, checkpoints, plan):
        app.command()(command)


def list_jobs(
    storage: StorageOption = None,
    running: Annotated[bool, typer.Option("--running", "-r", help="Only jobs that run, or are about to.")] = False,
    ended: Annotated[bool, typer.Option("--ended", help="Only jobs that are over, or whose process is gone.")] = False,
    as_json: JsonOption = False,
) -> None:
    """List the jobs in a storage, with their state and their last checkpoint.

    With neither --running nor --ended it lists all; so also what is new, unknown or damaged.

    Example: headgate list --storage file:///data/headgate

    Example: headgate list --running

    Exit codes: 0 also if there is none, 2 there is no such storage.
    """
    if running and ended:
        refuse("--running and --ended: choose one of them, or neither for all jobs")
    uri = storage_of(storage)
    with opened(uri) as store:
        if store.local_root is not None and not store.local_root.is_dir():
            refuse(f"{store.uri}: there is no such directory; give the storage that the job's file names")
        views = [_overview(JobStore(store, name)) for name in jobstore.jobs(store)]
        where = store.uri
    none = f"there is no job in {where} yet"
    if running or ended:
        views = [each for each in views if each["state"] in (view.LIVE if running else view.OVER)]
        none = f"no job in {where} {'runs' if running else 'has ended'}"
    show(views, text.jobs(views) if views else none, as_json=as_json)


def status(job: JobArgument, storage: StorageOption = None, as_json: JsonOption = False) -> None:
    """Show what a job is doing, or where it ended.

    States: starting, running, restarting, closing; finished, stopped, cancelled, failed; interrupted (Ctrl-C or SIGTERM
    ended its process) and crashed (its process is gone): `headgate run` goes on from the last checkpoint; unknown (its
    process is on another machine, or does not answer); new (it has never begun).

    Example: headgate status orders

    Exit codes: 0 it runs or ended well, 1 it failed or crashed, 2 there is no such job.
    """
    with found(job, storage) as store:
        seen = status_of(store)
    show(seen, text.status(seen), as_json=as_json)
    raise typer.Exit(1 if seen["state"] in (view.CRASHED, "failed") else 0)


def checkpoints(
    job: JobArgument,
    number: Annotated[int | None, typer.Argument(metavar="ID", help="Show this one, task by task.")] = None,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="Show the newest N.")] = PAGE,
    before: Annotated[int | None, typer.Option(metavar="ID", help="Show those before this one.")] = None,
    summary: Annotated[
        bool, typer.Option("--summary", help="Show how many there are, and how long and how large they were.")
    ] = False,
    storage: StorageOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a job's checkpoints: how long they took, what they hold, and whether they are kept.

    Example: headgate checkpoints orders 12

    Example: headgate checkpoints orders --before 951 --limit 20

    Exit codes: 0, or 2 if there is no such job or checkpoint.
    """
    if number is not None and (summary or before is not None):
        refuse(f"checkpoint {number} with --summary or --before: choose one of them")
    with found(job, storage) as store:
        past = JobPast(store)
        if summary:
            _summary(past, as_json=as_json)
        elif number is not None:
            _one(past, number, as_json=as_json)
        else:
            _page(past, limit, before, as_json=as_json)
        if unreadable := past.history.unreadable():
            say(f"{unreadable} lines of the history cannot be read; see `headgate events {job} --type unreadable`")
        if foreign := past.history.listing.foreign:
            say(f"{store.uri}/{foreign[0]} does not belong there, and is left alone: move it away")


def _page(past: JobPast, limit: int, before: int | None, *, as_json: bool) -> None:
    views = past.checkpoints(limit, before)
    if not views:
        none = "there is no checkpoint yet" if before is None else f"there is no checkpoint before {before}"
        show(views, none, as_json=as_json)
        return
    show(views, text.checkpoints(views), as_json=as_json)
    older = views[0]["id"]
    if not as_json and past.checkpoints(1, older):
        typer.echo(f"\nolder ones: --before {older}")


def _one(past: JobPast, number: int, *, as_json: bool) -> None:
    one = past.checkpoint(number)
    if one is None:
        known = ", ".join(str(each["id"]) for each in past.checkpoints(KNOWN_SHOWN)) or "none"
        refuse(f"checkpoint {number} is not known; there are: {known}")
    show(one, text.checkpoint(one), as_json=as_json)


def _summary(past: JobPast, *, as_json: bool) -> None:
    counts, figures = past.counts(), past.summary()
    show({"counts": counts, "summary": figures}, text.summary(counts, figures), as_json=as_json)


def plan(
    job: FileArgument,
    as_json: JsonOption = False,
    as_dot: Annotated[bool, typer.Option("--dot", help="Print a graph for Graphviz instead of text.")] = False,
    master: Annotated[str | None, typer.Option(help="The Spark master that works the plan out.")] = None,
    verbose: VerboseOption = False,
) -> None:
    """Show the tasks and channels that a job becomes. Nothing is started, and no storage is touched.

    Example: headgate plan job.py --dot | dot -Tsvg > plan.svg

    Exit codes: 0, or 2 if the job cannot run as it is written.
    """
    if as_json and as_dot:
        refuse("--json and --dot: choose one of them")
    described = load(job)
    from headgate.job import show as shown  # noqa: PLC0415 - Spark is imported only where it is needed
    from headgate.job.settings import to_core  # noqa: PLC0415
    from headgate.run.start import Options, plan_job, spark_for  # noqa: PLC0415
    from headgate.task import partitions  # noqa: PLC0415

    with run_log(described.name, verbose=verbose), spark_for(described, Options(master=master)) as spark:
        planned, _ = plan_job(described, spark)
        number, cores = partitions.chosen(spark), partitions.cores_of(spark)
    if any(task.stateful for task in planned.tasks) and (advice := partitions.advice(number, cores)) is not None:
        say(f"warning: {advice}")
    mode = to_core(described.checkpoint, described.restart).mode
    if as_json:
        show(shown.as_data(described.name, planned, mode, number), "", as_json=True)
    elif as_dot:
        typer.echo(shown.as_dot(described.name, planned, mode), nl=False)
    else:
        typer.echo(shown.as_text(described.name, planned, mode, number), nl=False)


def _overview(store: JobStore) -> dict[str, Any]:
    """A job among others: one whose storage is damaged does not hide the rest."""
    try:
        return status_of(store)
    except BadStorage as error:
        return {**view.status(store.job, (), (), now_ms=0), "state": "damaged", "text": str(error)}


def status_of(store: JobStore) -> dict[str, Any]:
    """From the process that runs the job, or else from its storage."""
    client = ControlClient(store)
    silent = None
    try:
        running = client.status()
        if running is not None:
            return running
        machine = client.elsewhere()
        silent = None if machine is None else f"it was last run on {machine}: ask there"
    except ExternalError as error:
        silent = str(error)
    now_ms = time.time_ns() // 1_000_000
    seen = JobPast(store).status(now_ms=now_ms, elsewhere=silent is not None)
    return {**seen, "text": silent} if silent is not None and seen["state"] == view.UNKNOWN else seen
