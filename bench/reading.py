"""What came out, read as anyone would: files whose names do not begin with a dot or an underscore."""

import json
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.json as pj


def visible(where: Path) -> list[Path]:
    """The files that readers see, in the order of their names."""
    if not where.exists():
        return []
    found: list[Path] = []
    for path in sorted(where.iterdir()):
        if path.name.startswith((".", "_")):
            continue
        found += visible(path) if path.is_dir() else [path]
    return found


class SparkFiles:
    """What readers see of Spark's own file sink: files are there before they count, and its log says which do."""

    def __init__(self) -> None:
        self._read: set[str] = set()
        self._found: list[Path] = []

    def __call__(self, where: Path) -> list[Path]:
        """The files that count, in the order of the log."""
        for entry in visible(where / "_spark_metadata"):
            if entry.name not in self._read:
                self._read.add(entry.name)
                lines = entry.read_text(encoding="utf-8").splitlines()[1:]
                self._found += [Path(unquote(urlsplit(json.loads(line)["path"]).path)) for line in lines]
        return list(dict.fromkeys(self._found))


def json_rows(where: Path, schema: pa.Schema) -> pa.Table:
    """All rows of the JSON files of a directory."""
    options = pj.ParseOptions(explicit_schema=schema)
    tables = [pj.read_json(path, parse_options=options) for path in visible(where) if path.stat().st_size]
    return pa.concat_tables([table.select(schema.names) for table in tables]) if tables else schema.empty_table()
