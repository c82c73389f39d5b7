"""A sink whose rows wait in files until their checkpoint is complete.

One rule: Spark writes every batch into a place of its own, out of readers' sight; each file is read once, as it is
flushed, for its checksum; a pre-commit only lists what is there. What the files become is for ``publish`` to say, and
nothing is published that is not what was pre-committed.
"""

import time
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame

from headgate import room
from headgate.access import make_directory
from headgate.checksums import damage, in_parallel, measure_all
from headgate.core.ids import CheckpointId, Generation
from headgate.durable import directories, force
from headgate.errors import BadStorage, ExternalError, InvalidOption
from headgate.sink.api import AbortScope, SinkContext, StagedFile, StaleGenerations, TwoPhaseSink, WriteId
from headgate.sink.committable import CommittableFile, CommittablePart, StagedCommittable
from headgate.sink.staging import Staging, data_files, discard
from headgate.sink.tally import wrote

WRITER_OPTIONS = {
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    # The other algorithm lets a task that was given up for dead still put its file in place, maybe after the
    # pre-commit.
    "mapreduce.fileoutputcommitter.algorithm.version": "1",
    "partitionOverwriteMode": "static",
}


class StagedSink(TwoPhaseSink):
    """A sink that stages Parquet files with the checkpoint, and has them published after its completion.

    A subclass says ``guarantee``, ``describe`` and ``publish``, and opens what it needs in ``_open``.
    """

    _opened: Staging | None = None
    _context: SinkContext | None = None
    _parallelism: int = 0
    """See ``StagedCommittable.parallelism``."""
    _beside: tuple[str, ...] = ()
    """Names of files in each part that has rows, which a commit needs besides."""

    @abstractmethod
    def publish(self, pre_committed: StagedCommittable) -> None:
        """Show what was pre-committed. As ``commit``: a repeat is harmless at any time, and what is gone is never
        passed over.

        When it returns, what was pre-committed needs its files no more.
        """

    def _open(self, context: SinkContext) -> None:
        """Check that the other side can work. See ``open``."""

    def _prepare(self, dataframe: DataFrame) -> DataFrame:
        """The rows as they are staged. It must not compute anything by itself."""
        return dataframe

    def open(self, context: SinkContext) -> None:
        """Check the other side, and see that the staging directory can be written."""
        if context.staging is None:
            raise InvalidOption(f"sink {context.sink}: it stages rows, and was given no directory for that")
        self._open(context)
        self._context = context
        self._opened = Staging(context.staging, context.job, context.sink)
        with external(f"sink {context.sink}: cannot make {self._opened.root}"):
            make_directory(self._opened.root, context.directory_mode)

    def begin_transaction(self, write_id: WriteId) -> None:
        """Remove what an attempt of the same name left, if there was one."""
        with external(f"sink {write_id.sink}: cannot begin batch {write_id.batch}"):
            self._staging.root.stat()  # Spark would make a new one where a file system is no longer mounted
            self._discard(write_id)

    def invoke(self, write_id: WriteId, dataframe: DataFrame) -> None:
        """Have Spark write the batch into its own part of the staging directory; then force it to the disk."""
        part = self._staging.part(write_id)
        try:
            self._write(dataframe, part)
        except AnalysisException as error:
            reason = str(error).partition("\n")[0]
            raise InvalidOption(f"sink {write_id.sink}: Spark cannot write {self.describe()}: {reason}") from error
        except Exception as error:
            tell_full(f"sink {write_id.sink}: cannot stage batch {write_id.batch}", self._staging.root, error)
            raise
        with external(f"sink {write_id.sink}: cannot keep batch {write_id.batch}"):
            kept = []
            for path, size in list(data_files(part)):
                file = part / path
                if self._has_no_rows(file, size):
                    file.unlink()
                else:
                    kept.append(file)
            self._measured[write_id] = self._measure(part, [file.relative_to(part).as_posix() for file in kept])
            force(directories(kept, top=self._staging.root))
        counts = list(in_parallel(self._count_rows, kept))
        wrote(None if None in counts else sum(count for count in counts if count is not None))

    def pre_commit(self, checkpoint: CheckpointId, generation: Generation, write_ids: Sequence[WriteId]) -> str:
        """List the files of these parts, with what was measured when they were written. They stay where they are."""
        staging = self._staging
        parts = []
        with external(f"sink {staging.sink}: cannot pre-commit checkpoint {checkpoint}"):
            for write_id in write_ids:
                part = staging.part(write_id)
                if not part.is_dir():
                    raise BadStorage(
                        f"sink {staging.sink}: the output of batch {write_id.batch} is gone from {part}: "
                        "put it back, or restart the job from its last checkpoint"
                    )
                parts.append(CommittablePart(write_id.batch, write_id.run, *self._listed(write_id, part)))
        now_ms = time.time_ns() // 1_000_000
        pre_committed = StagedCommittable(
            staging.job, staging.sink, generation, checkpoint, tuple(parts), self._parallelism, now_ms
        )
        return pre_committed.to_text()

    def staged(self, committable: str) -> Sequence[StagedFile]:
        """All files of all parts."""
        pre_committed = StagedCommittable.from_text(committable)
        return [
            StagedFile(
                self._staging.name(write_id, file.path), file.size, file.checksum, pre_committed.pre_committed_ms
            )
            for write_id, part in pre_committed.write_ids()
            for file in (*part.files, *part.beside)
        ]

    def commit(self, committable: str) -> None:
        """Publish, then remove the files."""
        pre_committed = StagedCommittable.from_text(committable)
        with external(f"sink {pre_committed.sink}: cannot commit checkpoint {pre_committed.checkpoint}"):
            self.publish(pre_committed)
            for write_id, _ in pre_committed.write_ids():
                self._discard(write_id)

    def abort(self, scope: AbortScope) -> None:
        """Remove the parts that are covered."""
        staging = self._staging
        with external(f"sink {staging.sink}: cannot throw away what is abandoned"):
            for write_id in staging.write_ids():
                if scope.covers(write_id):
                    self._discard(write_id)
            if isinstance(scope, StaleGenerations):
                staging.tidy(scope.below)

    def _write(self, dataframe: DataFrame, part: Path) -> None:
        writer = self._prepare(dataframe).write.mode("overwrite").option("compression", "lz4_raw")
        writer.options(**WRITER_OPTIONS).parquet(f"file://{part}")

    def _has_no_rows(self, file: Path, size: int) -> bool:
        """Whether a file is known to be without rows, and so is not kept."""
        del file
        return size == 0

    def _count_rows(self, file: Path) -> int | None:
        """How many rows a file has, if that is told without reading all of it. None if it is not."""
        try:
            return int(parquet.read_metadata(file).num_rows)
        except (pa.ArrowException, OSError):
            return None  # encrypted, for instance

    def _pre_committed_files(self, pre_committed: StagedCommittable) -> list[tuple[Path, CommittableFile]]:
        """The files with rows, in the order of batches, and where each waits if it does."""
        return [
            (self._staging.part(write_id) / file.path, file)
            for write_id, part in pre_committed.write_ids()
            for file in part.files
        ]

    def _verify(self, pre_committed: StagedCommittable) -> None:
        """See that what waits is what was pre-committed. ``BadStorage`` if it is not.

        A file that is not there is passed over: whether that matters, the other side knows.
        """
        beside = [
            (self._staging.part(write_id) / file.path, file)
            for write_id, part in pre_committed.write_ids()
            for file in part.beside
        ]
        check_pre_committed(pre_committed, [*self._pre_committed_files(pre_committed), *beside])

    def _listed(self, write_id: WriteId, part: Path) -> "_Measured":
        """What was measured of a part, once it is seen to be there still."""
        listed = sorted(data_files(part))
        measured = self._measured.get(write_id)
        if measured is None:  # nobody has written it in this process
            return self._measure(part, [path for path, _ in listed])
        if listed != [(file.path, file.size) for file in measured[0]]:
            raise BadStorage(
                f"sink {write_id.sink}: the output of batch {write_id.batch} in {part} has changed since it was "
                "written: restart the job from its last checkpoint"
            )
        return measured

    def _measure(self, part: Path, paths: Sequence[str]) -> "_Measured":
        """Flush files to the disk, and learn their checksums."""
        names = [*sorted(paths), *(self._beside if paths else ())]
        facts = measure_all([part / name for name in names], flush=True)
        files = tuple(CommittableFile(name, each.size, each.checksum) for name, each in zip(names, facts, strict=True))
        return files[: len(paths)], files[len(paths) :]

    def _discard(self, write_id: WriteId) -> None:
        discard(self._staging.part(write_id))
        self._measured.pop(write_id, None)

    @property
    def _measured(self) -> "dict[WriteId, _Measured]":
        """What this process has written, and neither committed nor thrown away."""
        return self.__dict__.setdefault("_facts", {})  # type: ignore[no-any-return]

    @property
    def _staging(self) -> Staging:
        assert self._opened is not None, "open comes first"
        return self._opened

    @property
    def _incarnation(self) -> str:
        assert self._context is not None, "open comes first"
        return self._context.incarnation

    @property
    def _directory_mode(self) -> int:
        assert self._context is not None, "open comes first"
        return self._context.directory_mode

    def __getstate__(self) -> dict[str, object]:
        """Executors need what the sink was built with; another process opens it anew."""
        return {**self.__dict__, "_opened": None, "_context": None, "_facts": {}}


