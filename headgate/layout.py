"""What Spark keeps in a query's checkpoint directory.

One rule: this is the only module that knows that layout. Everything Spark writes there is immutable once it is there;
what Headgate writes there (a rewritten position, a last batch) is of a batch that no run has begun.

::

    metadata                         the query's id
    offsets/<batch>                  version, metadata (watermark, conf), then one line for each source
    commits/<batch>                  version, then metadata (watermark, the ids of the state's versions)
    sources/**                       what some sources keep for themselves
    sources/headgate/<uid>.<n>       what Headgate remembers for a source: the one with the highest number counts
    state/<operator>/_metadata/**    the operator's shape
    state/<operator>/<partition>/[<store>/]
        <version>_<id>.changelog     RocksDB: what changed in one version
        <version>_<id>.zip           RocksDB: a snapshot, which lists its files in SSTs/
        SSTs/*                       RocksDB: table files, shared between snapshots
        <version>.delta, .snapshot   hash map: the same two kinds
        _metadata/**, _stateSchema/**

Version v of the state belongs to batch v - 1. A checkpoint of batch b needs ``offsets`` b and b-1, ``commits`` b, all
that describes rather than holds state, and for each partition the newest snapshot up to version b+1 with all changes
after it. Which of several ids of a version counts is told by the commit entry of its batch alone, so those entries
belong to the checkpoint too: a dead attempt may upload what it has at any time.
"""

import io
import json
import os
import re
import zipfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from headgate import durable
from headgate.core.ids import NO_BATCH, Batch, ChannelId
from headgate.errors import BadStorage

NO_OFFSET = "-"
"""What the offset log has for a source from which nothing has come yet."""
FINAL_WATERMARK_MS = 253_402_300_799_000
"""The end of the year 9999: after every event."""
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
PARTITIONS = "spark.sql.shuffle.partitions"
VERSIONED = re.compile(r"(\d+)(?:_([0-9a-f-]{36}))?\.(changelog|zip|delta|snapshot)")
SCHEMA_PATH = re.compile(r'"file:[^"]*?(/state/[0-9]+/_stateSchema/[^"]*)"')
CHECKSUM = re.compile(r"\.?([^.].*)\.crc")
"""What Hadoop or Spark may write beside a file. It is as old as the file, and nobody needs it."""
BASES = ("zip", "snapshot")
LISTED = ("SSTs", "logs")
"""Directories of files that count only if a snapshot lists them."""


# -- the offset and the commit log -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Offsets:
    """One entry of the offset log: where a batch ends on each source."""

    version: str
    metadata: Mapping[str, Any]
    sources: tuple[str, ...]

    def positions(self) -> Mapping[ChannelId, Batch]:
        """Where the batch ends on each channel. A channel's offsets carry its name."""
        found: dict[ChannelId, Batch] = {}
        for line in filter(is_position, self.sources):
            offset = json.loads(line)
            found[ChannelId(offset["channel"])] = Batch(offset["batch"])
        return found

    def of_sources(self) -> list[str]:
        """Where the batch ends on everything that is not a channel, in the order in which the query reads it."""
        return [line for line in self.sources if not is_position(line)]

    def are_channels(self) -> tuple[bool, ...]:
        """Of all that the query reads, in its order, what is a channel."""
        return tuple(map(is_position, self.sources))

    def provider(self) -> str:
        """The state store that the query has used from its first batch on: it outlives what the session says."""
        return str(self.metadata.get("conf", {}).get(PROVIDER, ""))

    def partitions(self) -> int | None:
        """How many partitions the query's state has had from its first batch on: the same holds for them."""
        found = str(self.metadata.get("conf", {}).get(PARTITIONS, ""))
        return int(found) if found.isdecimal() else None


def is_position(line: str) -> bool:
    """Whether a line of the offset log is a position on a channel: those have these two fields and no others."""
    return line.startswith("{") and set(json.loads(line)) == {"channel", "batch"}


def read_offsets(query: Path, batch: Batch) -> Offsets:
    """What the offset log says about a batch."""
    path = query / "offsets" / str(batch)
    try:
        return parse_offsets(path.read_bytes(), str(path))
    except FileNotFoundError as error:
        raise BadStorage(f"{path} is gone: restore a checkpoint") from error


def announce(query: Path, batch: Batch) -> None:
    """Have an entry for a batch in the offset log, with nothing in it. Spark plans a batch once there is one."""
    (query / "offsets" / str(batch)).touch()


