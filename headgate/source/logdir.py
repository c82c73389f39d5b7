"""A source that reads a directory to which files are added.

One rule: the rows of all files, in the order of their names, are one sequence that only ever grows at its end. An
offset is a place in it: the number of rows read of a file, and how many files were read before it. Whatever would
change the sequence from an offset on (a file that comes late, is gone, or is another) is an error: no row is skipped.
Files before the one in which an offset stands are needed no more by whoever goes on from there, and may go.

``LogFiles`` and ``LogReader`` run in other processes: the planner half beside the driver, ``read`` on the executors.
Both get all they need to know as options.
"""

import contextlib
import json
import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DateType,
    NumericType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from headgate.columns import check_columns
from headgate.core.sizing import START_ROWS
from headgate.errors import BadStorage, InvalidOption
from headgate.source import parsed
from headgate.source.api import Source
from headgate.source.listing import Listing
from headgate.source.options import FAILFAST, FORMATS, PERMISSIVE, Form, Option, form_of
from headgate.source.rows import (
    FileIndex,
    FileSlice,
    changed,
    index,
    newest,
    piece,
    read,
    size,
    vanished,
)

FORMAT = "headgate-files"
IDLE_WAIT_S = 0.08
"""How long a planner waits for a new file. Spark asks again 10 ms after an answer, even if there was nothing new."""
KEEP, DELETE = "keep", "delete"
BATCH_BYTES = 512 << 20
"""A batch that sizes itself has no more of a disk than this, whatever its rows are like."""
PARTITION_ROWS = 20_000
"""Fewer rows than this are not worth a partition of their own."""


def source(
    path: str | os.PathLike[str],
    *,
    format: str = "json",  # noqa: A002 - as Spark's readers call it
    schema: str,
    rows_per_batch: int | None = None,
    bounded: bool = False,
    consumed: str | os.PathLike[str] = "keep",
    mode: str | None = None,
    header: bool | None = None,
    sep: str | None = None,
    options: Mapping[str, Option] | None = None,
) -> "FileSource":
    """Read the files of a directory in the order of their names, and those that come after them.

    A file appears whole (written under another name, then renamed), sorts after all that are there, and never changes.
    It may go once a completed checkpoint has gone past it into a later file; who returns to an older checkpoint or to a
    savepoint must put it back. Names that begin with "." or "_", or end as unfinished files do (".tmp", ".part", "~"
    ...), are not looked at. The driver and all executors must see the directory under the same path.

    ``format``           "json": an object a line; "csv": one row a line, after a first line with the names of the
                         columns; "text": a line is a row; "parquet". Files of lines whose names end in ".gz", ".bz2",
                         ".zst" or ".lz4" are compressed, and are read from their beginning by whoever reads a part
    ``schema``           the columns, as DDL, such as "user STRING, amount DOUBLE, at TIMESTAMP". Other columns of the
                         files are left out; a field that a JSON object does not have is null. Times in JSON and CSV
                         carry their zone (2025-01-01T00:00:00Z), or the column is a TIMESTAMP_NTZ
    ``rows_per_batch``   at most this many rows a batch; None: batches size themselves
    ``bounded``          the source ends when all files that are there are read
    ``consumed``         what becomes of files that a completed checkpoint has gone past: "keep", "delete", or the path
                         of a directory on the same file system that they are moved to
    ``mode``             what becomes of a line of JSON or CSV that does not fit the schema, in Spark's words:
                         "FAILFAST" (the default) is an error; "DROPMALFORMED" leaves it out; "PERMISSIVE" makes it a
                         row of nulls, with the line itself in the column ``_corrupt_record STRING``, if the schema has
                         it. The latter two leave out blank lines
    ``header``           of CSV: False if the first line is a row; columns are those of the schema then, in its order
    ``sep``              of CSV: what stands between two columns, one character; a comma, if nothing is said
    ``options``          those of Spark's readers of JSON and CSV, by their names. If they are given, even none, Spark's
                         own parser gets the lines: slower, and as forgiving. A first line with names has those of the
                         schema, in its order, then
    """
    if format not in FORMATS:
        raise InvalidOption(f"files.source: format is {format!r}: give one of {', '.join(FORMATS)}")
    if rows_per_batch is not None and (isinstance(rows_per_batch, bool) or not isinstance(rows_per_batch, int)):
        raise InvalidOption(f"files.source: rows_per_batch is {rows_per_batch!r}: give a whole number")
    if rows_per_batch is not None and rows_per_batch < 1:
        raise InvalidOption(f"files.source: rows_per_batch is {rows_per_batch}: it must be 1 or more")
    if not isinstance(path, str | os.PathLike):
        raise InvalidOption(f"files.source: path is {path!r}: give the path of a directory")
    if not isinstance(schema, str):
        raise InvalidOption(f"files.source: schema is {schema!r}: give columns, such as 'user STRING, amount DOUBLE'")
    check_columns(schema, "files.source: schema")
    if not isinstance(consumed, str | os.PathLike):
        raise InvalidOption(f"files.source: consumed is {consumed!r}: give 'keep', 'delete' or the path of a directory")
    form = form_of(format, mode, header, sep, options)
    directory = _local(os.fspath(path))
    place = os.fspath(consumed)
    archive = None if place in (KEEP, DELETE) else _local(place)
    if archive is not None and Path(archive).absolute() == Path(directory).absolute():
        raise InvalidOption(f"files.source: consumed is {place!r}, which is read: give another directory")
    after = archive or place
    return FileSource(directory, form, schema, rows_per_batch, bounded=bounded, consumed=after)


