"""The simulator's commands. One rule: they print what the simulator found, and say how to see it again."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from headgate.cli.app import refuse
from headgate.sim import crash, runner, scenario, story as stories
from headgate.sim.plan import WorldPlan, draw


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (sim, story):
        app.command()(command)


def sim(
    seeds: Annotated[str, typer.Option(help="Which worlds to run: FIRST:END, the end not included.")] = "0:200",
    jobs: Annotated[
        int | None, typer.Option(min=1, help="How many processes to use.", show_default="one for each core")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")] = False,
    replay: Annotated[
        str,
        typer.Option(metavar="SEED|FILE", help="Run one world, from a seed or a saved scenario, and print its log."),
    ] = "",
    crash_everywhere: Annotated[
        bool,
        typer.Option("--crash-everywhere", help="Cut one standard run before and after every order; print the table."),
    ] = False,
    save: Annotated[
        str, typer.Option(metavar="DIR", help="Save each failing world, shrunk, as a scenario in this directory.")
    ] = "",
    first: Annotated[bool, typer.Option("--first", help="Stop at the first failing world.")] = False,
) -> None:
    """Run simulated worlds that try to break the protocol.

    One seed is one world: a random job, random settings, and faults. A world that breaks a promise is printed with the
    command that plays it again, shrunk to the fewest faults that still break it.

    Example: headgate sim --seeds 0:2000

    Exit codes: 0 no violation, 1 a violation, 2 a wrong option.
    """
    if replay:
        _replay(replay, as_json=as_json)
    elif crash_everywhere:
        _crash_everywhere(as_json=as_json)
    else:
        _many(_range(seeds), jobs or runner.cores(), as_json=as_json, save=_directory(save), first=first)


def _range(text: str) -> range:
    first, colon, end = text.partition(":")
    if not colon or not first.isdecimal() or not end.isdecimal() or int(first) >= int(end):
        refuse(f"--seeds {text}: give FIRST:END with FIRST below END, for example 0:2000")
    return range(int(first), int(end))


def _directory(text: str) -> Path | None:
    if text and not Path(text).is_dir():
        refuse(f"--save {text}: there is no such directory; make it first")
    return Path(text) if text else None


def _many(seeds: range, jobs: int, *, as_json: bool, save: Path | None, first: bool) -> None:
    console = Console(stderr=True)
    columns = (
        TextColumn("simulating"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=as_json or not console.is_terminal) as progress:
        bar = progress.add_task("worlds", total=len(seeds))
        summary = runner.run_seeds(
            seeds, jobs, stop_at_first=first, progress=lambda so_far: progress.update(bar, completed=so_far.seeds)
        )
    shown: list[dict[str, object]] = []
    for verdict in summary.failing[:SHOWN_MAX]:
        small = runner.shrink(draw(verdict.seed))
        found = runner.run_one(small).violations[0]
        path = _save(save, small, found) if save else None
        shown.append(
            {
                "seed": verdict.seed,
                "violation": verdict.violations[0],
                "shrunk": found,
                "faults": [str(fault) for fault in small.faults],
                "replay": f"headgate sim --replay {path or verdict.seed}",
            }
        )
    figures: dict[str, object] = {
        "seeds": summary.seeds,
        "violations": summary.violations,
        "events": summary.events,
        "events_per_s": summary.events_per_s,
        "crashes": summary.crashes,
        "completed_checkpoints": summary.completed_checkpoints,
    }
    if as_json:
        typer.echo(json.dumps({**figures, **({"failing": shown} if shown else {})}))
    else:
        _print_summary(figures, shown)
    raise typer.Exit(1 if summary.violations else 0)


SHOWN_MAX = 5
"""How many failing worlds are shrunk and shown."""


def _print_summary(figures: dict[str, object], shown: list[dict[str, object]]) -> None:
    for failing in shown:
        typer.echo(f"seed {failing['seed']}: {failing['violation']}")
        typer.echo(f"  with the fewest faults: {failing['shrunk']}")
        faults = failing["faults"]
        if isinstance(faults, list):
            for fault in faults:
                typer.echo(f"    fault {fault}")
        typer.echo(f"  play it again: {failing['replay']}")
    typer.echo(
        f"{figures['seeds']} worlds, {figures['violations']} with a violation; {figures['events']:,} events "
        f"({figures['events_per_s']:,} a second and core), {figures['crashes']:,} crashes, "
        f"{figures['completed_checkpoints']:,} completed checkpoints"
    )


def _save(directory: Path, plan: WorldPlan, found: str) -> Path:
    path = directory / f"seed_{plan.seed}.world"
    path.write_text(scenario.write(plan, f"Found by the simulator: {found}"), encoding="utf-8")
    return path


def _replay(what: str, *, as_json: bool) -> None:
    try:
        plan = draw(int(what)) if what.isdecimal() else scenario.load(Path(what))
    except scenario.BadScenario as error:
        refuse(str(error))
    log: list[str] = []
    verdict = runner.run_one(plan, log)
    if as_json:
        figures = {"seed": verdict.seed, "violations": list(verdict.violations), "events": verdict.events, "log": log}
        typer.echo(json.dumps(figures))
    else:
        sys.stdout.write("\n".join([scenario.write(plan).rstrip(), "", *log, ""]))
        for violation in verdict.violations:
            typer.echo(f"violation: {violation}")
        typer.echo(f"seed {verdict.seed}: {verdict.events} events, {len(verdict.violations)} violations")
    raise typer.Exit(1 if verdict.violations else 0)


def _crash_everywhere(*, as_json: bool) -> None:
    table = crash.everywhere()
    if as_json:
        typer.echo(json.dumps({"cuts": table.cuts, "violations": len(table.violations), "rows": table.as_json()}))
    else:
        typer.echo(table.as_markdown())
        for violation in table.violations:
            typer.echo(f"violation: {violation}")
    raise typer.Exit(1 if table.violations else 0)


def story(
    seed: Annotated[int, typer.Option(min=0, help="Which world to tell.")] = stories.SEED,
) -> None:
    """Tell one simulated run in words: checkpoints, a crash in the middle, a new leader, and the count at the end.

    Example: headgate story

    Exit codes: 0 nothing lost and nothing doubled, 1 otherwise.
    """
    raise typer.Exit(stories.tell(seed, typer.echo))