def offsets_among(files: Iterable[str], batch: Batch) -> str | None:
    """Of the files of a checkpoint, the entry of the offset log for its batch."""
    return next((name for name in files if name.endswith(f"/offsets/{batch}")), None)


def describes_state(name: str) -> bool:
    """Whether a file of a query, named inside its directory, says what the query's state looks like."""
    return name.startswith("state/") and ("/_metadata/" in name or "/_stateSchema/" in name)


def state_place(name: str) -> tuple[int, int] | None:
    """Of which stateful operator, and which of its partitions, a file of a query holds state; None if of none.

    Operators are numbered as in Spark's reports of a batch.
    """
    _, found, inside = name.rpartition("/state/")
    parts = inside.split("/", 2) if found else []
    return (int(parts[0]), int(parts[1])) if len(parts) > 2 and parts[0].isdecimal() and parts[1].isdecimal() else None


@dataclass(frozen=True)
class OperatorState:
    """What Spark wrote down of a stateful operator."""

    kind: str
    """What Spark calls it."""
    partitions: int
    variables: tuple[str, ...] | None
    """The states of a processor, by name. None: it is none."""
    has_timers: bool


def describes_operator(name: str) -> int | None:
    """Of which stateful operator a file of a query, named inside its directory, says what it is; None if of none."""
    match = re.fullmatch(r"state/(\d+)/_metadata/(?:metadata|v2/\d+)", name)
    return int(match[1]) if match else None


def parse_operator(data: bytes, path: str) -> OperatorState:
    """What such a file says. ``path`` is named if it is none."""
    try:
        about = json.loads(data.decode("utf-8").split("\n", 1)[1])
        more = json.loads(about.get("operatorPropertiesJson") or "{}")
        listed = more.get("stateVariables")
        variables = None if listed is None else tuple(str(each["stateName"]) for each in listed)
        return OperatorState(
            kind=str(about["operatorInfo"]["operatorName"]),
            partitions=int(about["stateStoreInfo"][0]["numPartitions"]),
            variables=variables,
            has_timers=more.get("timeMode", "NoTime") not in ("NoTime", "None"),
        )
    except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        raise BadStorage(f"{path} does not say of which operator it is: look at another checkpoint") from error


def parse_schemas(data: bytes) -> dict[str, tuple[str, str]]:
    """The columns of the key and of the value of each state in a file of ``_stateSchema``, as JSON."""
    rest = io.BytesIO(data)

    def number(size: int) -> int:
        return int.from_bytes(rest.read(size), "big")

    def text() -> str:
        return rest.read(number(2)).decode("utf-8")

    def long_text() -> str:
        return "".join(text() for _ in range(number(4)))

    if (version := text()) != "v3":
        raise ValueError(f"schemas in format {version!r}, known is 'v3'")
    found: dict[str, tuple[str, str]] = {}
    for _ in range(number(4)):
        name, _, key, _, value = text(), number(2), long_text(), number(2), long_text()
        found[name] = (key, value)
        long_text()  # How keys are encoded,
        long_text()  # and those of a map.
    return found


def parse_offsets(data: bytes, path: str) -> Offsets:
    """An entry of the offset log. ``path`` is named if it is none."""
    try:
        version, metadata, *sources = data.decode("utf-8").split("\n")
        found = Offsets(version, json.loads(metadata), tuple(sources))
        found.positions()
    except ValueError as error:
        raise BadStorage(f"{path} is not an entry of Spark's offset log: restore a checkpoint") from error
    if version != "v1":
        raise BadStorage(
            f"{path} has format {version!r}, known is 'v1': set spark.sql.streaming.offsetLog.formatVersion to 1"
        )
    return found


def committed(query: Path) -> Batch:
    """The last committed batch."""
    return max(_batches(query / "commits"), default=NO_BATCH)


def planned(query: Path) -> Batch:
    """The last batch whose input range is written down."""
    return max(_batches(query / "offsets"), default=NO_BATCH)


def is_committed(query: Path, batch: Batch) -> bool:
    """Whether Spark has committed this batch."""
    return (query / "commits" / str(batch)).exists()


def _batches(log: Path) -> Iterator[Batch]:
    try:
        for entry in os.scandir(log):
            if entry.name.isdecimal():
                yield Batch(int(entry.name))
    except FileNotFoundError:
        return


