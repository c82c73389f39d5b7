"""Transactions that were decided and may not be committed: to see them, and to commit them by hand.

One rule: nothing is committed that no completed checkpoint has decided, and nothing by hand without a written reason.
"""

from typing import Annotated, Any

import typer

from headgate.cli.app import JsonOption, StorageOption, found, load, locate, opened, refuse, show
from headgate.cli.ask import is_at_rest
from headgate.core.ids import SinkId
from headgate.run.decisions import checked_reason
from headgate.run.past import JobPast
from headgate.store.jobstore import JobStore
from headgate.view import text

ReasonOption = Annotated[
    str | None, typer.Option("--reason", metavar="TEXT", help="Why; it is written into the job's history.")
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(transactions)


def transactions(
    words: Annotated[
        list[str],
        typer.Argument(metavar="JOB | commit JOB.py SINK", help="The job, by its name or its file; or what to commit."),
    ],
    reason: ReasonOption = None,
    storage: StorageOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the transactions that are in doubt: decided by a checkpoint, and not known to be committed.

    A job that runs commits them by itself, and so does the next run. With `commit` those of a sink are committed now,
    of a job that does not run; the reason is recorded. To give them up: `headgate cancel JOB --abandon-commits SINK
    --reason TEXT`, or the same with `run`.

    Example: headgate transactions orders

    Example: headgate transactions commit job.py out --reason "the disk was full, and is not any more"

    Exit codes: 0 also if there is none, 1 the sink does not answer, 2 refused.
    """
    match words:
        case [job]:
            if reason is not None:
                refuse("--reason goes with `transactions commit JOB.py SINK`")
            with found(job, storage) as store:
                past = JobPast(store)
                seen = past.in_doubt()
            show(seen, _listed(seen), as_json=as_json)
        case ["commit", job, sink]:
            _commit(job, sink, reason, storage, as_json=as_json)
        case _:
            refuse(f"transactions {' '.join(words)}: write `transactions JOB`, or `transactions commit JOB.py SINK`")


def _commit(job: str, sink: str, reason: str | None, storage: str | None, *, as_json: bool) -> None:
    from headgate.run import by_hand  # noqa: PLC0415 - what it needs is loaded where it is needed
    from headgate.run.start import open_sink  # noqa: PLC0415

    why = checked_reason(reason, f"a commit of sink {sink} by hand")
    if not job.endswith(".py"):
        refuse(f"transactions commit {job}: give the job's file, which describes the sink")
    described, place = load(job), locate(job, storage)
    with opened(place.uri, place.conf) as store:
        kept = JobStore.find(store, place.job)
        if not is_at_rest(kept):
            refuse(f"job {kept.job} is running: it commits by itself")
        with open_sink(described, kept, sink) as (opened_sink, task, root):
            count = by_hand.commit(kept, opened_sink, SinkId(sink), task, root, why)
    view = {"sink": sink, "committed": count, "reason": why}
    show(view, f"sink {sink}: {count} transactions are committed", as_json=as_json)


def _listed(seen: list[dict[str, Any]]) -> str:
    if not seen:
        return "no transaction is in doubt"
    return "\n".join(
        f"{one['sink']}: checkpoint {one['checkpoint']}, batches {one['after'] + 1} to {one['through']} of generation "
        f"{one['generation']}, {'rows that nobody counted' if one['rows'] is None else str(one['rows']) + ' rows'}, "
        f"pre-committed {text.moment(one['pre_committed_ms'])}"
        for one in seen
    )
