"""Diagnosis, from the command line."""

import os
import time
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from headgate.cli.app import STORAGE_VARIABLE, JsonOption, StorageOption, found, load, refuse, show

if TYPE_CHECKING:
    from headgate.doctor.env import JobNeeds


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(doctor)


def doctor(
    job: Annotated[
        str | None,
        typer.Argument(
            metavar="[JOB]",
            help="The job, by its name or its file. With --env, its file: for its storage and settings.",
        ),
    ] = None,
    env: Annotated[bool, typer.Option("--env", help="Look at this machine, and not at a job.")] = False,
    storage: StorageOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say what is wrong with a job, running or ended, and which setting to change; or look at this machine.

    Each line is a note, a warning (it is slow, or may come to harm) or a problem, with what shows it and what to do.
    With --env: whether jobs can run here, by Java, Spark, jars, clients, directories and limits; what is in order is
    told as well. Nothing is changed, and no Spark is started.

    Example: headgate doctor orders

    Example: headgate doctor --env job.py

    Exit codes: 0 no problem, 1 a problem was found, 2 the command could not be carried out as given.
    """
    from headgate.doctor.env import JobNeeds, examine  # noqa: PLC0415 - what it needs is loaded where it is needed
    from headgate.doctor.finding import as_data, as_text, has_problem  # noqa: PLC0415

    if not env:
        if job is None:
            refuse(
                "doctor takes a job, or --env for this machine: headgate doctor JOB, or headgate doctor --env [JOB.py]"
            )
        _look_at(job, storage, as_json=as_json)
    if job is None:
        needs = JobNeeds(storage=storage or os.environ.get(STORAGE_VARIABLE) or None)
    else:
        needs = _needs_of(job, storage)
    findings = list(examine(needs, STORAGE_VARIABLE))
    show(as_data(findings), as_text(findings), as_json=as_json)
    raise typer.Exit(1 if has_problem(findings) else 0)


def _look_at(job: str, storage: str | None, *, as_json: bool) -> NoReturn:
    """What is wrong with a job."""
    from headgate.cli.show import status_of  # noqa: PLC0415 - what it needs is loaded where it is needed
    from headgate.doctor.cause import diagnosis_data, diagnosis_text  # noqa: PLC0415
    from headgate.doctor.diagnosis import diagnose  # noqa: PLC0415
    from headgate.doctor.gathering import gather  # noqa: PLC0415
    from headgate.run.past import JobPast  # noqa: PLC0415

    with found(job, storage) as store:
        now_ms = time.time_ns() // 1_000_000
        facts = gather(JobPast(store), status_of(store), store.read_description(), store.local_root, now_ms)
    seen = diagnose(facts)
    show(diagnosis_data(seen), diagnosis_text(seen), as_json=as_json)
    raise typer.Exit(0 if seen.ok else 1)


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