def move_positions(
    query: Path, batch: Batch, wanted: Mapping[ChannelId, Batch], renamed: Mapping[ChannelId, ChannelId]
) -> list[str]:
    """Let the batch after ``batch`` begin elsewhere on some channels, or under new names. Returns what has changed.

    For a directory that is being rebuilt.
    """
    offsets = read_offsets(query, batch)
    current = offsets.positions()
    if current == wanted:
        return []
    if {renamed.get(channel, channel) for channel in current} != set(wanted):
        raise BadStorage(
            f"{query}: its offsets name the channels {', '.join(sorted(current)) or 'none'}, but the task now reads "
            f"{', '.join(sorted(wanted)) or 'none'}: start the task with new uids"
        )
    lines = []
    for line in offsets.sources:
        if is_position(line):
            before = ChannelId(json.loads(line)["channel"])
            channel = renamed.get(before, before)
            line = json.dumps({"channel": channel, "batch": wanted[channel]})  # noqa: PLW2901
        lines.append(line)
    _write_offsets(query, batch, Offsets(offsets.version, offsets.metadata, tuple(lines)))
    return [f"offsets/{batch}"]


def remembered(query: Path, uid: str) -> str | None:
    """What a source remembers beside its offset."""
    last = _last_memory(query, uid)
    return None if last is None else _memory(query, uid, last).read_text(encoding="utf-8")


def remember(query: Path, uid: str, text: str) -> None:
    """Keep it for a source. What was kept before stays: a checkpoint may name it."""
    path = _memory(query, uid, (_last_memory(query, uid) or 0) + 1)
    path.parent.mkdir(parents=True, exist_ok=True)
    durable.replace(path, text.encode(), flush=False)  # A checkpoint that names it forces it to the disk.


def _memory(query: Path, uid: str, number: int) -> Path:
    return query / "sources" / "headgate" / f"{quote(uid, safe='')}.{number}"


def _last_memory(query: Path, uid: str) -> int | None:
    beginning = _memory(query, uid, 0).name.removesuffix("0")
    found = [path.name.removeprefix(beginning) for path in (query / "sources" / "headgate").glob("*")]
    return max((int(number) for number in found if number.isdecimal()), default=None)


def plan_last_batch(query: Path) -> None:
    """Let the next batch be one with the watermark after every event, so that whatever waits for time comes out.

    A batch that was planned and not committed becomes that batch: its input is all there is.
    """
    last = planned(query)
    if last == NO_BATCH:
        return
    offsets = read_offsets(query, last)
    metadata = {**offsets.metadata, "batchWatermarkMs": FINAL_WATERMARK_MS}
    batch = last if last > committed(query) else Batch(last + 1)
    _write_offsets(query, batch, Offsets(offsets.version, metadata, offsets.sources))


def last_batches(query: Path) -> int:
    """How many batches with the watermark after every event were committed last."""
    found, batch = 0, committed(query)
    while (query / "offsets" / str(batch)).exists():
        if read_offsets(query, batch).metadata.get("batchWatermarkMs") != FINAL_WATERMARK_MS:
            break
        found, batch = found + 1, Batch(batch - 1)
    return found


def relocate(query: Path) -> list[str]:
    """Let what describes state point into this directory: Spark writes absolute paths there. Returns what has changed.

    The files are replaced, not written over: they may be links to those of a checkpoint.
    """
    changed = []
    here = json.dumps(f"file:{query.absolute()}", ensure_ascii=False)[1:-1]  # As it is: Hadoop decodes nothing.
    for path in sorted((query / "state").glob("*/_metadata/v2/*")):
        text = path.read_text(encoding="utf-8")
        moved = SCHEMA_PATH.sub(lambda match: f'"{here}{match[1]}"', text)
        if moved != text:
            path.unlink()
            path.write_text(moved, encoding="utf-8")
            changed.append(path.relative_to(query).as_posix())
    return changed


def _write_offsets(query: Path, batch: Batch, offsets: Offsets) -> None:
    path = query / "offsets" / str(batch)
    path.with_name(f".{batch}.crc").unlink(missing_ok=True)
    text = "\n".join([offsets.version, json.dumps(offsets.metadata), *offsets.sources])
    durable.replace(path, text.encode(), flush=False)  # As above.


# -- the files of a checkpoint ---------------------------------------------------------------------------------------


def files_of(query: Path, batch: Batch) -> list[str]:
    """The files that rebuild a query at a committed batch, relative to its directory."""
    return [name for group in groups_of(query, batch) for name in group]


