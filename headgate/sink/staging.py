"""Where the files of a sink wait until they are committed.

::

    <target>/_headgate/<job>.<sink>/
        committed.json                  the newest commit that has begun
        g<generation>/b<batch>-r<run>/  one part: what one run wrote for one batch

One rule: a file gets into readers' sight by a rename and in no other way. Names that begin with ``_`` are passed over
by Spark, Hive and Arrow when they read the target directory.
"""

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from headgate.checksums import checked_fields, checked_text
from headgate.core.ids import Batch, CheckpointId, Generation, Run, SinkId
from headgate.durable import replace
from headgate.errors import BadStorage
from headgate.sink.api import WriteId
from headgate.sink.owner import escaped

HIDDEN = "_headgate"
MARKER = "committed.json"
VERSION = 1

_NEW_MARKER = ".committed-"
_GENERATION = re.compile(r"g(\d+)")
_PART = re.compile(r"b(\d+)-r(\d+)")

StagedMark = tuple[Generation, CheckpointId]
"""Which commit. Commits of one sink come in this order."""


@dataclass(frozen=True)
class Staging:
    """The staging directory of one sink of one job. Several may lie in one target."""

    target: Path
    job: str
    sink: SinkId

    @cached_property
    def label(self) -> str:
        """The sink's name among all sinks of all jobs, fit for a file name."""
        return f"{escaped(self.job)}.{escaped(self.sink)}"

    @cached_property
    def root(self) -> Path:
        """The directory."""
        return self.target / HIDDEN / self.label

    def part(self, write_id: WriteId) -> Path:
        """Where an attempt writes."""
        return self.root / f"g{write_id.generation}" / f"b{write_id.batch}-r{write_id.run}"

    def name(self, write_id: WriteId, path: str) -> str:
        """A file of a part, from the target directory on."""
        return (self.part(write_id) / path).relative_to(self.target).as_posix()

    def final(self, write_id: WriteId, path: str) -> Path:
        """Where a file of a part goes: the same place for every commit, and for no other file ever.

        Spark's own name has an id in it that is new with every write. So a job that begins anew, with numbers that
        were there before, does not write over what it wrote in its earlier incarnation.
        """
        *subdirectories, name = path.split("/")
        unique = f"part-{self.label}-g{write_id.generation}-b{write_id.batch}-{name.removeprefix('part-')}"
        return self.target.joinpath(*subdirectories, unique)

    def write_ids(self) -> list[WriteId]:
        """All parts that are there. What is not named like a part is not ours, and is left alone."""
        return [
            WriteId(self.job, self.sink, generation, Batch(int(match[1])), Run(int(match[2])))
            for generation in self._generations()
            for name in _names(self.root / f"g{generation}")
            if (match := _PART.fullmatch(name))
        ]

    def newest_commit(self) -> StagedMark | None:
        """What ``remember`` remembered last."""
        path = self.root / MARKER
        try:
            fields = checked_fields(path.read_bytes(), path)
            version, generation, checkpoint = fields["version"], fields["generation"], fields["checkpoint"]
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError) as error:
            raise BadStorage(f"{path} cannot be read ({error}): restore it from a copy") from error
        if version != VERSION:
            raise BadStorage(f"{path} has format {version!r}, known is {VERSION}: use the Headgate that wrote it")
        return Generation(int(generation)), CheckpointId(int(checkpoint))

    def remember(self, mark: StagedMark) -> None:
        """Remember that a commit has begun. Atomic: who reads at the same time finds the old mark or the new one."""
        fields = {"version": VERSION, "generation": mark[0], "checkpoint": mark[1]}
        replace(self.root / MARKER, checked_text(fields).encode(), prefix=_NEW_MARKER)

    def tidy(self, below: Generation) -> None:
        """Remove what earlier generations leave besides their parts. What is not ours stays."""
        for generation in self._generations():
            if generation < below:
                with suppress(OSError):
                    (self.root / f"g{generation}").rmdir()
        for name in _names(self.root):
            if name.startswith(_NEW_MARKER):  # somebody did not live to put it in place
                (self.root / name).unlink(missing_ok=True)

    def _generations(self) -> list[Generation]:
        matches = [_GENERATION.fullmatch(name) for name in _names(self.root)]
        return [Generation(int(match[1])) for match in matches if match]


def data_files(part: Path) -> Iterator[tuple[str, int]]:
    """The data files of a part: path and size. Checksums and the like are left out."""
    pending = [""]
    while pending:
        below = pending.pop()
        with os.scandir(part / below) as entries:
            for entry in entries:
                if entry.is_dir():
                    if "=" in entry.name:
                        pending.append(f"{below}{entry.name}/")
                elif not entry.name.startswith((".", "_")):
                    yield below + entry.name, entry.stat().st_size


def discard(directory: Path) -> None:
    """Remove a directory with all that is in it, if it is there. Another process may be doing the same."""
    for path, _, names in os.walk(directory, topdown=False):
        for name in names:
            Path(path, name).unlink(missing_ok=True)
        with suppress(FileNotFoundError):
            Path(path).rmdir()


def _names(directory: Path) -> list[str]:
    try:
        return sorted(entry.name for entry in directory.iterdir())
    except FileNotFoundError:
        return []