class FileSource(Source):
    """What ``files.source`` returns."""

    def __init__(
        self,
        path: str,
        form: Form,
        schema: str,
        rows_per_batch: int | None,
        *,
        bounded: bool,
        consumed: str = KEEP,
    ) -> None:
        self._path = path
        self._consumed = consumed
        self._form = form
        self._schema = schema
        self._rows_per_batch = rows_per_batch
        self._bounded = bounded
        self._listing = Listing(path)
        self._last_file: tuple[str, int] = ("", 0)

    @property
    def replayable(self) -> bool:
        """Yes: files do not change."""
        return True

    @property
    def sizes_itself(self) -> bool:
        """Yes, unless the user says how many rows a batch may have."""
        return self._rows_per_batch is None

    def load(self, spark: SparkSession, trigger_ms: int | None) -> DataFrame:  # noqa: ARG002 - any interval will do
        """Check the schema and the directory, and let Spark read through ``LogReader``."""
        schema, form = _checked(self._schema, self._form), self._form
        if form.by_spark:
            parsed.try_out(spark, schema, form)
            form = replace(form, names=parsed.header_names(form, schema))
        if not self._listing.names() and self._bounded:
            # Without a batch nobody would ever be asked whether this is the end.
            raise BadStorage(f"{self._path} holds no files: put them there first, or do not say that it is bounded")
        spark.dataSource.register(LogFiles)
        read = (
            spark.readStream.format(FORMAT)
            .schema(parsed.line_schema(form) if form.by_spark else schema)
            .options(
                directory=self._path,
                form=json.dumps(asdict(form)),
                rows_per_batch=str(self._rows_per_batch or START_ROWS),
                bytes_per_batch=str(BATCH_BYTES if self.sizes_itself else ""),
                partitions=str(spark.sparkContext.defaultParallelism),
            )
            .load()
        )
        return parsed.rows_of(read, schema, form, self._path) if form.by_spark else read

    def ended(self, offset: str) -> bool:
        """Whether it is bounded, and ``offset`` is at the end of the last file that is there now."""
        if not self._bounded:
            return False
        position = Position.parse(json.loads(offset))
        last = self._listing.names()[-1:]
        if last != [position.file]:
            return False
        if self._last_file[0] != position.file:
            self._last_file = (position.file, index(self._path, position.file, self._form).rows)
        return position.row >= self._last_file[1]

    def notify_completed(self, offset: str) -> None:
        """Do away with the files before the one in which the checkpoint stands, if that is wanted."""
        if self._consumed == KEEP:
            return
        position = Position.parse(json.loads(offset))
        for name in self._listing.names():
            if name >= position.file:
                break
            _do_away(Path(self._path, name), self._consumed)

    def describe(self) -> str:
        """Where, in which format, how much at a time, and what becomes of files that were read."""
        given = self._rows_per_batch
        limit = ", in batches that size themselves" if given is None else f", at most {given} rows a batch"
        end = ", to the end of what is there" if self._bounded else ""
        then = {KEEP: "", DELETE: ", then deleted"}.get(self._consumed, f", then moved to {self._consumed}")
        parser = " by Spark's parser" if self._form.by_spark else ""
        unfit = "" if self._form.mode == FAILFAST else f", {self._form.mode}"
        return f"files of {self._path} ({self._form.kind}{parser}{unfit}{limit}{end}{then})"


@dataclass(frozen=True)
class Position:
    """A place between two rows: after ``row`` rows of ``file``, which is the ``files``-th that was ever read."""

    file: str = ""
    row: int = 0
    files: int = 0

    @classmethod
    def parse(cls, offset: Mapping[str, object]) -> "Position":
        """Read an offset of Spark's log."""
        match offset:
            case {"file": str(file), "row": int(row), "files": int(files)}:
                return cls(file, row, files)
            case _:
                raise BadStorage(
                    f"the offset {offset} is not one of files.source: if the source was exchanged, give it a new uid"
                )


