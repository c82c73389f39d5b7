"""Views for people.

One rule: only presentation is decided here. What is shown was decided in the view, and whoever asks for JSON gets that.
"""

import io
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from headgate.view.history import Line

HTML_WIDTH = 120
"""Characters in a line of a notebook."""
HTML = '<pre style="line-height:normal">{code}</pre>'
NONE = "-"
"""What nobody knows."""


def status(view: Line) -> RenderableType:
    """A job: its state, and a row for each task."""
    facts = Table.grid(padding=(0, 2))
    facts.add_row("job", view["job"])
    facts.add_row("state", _state(view))
    if view["text"]:
        facts.add_row("", Text(view["text"]))
    facts.add_row("generation", _or_none(view["generation"]))
    facts.add_row("started", f"{_when(view['started_ms'])}, for {duration(view['uptime_ms'])}")
    facts.add_row("last checkpoint", _last_checkpoint(view["last_checkpoint"]))
    facts.add_row("restarts", f"{view['restarts']['task']} of a task, {view['restarts']['job']} of the job")
    for stall in view["stalled"]:
        facts.add_row("stalled", Text(stall, style="yellow"))
    failure = view["last_failure"]
    if failure is not None:
        whose = f"task {failure['task']}: " if failure["task"] else ""
        facts.add_row("last failure", Text(f"{_when(failure['at'])} {whose}{failure['message']} ({failure['class']})"))
    return Group(facts, Text(""), _tasks(view["tasks"])) if view["tasks"] else facts


def jobs(views: Sequence[Line]) -> RenderableType:
    """The jobs of a storage, one in a row."""
    table = _table("job", "state", "generation", "last checkpoint", "")
    for view in views:
        last = _last_checkpoint(view["last_checkpoint"])
        table.add_row(view["job"], _state(view), _or_none(view["generation"]), last, Text(view["text"] or ""))
    return table


def checkpoints(views: Sequence[Line]) -> RenderableType:
    """Checkpoints, one in a row, narrow enough for most terminals; and below why some came to nothing."""
    table = _table("id", "kind", "state", "completed", "took", "commit", "bytes", "new", "in flight")
    for view in views:
        table.add_row(
            str(view["id"]),
            view["kind"] + (", unaligned" if view["unaligned"] else ""),
            _kept(view),
            _when(view["completed_ms"], "%m-%d %H:%M:%S"),
            duration(view["duration_ms"]),
            duration(view["commit_ms"]) + (f" ({view['retries']} retries)" if view["retries"] else ""),
            size(view["total_bytes"]),
            size(view["new_bytes"]),
            size(view["in_flight_bytes"]),
        )
    reasons = [Text(f"{view['id']}: {view['why']}") for view in views if view["why"]]
    return Group(table, *([Text(""), *reasons] if reasons else []))


def savepoints(views: Sequence[Line]) -> RenderableType:
    """Savepoints, one in a row."""
    table = _table("id", "state", "taken", "took", "bytes", "label", "path")
    for view in views:
        state = "carried off" if view["carried_off"] else _kept(view) if view["copied"] else "copying"
        table.add_row(
            str(view["id"]),
            state,
            _when(view["completed_ms"] or view["triggered_ms"], "%Y-%m-%d %H:%M:%S"),
            duration(view["duration_ms"]),
            size(view["total_bytes"]),
            Text(view["label"] or ""),
            _or_none(view["path"]),
        )
    return table


def summary(counts: Line, figures: Mapping[str, Line]) -> RenderableType:
    """How many checkpoints there are, and a row for each figure."""
    parts = (f"{counts[name]} {word}" for name, word in _OUTCOMES)
    table = _table("", "min", "avg", "max", "p50", "p90", "p95", "p99", "p99.9")
    for name, label in _FIGURES.items():
        form = duration if name.endswith("_ms") else size if name.endswith("_bytes") else _count
        table.add_row(label, *(form(value) for value in figures[name].values()))
    return Group(Text(f"{counts['total']} checkpoints: {', '.join(parts)}"), Text(""), table)


