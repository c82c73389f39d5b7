"""Files in a directory, exactly once.

One rule: Spark writes every batch into a place of its own, out of readers' sight; a pre-commit only lists what is
there, and a commit only renames.

Each file appears at once and whole; the files of one transaction appear one after the other. On a cluster the target
must be a file system that the driver and all executors have under the same path.
"""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, assert_never, get_args

import numpy as np
import pyarrow as pa
from pyarrow import parquet
from pyspark.sql import DataFrame

from headgate.access import make_directory
from headgate.errors import InvalidOption
from headgate.sink.api import Guarantee, SinkContext, StagedFile, TwoPhaseSink
from headgate.sink.committable import StagedCommittable, hash_of
from headgate.sink.placing import place
from headgate.sink.staged import WRITER_OPTIONS, StagedSink, external
from headgate.sink.staging import Staging

Format = Literal["parquet", "json", "csv"]
Option = str | int | float | bool

SMALL = 65_536
"""Bytes up to which a file is looked into, to see whether it has any rows."""
PIECE_BYTES = 256 << 10
LINE_END = ord("\n")
NAME_MAX = 255
SPARK_NAME_MAX = 100
"""What Spark's own part of a file name may need, with the numbers of generation and batch."""


def sink(
    path: str | os.PathLike[str],
    *,
    format: Format = "parquet",  # noqa: A002 - Spark's word for it
    partition_by: Sequence[str] = (),
    files_per_batch: int | None = None,
    options: Mapping[str, Option] | None = None,
) -> TwoPhaseSink:
    """Write to files in the directory ``path``, exactly once. Several sinks, also of several jobs, may share it.

    ``path``: a local directory, plain or as ``file:`` URI; made if it is not there. Uncommitted output waits below it
    in ``_headgate``: readers that do not pass over names with ``_`` in front must leave that out.
    ``format``: ``parquet``, ``json`` (one object a line) or ``csv``.
    ``partition_by``: columns that become subdirectories (``day=2026-01-31``) and are left out of the files.
    ``files_per_batch``: at most this many files a batch, in each subdirectory, for the price of a shuffle. By default,
    as many as the batch has partitions with rows.
    ``options``: what Spark's writer takes for the format (``compression``, ``header``, ...).

    An empty batch leaves no file, unless it is compressed text: there one without rows may remain.
    """
    if not isinstance(path, str | os.PathLike):
        raise InvalidOption(f"files.sink: path is {path!r}: give the path of a directory")
    target = _local(os.fspath(path))
    if format not in get_args(Format):
        raise InvalidOption(f"files.sink({target}): format {format!r} is unknown: choose {', '.join(get_args(Format))}")
    if isinstance(partition_by, str) or not all(partition_by):
        raise InvalidOption(
            f"files.sink({target}): partition_by takes column names, like ('day',); got {partition_by!r}"
        )
    if files_per_batch is not None and (isinstance(files_per_batch, bool) or not isinstance(files_per_batch, int)):
        raise InvalidOption(f"files.sink({target}): files_per_batch is {files_per_batch!r}: give a whole number")
    if files_per_batch is not None and files_per_batch < 1:
        raise InvalidOption(f"files.sink({target}): files_per_batch must be at least 1, got {files_per_batch}")
    given = dict(options or {})
    owned = {name.lower() for name in (*WRITER_OPTIONS, "path")}
    for name in given:
        if name.lower() in owned:
            raise InvalidOption(f"files.sink({target}): option {name!r} is set by Headgate: leave it out")
    return FileSink(target, format, tuple(partition_by), files_per_batch, given)