_Measured = tuple[tuple[CommittableFile, ...], tuple[CommittableFile, ...]]
"""The files of a part: those with rows, and those beside."""


def check_pre_committed(pre_committed: StagedCommittable, files: Sequence[tuple[Path, CommittableFile]]) -> None:
    """Refuse files that are not what was pre-committed. Those that are not there are passed over."""
    for wrong in in_parallel(lambda each: damage(each[0], each[1].size, each[1].checksum), files):
        if wrong:
            raise BadStorage(refusal(pre_committed.sink, pre_committed.checkpoint, wrong))


def refusal(sink: str, checkpoint: int, wrong: str) -> str:
    """What to say about a staged file that is not what was pre-committed."""
    why = f"as checkpoint {checkpoint} pre-committed it: it is not committed; restore it from a copy"
    return f"sink {sink}: {wrong}, {why}"


def tell_full(what: str, place: Path, error: BaseException) -> None:
    """Say in one line what Spark says in many when there is no room, if it is this place that has none."""
    reason = room.said(error)
    if reason is not None and room.is_full(place):
        raise ExternalError(f"{what} in {place}: {reason}: make room") from error


@contextmanager
def external(what: str) -> Iterator[None]:
    """What the file system refuses may go well another time."""
    try:
        yield
    except OSError as error:
        reason = f"{error.strerror or error}: {error.filename}" if error.filename else str(error)
        raise ExternalError(f"{what}: {reason}: see that the file system is there and has room") from error
