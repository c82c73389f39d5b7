"""Which run wrote what counts of each batch.

One rule: every committed batch has a run that wrote it, or is known to be past. One of which neither is known is an
internal error: to pass it over would lose its rows.

Only this process knows: whoever leads next begins a generation of its own, from a checkpoint.
"""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from headgate.core.ids import NO_BATCH, Batch, Generation, Run, TaskId
from headgate.errors import InternalError


class Past(Enum):
    """Why nobody needs to know any more which run wrote a batch."""

    RESTORED = "restored"
    """An earlier generation wrote it: this one began behind it, from a checkpoint."""
    SETTLED = "settled"
    """All who read it have it: every sink of the task has committed it, and it is in the log of every reader."""


@dataclass(frozen=True)
class Kept:
    """What is known of the batches of one task in one generation."""

    restored_through: Batch = NO_BATCH
    settled_through: Batch = NO_BATCH
    runs: Mapping[Batch, Run] = field(default_factory=dict)


class BatchRuns:
    """Of all tasks of a process. Hook and serial executors get whole maps: none is changed in place."""

    def __init__(self) -> None:
        """Nothing has run yet."""
        self._lock = threading.Lock()
        self._kept: dict[tuple[Generation, TaskId], Kept] = {}

    def restore(self, generation: Generation, task: TaskId, through: Batch) -> None:
        """A task begins a generation behind this batch."""
        with self._lock:
            self._kept[generation, task] = Kept(restored_through=through)

    def write(self, generation: Generation, task: TaskId, batch: Batch, run: Run) -> None:
        """A run is about to write a batch. What earlier runs wrote for it does not count."""
        with self._lock:
            kept = self._of(generation, task)
            self._kept[generation, task] = replace(kept, runs={**kept.runs, batch: run})

    def settle(self, generation: Generation, task: TaskId, through: Batch) -> None:
        """Nobody asks for batches through this one again: keep what is remembered from growing."""
        with self._lock:
            kept = self._of(generation, task)
            runs = {batch: run for batch, run in kept.runs.items() if batch > through}
            settled = max(kept.settled_through, through)
            self._kept[generation, task] = replace(kept, settled_through=settled, runs=runs)

    def runs(self, generation: Generation, task: TaskId, through: Batch) -> Mapping[Batch, Run]:
        """The run of each committed batch through this one that is not past. ``InternalError`` if one is not known."""
        with self._lock:
            kept = self._of(generation, task)
        past = max(kept.restored_through, kept.settled_through)
        batches = [Batch(number) for number in range(past + 1, through + 1)]
        found = {batch: _run_of(kept, generation, task, batch) for batch in batches}
        return {batch: run for batch, run in found.items() if not isinstance(run, Past)}

    def run_of(self, generation: Generation, task: TaskId, batch: Batch) -> Run | Past:
        """The run that wrote what counts of a committed batch: the last that was in its hook.

        ``InternalError`` if it is not known.
        """
        with self._lock:
            kept = self._of(generation, task)
        return _run_of(kept, generation, task, batch)

    def _of(self, generation: Generation, task: TaskId) -> Kept:
        return self._kept.get((generation, task), Kept())


def _run_of(kept: Kept, generation: Generation, task: TaskId, batch: Batch) -> Run | Past:
    if batch in kept.runs:
        return kept.runs[batch]
    if batch <= kept.restored_through:
        return Past.RESTORED
    if batch <= kept.settled_through:
        return Past.SETTLED
    raise InternalError(
        f"batch {batch} of task {task} is committed, and no run is known to have written it in generation "
        f"{generation}, which began behind batch {kept.restored_through} and is settled through "
        f"{kept.settled_through}. This is an error in Headgate, please report it"
    )
