"""``headgate state``: what operators keep, in a kept checkpoint, by key; and what differs between two.

One rule: of a job that runs its own process reads, with the session that it has; of any other a small Spark here does.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any
from urllib.parse import urlencode

import typer
from rich.table import Table

from headgate.browse import kept
from headgate.browse.reader import LIMIT, LIMIT_MAX, TIMEOUT_S, KeptOperator, StateReader, question
from headgate.cli.app import JobArgument, JsonOption, StorageOption, VerboseOption, locate, opened, refuse, say, show
from headgate.cli.log import run_log
from headgate.errors import ExternalError
from headgate.run.control import ControlClient
from headgate.store.jobstore import JobStore

CONF = ("spark.jars", "spark.hadoop.", "spark.driver.memory", "spark.driver.extraClassPath")
"""Of a job's own settings, those that reading needs."""


def state(
    job: JobArgument,
    checkpoint: Annotated[
        int | None, typer.Option(metavar="N", help="Read this checkpoint.  [default: the newest]", show_default=False)
    ] = None,
    operator: Annotated[str | None, typer.Option(metavar="UID", help="Show the state of this operator.")] = None,
    name: Annotated[
        str | None, typer.Option("--state", metavar="NAME", help="Show this one, where an operator has several.")
    ] = None,
    key: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN=VALUE", help="Only keys with this value. Repeat it for more columns."),
    ] = None,
    diff: Annotated[int | None, typer.Option(metavar="M", help="Show what has changed since checkpoint M.")] = None,
    limit: Annotated[int, typer.Option(metavar="N", help=f"Show N rows at most, up to {LIMIT_MAX}.")] = LIMIT,
    timeout: Annotated[float, typer.Option(metavar="SECONDS", help="Give up after this time.")] = TIMEOUT_S,
    storage: StorageOption = None,
    as_json: JsonOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Show the state that a kept checkpoint holds: its operators, the rows of one, or what differs between two.

    Example: headgate state orders

    Example: headgate state orders --operator user-windows --key user=ann

    Example: headgate state orders --operator user-windows --checkpoint 15 --diff 12

    Exit codes: 0, 1 if it cannot be read now, 2 if there is no such job, checkpoint, operator or column.
    """
    place = locate(job, storage)
    with opened(place.uri, place.conf) as whole:
        store = JobStore.find(whole, place.job)
        number = kept.newest(store) if checkpoint is None else checkpoint
        there = kept.operators(store, kept.find(store, number))
        if operator is None and name is None and not key and diff is None:
            _show_operators(number, there, as_json=as_json)
            return
        where = f"checkpoint {number} of job {store.job}"
        asked = question(
            there, operator=operator, state=name, keys=key or (), limit=limit, timeout_s=timeout, where=where
        )
        if diff is not None:
            kept.find(store, diff)
        about = {"operator": asked.operator.name, "state": asked.state}
        numbers = {"checkpoint": number, **({} if diff is None else {"before": diff})}
        given: list[tuple[str, Any]] = [*numbers.items(), *about.items(), *(("key", each) for each in key or ())]
        given += [("limit", limit), ("timeout_s", timeout)]
        what = "rows" if diff is None else "difference"
        found = _of_its_process(store, f"/state/{what}?{urlencode(given)}", timeout)
        if found is None:
            with _reader(store, place.conf, verbose=verbose) as reader:
                answer, more = reader.rows(number, asked) if diff is None else reader.difference(diff, number, asked)
            found = {**numbers, **about, "rows" if diff is None else "changes": answer, "more": more}
    _show_rows(found, as_json=as_json)


def _of_its_process(store: JobStore, path: str, wait_s: float) -> Mapping[str, Any] | None:
    """What the process that runs the job answers. None if none does here."""
    answered = ControlClient(store).call("GET", path, wait_s=wait_s)
    if answered is None:
        return None
    if answered.code in (400, 404):
        refuse(answered.why_not)
    if answered.code != 200:
        raise ExternalError(answered.why_not)
    found: dict[str, Any] = answered.data
    return found


@contextmanager
def _reader(store: JobStore, conf: Mapping[str, str], *, verbose: bool) -> Iterator[StateReader]:
    """Somebody who reads with a Spark of this command's."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - Spark is imported only where it is needed

    from headgate import state_backend  # noqa: PLC0415 - as above
    from headgate.browse.spark import SparkStateReader  # noqa: PLC0415 - as above
    from headgate.task import session  # noqa: PLC0415 - as above

    theirs: SparkSession | None = SparkSession.getActiveSession()
    if theirs is not None:  # By which the storage is reached.
        yield SparkStateReader(theirs, store)
        return
    needed = {name: value for name, value in conf.items() if name.startswith(CONF)}
    backend = state_backend.rocksdb()  # The one with which the checkpoint was made is told to Spark for each question.
    with (
        run_log("headgate-state", verbose=verbose),
        session.session_for("headgate state", master="local[2]", conf=needed, state=backend) as spark,
    ):
        yield SparkStateReader(spark, store)


def _show_operators(number: int, there: Sequence[KeptOperator], *, as_json: bool) -> None:
    table = Table("operator", "task", "kind", "partitions", "states", box=None)
    for each in there:
        table.add_row(each.name, each.task, each.kind, str(each.partitions), ", ".join(each.states))
    text = table if there else f"checkpoint {number} has no state: none of the job's operators kept any"
    show({"checkpoint": number, "operators": [each.told() for each in there]}, text, as_json=as_json)


def _show_rows(found: Mapping[str, Any], *, as_json: bool) -> None:
    differs = "changes" in found
    rows = found["changes"] if differs else found["rows"]
    columns = ("change", "key", "before", "after") if differs else ("partition", "key", "value")
    table = Table(*columns, box=None)
    for row in rows:
        table.add_row(*(row[name] if name == "change" else _json(row[name]) for name in columns))
    none = "nothing differs" if differs else "no row"
    show(dict(found), table if rows else none, as_json=as_json)
    if found["more"]:
        say(f"there are more than {len(rows)}: ask for them with --limit, or narrow it with --key")


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(state)
