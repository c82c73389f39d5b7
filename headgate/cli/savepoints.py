"""Savepoints: take one, list them, hold, release, label and delete them.

One rule: a job that runs is asked, and of one at rest the storage is changed by the same rules. A label decides
nothing, so it is written either way, from wherever the storage is reached.
"""

from typing import Annotated, Any

import typer

from headgate.cli.app import JsonOption, StorageOption, found, refuse, show
from headgate.cli.ask import (
    DetachOption,
    TargetOption,
    TimeoutOption,
    ask_or_leave,
    is_at_rest,
    told,
)
from headgate.cli.completion import savepoint_words
from headgate.core.effects import Outcome
from headgate.core.ids import CheckpointId
from headgate.errors import UserError
from headgate.run import keeping
from headgate.run.control import ControlClient
from headgate.run.past import JobPast
from headgate.run.requests import REQUEST_S, Reply
from headgate.run.savepoints import delete_at_rest, path_of
from headgate.view import text

__all__ = ["register"]

USAGE = {
    "list": "savepoint list JOB",
    "hold": "savepoint hold JOB ID",
    "release": "savepoint release JOB ID",
    "label": "savepoint label JOB ID TEXT",
    "delete": "savepoint delete JOB ID",
}
ABOUT_ONE = ("hold", "release", "delete")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(savepoint)


def savepoint(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="JOB | list JOB | hold|release|delete JOB ID | label JOB ID TEXT",
            help="The job, by its name or its file; or what to do with its savepoints.",
            autocompletion=savepoint_words,
        ),
    ],
    target: TargetOption = None,
    detach: DetachOption = False,
    storage: StorageOption = None,
    timeout: TimeoutOption = REQUEST_S,
    as_json: JsonOption = False,
) -> None:
    """Take a savepoint, and wait until it is copied; or list, hold, release, label and delete them.

    A savepoint is kept until it is deleted, and stands on its own. --target writes it to another directory as well,
    from which `headgate run --from DIR` begins.

    `hold` and `release` are for checkpoints too: one that is held stays, however many come after it, and a savepoint
    that is held is not deleted. A savepoint that the job would go on from is not deleted. `label` calls a savepoint
    something; an empty text takes that away. All but taking one works whether or not the job runs.

    Example: headgate savepoint job.py --target /backup/orders-before-upgrade

    Example: headgate savepoint label orders 12 "before the upgrade"

    Example: headgate savepoint delete orders 12

    Exit codes: 0 it is complete, or done; 1 it failed or took too long; 2 the job is not running here, or refused.
    """
    match words:
        case [verb] if verb in USAGE and not _is_job(verb, storage):
            refuse(f"savepoint {verb}: write `{USAGE[verb]}`")
        case [job]:
            ask_or_leave("savepoint", job, storage, timeout, as_json=as_json, detach=detach, target=target)
        case _ if target is not None or detach:
            refuse("--target and --detach are for `savepoint JOB` alone, which takes one")
        case ["list", job]:
            _list(job, storage, as_json=as_json)
        case ["hold" | "release" | "delete" as verb, job, number] if number.isdecimal():
            _about_one(verb, job, CheckpointId(int(number)), storage, timeout, as_json=as_json)
        case ["label", job, number, *said] if number.isdecimal() and said:
            _label(job, CheckpointId(int(number)), " ".join(said), storage, as_json=as_json)
        case [verb, *_] if verb in USAGE:
            refuse(f"savepoint {' '.join(words)}: write `{USAGE[verb]}`")
        case _:
            ways = ", ".join(f"`{each}`" for each in USAGE.values())
            refuse(f"savepoint {' '.join(words)}: write `savepoint JOB`, {ways}")


def _is_job(name: str, storage: str | None) -> bool:
    """Whether a word that means something here is a job's name all the same."""
    try:
        with found(name, storage):
            return True
    except UserError:
        return False


def _list(job: str, storage: str | None, *, as_json: bool) -> None:
    with found(job, storage) as store:
        past = JobPast(store)
        lines, gone = past.savepoints()
        labels = past.labels()
        where = store.uri
    views: list[dict[str, Any]] = [
        {
            **line,
            "label": labels.get(line["id"]),
            "path": path_of(where, line["id"]) if line["copied"] and line["id"] not in gone else None,
            "carried_off": line["id"] in gone,
        }
        for line in lines
    ]
    show(views, text.savepoints(views) if views else "there is no savepoint yet", as_json=as_json)


def _about_one(
    verb: str, job: str, number: CheckpointId, storage: str | None, timeout_s: float, *, as_json: bool
) -> None:
    with found(job, storage) as store:
        if not is_at_rest(store):
            told(verb, ControlClient(store).ask(verb, timeout_s=timeout_s, checkpoint=number), as_json=as_json)
        if verb == "delete":
            delete_at_rest(store, number)
            said = f"savepoint {number} is deleted"
        else:
            said = keeping.hold_at_rest(store, number, held=verb == "hold")
    told(verb, Reply(Outcome.DONE, said, number), as_json=as_json)


def _label(job: str, number: CheckpointId, label: str, storage: str | None, *, as_json: bool) -> None:
    with found(job, storage) as store:
        said = keeping.label(store, number, label)
    told("label", Reply(Outcome.DONE, said, number), as_json=as_json)
