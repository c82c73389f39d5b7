"""The demo, from the command line."""

import json
import shutil
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from headgate.cli.app import refuse


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(demo)


def demo(
    rows: Annotated[int, typer.Option(min=400, help="How many rows the generator gives.")] = 40_000,
    directory: Annotated[
        str,
        typer.Option(metavar="DIR", help="Where to work; what comes out stays there. By default it is thrown away."),
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")] = False,
) -> None:
    """Run a whole job on this machine, kill it half way, run it again, and count what came out.

    A generator, a fork, 10-minute windows and alerts, two exactly-once file sinks, a checkpoint every second. Half way
    the JVM of its Spark driver is killed with SIGKILL. At the end the sinks' files are read by a plain reader, and
    every row is counted.

    Example: headgate demo --directory /tmp/demo

    Exit codes: 0 nothing lost and nothing duplicated, 1 otherwise, 2 a wrong option.
    """
    from headgate.demo import show  # noqa: PLC0415 - Arrow is imported only where it is needed

    kept = Path(directory) if directory else None
    if kept is not None and kept.exists() and (not kept.is_dir() or any(kept.iterdir())):
        refuse(f"--directory {directory}: it is there and not empty; name a new directory")
    where = (kept or Path(tempfile.mkdtemp(prefix="headgate-demo-"))).absolute()
    story = show.play(where, rows, (lambda _: None) if as_json else typer.echo)
    if as_json:
        typer.echo(json.dumps(story.to_json()))
    else:
        figures = story.to_json()
        typer.echo(
            f"{figures['checkpoints']} checkpoints, median {figures['checkpoint_ms_median']:.0f} ms, "
            f"longest {figures['checkpoint_ms_max']:.0f} ms"
        )
        for sink, count in story.counts.items():
            typer.echo(f"{sink:>8}  {count}")
    if kept is None and story.exact:
        shutil.rmtree(where, ignore_errors=True)
    raise typer.Exit(0 if story.exact else 1)