def groups_of(query: Path, batch: Batch, under: str = "") -> list[tuple[str, ...]]:
    """The same in groups, and each name with ``under`` before it.

    What a snapshot of RocksDB lists, which may be long, is a group by itself, and the same object each time.
    """
    if batch == NO_BATCH:
        return []
    found = ["metadata", f"offsets/{batch}", f"commits/{batch}"]
    if batch > 0:
        found.append(f"offsets/{batch - 1}")
    found += _below(query, "sources")
    found = [under + name for name in found]
    groups: list[tuple[str, ...]] = []
    state = query / "state"
    if state.is_dir():
        ids = _UniqueIds(query)
        for directory, names in _stores(state):
            where = f"{under}{directory.relative_to(query).as_posix()}/"
            loose, tables = _state_files(ids, directory, names, batch + 1, where)
            found += loose
            groups += [tables] if tables else []
        found += [f"{under}commits/{other}" for other in ids.entries() if other != batch]
    return [tuple(found), *groups]


def _below(query: Path, name: str) -> list[str]:
    top = query / name
    return [
        path.relative_to(query).as_posix() for path in sorted(top.rglob("*")) if path.is_file() and path.name[0] != "."
    ]


def _stores(state: Path) -> Iterator[tuple[Path, list[str]]]:
    """Each directory below ``state`` with the files in it, in a fixed order. Table files belong to their snapshots."""
    for directory, below, names in os.walk(state):
        below.sort()
        below[:] = [name for name in below if name not in LISTED]
        visible = sorted(name for name in names if name[0] != "." and not name.endswith(".crc"))
        if visible:
            yield Path(directory), visible


def _state_files(
    ids: "_UniqueIds", directory: Path, names: list[str], version: int, where: str
) -> tuple[list[str], tuple[str, ...]]:
    """What one directory contributes to the state at ``version``, and what its snapshot lists.

    Whatever is not a version of state goes along.
    """
    if directory.parts[-2:] == ("_metadata", "v2"):  # One for each restart; Spark deletes older ones.
        newest = max((int(name) for name in names if name.isdecimal() and int(name) < version), default=0)
        return [f"{where}{newest}"], ()
    versions: dict[int, list[Versioned]] = {}
    found: list[str] = []
    for name in names:
        file = versioned(name)
        if file is None:
            found.append(where + name)
        elif file.version <= version:
            versions.setdefault(file.version, []).append(file)
    for number in range(version if versions else 0, 0, -1):
        kinds = {file.kind: file.name for file in ids.of_version(directory, number, versions.get(number, []))}
        if not kinds:
            raise BadStorage(f"{directory} has no version {number} of the state: restore a checkpoint")
        base = next((kinds[kind] for kind in BASES if kind in kinds), None)
        if base is not None:
            found.append(where + base)
            return found, TABLES.of(directory / base, where) if base.endswith(".zip") else ()
        found += [where + name for name in kinds.values()]
    return found, ()


class Versioned(NamedTuple):
    """A file of state, by its name."""

    name: str
    version: int
    unique: str | None
    kind: str


@lru_cache(maxsize=1 << 16)
def versioned(name: str) -> Versioned | None:
    """What the name of a file of state says. None if it is not one of a version."""
    match = VERSIONED.fullmatch(name)
    return Versioned(name, int(match[1]), match[2], match[3]) if match else None


class _UniqueIds:
    """Which files of state count: those of the runs that committed the batches. Each commit entry is read once."""

    def __init__(self, query: Path) -> None:
        self._commits = query / "commits"
        self._known: dict[int, frozenset[str] | None] = {}

    def of_version(self, directory: Path, version: int, files: list[Versioned]) -> list[Versioned]:
        """Of the files of a version in a store's directory, those of the run that committed its batch.

        Checkpoints of earlier releases do not name the commit entries of older batches. What they left was sorted out
        when the directory was rebuilt: then one id is there, and it counts. Of several, none is guessed at.
        """
        found = {file.unique for file in files if file.unique is not None}
        if not found:
            return files
        batch = version - 1
        if batch not in self._known:
            self._known[batch] = self._read(batch)
        ids = self._known[batch]
        if ids is not None:
            return [file for file in files if file.unique is None or file.unique in ids]
        if len(found) > 1:
            raise BadStorage(
                f"{directory} has {len(found)} states of version {version}, and commits/{batch} is gone, which told "
                "them apart: restore a checkpoint"
            )
        return files

    def entries(self) -> list[int]:
        """The batches whose commit entries were needed, and are there."""
        return sorted(batch for batch, ids in self._known.items() if ids is not None)

    def _read(self, batch: int) -> frozenset[str] | None:
        """The ids of all state that a batch committed, whichever store it is of: they are unique."""
        path = self._commits / str(batch)
        try:
            body = json.loads(path.read_text(encoding="utf-8").split("\n", 1)[1])
            return frozenset(_strings((body.get("stateUniqueIds") or {}).values()))
        except FileNotFoundError:
            return None
        except (ValueError, IndexError, AttributeError, TypeError) as error:
            raise BadStorage(f"{path} is not an entry of Spark's commit log: restore a checkpoint") from error


