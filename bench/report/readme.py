"""README's table of figures: made from the JSON, between two marks. A test sees that it is not stale."""

from pathlib import Path
from statistics import median

from bench.bars import BARS, judge
from bench.catalogue import CASES
from bench.report.svg import figure
from bench.results import Results

BEGIN, END = "<!-- figures: made by `python -m bench --report` -->", "<!-- end of figures -->"
_ROWS: tuple[tuple[str, str, str, tuple[str, ...]], ...] = (
    (
        "windows, all defaults, RocksDB, rows/s",
        "etl",
        "Headgate, defaults",
        ("Flink SQL, defaults", "plain Spark, tuned"),
    ),
    ("the same on a hash map", "etl-hashmap", "Headgate, defaults", ("Flink SQL, defaults", "plain Spark, tuned")),
    ("the same tuned, RocksDB", "etl", "Headgate, tuned", ("Flink SQL, tuned", "plain Spark, tuned")),
    (
        "Kafka to Kafka, exactly once, rows/s",
        "kafka",
        "Headgate, tuned",
        ("Flink SQL, tuned", "plain Spark, at least once"),
    ),
    ("keyed state in Python, rows/s", "keyed", "Headgate, by columns", ("PyFlink, thread mode", "")),
    ("windows in Python, rows/s", "python-windows", "Headgate", ("PyFlink, thread mode", "")),
    ("start to the first visible row, s", "start", "Headgate", ("Flink SQL", "plain Spark")),
    ("exception to the first new row, s", "exception", "Headgate", ("Flink SQL", "")),
    ("executor killed, to the first new row, s", "executor-killed", "Headgate", ("Flink SQL, defaults", "")),
    ("driver killed, to the first new row, s", "driver-killed", "Headgate", ("Flink SQL", "")),
    ("latency with checkpoints every 200 ms, p50, s", "latency-200ms", "Headgate", ("Flink SQL", "")),
    ("idle, cores", "idle", "Headgate", ("Flink SQL", "")),
)


def table(results: Results) -> str:
    """The rows that were measured, and how many bars are met."""
    lines = ["| | Headgate | Flink | plain Spark |", "| --- | --- | --- | --- |"]
    for what, name, ours, (theirs, sparks) in _ROWS:
        case = results.cases.get(name)
        if case is None or not case.values(ours, CASES[name].value):
            continue
        shown = []
        for contender in (ours, theirs, sparks):
            values = case.values(contender, CASES[name].value)
            shown.append(figure(median(values)) if values else "")
        lines.append(f"| {what} | {' | '.join(shown)} |")
    if len(lines) == 2:
        return "Nothing has been measured beside the peers yet."
    found = [judge(bar, results.cases, more_is_better=CASES[bar.case].more_is_better) for bar in BARS]
    met = sum(each.verdict == "met" for each in found)
    open_ = sum(each.verdict == "not measured" for each in found)
    unknown = f" and {open_} not measured" if open_ else ""
    said = (
        f"Medians on {results.machine.get('cores', '?')} cores, contenders in turns, outputs compared. "
        "Plain Spark has hand-tuned batches in all windows, and is at least once with Kafka."
    )
    where = "[docs/reports/bench.html](docs/reports/bench.html) has those that are missed first, and why."
    lines += ["", f"{said} Of {len(BARS)} bars {met} are met{unknown}: {where}"]
    return "\n".join(lines)


def renewed(text: str, results: Results) -> str:
    """README with the table of these results."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"bench: README.md has no place for the figures: write {BEGIN} and {END} around it")
    return f"{before}{BEGIN}\n{table(results)}\n{END}{after}"


def renew(path: Path, results: Results) -> None:
    """Write it anew."""
    path.write_text(renewed(path.read_text(encoding="utf-8"), results), encoding="utf-8")
