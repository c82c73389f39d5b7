"""The state of a kept checkpoint: whose it is, and its files as a checkpoint directory that Spark's reader takes.

One rule: files of the checkpoint stay where they are. On this machine the directory has links to them; a checkpoint
that is subsumed meanwhile takes them away, and whoever reads is told so. Of a storage elsewhere they are copied, up to
a bound.
"""

import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from headgate import layout
from headgate.browse.reader import KeptOperator
from headgate.core.ids import CheckpointId
from headgate.core.records import CompletedCheckpoint, TaskSnapshot
from headgate.errors import InvalidOption
from headgate.processes import is_alive
from headgate.redact import redact
from headgate.snapshot.files import FileFacts, tables_of
from headgate.snapshot.rebuild import INSIDE
from headgate.store.api import Missing
from headgate.store.jobstore import JobStore

TIMERS = "timers"
LEFT, RIGHT = "left", "right"
ALL = "all"
"""The only state of an operator that has one."""
JOIN = "symmetricHashJoin"
INTERNAL = "$"
"""So begin the names of what Spark keeps for itself."""
MADE = "headgate-state-"
"""So begin the names of directories that are made here. The process that made one comes next."""
COPIED_VARIABLE = "HEADGATE_STATE_COPY_MB"
COPIED_MB = 1024
"""As much of the state of one operator is copied at most, unless somebody says otherwise."""
GONE = "checkpoint {number} is not kept: {kept}"


@dataclass(frozen=True)
class KeptCheckpoint:
    """One of them."""

    number: int
    tasks: tuple[TaskSnapshot, ...]
    table: Mapping[str, FileFacts]
    """How large its files are."""

    def snapshot_of(self, operator: KeptOperator) -> TaskSnapshot:
        """The part of the task that an operator is in."""
        return next(each for each in self.tasks if each.task == operator.task)


def newest(store: JobStore) -> int:
    """The newest checkpoint that is kept."""
    kept = _kept(store)
    if not kept:
        raise InvalidOption(f"job {store.job} has no checkpoint yet: there is no state to look at")
    return kept[-1]


def find(store: JobStore, number: int) -> KeptCheckpoint:
    """A kept checkpoint."""
    try:
        record, extra = store.read_record(CheckpointId(number))
    except Missing:
        record, extra = None, {}
    if not isinstance(record, CompletedCheckpoint):
        there = ", ".join(map(str, _kept(store)[-20:]))
        kept = f"kept are {there}" if there else "there is none"
        raise InvalidOption(GONE.format(number=number, kept=kept))
    return KeptCheckpoint(number, record.tasks, tables_of([extra]))


def _kept(store: JobStore) -> list[int]:
    return sorted(each.id for each in store.read_checkpoint_log() if isinstance(each, CompletedCheckpoint))


def operators(store: JobStore, checkpoint: KeptCheckpoint) -> list[KeptOperator]:
    """Of which operators it has state. Small files alone are read."""
    return [found for snapshot in checkpoint.tasks for found in _operators_of(store, snapshot)]


def same(store: JobStore, checkpoint: KeptCheckpoint, operator: KeptOperator) -> KeptOperator:
    """The operator of that name as this checkpoint has it: another generation may number it otherwise."""
    there = operators(store, checkpoint)
    for each in there:
        if each.name == operator.name:
            return each
    names = ", ".join(each.name for each in there) or "none"
    raise InvalidOption(f"checkpoint {checkpoint.number} has no state of operator {operator.name}; it has: {names}")


def _operators_of(store: JobStore, snapshot: TaskSnapshot) -> Iterator[KeptOperator]:
    described: dict[int, str] = {}
    for name in sorted(snapshot.files, key=_version):
        number = layout.describes_operator(INSIDE.sub("", name))
        if number is not None:
            described[number] = name  # The newest.
    uids = tuple(map(str, snapshot.stateful))
    sole = len(described) == len(uids) == 1
    for number, name in sorted(described.items()):
        about = layout.parse_operator(store.read(name), f"{store.uri}/{name}")
        yield KeptOperator(
            name=uids[0] if sole else f"{snapshot.task}/{number}",
            task=str(snapshot.task),
            number=number,
            kind=about.kind,
            partitions=about.partitions,
            states=states_of(about),
            uids=uids,
        )


def states_of(about: layout.OperatorState) -> tuple[str, ...]:
    """What can be read of an operator."""
    if about.variables is not None:
        named = tuple(name for name in about.variables if not name.startswith(INTERNAL))
        return (*named, TIMERS) if about.has_timers else named
    return (LEFT, RIGHT) if about.kind == JOIN else (ALL,)


def _version(name: str) -> tuple[str, int]:
    folder, _, last = name.rpartition("/")
    return folder, int(last) if last.isdecimal() else -1


@contextmanager
def materialized(
    store: JobStore,
    checkpoint: KeptCheckpoint,
    operator: KeptOperator,
    beside: Path | None,
    go_on: Callable[[], None] = lambda: None,
) -> Iterator[Path]:
    """A directory like a query's at the batch of a snapshot, with the state of one operator. It goes with the block.

    ``beside`` is where it is made; None: where this machine keeps what is temporary. ``go_on`` is called before each
    file, and raises if there is no time left for it.
    """
    names = wanted(checkpoint.snapshot_of(operator).files, operator.number)
    if store.local_root is None:
        _refuse_much(sum(checkpoint.table[name].size for name in names), store, checkpoint, operator)
    if beside is not None:
        beside.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f"{MADE}{os.getpid()}-", dir=beside) as made:
        query = Path(made)
        for name in names:
            go_on()
            target = query / INSIDE.sub("", name)
            target.parent.mkdir(parents=True, exist_ok=True)
            if store.local_root is not None:
                target.symlink_to(store.local_root / name)
            else:
                store.copy_out(name, target)
        layout.relocate(query)
        yield query


def clean(beside: Path | None) -> None:
    """Delete what processes have left that were killed while they read. ``beside`` is of one job, which is this one."""
    for left in Path(tempfile.gettempdir() if beside is None else beside).glob(f"{MADE}*"):
        maker = left.name.removeprefix(MADE).partition("-")[0]
        if beside is not None or (maker.isdecimal() and not is_alive(int(maker))):
            shutil.rmtree(left, ignore_errors=True)


def _refuse_much(size: int, store: JobStore, checkpoint: KeptCheckpoint, operator: KeptOperator) -> None:
    given = os.environ.get(COPIED_VARIABLE, "")
    most_mb = int(given) if given.isascii() and given.isdecimal() and len(given) < 10 else COPIED_MB
    if size > most_mb << 20:
        raise InvalidOption(
            f"the state of operator {operator.name} in checkpoint {checkpoint.number} has {size / 2**20:.0f} MB of "
            f"files in {redact(store.uri)}, and to be read they are copied: at most {most_mb} MB of them are; make "
            f"room, and set {COPIED_VARIABLE} to more in the environment of the process that reads"
        )


def wanted(files: Sequence[str], operator: int) -> list[str]:
    """Of the files of a snapshot, those without which one operator's state cannot be read."""
    others = re.compile(rf"state/(?!{operator}/)\d+/")
    return [name for name in files if not others.match(INSIDE.sub("", name))]
