"""Diagnosis, from the command line."""

import os
from typing import TYPE_CHECKING, Annotated

import typer

from headgate.cli.app import STORAGE_VARIABLE, JsonOption, StorageOption, load, refuse, show

if TYPE_CHECKING:
    from headgate.doctor.env import JobNeeds


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(doctor)


def doctor(
    job: Annotated[
        str | None, typer.Argument(metavar="[JOB.py]", help="Look with the storage and the settings of this job.")
    ] = None,
    env: Annotated[bool, typer.Option("--env", help="Look at this machine.")] = False,
    storage: StorageOption = None,
    as_json: JsonOption = False,
) -> None:
    """Look whether jobs can run on this machine: Java, Spark, jars, clients, directories and limits.

    Each line is ok, a note, a warning (a job may come to harm or be slow) or a problem (it will not run, or not keep
    what it promises), and says what to do. Nothing is changed, and no Spark is started.

    Example: headgate doctor --env job.py

    Exit codes: 0 no problem, 1 a problem was found, 2 the command could not be carried out as given.
    """
    from headgate.doctor.env import JobNeeds, examine  # noqa: PLC0415 - what it needs is loaded where it is needed
    from headgate.doctor.finding import as_data, as_text, has_problem  # noqa: PLC0415

    if not env:
        refuse("doctor takes --env, and looks at this machine: headgate doctor --env [JOB.py] [--storage URI] [--json]")
    if job is None:
        needs = JobNeeds(storage=storage or os.environ.get(STORAGE_VARIABLE) or None)
    else:
        needs = _needs_of(job, storage)
    findings = list(examine(needs, STORAGE_VARIABLE))
    show(as_data(findings), as_text(findings), as_json=as_json)
    raise typer.Exit(1 if has_problem(findings) else 0)


def _needs_of(path: str, storage: str | None) -> "JobNeeds":
    """What a job's file says of where it runs."""
    from headgate.doctor.env import JobNeeds  # noqa: PLC0415 - as above

    try:
        from headgate.run.start import packages_of  # noqa: PLC0415 - it needs PySpark, which may be what is missing
    except ImportError as error:
        refuse(f"{path} cannot be loaded ({error}): leave it out, and headgate doctor --env says what is missing")
    job = load(path)
    elsewhere = job.checkpoint.working_directory
    return JobNeeds(
        storage=storage or str(job.checkpoint.storage),
        working_directory=None if elsewhere is None else str(elsewhere),
        conf=job.spark_conf,
        master=job.master,
        packages=packages_of(job),
    )
