"""Before anything starts: who leads, where to begin, and whether what is there is whole.

One rule: nothing in the storage changes before all of it is clear. Then a savepoint from elsewhere is brought in: a
epoch record first, and then it is published as any checkpoint. It is the newest record of the checkpoint log, or was
never there.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from pyspark.sql import SparkSession

from headgate.core import recovery
from headgate.core.errors import NotRestorable
from headgate.core.graph import Graph
from headgate.core.ids import CheckpointId, Generation, OperatorUid, SinkId
from headgate.core.records import CompletedCheckpoint, Record, Restore
from headgate.errors import BadStorage, InvalidJob, InvalidOption
from headgate.run import fit, savepoints
from headgate.run.control import ControlClient
from headgate.snapshot.files import Reading, check, tables_of
from headgate.store.api import Missing, open_store
from headgate.store.jobstore import JobStore

SHOWN_MAX = 3
VERIFY = ("full", "size", "none")
"""How the files of the checkpoint are looked at before the job begins: by content, by size, or not at all."""
SHOW_FIRST_S = 2.0
SHOW_AGAIN_S = 5.0
"""A check that takes longer is shown, and again this often."""


class RestoreOptions(Protocol):
    """What the user says about where to begin."""

    @property
    def restore_from(self) -> str | None: ...  # noqa: D102
    @property
    def fallback(self) -> bool: ...  # noqa: D102
    @property
    def claim(self) -> bool: ...  # noqa: D102
    @property
    def takeover(self) -> bool: ...  # noqa: D102
    @property
    def allow_non_restored_state(self) -> bool: ...  # noqa: D102
    @property
    def abandon_commits(self) -> tuple[str, ...]: ...  # noqa: D102
    @property
    def renamed(self) -> tuple[tuple[str, str], ...]: ...  # noqa: D102
    @property
    def verify(self) -> str: ...  # noqa: D102


@dataclass(frozen=True)
class RestorePlan:
    """Where a job begins: at a checkpoint of its own, or at a savepoint that is to be brought in first."""

    restore: Restore
    imported: savepoints.ImportedSavepoint | None = None
    base: CompletedCheckpoint | None = None
    """The checkpoint of its own."""


def is_remote(place: str) -> bool:
    """Whether a place is reached through Spark."""
    return "://" in place and not place.startswith("file:")


def choose(store: JobStore, restore_options: RestoreOptions, spark: SparkSession | None = None) -> RestorePlan:
    """Where the job begins, as far as can be said without reading all files. Nothing is written.

    ``spark`` reaches a savepoint that is not on this machine.
    """
    if restore_options.verify not in VERIFY:
        raise InvalidOption(f"verify={restore_options.verify!r}: give one of {', '.join(VERIFY)}")
    refuse_second(store, takeover=restore_options.takeover)
    found = _wanted(store, restore_options.restore_from, spark)
    imported, wanted = (found, None) if isinstance(found, savepoints.ImportedSavepoint) else (None, found)
    if restore_options.claim and imported is None:
        raise InvalidOption("--claim is for a savepoint from elsewhere: give its directory with --from DIR")
    records, base = (
        _whole_by_sizes(store, wanted, restore_options) if imported is None else (store.read_checkpoint_log(), None)
    )
    restore = _restore(records, base, wanted, restore_options)
    _refuse_needless(records, restore)
    return RestorePlan(restore, imported, base)


@contextlib.contextmanager
def confirming(
    store: JobStore, restore_options: RestoreOptions, restore_plan: RestorePlan, show: Callable[[dict[str, Any]], None]
) -> Iterator["Future[RestorePlan]"]:
    """Read all files of the checkpoint beside whatever else is done meanwhile, and say how far that has come.

    The future has where the job begins, once it is clear that it can.
    """
    reading = Reading()
    over = threading.Event()
    with ThreadPoolExecutor(max_workers=2, thread_name_prefix="headgate-confirm") as pool:
        try:
            done = pool.submit(_confirm, store, restore_options, restore_plan, reading)
            done.add_done_callback(lambda _: over.set())
            pool.submit(_show, store, restore_plan, reading, over, show)
            yield done
        finally:
            over.set()
            reading.give_up()  # Nobody waits for it when something else has ended the start.


def _confirm(
    store: JobStore, restore_options: RestoreOptions, restore_plan: RestorePlan, reading: Reading
) -> RestorePlan:
    while (
        (chosen := restore_plan.base) is not None and restore_options.verify == "full" and store.local_root is not None
    ):
        records = store.read_checkpoint_log()
        try:
            base = _whole(store, records, chosen, restore_options, reading)
        except BadStorage:
            # Whoever still leads goes on, and deletes what it no longer needs: then its newest checkpoint counts.
            newest = recovery.choose(store.read_checkpoint_log(), restore_plan.restore.checkpoint)
            if newest is None or newest.id == chosen.id:
                raise
            restore_plan = choose(store, restore_options)
            continue
        if base.id == chosen.id:
            return restore_plan
        return RestorePlan(_restore(records, base, restore_plan.restore.checkpoint, restore_options), None, base)
    return restore_plan


def _show(
    store: JobStore,
    restore_plan: RestorePlan,
    reading: Reading,
    over: threading.Event,
    show: Callable[[dict[str, Any]], None],
) -> None:
    if restore_plan.base is None or over.wait(SHOW_FIRST_S):
        return
    of = sum(facts.size for facts in tables_of([store.read_record(restore_plan.base.id)[1]]).values())
    while not over.is_set():
        show({"event": "checking", "checkpoint": restore_plan.base.id, "bytes": reading.bytes, "of_bytes": of})
        over.wait(SHOW_AGAIN_S)


def _restore(
    records: tuple[Record, ...],
    base: CompletedCheckpoint | None,
    wanted: CheckpointId | None,
    restore_options: RestoreOptions,
) -> Restore:
    if base is not None and base.id != recovery.latest(records):
        wanted = base.id
    return Restore(
        again=True,
        checkpoint=wanted,
        renamed=tuple((OperatorUid(old), OperatorUid(new)) for old, new in restore_options.renamed),
        allow_non_restored=restore_options.allow_non_restored_state,
        abandon=tuple(SinkId(sink) for sink in restore_options.abandon_commits),
    )


def settle(
    store: JobStore,
    graph: Graph,
    restore_plan: RestorePlan,
    backend: str | None = None,
    schemas: fit.CheckSchemas = lambda *_: None,
) -> Restore:
    """Let the core say whether the job fits the checkpoint it begins from, and see that Spark would go on with its
    state in ``backend``, as ``schemas`` finds it; then bring in a savepoint from elsewhere.

    The core says so again when it leads.
    """
    imported, restore = restore_plan.imported, restore_plan.restore
    read = store.read if imported is None else imported.read
    looked_at: CheckpointId | None = None
    while True:
        records = store.read_checkpoint_log() if imported is None else savepoints.foresee(store, imported)
        try:
            plan = recovery.plan(graph, records, restore, Generation(1))
        except NotRestorable as error:
            raise InvalidJob(f"job {store.job}: {error}") from error
        try:
            why = fit.refused(graph, plan, restore, backend, read, schemas)
        except Missing as error:
            # Whoever still leads goes on, and deletes what it no longer needs: then its newest checkpoint counts.
            base = None if plan.base is None else plan.base.id
            if imported is not None or base == looked_at:
                raise BadStorage(
                    f"job {store.job}: checkpoint {base} names a file that is not there: {error}"
                ) from error
            looked_at = base
            continue
        if why is not None:
            raise InvalidJob(f"job {store.job}: {why}")
        return restore if imported is None else replace(restore, checkpoint=savepoints.publish(store, imported))


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


def _wanted(
    store: JobStore, text: str | None, spark: SparkSession | None
) -> savepoints.ImportedSavepoint | CheckpointId | None:
    if text is None or text == "latest":
        return None
    if text.isdecimal():
        return CheckpointId(int(text))
    if is_remote(text):
        return savepoints.prepare_from(store, open_store(text, spark))
    path = Path(text.removeprefix("file://"))
    if not path.is_dir():
        raise InvalidOption(f"--from {text}: give latest, the number of a checkpoint, or the directory of a savepoint")
    return savepoints.prepare(store, path)


def _whole_by_sizes(
    store: JobStore, wanted: CheckpointId | None, restore_options: RestoreOptions
) -> tuple[tuple[Record, ...], CompletedCheckpoint | None]:
    """The records of the checkpoint log, and the checkpoint to begin at, as far as the sizes of its files tell."""
    looked_at: CheckpointId | None = None
    while True:
        records = store.read_checkpoint_log()
        base = recovery.choose(records, wanted)
        if base is None or restore_options.verify == "none" or not _wrong(store, base, None):
            return records, base
        if base.id == looked_at:
            return records, _whole(store, records, base, restore_options, Reading())
        # Whoever still leads goes on, and deletes what it no longer needs: then its newest checkpoint counts.
        looked_at = base.id


def _whole(
    store: JobStore,
    records: tuple[Record, ...],
    base: CompletedCheckpoint,
    restore_options: RestoreOptions,
    reading: Reading,
) -> CompletedCheckpoint:
    """The checkpoint, if all its files are whole; with ``fallback``, else the newest one before it that is."""
    content = reading if restore_options.verify == "full" else None
    wrong = _wrong(store, base, content)
    if not wrong:
        return base
    older = [r for r in reversed(records) if isinstance(r, CompletedCheckpoint) and r.id < base.id]
    good = next((each for each in older if not _wrong(store, each, content)), None)
    if good is not None and restore_options.fallback:
        return good
    shown = "; ".join(wrong[:SHOWN_MAX]) + (f"; and {len(wrong) - SHOWN_MAX} more" if len(wrong) > SHOWN_MAX else "")
    offer = (
        "there is no older checkpoint that is whole"
        if good is None
        else f"checkpoint {good.id} is whole: use --from {good.id}, or --fallback"
    )
    raise BadStorage(f"checkpoint {base.id} cannot be restored: {shown}. {offer}")


def _wrong(store: JobStore, checkpoint: CompletedCheckpoint, reading: Reading | None) -> list[str]:
    """What is wrong with a checkpoint's files: by their sizes, and with ``reading`` by what is in them."""
    try:
        _, extra = store.read_record(checkpoint.id)
    except Missing as error:  # Whoever still leads has gone on, and deleted it.
        return [str(error)]
    table = tables_of([extra])
    if store.local_root is not None:
        return check(store.local_root, table, whole=reading is not None, reading=reading)
    sizes = {entry.path: entry.size for entry in store.list()}
    return [
        f"{store.uri}/{name} is gone or cut short" for name, facts in table.items() if sizes.get(name) != facts.size
    ]
