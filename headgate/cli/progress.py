"""How far something has come that a user waits for.

One rule: only a terminal shows it, in one line that is gone when the command ends; what a command prints is the same
with it and without.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

OnProgress = Callable[[Mapping[str, Any]], None]

NAMED_MAX = 3
"""Tasks that are named at most."""
OF_SAVEPOINTS = ("savepoint", "stop")


@contextmanager
def waiting(command: str, *, console: Console | None = None) -> Iterator[OnProgress | None]:
    """Something to be shown the status of the job again and again. None if there is no terminal."""
    screen = console or Console(stderr=True, markup=False, emoji=False, highlight=False)
    if not screen.is_terminal:
        yield None
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(20), TimeElapsedColumn())
    with Progress(*columns, console=screen, transient=True) as bar:
        line = bar.add_task(f"{command}: asked for", total=None)
        seen: list[int] = []

        def watch(view: Mapping[str, Any]) -> None:
            described, done, of = step_of(command, view, seen)
            bar.update(line, description=described, completed=done, total=of)

        yield watch


def step_of(command: str, view: Mapping[str, Any], seen: list[int]) -> tuple[str, int, int | None]:
    """What a request waits for, and how much of how much is done. ``seen`` keeps which checkpoint it was."""
    wanted = [each for each in view.get("in_progress", ()) if each["is_savepoint"] == (command in OF_SAVEPOINTS)]
    if view.get("state") == "closing" or command == "cancel":
        return f"{command}: the job finishes what was decided", 0, None
    if wanted:
        one = wanted[-1]
        seen[:] = [one["id"]]
        tasks = [task["task"] for task in view["tasks"]]
        cut, acknowledged = set(one["cut"]), set(one["acknowledged"])
        to_cut = [task for task in tasks if task not in cut | acknowledged]
        to_acknowledge = [task for task in tasks if task not in acknowledged]
        done = 2 * len(tasks) - len(to_cut) - len(to_acknowledge)
        what = f"barrier at {_names(to_cut)}" if to_cut else f"snapshot of {_names(to_acknowledge)}"
        if not to_acknowledge:
            what = "pre-commits, and its record"
        return f"{_kind(command)} {one['id']}: {what}", done, 2 * len(tasks)
    if seen:
        after = "commits and its copy" if command in OF_SAVEPOINTS else "its record"
        return f"{_kind(command)} {seen[0]}: {after}", 0, None
    return f"{command}: its turn", 0, None


def _kind(command: str) -> str:
    return "savepoint" if command in OF_SAVEPOINTS else "checkpoint"


def _names(tasks: Sequence[str]) -> str:
    more = len(tasks) - NAMED_MAX
    return ", ".join(tasks[:NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