def checkpoint(view: Line) -> RenderableType:
    """One checkpoint, with a row for each task."""
    facts = Table.grid(padding=(0, 2))
    facts.add_row(view["kind"], f"{view['id']}" + (", unaligned" if view["unaligned"] else ""))
    facts.add_row("state", _kept(view))
    if view["why"]:
        facts.add_row("", Text(view["why"]))
    facts.add_row("generation", _or_none(view["generation"]))
    facts.add_row("triggered", _when(view["triggered_ms"]))
    facts.add_row("completed", f"{_when(view['completed_ms'])}, after {duration(view['duration_ms'])}")
    for name, label in (("pre_commit_ms", "pre-commit"), ("publish_ms", "publish"), ("commit_ms", "commit")):
        facts.add_row(label, duration(view[name]))
    facts.add_row("commit retries", _or_none(view["retries"]))
    facts.add_row("restarts before", _or_none(view["restarts"]))
    table = _table("task", "start delay", "alignment", "sync", "async", "bytes", "new", "in flight", "files")
    for task, part in view["tasks"].items():
        times = (duration(part.get(f"{name}_ms")) for name in ("start_delay", "alignment", "sync", "async"))
        sizes = (size(part.get(f"{name}_bytes")) for name in ("total", "new", "in_flight"))
        table.add_row(task, *times, *sizes, _or_none(part.get("files")))
    return Group(facts, Text(""), table) if view["tasks"] else facts


# -- a job that runs, line by line -----------------------------------------------------------------------------------


def progress(line: Line) -> str:
    """How a job does, in one line: rates, lag, last checkpoint."""
    parts = [f"{view['task']} {_rate(view)}{_lag(view)}" for view in line["tasks"]]
    parts += [f"stalled: {stall}" for stall in line["stalled"]]
    return " | ".join([line["state"], *parts, f"checkpoint {_last_checkpoint(line['last_checkpoint'])}"])


def event(line: Line) -> str | None:
    """A line of history as a sentence. None for what only matters to programs."""
    match line["event"]:
        case "guarantee":
            return f"the guarantee is {line['guarantee']}" + "".join(f"; {why}" for why in line["because"])
        case "generation":
            base = "the beginning" if line["base"] is None else f"checkpoint {line['base']}"
            return f"generation {line['generation']} begins from {base}"
        case "checking":
            return f"checking checkpoint {line['checkpoint']}: {size(line['bytes'])} of {size(line['of_bytes'])} read"
        case "task-failed":
            return f"task {line['task']} failed ({line['class']}): {line['message']}"
        case "restart":
            what = f"task {line['task']}" if line["level"] == "task" else "the job"
            return f"restarting {what} in {duration(line['delay_ms'])}: {line['cause']} ({line['class']})"
        case "checkpoint-completed":
            new = sum(part["new_bytes"] for part in line["tasks"].values())
            if not new and line["kind"] == "checkpoint":
                return None  # Nothing has come in since the one before: an idle job is quiet.
            return f"{line['kind']} {line['id']} completed in {duration(line['duration_ms'])}, {size(new)} new"
        case "checkpoint-failed":
            return str(line["why"])
        case "savepoint-copied":
            return f"savepoint {line['id']} is copied and stands on its own"
        case "notice" | "ended":
            return str(line["text"])
        case "warning":
            return f"warning: {line['text']}"
        case "gap":
            return f"{line['lines']} events may be missing here: {line['why']}"
        case _:
            return None


def past_event(line: Line) -> str:
    """Any line of a history as a sentence: also what only matters to programs, and what nobody knows."""
    try:
        told = event(line) or _in_the_background(line)
    except (KeyError, TypeError, AttributeError, ValueError):  # It says less than it should, or something else.
        told = None
    return told or " ".join(f"{name}={value}" for name, value in line.items() if name != "at")


def _in_the_background(line: Line) -> str | None:
    match line["event"]:
        case "task-started":
            return f"task {line['task']} started, run {line['run']}, after batch {line['batch']}"
        case "checkpoint-triggered":
            return f"{line['kind']} {line['id']} triggered" + (", unaligned" if line["unaligned"] else "")
        case "checkpoint-completed":
            return f"{line['kind']} {line['id']} completed in {duration(line['duration_ms'])}, nothing new"
        case "checkpoint-committed":
            again = f", after {line['retries']} retries" if line["retries"] else ""
            return f"checkpoint {line['id']} committed in {duration(line['commit_ms'])}{again}"
        case "decision":
            what = "commits are to be given up" if line["decision"] == "abandon-commits" else "to be committed by hand"
            return f"sink {', '.join(line['sinks'])}: {what}: {line['reason']}"
        case "receipt":
            rows = line["receipt"]["rows"]
            counted = "what was counted by nobody" if rows is None else f"{rows} rows"
            return f"sink {line['sink']}: {counted} of checkpoint {line['id']} committed"
        case "restored":
            what = f"task {line['task']}" if line["task"] else "the job"
            base = "" if line["base"] is None else f" from checkpoint {line['base']}"
            return f"{what} was restored{base} in {duration(line['restore_ms'])}"
        case "caught-up":
            what = f"task {line['task']}" if line["task"] else "the job"
            return f"{what} is where it was before the failure, {duration(line['replay_ms'])} after it was restored"
        case "unreadable":
            return f"{line['bytes']} bytes of {line['where']} from {line['offset']} on cannot be read"
        case _:
            return None


