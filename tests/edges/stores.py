"""Storages for the tests of what is kept in them."""

from pathlib import Path

from headgate.channel.segments import Segments
from headgate.core.events import Event
from headgate.core.ids import Batch, ChannelId, CheckpointId, Generation, LeaderId, Run, TaskId
from headgate.core.records import CompletedCheckpoint, InFlight, Kind, TaskSnapshot
from headgate.run.loop import Observation
from headgate.run.storage import Storage
from headgate.snapshot.take import Snapshots
from headgate.store.jobstore import JobStore
from headgate.store.local import LocalStore

UP, DOWN = TaskId("up"), TaskId("down")
ONE, TWO = ChannelId("one.0"), ChannelId("two.0")
US = LeaderId("us")
FIRST, SECOND = Generation(1), Generation(2)


class Remote(LocalStore):
    """A storage that is not a directory of this machine, as far as anybody can tell."""

    @property
    def local_root(self) -> Path:
        return None  # type: ignore[return-value]


def open_job(place: Path, *, remote: bool = False) -> JobStore:
    return JobStore.open(Remote(place) if remote else LocalStore(place), "job")


class Heard:
    """A storage under orders, and what it tells."""

    def __init__(self, store: JobStore, root: Path | None = None) -> None:
        here = root if root is not None else store.local_root
        assert here is not None
        self.root = here
        self.store = store
        self.told: list[Event | Observation] = []
        self.committed = True
        self.snapshots = Snapshots(self.root, None if self.root == store.local_root else store.copy_in)
        self.storage = Storage(store, self.root, self.snapshots, self.told.append, lambda _: self.committed)

    def last(self) -> Event | Observation:
        return self.told[-1]

    def warnings(self) -> list[str]:
        return [note.fields["text"] for note in self.told if isinstance(note, Observation) and note.kind == "warning"]


def completed(
    number: int,
    *,
    generation: int = 1,
    batches: dict[TaskId, int] | None = None,
    files: dict[TaskId, tuple[str, ...]] | None = None,
    in_flight: dict[ChannelId, tuple[int, int]] | None = None,
    kind: Kind = Kind.CHECKPOINT,
) -> CompletedCheckpoint:
    """A checkpoint of the tasks ``up`` and ``down``."""
    return CompletedCheckpoint(
        id=CheckpointId(number),
        generation=Generation(generation),
        leader=US,
        kind=kind,
        tasks=tuple(
            TaskSnapshot(
                task=task,
                operators=(),
                stateful=(),
                partitions=1,
                generation=Generation(generation),
                batch=Batch(batch),
                positions=(),
                finished=False,
                files=(files or {}).get(task, ()),
            )
            for task, batch in (batches or {UP: 0}).items()
        ),
        channels=tuple(
            InFlight(channel, UP, DOWN, Batch(after), Batch(through))
            for channel, (after, through) in (in_flight or {}).items()
        ),
        transactions=(),
    )


def segment(root: Path, batch: int, *channels: ChannelId, generation: int = 1, run: int = 1) -> Path:
    """A segment of the task ``up``, entered for some of its readers."""
    directory = root / f"channels/up/g{generation}"
    where = directory / str(batch) / f"r{run}"
    where.mkdir(parents=True, exist_ok=True)
    (where / "part.parquet").write_text(f"rows of batch {batch}", encoding="utf-8")
    for channel in channels:
        Segments(directory, channel).commit(Batch(batch), Run(run))
    return where / "part.parquet"
