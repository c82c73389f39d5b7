"""A sink whose rows wait in files until their checkpoint is complete.

One rule: Spark writes every batch into a place of its own, out of readers' sight; a seal only lists what is there, with
sizes, and flushes nothing that is not on the disk already; what the files become is for ``publish`` to say.
"""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame

from headgate import room
from headgate.access import make_directory
from headgate.core.ids import CheckpointId, Generation
from headgate.errors import BadStorage, ExternalError, InvalidOption
from headgate.sink.api import Abandoned, Attempt, SinkContext, Strangers, TwoPhaseSink
from headgate.sink.handle import SealedFile, SealedPart, SealedTransaction
from headgate.sink.staging import Staging, data_files, directories, discard, force

WRITER_OPTIONS = {
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    # The other algorithm lets a task that was given up for dead still put its file in place, maybe after the seal.
    "mapreduce.fileoutputcommitter.algorithm.version": "1",
    "partitionOverwriteMode": "static",
}


class StagedSink(TwoPhaseSink):
    """A sink that stages Parquet files with the checkpoint, and has them published after its completion.

    A subclass says ``guarantee``, ``describe`` and ``publish``, and opens what it needs in ``_open``.
    """

    _opened: Staging | None = None
    _context: SinkContext | None = None
    _lanes: int = 0
    """See ``SealedTransaction.lanes``."""

    @abstractmethod
    def publish(self, sealed: SealedTransaction) -> None:
        """Show what was sealed. As ``commit``: a repeat is harmless at any time, and what is gone is never passed over.

        When it returns, what was sealed needs its files no more.
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

    def begin_transaction(self, attempt: Attempt) -> None:
        """Remove what an attempt of the same name left, if there was one."""
        with external(f"sink {attempt.sink}: cannot begin batch {attempt.batch}"):
            self._staging.root.stat()  # Spark would make a new one where a file system is no longer mounted
            discard(self._staging.part(attempt))

    def invoke(self, attempt: Attempt, dataframe: DataFrame) -> None:
        """Have Spark write the batch into its own part of the staging directory; then force it to the disk."""
        part = self._staging.part(attempt)
        try:
            self._write(dataframe, part)
        except AnalysisException as error:
            reason = str(error).partition("\n")[0]
            raise InvalidOption(f"sink {attempt.sink}: Spark cannot write {self.describe()}: {reason}") from error
        except Exception as error:
            tell_full(f"sink {attempt.sink}: cannot stage batch {attempt.batch}", self._staging.root, error)
            raise
        with external(f"sink {attempt.sink}: cannot keep batch {attempt.batch}"):
            kept = []
            for path, size in list(data_files(part)):
                file = part / path
                if self._has_no_rows(file, size):
                    file.unlink()
                else:
                    kept.append(file)
            force([*kept, *directories(kept, top=self._staging.root)])

    def pre_commit(self, checkpoint: CheckpointId, generation: Generation, attempts: Sequence[Attempt]) -> str:
        """List the files of these parts. They stay where they are."""
        staging = self._staging
        parts = []
        with external(f"sink {staging.sink}: cannot seal checkpoint {checkpoint}"):
            for attempt in attempts:
                part = staging.part(attempt)
                if not part.is_dir():
                    raise BadStorage(
                        f"sink {staging.sink}: the output of batch {attempt.batch} is gone from {part}: "
                        "put it back, or restart the job from its last checkpoint"
                    )
                files = tuple(SealedFile(path, size) for path, size in sorted(data_files(part)))
                parts.append(SealedPart(attempt.batch, attempt.run, files))
        sealed = SealedTransaction(staging.job, staging.sink, generation, checkpoint, tuple(parts), self._lanes)
        return sealed.to_handle()

    def commit(self, handle: str) -> None:
        """Publish, then remove the files."""
        sealed = SealedTransaction.from_handle(handle)
        with external(f"sink {sealed.sink}: cannot commit checkpoint {sealed.checkpoint}"):
            self.publish(sealed)
            for attempt, _ in sealed.attempts():
                discard(self._staging.part(attempt))

    def abort(self, abandoned: Abandoned) -> None:
        """Remove the parts that are covered."""
        staging = self._staging
        with external(f"sink {staging.sink}: cannot throw away what is abandoned"):
            for attempt in staging.attempts():
                if abandoned.covers(attempt):
                    discard(staging.part(attempt))
            if isinstance(abandoned, Strangers):
                staging.tidy(abandoned.below)

    def _write(self, dataframe: DataFrame, part: Path) -> None:
        writer = self._prepare(dataframe).write.mode("overwrite").option("compression", "lz4_raw")
        writer.options(**WRITER_OPTIONS).parquet(f"file://{part}")

    def _has_no_rows(self, file: Path, size: int) -> bool:
        """Whether a file is known to be without rows, and so is not kept."""
        del file
        return size == 0

    def _paths(self, sealed: SealedTransaction) -> list[list[Path]]:
        """The files of each batch, in the order of batches. ``BadStorage`` if one has another size than was sealed.

        A file that is not there is named all the same: whether that matters, the other side knows.
        """
        found = []
        for attempt, part in sealed.attempts():
            paths = [self._staging.part(attempt) / file.path for file in part.files]
            for path, file in zip(paths, part.files, strict=True):
                if path.exists() and (size := path.stat().st_size) != file.size:
                    raise BadStorage(
                        f"sink {sealed.sink}: {path} has {size} bytes, checkpoint {sealed.checkpoint} sealed "
                        f"{file.size}: it is not committed; restore it from a copy"
                    )
            found.append(paths)
        return found

    @property
    def _staging(self) -> Staging:
        assert self._opened is not None, "open comes first"
        return self._opened

    @property
    def _life(self) -> str:
        assert self._context is not None, "open comes first"
        return self._context.life

    @property
    def _directory_mode(self) -> int:
        assert self._context is not None, "open comes first"
        return self._context.directory_mode

    def __getstate__(self) -> dict[str, object]:
        """Executors need what the sink was built with; another process opens it anew."""
        return {**self.__dict__, "_opened": None, "_context": None}


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
