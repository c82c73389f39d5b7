"""Write-ahead sinks: rows are staged with the checkpoint, and applied to the other side after it is complete.

One rule: the rows of a partition and the marker that says so go to the other side in one transaction of its own. So a
partition is applied once, however often it is tried, and any outage of the other side only delays it.
"""

import re
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import cast

import pyarrow as pa
from pyarrow import parquet

from headgate.checksums import damage
from headgate.core.ids import CheckpointId, Generation, SinkId
from headgate.errors import BadStorage
from headgate.sink.api import Guarantee
from headgate.sink.committable import CommittableFile, StagedCommittable
from headgate.sink.partitions import on_executors
from headgate.sink.staged import StagedSink, refusal

BATCH_ROWS = 65_536
_PARTITION = re.compile(r"part-(\d+)-")


@dataclass(frozen=True)
class WriteAheadBatch:
    """What one partition of a commit applies."""

    job: str
    sink: SinkId
    incarnation: str
    partition: int
    mark: tuple[Generation, CheckpointId]
    """Which commit it is. The marks of one partition only grow."""
    files: tuple[str, ...]
    facts: tuple[tuple[int, int | None], ...] = ()
    """Size and checksum of each file, as pre-committed."""

    @property
    def owner(self) -> str:
        """Whose marker: one for each partition of each sink of each incarnation of a job."""
        return f"{self.job}/{self.sink}/{self.incarnation}/{self.partition}"

    def record_batches(self, rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """The rows, in the order of batches.

        A file that is not what was pre-committed is refused before its first row.
        """
        facts = dict(zip(self.files, self.facts, strict=False))
        for path in self.files:
            if path in facts and (wrong := damage(Path(path), *facts[path])):
                raise BadStorage(refusal(self.sink, self.mark[1], wrong))
            try:
                # Spark may have written the old form of timestamps, of which nanoseconds hold only some centuries.
                file = parquet.ParquetFile(path, coerce_int96_timestamp_unit="us")
            except FileNotFoundError as error:
                raise BadStorage(
                    f"sink {self.sink}: {path} is gone, which checkpoint {self.mark[1]} pre-committed and nobody has "
                    "applied: put it back from a copy"
                ) from error
            except pa.ArrowInvalid as error:
                raise BadStorage(f"sink {self.sink}: {path} is damaged ({error}): restore it from a copy") from error
            with file:
                yield from file.iter_batches(batch_size=rows)


class WriteAheadSink(StagedSink):
    """A sink that applies rows to another system with transactions. A subclass says ``apply``, and the rest as usual.

    ``parallelism``: how many write-ahead batches a commit applies side by side. Rows of one of Spark's partitions stay
    in one of them, in order.
    """

    def __init__(self, parallelism: int = 1) -> None:
        """How many write-ahead batches a commit."""
        self._parallelism = parallelism

    @property
    def guarantee(self) -> Guarantee:
        """Every row once."""
        return Guarantee.EXACTLY_ONCE

    @abstractmethod
    def apply(self, batch: WriteAheadBatch) -> None:
        """Apply a write-ahead batch, once: on an executor, in a copy of the sink that was pickled and not opened.

        In one transaction of the other side: if the marker of ``batch.owner`` is at ``batch.mark`` or past it, do
        nothing; otherwise write all rows of ``batch.record_batches()`` and set the marker. It may be called at any time
        for what was applied long ago, and while another process applies the same: the transactions must not both
        succeed.
        """

    def publish(self, pre_committed: StagedCommittable) -> None:
        """Have executors apply every partition that has rows."""
        partitions: dict[int, list[tuple[Path, CommittableFile]]] = {}
        parallelism = pre_committed.parallelism or self._parallelism
        for path, file in self._pre_committed_files(pre_committed):
            partitions.setdefault(_partition(path) % parallelism, []).append((path, file))
        mark = (pre_committed.generation, pre_committed.checkpoint)
        batches = []
        for partition, found in sorted(partitions.items()):
            files = tuple(str(path) for path, _ in found)
            facts = tuple((file.size, file.checksum) for _, file in found)
            batches.append(
                WriteAheadBatch(pre_committed.job, pre_committed.sink, self._incarnation, partition, mark, files, facts)
            )
        on_executors(batches, partial(_apply, self))


def _partition(path: Path) -> int:
    """The number that Spark has given to the partition of a file."""
    return int(cast("re.Match[str]", _PARTITION.match(path.name))[1])


def _apply(sink: WriteAheadSink, batch: WriteAheadBatch) -> str:
    sink.apply(batch)
    return ""