class LogFiles(DataSource):
    """A log directory, for ``spark.readStream``."""

    @classmethod
    def name(cls) -> str:
        """The name under which Spark knows it."""
        return FORMAT

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Make a reader; Spark calls this in the planner and for the executors."""
        return LogReader(dict(self.options), schema)


class Pieces(InputPartition):
    """Pieces of some files, for one piece of work."""

    def __init__(self, pieces: Sequence[FileSlice]) -> None:
        self.pieces = tuple(pieces)


class LogReader(DataSourceStreamReader):
    """The planner's half keeps what it knows of files; ``read`` on an executor uses the options alone."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._directory = options["directory"]
        self._form = Form(**json.loads(options["form"]))
        self._rows_per_batch = int(options["rows_per_batch"] or 0)
        self._bytes_per_batch = int(options.get("bytes_per_batch") or 0)
        self._partitions = int(options["partitions"])
        self._schema: pa.Schema = to_arrow_schema(schema, timezone="UTC")
        self._listing = Listing(self._directory)
        self._names: list[str] = []
        self._known: dict[str, FileIndex] = {}

    def initialOffset(self) -> dict[str, object]:  # noqa: N802 - Spark's name
        """Before the first row of the first file."""
        return asdict(Position())

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """What ``latestOffset`` is asked to keep to."""
        return ReadMaxRows(self._rows_per_batch) if self._rows_per_batch else ReadAllAvailable()

    def latestOffset(self, start: dict[str, object], limit: ReadLimit) -> dict[str, object]:  # noqa: N802 - Spark's name
        """Go on as far as the limit allows. With nothing to read, wait a little for a file."""
        position = Position.parse(start)
        wait_s = 0.0 if self._left(position) else IDLE_WAIT_S
        self._check(self._listing.wait_past(position.file, wait_s), position)
        room = limit.max_rows if isinstance(limit, ReadMaxRows) else self._rows_per_batch or None
        return asdict(self._advanced(position, room))

    def partitions(self, start: dict[str, object], end: dict[str, object]) -> Sequence[InputPartition]:
        """Share out the rows between two offsets, which may be those of a batch that is done again."""
        first, last = Position.parse(start), Position.parse(end)
        names = self._listing.names()
        self._check(names, last)
        self._check(names, first)
        self._left(last)
        between = names[bisect_right(names, first.file) : bisect_right(names, last.file)]
        if len(between) != last.files - first.files:
            raise _miscounted(self._directory, between, first, last)
        ranges = []
        for file in [*([first.file] if first.files else []), *between]:
            begin = first.row if file == first.file else 0
            stop = last.row if file == last.file else self._index(file).rows
            ranges.append((file, begin, stop))
        return [Pieces(pieces) for pieces in self._packed(ranges)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one partition, on an executor."""
        assert isinstance(partition, Pieces)
        for wanted in partition.pieces:
            yield from read(self._directory, wanted, self._form, self._schema)

    def commit(self, end: dict[str, object]) -> None:
        """Forget what nobody will ask for again."""
        position = Position.parse(end)
        self._known = {file: known for file, known in self._known.items() if file >= position.file}

    def _index(self, file: str) -> FileIndex:
        """What is known of a file, which must be what it was."""
        known = self._known.get(file)
        if known is None:
            known = self._known[file] = index(self._directory, file, self._form)
        elif size(self._directory, file) != known.size:
            raise changed(self._directory, file)
        return known

    def _left(self, position: Position) -> int:
        """How many rows of its file are after a position."""
        left = self._index(position.file).rows - position.row if position.files else 0
        if left < 0:
            raise changed(self._directory, position.file)
        return left

    def _check(self, names: list[str], position: Position) -> None:
        """See to it that the file of a position is there, and that no file before it was not read.

        A planner that has just started knows only how many were read. If some of them are gone, it cannot tell whether
        another came late meanwhile.
        """
        if position.files:
            through = names[: bisect_right(names, position.file)]
            if through[-1:] != [position.file]:
                raise vanished(self._directory, f"{position.file!r} is")
            late = sorted(set(through).difference(self._names)) if self._names and names is not self._names else []
            if late or len(through) > position.files:
                raise _came_late(self._directory, late[0] if late else newest(self._directory, through[:-1]), position)
        self._names = names

    def _advanced(self, position: Position, room: int | None) -> Position:
        """Go on from a position by ``room`` rows, or to the end of what is there; and by few bytes, if that is said."""
        weight = self._bytes_per_batch
        for file in self._names[bisect_left(self._names, position.file) :]:
            if room == 0 or weight < 0:
                break
            here = file == position.file
            begin = position.row if here else 0
            known = self._index(file)
            rows = known.rows - begin
            taken = rows if room is None else min(rows, room)
            if weight and taken:
                of_row = max(known.size, known.length) / known.rows
                most = max(1, int(weight / of_row))
                weight = -1 if taken > most else max(1, round(weight - taken * of_row))
                taken = min(taken, most)
            position = Position(file, begin + taken, position.files if here else position.files + 1)
            room = None if room is None else room - taken
        return position

    def _packed(self, ranges: Sequence[tuple[str, int, int]]) -> Iterator[Sequence[FileSlice]]:
        """Cut and join ranges of rows into equal shares: one for each core, or fewer if there is little to do."""
        total = sum(stop - begin for _, begin, stop in ranges)
        shares = min(self._partitions, -(-total // PARTITION_ROWS))
        share: list[FileSlice] = []
        room = full = -(-total // max(shares, 1))
        for file, begin, stop in ranges:
            while begin < stop:
                taken = min(stop - begin, room)
                share.append(piece(self._directory, file, self._index(file), begin, begin + taken))
                begin, room = begin + taken, room - taken  # noqa: PLW2901 - the range is used up
                if room == 0:
                    yield share
                    share, room = [], full
        if share:
            yield share


def _came_late(directory: str, which: str, position: Position) -> BadStorage:
    return BadStorage(
        f"{directory}: {which!r} came late: it sorts before {position.file!r}, which was read already: "
        f"move it out, and give it a name that sorts after all others"
    )


def _miscounted(directory: str, between: list[str], first: Position, last: Position) -> BadStorage:
    """What to say of a batch that is done again, and for which there are more or fewer files than it had."""
    missing = last.files - first.files - len(between)
    if missing < 0:
        return _came_late(directory, newest(directory, between[:-1]), last)
    after = f"after {first.file!r} " if first.files else ""
    return vanished(directory, f"of the {last.files - first.files} files {after}up to {last.file!r}, {missing} are")


def _do_away(file: Path, how: str) -> None:
    """Delete a file, or move it into a directory where none of its name is. A repeat is harmless."""
    if how == DELETE:
        file.unlink(missing_ok=True)
        return
    target = Path(how, file.name)
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.exists() and file.exists():
        raise BadStorage(f"{target} is there already: move it away, so that {file} can go there")
    with contextlib.suppress(FileNotFoundError):  # It went there before.
        file.rename(target)


def _checked(ddl: str, form: Form) -> StructType:
    """Read the schema, and refuse what cannot be read from such files."""
    kind = form.kind
    try:
        schema = StructType.fromDDL(ddl)
    except PySparkException:
        schema = None
    if not isinstance(schema, StructType):
        raise InvalidOption(
            f"files.source: the schema {ddl!r} is not one: give columns, such as 'user STRING, amount DOUBLE'"
        )
    if '"nullable":false' in schema.json():
        raise InvalidOption(f"files.source: in the schema {ddl!r} a column is NOT NULL: files cannot promise that")
    if kind == "text" and [field.dataType for field in schema] != [StringType()]:
        raise InvalidOption(f"files.source: the schema {ddl!r} does not fit text: give one column, 'line STRING'")
    corrupt = parsed.corrupt_column(form)
    if form.mode == PERMISSIVE and corrupt in schema.names and schema[corrupt].dataType != StringType():
        raise InvalidOption(f"files.source: the column {corrupt} holds lines as they are: declare it as STRING")
    for field in schema:
        if kind != "parquet" and not form.by_spark and not _written_as_text(field.dataType, nested=kind == "json"):
            raise InvalidOption(
                f"files.source: {kind} cannot hold the column {field.name!r}, {field.dataType.simpleString()}: "
                f"declare it as what the file says, such as STRING, and convert it in the job"
            )
    return schema


def _written_as_text(kind: DataType, *, nested: bool) -> bool:
    if isinstance(kind, ArrayType):
        return nested and _written_as_text(kind.elementType, nested=True)
    if isinstance(kind, StructType):
        return nested and all(_written_as_text(field.dataType, nested=True) for field in kind)
    return isinstance(kind, StringType | BooleanType | NumericType | DateType | TimestampType | TimestampNTZType)


def _local(path: str) -> str:
    """The absolute path of a directory given as a path or as a ``file:`` URI."""
    if path.startswith("file:"):
        return unquote(urlsplit(path).path)
    if "://" in path:
        raise InvalidOption(f"files.source: {path} is not a local directory: mount it, and give the path")
    return str(Path(path).absolute())
