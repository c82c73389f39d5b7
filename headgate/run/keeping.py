"""Checkpoints and savepoints of a job that users keep, and what they call them.

One rule: what is kept is the leader's to know. While a job runs it is asked, so here holds are set only of a job at
rest, and taken back if somebody begins to lead meanwhile. A label explains and decides nothing: anybody may set one.
"""

from headgate.core.ids import CheckpointId
from headgate.core.records import CompletedCheckpoint, Kind
from headgate.errors import InvalidOption
from headgate.store.api import Missing
from headgate.store.jobstore import JobStore

LABEL_MAX = 200
"""Characters of a label."""


def hold_at_rest(store: JobStore, number: CheckpointId, *, held: bool) -> str:
    """Keep a checkpoint of a job that nobody runs, or no longer. Returns what to tell."""
    newest = store.newest()
    there = [record.id for record in store.read_checkpoint_log() if isinstance(record, CompletedCheckpoint)]
    if number not in there:
        known = ", ".join(map(str, there)) or "none"
        raise InvalidOption(f"checkpoint {number} cannot be held or released: it is not there; there are: {known}")
    before = number in store.held()
    store.set_hold(number, held=held)
    if store.newest() != newest:  # Whoever leads now may have read the holds before this, and deletes by those.
        store.set_hold(number, held=before)
        raise InvalidOption(f"job {store.job} was started meanwhile: ask again")
    return f"checkpoint {number} is {'held' if held else 'no longer held'}"


def label(store: JobStore, number: CheckpointId, text: str) -> str:
    """Call a savepoint something; an empty text takes its label away. Returns what to tell."""
    said = " ".join(text.split())
    if len(said) > LABEL_MAX or not said.isprintable():
        raise InvalidOption(f"label {said[:40]!r}: give at most {LABEL_MAX} printable characters")
    if not _is_savepoint(store, number):
        raise InvalidOption(f"savepoint {number} is not labelled: there is no such savepoint")
    store.set_label(number, said)
    return f"savepoint {number} is labelled {said!r}" if said else f"savepoint {number} has no label"


def _is_savepoint(store: JobStore, number: CheckpointId) -> bool:
    try:
        record, _ = store.read_record(number)
    except Missing:
        return number in store.copied()
    return isinstance(record, CompletedCheckpoint) and record.kind is Kind.SAVEPOINT