def _strings(values: Iterable[Any]) -> Iterator[str]:
    for value in values:
        if isinstance(value, str):
            yield value
        else:
            yield from _strings(value)


def tables_of(snapshot: Path) -> tuple[str, ...]:
    """The files that a RocksDB snapshot lists, relative to the snapshot's own directory."""
    try:
        with zipfile.ZipFile(snapshot) as archive:
            text = archive.read("metadata").decode("utf-8")
        body = json.loads(text.split("\n", 1)[1])
        tables = [f"SSTs/{file['dfsSstFileName']}" for file in body.get("sstFiles") or ()]
        return (*tables, *(f"logs/{file['dfsLogFileName']}" for file in body.get("logFiles") or ()))
    except (zipfile.BadZipFile, KeyError, ValueError, IndexError) as error:
        raise BadStorage(f"{snapshot} is not a RocksDB snapshot: {error}") from error


class Tables:
    """What snapshots list, each read once. What is remembered is bounded by the snapshots that there are."""

    def __init__(self) -> None:
        self._known: dict[str, dict[tuple[str, str], tuple[str, ...]]] = {}
        """By directory; there, by the snapshot's name and what names begin with."""

    def of(self, snapshot: Path, where: str) -> tuple[str, ...]:
        """The files that a snapshot lists. ``where`` is the snapshot's directory as the names are to begin with it."""
        known = self._known.setdefault(str(snapshot.parent), {})
        key = (snapshot.name, where)
        if key not in known:
            known[key] = tuple(where + table for table in tables_of(snapshot))
        return known[key]

    def keep(self, directory: str, snapshots: Collection[str]) -> None:
        """Forget all others of a directory."""
        known = self._known.get(directory, {})
        for key in list(known):  # Other threads look things up meanwhile.
            if key[0] not in snapshots:
                known.pop(key, None)

    def prune(self) -> None:
        """Forget directories that are gone."""
        for directory in list(self._known):
            if not Path(directory).is_dir():
                self._known.pop(directory, None)


TABLES = Tables()


# -- how old a file is -----------------------------------------------------------------------------------------------


def ages(query: Path, under: str = "") -> dict[str, Batch | None]:
    """For each file, the last batch known to need it, or None if nobody can tell yet: then it counts as newest.

    Each name has ``under`` before it.
    """
    found: dict[str, Batch | None] = {}
    listed: dict[str, Batch] = {}
    for top, below, names in os.walk(query):
        below.sort()
        where = Path(top).relative_to(query).as_posix()
        prefix = under if where == "." else f"{under}{where}/"
        names.sort()
        found.update(zip([prefix + name for name in names], _ages(where, names), strict=True))
        snapshots = [name for name in names if name.endswith(".zip")]
        TABLES.keep(top, snapshots)
        for name in snapshots:
            file = versioned(name)
            if file is None:
                continue
            try:
                tables = TABLES.of(Path(top) / name, prefix)
            except (BadStorage, OSError):
                continue  # Being written, or just deleted. What it lists is not named, and counts as newest.
            # In the order of names, which is not that of versions.
            age = Batch(file.version - 1)
            listed.update((table, age) for table in tables if listed.get(table, NO_BATCH) < age)
    found.update((table, age) for table, age in listed.items() if table in found)
    return found


def _ages(where: str, names: list[str]) -> Iterable[Batch | None]:
    if where.rpartition("/")[2] in LISTED:
        return [None] * len(names)
    return [_age(where, name) for name in names]


def _age(where: str, name: str) -> Batch | None:
    about = CHECKSUM.fullmatch(name) if name.endswith(".crc") else None
    if about:
        name = about[1]
    if where in ("offsets", "commits"):
        return Batch(int(name)) if name.isdecimal() else None
    file = versioned(name) if where.startswith("state/") else None
    return Batch(file.version - 1) if file else None