class FileSink(StagedSink):
    """What ``files.sink`` makes."""

    def __init__(
        self,
        target: Path,
        format: Format,  # noqa: A002 - as in ``sink``
        partition_by: tuple[str, ...],
        files_per_batch: int | None,
        options: Mapping[str, Option],
    ) -> None:
        """All checked by ``sink``."""
        self._target = target
        self._format = format
        self._partition_by = partition_by
        self._files_per_batch = files_per_batch
        self._options = options
        self._header_end = _header_end(format, options)

    @property
    def guarantee(self) -> Guarantee:
        """Every row once."""
        return Guarantee.EXACTLY_ONCE

    def describe(self) -> str:
        """Format, place and subdirectories."""
        by = f", by {', '.join(self._partition_by)}" if self._partition_by else ""
        return f"{self._format} files in {self._target}{by}"

    def open(self, context: SinkContext) -> None:
        """See that the directory can be written, and make it if it is not there."""
        who = f"sink {context.sink}"
        staging = Staging(self._target, context.job, context.sink)
        if len(os.fsencode(staging.label)) > NAME_MAX - SPARK_NAME_MAX:
            raise InvalidOption(f"{who}: the names of job and sink are too long for a file name: shorten one")
        try:
            if self._target.exists() and not self._target.is_dir():
                raise InvalidOption(f"{who}: {self._target} is a file: give a directory")
            make_directory(staging.root, context.directory_mode)
        except OSError as error:
            raise InvalidOption(
                f"{who}: cannot make {error.filename}: {error.strerror}: give a directory that can be written"
            ) from error
        for directory in (self._target, staging.root):
            if not os.access(directory, os.R_OK | os.W_OK | os.X_OK):
                raise InvalidOption(f"{who}: cannot write in {directory}: change its permissions, or give another")
        if (self._target / "_spark_metadata").exists():
            raise InvalidOption(
                f"{who}: {self._target} was written by Spark's own file sink, and Spark would read only what that "
                "wrote: give another directory, or remove _spark_metadata"
            )
        with external(f"{who}: cannot read {staging.root}"):
            staging.newest_commit()
        self._context = context
        self._opened = staging

    @property
    def place(self) -> str:
        """The directory."""
        return str(self._target)

    def staged(self, committable: str) -> Sequence[StagedFile]:
        """None: its files wait in the target directory itself."""
        del committable
        return ()

    def content_hash(self, committable: str) -> str | None:
        """Of the files, which are put in place as they are."""
        files = [file for _, part in StagedCommittable.from_text(committable).write_ids() for file in part.files]
        return hash_of((file.size, file.checksum) for file in files)

    def publish(self, pre_committed: StagedCommittable) -> None:
        """Put every pre-committed file in place."""
        place(pre_committed, self._target)

    def _write(self, dataframe: DataFrame, part: Path) -> None:
        if self._files_per_batch is not None:
            # Not coalesce: it would merge the tasks of a stateful operator, which go by the number of their partition.
            dataframe = dataframe.repartition(self._files_per_batch)
        writer = dataframe.write.format(self._format).mode("overwrite").partitionBy(*self._partition_by)
        writer.options(**self._options, **WRITER_OPTIONS).save(f"file://{part}")

    def _has_no_rows(self, file: Path, size: int) -> bool:
        """Whether a file is known to be without rows. Spark writes one for the first partition, if that is empty."""
        if size == 0:
            return True
        if size > SMALL or not file.name.startswith("part-00000-"):
            return False
        match self._format:
            case "parquet":
                try:
                    return bool(parquet.read_metadata(file).num_rows == 0)
                except (pa.ArrowException, OSError):
                    return False  # encrypted, for instance
            case "csv":
                # One line, which is the header. A compressed file has another suffix.
                end = self._header_end
                return end is not None and file.suffix == ".csv" and file.read_bytes().count(end) == 1
            case "json":
                return False
            case _:
                assert_never(self._format)

    def _count_rows(self, file: Path) -> int | None:
        """Of Parquet by its footer, of JSON by its lines. A line of CSV need not be a row."""
        if self._format == "parquet":
            return super()._count_rows(file)
        plain = file.suffix == ".json" and "linesep" not in {name.lower() for name in self._options}
        return _lines_in(file) if plain else None


def _lines_in(file: Path) -> int | None:
    """How many lines a file has; None if the last has no end. By numpy, which takes a fifth of what bytes take."""
    buffer = bytearray(PIECE_BYTES)
    values = np.frombuffer(buffer, np.uint8)
    lines, last = 0, LINE_END
    try:
        with file.open("rb", buffering=0) as opened:
            while read := opened.readinto(buffer):
                lines += int(np.count_nonzero(values[:read] == LINE_END))
                last = buffer[read - 1]
    except OSError:
        return None
    return lines if last == LINE_END else None


def _local(path: str) -> Path:
    """The directory that a user named. As in Spark, what follows ``file:`` is taken as it stands, without decoding."""
    scheme, colon, rest = path.partition(":")
    if not colon or "/" in scheme:
        return Path(path).absolute()
    if scheme.lower() != "file":
        raise InvalidOption(f"files.sink({path}): {scheme} is not supported yet: give a local directory")
    if not re.fullmatch(r"/(//)?[^/].*", rest):
        raise InvalidOption(f"files.sink({path}): not a local directory: write file:///path")
    return Path("/" + rest.lstrip("/"))


def _header_end(format: Format, options: Mapping[str, Option]) -> bytes | None:  # noqa: A002 - as in ``sink``
    """What ends the header of a CSV file; None if there is no header, or if nobody knows how it is written."""
    given = {name.lower(): str(value) for name, value in options.items()}
    plain = not given.keys() & {"encoding", "charset"}
    if format == "csv" and plain and given.get("header", "").lower() == "true":
        return given.get("linesep", "\n").encode()
    return None