# -- words and numbers -----------------------------------------------------------------------------------------------


def as_html(shown: RenderableType) -> str:
    """A view for a page, such as a notebook's."""
    console = Console(
        record=True,
        width=HTML_WIDTH,
        file=io.StringIO(),
        markup=False,
        emoji=False,
        highlight=False,
        force_jupyter=False,
    )
    console.print(shown)
    return console.export_html(inline_styles=True, code_format=HTML)


def moment(at_ms: object) -> str:
    """Date and time of day, here."""
    return _when(at_ms if type(at_ms) is int else None)


def clock(at_ms: int) -> str:
    """The time of day, here."""
    return _when(at_ms, "%H:%M:%S")


_UNITS = ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s"))


def duration(ms: float | None) -> str:
    """A time span in at most two units."""
    if ms is None:
        return NONE
    if ms < 1_000:
        return f"{ms:.0f} ms"
    if ms < 60_000:
        return f"{ms / 1_000:.1f} s"
    seconds = int(ms // 1_000)
    unit, name, small, below = next(each for each in _UNITS if seconds >= each[0])
    rest = seconds % unit // small
    return f"{seconds // unit} {name}" + (f" {rest} {below}" if rest else "")


def size(count: float | None) -> str:
    """A number of bytes with three digits or so."""
    if count is None:
        return NONE
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1_000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1_000
    return f"{count:.1f} TB"


def _tasks(tasks: Iterable[Line]) -> Table:
    table = _table("task", "state", "run", "batch", "behind", "rows", "rows/s", "busy", "waited", "backpressure")
    for task in tasks:
        table.add_row(
            task["task"],
            task["state"],
            _or_none(task["run"]),
            _or_none(None if task["batch"] == -1 else task["batch"]),
            ", ".join(f"{channel}: {lag}" for channel, lag in task["lag"].items()) or NONE,
            NONE if task["rows"] is None else f"{task['rows']:,}",
            NONE if task["rows_per_s"] is None else f"{task['rows_per_s']:,.0f}",
            _share(task["busy_ratio"]),
            duration(task["wait_ms"]),
            _or_none(task["backpressure"]),
        )
    return table


def _share(ratio: float | None) -> str:
    return NONE if ratio is None else f"{ratio:.0%}"


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        table.add_column(column)
    return table


_OUTCOMES = (
    ("completed", "completed"),
    ("failed", "failed"),
    ("in_progress", "in progress"),
    ("savepoints", "savepoints"),
)
_FIGURES = {
    "duration_ms": "duration",
    "pre_commit_ms": "pre-commit",
    "publish_ms": "publish",
    "commit_ms": "commit",
    "total_bytes": "bytes",
    "new_bytes": "new",
    "in_flight_bytes": "in flight",
    "files": "files",
}


def _count(value: float | None) -> str:
    return NONE if value is None else f"{value:,.0f}"


_STYLES = {"running": "green", "failed": "red", "crashed": "red", "damaged": "red", "restarting": "yellow"}


def _state(view: Line) -> Text:
    return Text(view["state"], style=_STYLES.get(view["state"], ""))


def _kept(view: Line) -> str:
    """What became of a checkpoint. One that completed and is gone was no longer to be kept."""
    if view["state"] != "completed":
        return str(view["state"])
    return "deleted" if not view["kept"] else "held" if view["held"] else "kept"


def _last_checkpoint(view: Line | None) -> str:
    if view is None:
        return "none yet"
    kind = "" if view["kind"] == "checkpoint" else f" ({view['kind']})"
    age = "" if view["age_ms"] is None else f", {duration(view['age_ms'])} ago"
    return f"{view['id']}{kind}{age}"


def _rate(task: Line) -> str:
    if task["state"] != "running":
        return str(task["state"])
    return f"{task['rows_per_s'] or 0:,.0f} rows/s"


def _lag(task: Line) -> str:
    behind = max(task["lag"].values(), default=0)
    return f", {behind} behind" if behind else ""


def _when(at_ms: int | None, form: str = "%Y-%m-%d %H:%M:%S") -> str:
    return NONE if at_ms is None else datetime.fromtimestamp(at_ms / 1000, UTC).astimezone().strftime(form)


def _or_none(value: object) -> str:
    return NONE if value is None else str(value)
