"""The rows of one file of a log directory.

One rule: every row that was counted is either read, or named in an error. Rows are counted from 1 in what a user sees.

A row is a line of a text, JSON or CSV file (a CSV file's first line names its columns and is not a row, unless the user
says that there is none; with Spark's parser what is blank or a comment above it is none either), or a row of a Parquet
file. The planner counts rows and finds the bytes where a piece begins and ends; executors read the piece as Arrow
batches. A file never changes: it has the size that the planner saw, or nothing of it is taken. Bytes of a file that is
compressed are counted as they come out.

Where the user says so, a line that does not fit is a row of nulls, or no row; it counts as a line all the same, so that
offsets mean what they did.
"""

import io
import os
import re
import zlib
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq
from numpy.typing import NDArray

from headgate.errors import BadStorage, ExternalError
from headgate.source import lines
from headgate.source.codecs import content
from headgate.source.options import CORRUPT, DROPMALFORMED, FAILFAST, PERMISSIVE, Form

CHUNK_BYTES = 4 << 20
"""Lines are parsed this many bytes at a time."""
MARK_BYTES = 256 << 10
"""Lines are counted this many bytes at a time, and this much is looked through to find where one begins."""
NEWLINE = ord("\n")

Parse = Callable[[bytes], pa.Table]
UnfitLine = Callable[[bytes], pa.Table | None]


@dataclass(frozen=True)
class FileIndex:
    """What the planner knows of a file. ``marks`` are the lines that ended by the end of each chunk of its bytes."""

    size: int
    """On the disk."""
    rows: int
    header: int = 0
    marks: tuple[int, ...] = ()
    length: int = 0
    """Of the lines, which is another one if the file is compressed."""


@dataclass(frozen=True)
class FileSlice:
    """The rows ``first`` up to, not with, ``end`` of a file, counted from 0. For lines, also where their bytes are."""

    file: str
    size: int
    first: int
    end: int
    byte_first: int = 0
    byte_end: int = 0


def index(directory: str, file: str, form: Form) -> FileIndex:
    """Count the rows of a file."""
    with _opened(directory, file) as stream:
        size = os.fstat(stream.fileno()).st_size
        if form.kind == "parquet":
            return FileIndex(size, _parquet(directory, file, stream).metadata.num_rows)
        marks, ended, length, last = [], 0, 0, b"\n"
        inside = content(directory, file, stream)
        header = 1 if form.kind == "csv" and form.header else 0
        if form.by_spark:
            header = lines.header_lines(inside, form)
            inside.seek(0)
        while chunk := inside.read(MARK_BYTES):
            ended += chunk.count(b"\n")
            length += len(chunk)
            marks.append(ended)
            last = chunk[-1:]
        whole = ended + (last != b"\n")
        return FileIndex(size, max(whole - header, 0), header, tuple(marks), length)


def size(directory: str, file: str) -> int:
    """How long a file is now."""
    with _named(directory, file):
        return Path(directory, file).stat().st_size


def newest(directory: str, files: Sequence[str]) -> str:
    """The file that was put, or renamed, there last."""
    return max(files, key=lambda file: Path(directory, file).stat().st_ctime_ns)


def piece(directory: str, file: str, known: FileIndex, first: int, end: int) -> FileSlice:
    """Cut rows out of a file."""
    if not known.marks:
        return FileSlice(file, known.size, first, end)
    with _opened(directory, file) as stream:
        inside = content(directory, file, stream)
        begins = _line_start(inside, known, first + known.header)
        return FileSlice(file, known.size, first, end, begins, _line_start(inside, known, end + known.header))


