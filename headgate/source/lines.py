"""The lines of one file of a log directory, for Spark's parser.

One rule: every line that was counted is handed out, whatever is in it. What is a row of it, Spark's parser says
(``parsed``). Bytes that are no text in the encoding of the files are an error where lines that do not fit are one, and
else the sign that Unicode has for them, as in Spark's reader of CSV.
"""

import csv
from collections.abc import Callable, Iterator
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.errors import BadStorage
from headgate.source.options import FAILFAST, Form

MARK = "\ufeff"
"""What some programs begin a file of UTF-8 with. It belongs to no value."""
SPACE = "".join(map(chr, range(33)))
"""What may be in a line that Spark takes for blank."""
ESCAPED = {"\\t": "\t", "\\\\": "\\"}
"""What Spark has two characters for, where it wants one."""


def header_lines(stream: BinaryIO, form: Form) -> int:
    """How many lines are before the first row: the names of the columns, and what is blank or a comment before them."""
    if form.kind != "csv" or not form.header:
        return 0
    lines, _ = _header(stream, form)
    return lines


def check_header(directory: str, file: str, stream: BinaryIO, form: Form) -> None:
    """See that the first line names the columns, each at its place: Spark's parser goes by places."""
    _, line = _header(stream, form)
    text = line.decode(_encoding(form), "replace").rstrip("\r\n")
    if (names := _split(text, form)) != list(form.names):
        raise BadStorage(
            f"{directory}: the first line of {file!r} names the columns {', '.join(names)}, and the schema "
            f"{', '.join(form.names)}: name them alike and in the same order, or say enforceSchema=True"
        )


def splitter(form: Form) -> Callable[[bytes], pa.Table]:
    """What makes a table of whole lines, a row of each. It fails, with an error of Arrow's, if one is no text."""
    encoding, strict = _encoding(form), form.mode == FAILFAST

    def table(data: bytes) -> pa.Table:
        if b"\r" in data:
            data = data.replace(b"\r\n", b"\n")
        values = split(data) if encoding == "utf-8" else None
        if values is None or not _is_text(values):
            try:
                values = split(data.decode(encoding, "strict" if strict else "replace").encode())
            except UnicodeDecodeError as error:
                raise pa.ArrowInvalid(f"it is not in {encoding}: {error.reason}") from None
        return pa.table({"value": values.cast(pa.string())})

    return table


def split(data: bytes) -> pa.Array:
    """The lines of whole lines, without their ends."""
    return pc.split_pattern(pa.array([data.removesuffix(b"\n")], pa.binary()), b"\n").flatten()


def handed_out(
    batches: Iterator[pa.RecordBatch], file: str, first: int, *, form: Form, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Lines as Spark's parser gets them: with their place, if an error is to say it."""
    for batch in batches:
        values = batch.column(0)
        if first == 0 and not (form.kind == "csv" and form.header) and values[0].as_py().startswith(MARK):
            values = pa.concat_arrays([pa.array([values[0].as_py().removeprefix(MARK)]), values.slice(1)])
        columns = [values]
        if len(schema) > 1:
            columns += [pa.repeat(file, len(values)), pa.array(np.arange(first + 1, first + 1 + len(values)))]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)
        first += len(values)


def _header(stream: BinaryIO, form: Form) -> tuple[int, bytes]:
    """The line with the names, and how many lines that makes."""
    stream.seek(0)
    comment = form.option("comment", "").encode()
    lines = 0
    while line := stream.readline():
        lines += 1
        line = line.removeprefix(MARK.encode()) if lines == 1 else line
        text = line.strip(SPACE.encode())
        if text and not (comment and text.startswith(comment)):
            return lines, line
    return lines, b""


def _split(line: str, form: Form) -> list[str]:
    """The names that stand in a line."""
    sep, quote, escape = (
        ESCAPED.get(text, text) for text in (form.sep, form.option("quote", '"'), form.option("escape", "\\"))
    )
    if len(sep) != 1 or not quote:
        names = line.split(sep)
    else:
        doubled = escape in ("", quote)
        [names] = csv.reader(
            [line], delimiter=sep, quotechar=quote, doublequote=doubled, escapechar=None if doubled else escape
        )
    return [name.strip() for name in names]


def _encoding(form: Form) -> str:
    return form.option("encoding", "utf-8").lower()


def _is_text(values: pa.Array) -> bool:
    try:
        values.view(pa.string()).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True
