"""What all commands share.

One rule: whatever only the user can put right ends in one line and exit code 2, wherever it was found. Anything else
that nobody expected keeps its trace.
"""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.console import Console, RenderableType
from typer.core import TyperGroup

from headgate import __version__
from headgate.cli import completion
from headgate.core.errors import InvalidGraph, InvalidSettings, NotRestorable
from headgate.errors import ExternalError, InvalidOption, UserError
from headgate.store.api import Store, open_store
from headgate.store.jobstore import JobStore

if TYPE_CHECKING:  # Spark is imported when a job is loaded, and takes its time.
    from headgate.job.api import Job

STORAGE_VARIABLE = completion.STORAGE_VARIABLE
PIPE_WIDTH = 1000
"""Tables that no terminal shows may be so wide, so that a line stays a line."""

JobArgument = Annotated[
    str,
    typer.Argument(
        metavar="JOB", help="The job's name, or the Python file that describes it.", autocompletion=completion.job_names
    ),
]
FileArgument = Annotated[
    str,
    typer.Argument(
        metavar="JOB.py", help="The Python file that describes the job.", autocompletion=completion.job_files
    ),
]
StorageOption = Annotated[
    str | None,
    typer.Option(
        "--storage",
        metavar="URI",
        help=f"Where the checkpoints are.  [default: what the job's file says, else ${STORAGE_VARIABLE}]",
        show_default=False,
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
VerboseOption = Annotated[
    bool, typer.Option("--verbose", help="Print also what Spark logs, with all traces. It is always in the log file.")
]


class _OneLine(TyperGroup):
    """Ends what a user can put right in one line."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (UserError, InvalidSettings, InvalidGraph, NotRestorable) as error:
            refuse(str(error))
        except ExternalError as error:
            say(str(error))
            raise typer.Exit(1) from None


app = typer.Typer(
    name="headgate",
    cls=_OneLine,
    help="Exactly-once stream processing for people who use PySpark.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def say(message: str) -> None:
    """Tell the user something, in one line, apart from what the command prints."""
    typer.echo(f"headgate: {' '.join(message.split())}", err=True)


def refuse(message: str) -> NoReturn:
    """Say what is wrong with what the user gave."""
    say(message)
    raise typer.Exit(2)


def show(view: object, text: RenderableType, *, as_json: bool) -> None:
    """Print a view, as it is or for people."""
    if as_json:
        typer.echo(json.dumps(view))
        return
    if isinstance(text, str):
        typer.echo(text)
        return
    width = None if sys.stdout.isatty() else PIPE_WIDTH
    Console(width=width, markup=False, emoji=False, highlight=False).print(text)


def _version(value: bool) -> None:
    if value:
        typer.echo(f"headgate {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Exactly-once stream processing for people who use PySpark."""


# -- where a job is --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class JobLocation:
    """A job's name, and the storage where it is kept. ``conf`` is what Spark needs to reach it."""

    job: str
    uri: str
    conf: dict[str, str]


def load(path: str) -> "Job":
    """The job that a file describes."""
    from headgate.run.start import load_job  # noqa: PLC0415 - Spark is imported only where it is needed

    return load_job(Path(path))


def locate(job: str, storage: str | None) -> JobLocation:
    """Where a job is: by its file, or by its name in a storage."""
    if job.endswith(".py") or "/" in job:
        described = load(job)
        return JobLocation(described.name, storage or str(described.checkpoint.storage), dict(described.spark_conf))
    return JobLocation(job, storage_of(storage), {})


def storage_of(storage: str | None) -> str:
    """The storage that the user means."""
    found = storage or os.environ.get(STORAGE_VARIABLE)
    if not found:
        raise InvalidOption(
            f"no storage is given: say --storage URI, or set {STORAGE_VARIABLE}, or name the job's file"
        )
    return found


@contextmanager
def opened(uri: str, conf: dict[str, str] | None = None) -> Iterator[Store]:
    """A storage to look at. One that is not on this machine is reached through a small Spark of its own."""
    if "://" not in uri or uri.startswith("file:"):
        yield open_store(uri)
        return
    from pyspark.sql import SparkSession  # noqa: PLC0415 - as in load

    builder = SparkSession.builder.master("local[1]").appName("headgate").config("spark.ui.enabled", "false")
    for name, value in (conf or {}).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    try:
        yield open_store(uri, spark)
    finally:
        spark.stop()


@contextmanager
def found(job: str, storage: str | None) -> Iterator[JobStore]:
    """The storage of a job that has run before."""
    place = locate(job, storage)
    with opened(place.uri, place.conf) as store:
        yield JobStore.find(store, place.job)