def read(directory: str, wanted: FileSlice, form: Form, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Read a piece, fitted to the schema."""
    with _opened(directory, wanted.file) as stream:
        if os.fstat(stream.fileno()).st_size != wanted.size:
            raise changed(directory, wanted.file)
        if form.kind == "parquet":
            yield from _read_parquet(directory, wanted, stream, schema)
            return
        inside = content(directory, wanted.file, stream)
        if form.by_spark:
            if form.names:
                lines.check_header(directory, wanted.file, inside, form)
            found = _read_lines(directory, wanted, inside, lines.splitter(form), None)
            yield from lines.handed_out(found, wanted.file, wanted.first, form=form, schema=schema)
            return
        parse = _parser(directory, wanted, inside, form, schema)
        yield from _read_lines(directory, wanted, inside, parse, _unfit_line(form, schema))


def changed(directory: str, file: str) -> BadStorage:
    """What to say when a file is not what it was."""
    return BadStorage(
        f"{directory}: {file!r} changed after it was there: put back the file as it was, and write every file under "
        f"another name first (such as '.{file}'), to be renamed when it is complete"
    )


def vanished(directory: str, what: str) -> BadStorage:
    """What to say when a file is not there any more."""
    return BadStorage(f"{directory}: {what} gone, though the job may still have to read it again: put it back")


def _unfit(directory: str, file: str, row: int, why: str) -> BadStorage:
    return BadStorage(
        f"{directory}: row {row + 1} of {file!r} does not fit the schema: {why}: "
        f"correct the schema, or replace the file by one with this row corrected"
    )


def _broken(directory: str, file: str, error: Exception) -> BadStorage:
    return BadStorage(f"{directory}: {file!r} is broken: {str(error).splitlines()[0]}: replace it by a good copy")


@contextmanager
def _named(directory: str, file: str) -> Iterator[None]:
    """Let an error of the file system say what it means."""
    try:
        yield
    except FileNotFoundError:
        raise vanished(directory, f"{file!r} is") from None
    except (EOFError, zlib.error) as error:  # What was compressed ends too early, or is something else.
        raise _broken(directory, file, error) from error
    except OSError as error:
        if error.errno is None:  # Arrow's, about what is in the file
            raise _broken(directory, file, error) from error
        raise ExternalError(f"{directory}: {file!r} cannot be read: {error}") from error


@contextmanager
def _opened(directory: str, file: str) -> Iterator[BinaryIO]:
    with _named(directory, file), Path(directory, file).open("rb") as stream:
        yield stream


# -- lines ---------------------------------------------------------------------------------------------------------


def _line_start(stream: BinaryIO, known: FileIndex, line: int) -> int:
    """The byte at which a line begins: after the newline of the one before."""
    if line == 0:
        return 0
    if line == known.header + known.rows:
        return known.length
    chunk = bisect_left(known.marks, line)
    stream.seek(chunk * MARK_BYTES)
    newlines = np.flatnonzero(np.frombuffer(stream.read(MARK_BYTES), np.uint8) == NEWLINE)
    before = known.marks[chunk - 1] if chunk else 0
    return chunk * MARK_BYTES + int(newlines[line - before - 1]) + 1


def _read_lines(
    directory: str, wanted: FileSlice, stream: BinaryIO, parse: Parse, unfit_line: UnfitLine | None
) -> Iterator[pa.RecordBatch]:
    """Read chunks of whole lines. Without ``unfit_line`` a line that does not fit is an error."""
    stream.seek(wanted.byte_first)
    left, row = wanted.byte_end - wanted.byte_first, wanted.first
    while left > 0:
        data = stream.read(min(left, CHUNK_BYTES))
        if len(data) < left:
            data += stream.readline()
        if not data:
            raise changed(directory, wanted.file)
        if unfit_line is not None:
            for some in _conforming(io.BytesIO(data).readlines(), parse, unfit_line):
                yield from some.to_batches()
            row += _count(data)
        else:
            try:
                table = parse(data)
            except pa.ArrowException:
                bad, why = _first_unfit_line(data, parse)
                raise _unfit(directory, wanted.file, row + bad, why) from None
            yield from table.to_batches()
            row += table.num_rows
        left -= len(data)
    if row != wanted.end:
        raise changed(directory, wanted.file)


def _count(data: bytes) -> int:
    """How many lines these are, the last of which may lack its end."""
    return data.count(b"\n") + (not data.endswith(b"\n"))


def _conforming(data: list[bytes], parse: Parse, unfit_line: UnfitLine) -> Iterator[pa.Table]:
    """The rows of lines some of which may not fit, in their order. Halves are tried until such a line is alone."""
    try:
        whole = parse(b"".join(data))
    except pa.ArrowException:
        whole = None
    if whole is not None:
        yield whole
    elif len(data) == 1:
        instead = unfit_line(data[0])
        if instead is not None and data[0].strip():
            yield instead
    else:
        half = len(data) // 2
        yield from _conforming(data[:half], parse, unfit_line)
        yield from _conforming(data[half:], parse, unfit_line)


def _unfit_line(form: Form, schema: pa.Schema) -> UnfitLine | None:
    """What stands in the place of a line that does not fit; None if that is an error. Blank lines are no rows."""
    if form.mode == FAILFAST:
        return None
    if form.mode == DROPMALFORMED:
        return lambda _: None

    def nulls(line: bytes) -> pa.Table:
        values = {CORRUPT: line.decode(errors="replace").rstrip("\r\n")}
        return pa.table([pa.array([values.get(field.name)], field.type) for field in schema], schema=schema)

    return nulls


def _first_unfit_line(data: bytes, parse: Parse) -> tuple[int, str]:
    each = io.BytesIO(data).readlines()
    return _first_unfit(len(each), lambda count: parse(b"".join(each[:count])))


def _first_unfit(rows: int, parse: Callable[[int], object]) -> tuple[int, str]:
    """Which row, counted from 0, is the first to make ``parse`` fail when given all of them so far; and why."""

    def why(count: int) -> str:
        try:
            parse(count)
        except pa.ArrowException as error:
            # Arrow's own row numbers are counted within what it was given.
            return re.sub(r" in row \d+|Row #\d+: ", "", str(error).splitlines()[0])
        return ""

    bad = bisect_left(range(1, rows), True, key=lambda count: why(count) != "")
    return bad, why(bad + 1)


def _parser(directory: str, wanted: FileSlice, stream: BinaryIO, form: Form, schema: pa.Schema) -> Parse:
    """What turns whole lines of this file into as many rows. It fails if it cannot, with an error of Arrow's."""
    corrupt = schema.get_field_index(CORRUPT) if form.mode == PERMISSIVE else -1
    inside = schema if corrupt < 0 else schema.remove(corrupt)
    if form.kind == "json":
        raw = _parse_json(inside)
    elif form.kind == "csv":
        stream.seek(0)
        names = _header(directory, wanted.file, stream.readline(), form, inside) if form.header else inside.names
        raw = _parse_csv(inside, names, form.sep)
    else:
        raw = _parse_text

    def parse(data: bytes) -> pa.Table:
        table = raw(data.replace(b"\r\n", b"\n") if b"\r" in data else data)
        if table.num_rows != _count(data):
            raise pa.ArrowInvalid("a line is blank, or holds more or less than one row")
        fitted = table.rename_columns(inside.names).cast(inside)
        fitted.validate(full=True)  # Arrow does not look by itself whether texts are UTF-8
        if corrupt < 0:
            return fitted
        return fitted.add_column(corrupt, schema.field(corrupt), pa.nulls(fitted.num_rows, pa.string()))

    return parse


def _parse_text(data: bytes) -> pa.Table:
    return pa.table({"value": lines.split(data)})


def _lines(data: bytes) -> tuple[NDArray[np.uint8], NDArray[np.intp]]:
    """The bytes, and at which of them lines begin."""
    codes = np.frombuffer(data, np.uint8)
    return codes, np.concatenate((np.zeros(1, np.intp), np.flatnonzero(codes[:-1] == NEWLINE) + 1))


def _parse_json(schema: pa.Schema) -> Parse:
    read_schema = pa.schema([field.with_type(_as_in_json(field.type)) for field in schema])
    options = pa.json.ParseOptions(explicit_schema=read_schema, unexpected_field_behavior="ignore")

    def parse(data: bytes) -> pa.Table:
        codes, begins = _lines(data)
        if np.any(codes[begins] != ord("{")):
            # A line that is only ``null`` would take Arrow's parser, and the process with it, down.
            raise pa.ArrowInvalid("a line does not begin with '{'")
        # One block, or a row longer than a block would be an error.
        blocks = pa.json.ReadOptions(use_threads=False, block_size=len(data) + 1)
        return pa.json.read_json(io.BytesIO(data), blocks, options).select(schema.names)

    return parse


def _as_in_json(wanted: pa.DataType) -> pa.DataType:
    """As what Arrow is to read a type from JSON. It takes dates for numbers, and times without a zone for UTC."""
    if pa.types.is_date(wanted) or pa.types.is_timestamp(wanted):
        return pa.string()
    if pa.types.is_list(wanted):
        return pa.list_(wanted.value_field.with_type(_as_in_json(wanted.value_type)))
    if pa.types.is_struct(wanted):
        return pa.struct([field.with_type(_as_in_json(field.type)) for field in wanted])
    return wanted


def _header(directory: str, file: str, line: bytes, form: Form, schema: pa.Schema) -> list[str]:
    """The names of a CSV file's columns. Those of the schema are among them, in any order."""
    between = pa.csv.ParseOptions(delimiter=form.sep)
    try:
        names: list[str] = pa.csv.read_csv(io.BytesIO(line), parse_options=between).column_names
    except ValueError:  # blank, or no text; Arrow's errors are of this kind too
        names = []
    for name in schema.names:
        if names.count(name) != 1:
            raise BadStorage(
                f"{directory}: the first line of {file!r} does not name the column {name!r} once: "
                f"correct the schema, or begin the file with the names of its columns"
            )
    return names


def _parse_csv(schema: pa.Schema, names: list[str], sep: str) -> Parse:
    between = pa.csv.ParseOptions(delimiter=sep)
    convert = pa.csv.ConvertOptions(
        column_types=schema,
        include_columns=schema.names,
        # Nothing between two separators is null, and "" is an empty text. Words such as NA are texts.
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )

    def parse(data: bytes) -> pa.Table:
        blocks = pa.csv.ReadOptions(use_threads=False, block_size=len(data) + 1, column_names=names)
        if b'"' in data:
            codes, begins = _lines(data)
            if np.any(np.add.reduceat(codes == ord('"'), begins, dtype=np.int64) % 2):
                # Arrow would go on to the next line, which may be another piece.
                raise pa.ArrowInvalid("a quote is not closed on its line")
        return pa.csv.read_csv(io.BytesIO(data), blocks, between, convert)

    return parse


# -- Parquet -------------------------------------------------------------------------------------------------------


def _parquet(directory: str, file: str, stream: BinaryIO) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(stream)
    except pa.ArrowException as error:
        raise _broken(directory, file, error) from error


def _read_parquet(directory: str, wanted: FileSlice, stream: BinaryIO, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Read the row groups in which the piece lies, and cut off what is before and after."""
    file = _parquet(directory, wanted.file, stream)
    for field in schema:
        there = file.schema_arrow.get_field_index(field.name)
        have = file.schema_arrow.types[there] if there >= 0 else None
        if have is None or _nature(have) != _nature(field.type):
            why = f"column {field.name!r} is {have or 'missing'} and not {field.type}"
            raise _unfit(directory, wanted.file, wanted.first, why)
    at = 0
    for group in range(file.num_row_groups):
        rows = file.metadata.row_group(group).num_rows
        if at + rows <= wanted.first or at >= wanted.end:
            at += rows
            continue
        for batch in file.iter_batches(row_groups=[group], columns=schema.names, use_threads=False):
            low, high = max(wanted.first - at, 0), min(wanted.end - at, batch.num_rows)
            if low < high:
                yield _fitted(directory, wanted.file, at + low, batch.slice(low, high - low), schema)
            at += batch.num_rows
    if at < wanted.end:
        raise BadStorage(f"{directory}: {wanted.file!r} has fewer rows than its footer says: replace it by a good copy")


def _fitted(directory: str, file: str, row: int, batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    def fit(rows: int) -> pa.RecordBatch:
        fitted = batch.slice(0, rows).select(schema.names).cast(schema)
        fitted.validate(full=True)
        return fitted

    try:
        return fit(batch.num_rows)
    except pa.ArrowException:
        bad, why = _first_unfit(batch.num_rows, fit)
        raise _unfit(directory, file, row + bad, why) from None


def _nature(kind: pa.DataType) -> object:
    """What a type is apart from its width. Types of one nature are cast where every value fits; others never."""
    types = pa.types
    if types.is_dictionary(kind):
        return _nature(kind.value_type)
    if types.is_list(kind) or types.is_large_list(kind):
        return "list", _nature(kind.value_type)
    if types.is_struct(kind):
        return "struct", tuple((field.name, _nature(field.type)) for field in kind)
    if types.is_map(kind):
        return "map", _nature(kind.key_type), _nature(kind.item_type)
    if types.is_timestamp(kind):
        return "timestamp", kind.tz is None
    for name in ("integer", "floating", "decimal", "date"):
        if getattr(types, f"is_{name}")(kind):
            return name
    if types.is_string(kind) or types.is_large_string(kind):
        return "string"
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        return "binary"
    return str(kind)
