"""Records in files.

One rule: what begins with ``_`` or ``.`` is passed over, as by all readers of such directories, and so is an
empty file.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pc_csv
import pyarrow.dataset as ds

from headgate.audit.counting import pairs_of
from headgate.audit.fields import picked
from headgate.audit.places import Columns
from headgate.errors import UserError

KINDS = {".parquet": "parquet", ".json": "json", ".jsonl": "json", ".ndjson": "json", ".csv": "csv"}
PACKED = (".gz", ".bz2", ".zst", ".lz4", ".snappy")
UNNAMED = re.compile(r"_c(\d+)")
"""What Spark calls the columns of a CSV file without a header."""


def read(place: str, columns: Columns) -> pa.Table:
    """All records in a file, or in the files of a directory and of those below."""
    top = Path(place)
    if not top.exists():
        raise UserError(f"{place}: there is no such file or directory")
    files = sorted(_visible(top)) if top.is_dir() else [top]
    kinds = {kind for path in files if (kind := _kind(path)) is not None}
    if len(kinds) > 1:
        raise UserError(f"{place} has files of several kinds ({', '.join(sorted(kinds))}): name one of its directories")
    if not kinds:
        if top.is_dir() and not files:
            return pairs_of(pa.table({"key": pa.array([], pa.string()), "seq": pa.array([], pa.int64())}))
        raise UserError(f"{place} has no file whose name ends in {', '.join(KINDS)}: name another place")
    paths = [str(path) for path in files if _kind(path) is not None]
    try:
        found = ds.dataset(
            paths, format=_format(kinds.pop(), columns), partitioning="hive", partition_base_dir=str(top)
        )
        wanted = {name.partition(".")[0] for name in columns.names}
        table = found.to_table(columns=[name for name in found.schema.names if name in wanted or name in columns.names])
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OSError) as error:
        raise UserError(f"{place} cannot be read: {str(error).splitlines()[0]}") from error
    return picked(table, columns, f"{place}", there=found.schema.names)


def _visible(directory: Path) -> Iterator[Path]:
    for where, below, names in os.walk(directory):
        below[:] = [name for name in below if name[0] not in "_."]
        for name in names:
            path = Path(where, name)
            if name[0] not in "_." and path.stat().st_size > 0:
                yield path


def _kind(path: Path) -> str | None:
    suffixes = [suffix for suffix in path.suffixes if suffix not in PACKED]
    return KINDS.get(suffixes[-1]) if suffixes else None


def _format(kind: str, columns: Columns) -> ds.FileFormat | str:
    unnamed = [UNNAMED.fullmatch(name) for name in columns.names]
    if kind != "csv" or not all(unnamed):
        return kind
    last = max(int(match[1]) for match in unnamed if match)
    names = [f"_c{number}" for number in range(last + 1)]
    return ds.CsvFileFormat(read_options=pc_csv.ReadOptions(column_names=names))
