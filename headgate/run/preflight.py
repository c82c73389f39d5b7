"""Before anything starts: who leads, where to begin, and whether what is there is whole.

One rule: nothing in the storage changes before all of it is clear. Then a savepoint from elsewhere is brought in: a
fence first, and then it is published as any checkpoint. It is the newest record of the chain, or was never there.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from headgate.core import recovery
from headgate.core.errors import NotRestorable
from headgate.core.graph import Graph
from headgate.core.ids import CheckpointId, Generation, OperatorUid, SinkId
from headgate.core.records import CompletedCheckpoint, Record, Restore
from headgate.errors import BadStorage, InvalidJob, InvalidOption
from headgate.run import savepoints
from headgate.run.control import ControlClient
from headgate.snapshot.files import check, tables_of
from headgate.store.jobstore import JobStore

SHOWN_MAX = 3


class Wishes(Protocol):
    """What the user says about where to begin."""

    @property
    def restore_from(self) -> str | None: ...  # noqa: D102
    @property
    def fallback(self) -> bool: ...  # noqa: D102
    @property
    def takeover(self) -> bool: ...  # noqa: D102
    @property
    def allow_non_restored_state(self) -> bool: ...  # noqa: D102
    @property
    def abandon_commits(self) -> tuple[str, ...]: ...  # noqa: D102
    @property
    def renamed(self) -> tuple[tuple[str, str], ...]: ...  # noqa: D102


@dataclass(frozen=True)
class Beginning:
    """Where a job begins: at a checkpoint of its own, or at a savepoint that is to be brought in first."""

    restore: Restore
    brought: savepoints.Brought | None = None


def choose(store: JobStore, wishes: Wishes) -> Beginning:
    """Where the job begins, once it is clear that it can. Nothing is written."""
    refuse_second(store, takeover=wishes.takeover)
    found = _wanted(store, wishes.restore_from)
    brought, wanted = (found, None) if isinstance(found, savepoints.Brought) else (None, found)
    records = store.read_chain()
    if brought is None:
        base = recovery.choose(records, wanted)
        if base is not None:
            base = _whole(store, records, base, fallback=wishes.fallback)
            wanted = base.id if base.id != recovery.latest(records) else wanted
    restore = Restore(
        again=True,
        checkpoint=wanted,
        renamed=tuple((OperatorUid(old), OperatorUid(new)) for old, new in wishes.renamed),
        allow_non_restored=wishes.allow_non_restored_state,
        abandon=tuple(SinkId(sink) for sink in wishes.abandon_commits),
    )
    _refuse_needless(records, restore)
    return Beginning(restore, brought)


def settle(store: JobStore, graph: Graph, beginning: Beginning) -> Restore:
    """Let the core say whether the job fits the checkpoint it begins from; then bring in a savepoint from elsewhere.

    The core says so again when it leads.
    """
    brought, restore = beginning.brought, beginning.restore
    records = store.read_chain() if brought is None else savepoints.foresee(store, brought)
    try:
        recovery.plan(graph, records, restore, Generation(1))
    except NotRestorable as error:
        raise InvalidJob(f"job {store.job}: {error}") from error
    return restore if brought is None else replace(restore, checkpoint=savepoints.publish(store, brought))


def _refuse_needless(records: tuple[Record, ...], restore: Restore) -> None:
    """Only what is owed can be given up."""
    owing = {transaction.sink: None for _, transaction in recovery.owed(records)}
    for sink in restore.abandon:
        if sink not in owing:
            raise InvalidOption(
                f"--abandon-commits {sink}: that sink owes no commit; those that do: {', '.join(owing) or 'none'}"
            )


def refuse_second(store: JobStore, *, takeover: bool) -> None:
    """Two processes do not run one job, unless the second means to."""
    there = ControlClient(store).ping()
    if there is not None and not takeover:
        raise InvalidOption(
            f"job {store.job} is running already (process {there['pid']}): stop it first, or use --takeover to lead "
            "in its place"
        )


def _wanted(store: JobStore, text: str | None) -> savepoints.Brought | CheckpointId | None:
    if text is None or text == "latest":
        return None
    if text.isdecimal():
        return CheckpointId(int(text))
    path = Path(text.removeprefix("file://"))
    if not path.is_dir():
        raise InvalidOption(f"--from {text}: give latest, the number of a checkpoint, or the directory of a savepoint")
    return savepoints.prepare(store, path)


def _whole(
    store: JobStore, records: tuple[Record, ...], base: CompletedCheckpoint, *, fallback: bool
) -> CompletedCheckpoint:
    """The checkpoint, if all its files are whole; with ``fallback``, else the newest one before it that is."""
    wrong = _wrong(store, base)
    if not wrong:
        return base
    older = [r for r in reversed(records) if isinstance(r, CompletedCheckpoint) and r.id < base.id]
    good = next((each for each in older if not _wrong(store, each)), None)
    if good is not None and fallback:
        return good
    shown = "; ".join(wrong[:SHOWN_MAX]) + (f"; and {len(wrong) - SHOWN_MAX} more" if len(wrong) > SHOWN_MAX else "")
    offer = (
        "there is no older checkpoint that is whole"
        if good is None
        else f"checkpoint {good.id} is whole: use --from {good.id}, or --fallback"
    )
    raise BadStorage(f"checkpoint {base.id} cannot be restored: {shown}. {offer}")


def _wrong(store: JobStore, checkpoint: CompletedCheckpoint) -> list[str]:
    _, extra = store.read_record(checkpoint.id)
    table = tables_of([extra])
    if store.local_root is not None:
        return check(store.local_root, table)
    sizes = {entry.path: entry.size for entry in store.list()}
    return [
        f"{store.uri}/{name} is gone or cut short" for name, facts in table.items() if sizes.get(name) != facts.size
    ]
