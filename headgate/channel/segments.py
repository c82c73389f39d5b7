"""Segments and their log.

One rule: a segment counts once the log has an entry for its batch, and the entry names the run that committed it. What
other runs of the same batch wrote is garbage, whatever it looks like.

::

    <writer's channel directory>/
        <batch>/r<run>/part-*.parquet    what one run wrote for one batch, by Spark
        log/<channel>/<batch>.json       which run committed the batch, and its files with their sizes

Every reader has a log of its own over the same files. They go with the last entry that names them.
"""

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from headgate import durable
from headgate.core.ids import Batch, ChannelId, Generation, Run, TaskId
from headgate.errors import BadStorage


@dataclass(frozen=True)
class SegmentEntry:
    """One committed segment. File names are relative to the channel's directory."""

    batch: Batch
    run: Run
    files: tuple[tuple[str, int], ...]

    @property
    def size(self) -> int:
        """Bytes in all its files."""
        return sum(size for _, size in self.files)


def directory_of(task: TaskId, generation: Generation) -> str:
    """Where a task writes for its readers, relative to the job's directory."""
    return f"channels/{task}/g{generation}"


def segment_directory(directory: Path, batch: Batch, run: Run) -> Path:
    """Where a run writes a batch."""
    return directory / str(batch) / f"r{run}"


class Segments:
    """What one task wrote in one generation, as one of its readers sees it."""

    def __init__(self, directory: Path, channel: ChannelId) -> None:
        """``directory`` need not be there yet."""
        self.directory = directory
        self.channel = channel

    def commit(self, batch: Batch, run: Run) -> SegmentEntry | None:
        """Enter a batch that Spark has committed into the log. A repeat is harmless, also of one that is read and gone.

        An entry that says something else is from an earlier incarnation of a job whose storage was begun anew since.
        Returns it, or None if the segment is gone.
        """
        where = segment_directory(self.directory, batch, run)
        if not where.is_dir():
            return None  # Every batch makes one, rows or not. Whoever still needs it finds that there is no entry.
        entry = SegmentEntry(
            batch, run, tuple((f"{batch}/r{run}/{name}", size) for name, size in sorted(_data_files(where)))
        )
        if self.entry(batch) != entry:
            self.write(entry)
        return entry

    def write(self, entry: SegmentEntry) -> None:
        """Put an entry into the log, whole or not at all."""
        log = self._log(entry.batch)
        log.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"run": entry.run, "files": entry.files})
        durable.replace(log, text.encode(), flush=False)  # A checkpoint that names it forces it to the disk.

    def entry(self, batch: Batch) -> SegmentEntry | None:
        """The entry of a batch, or None if it is not (or no longer) in the log."""
        try:
            text = self._log(batch).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        try:
            found = json.loads(text)
            return SegmentEntry(
                batch, Run(found["run"]), tuple((str(name), int(size)) for name, size in found["files"])
            )
        except (ValueError, KeyError, TypeError) as error:
            raise BadStorage(f"{self._log(batch)} is not an entry of a channel's log: restore a checkpoint") from error

    def between(self, after: Batch, through: Batch) -> list[SegmentEntry]:
        """The entries after one position, through another. A gap is an error: it would be a loss."""
        found = []
        for number in range(after + 1, through + 1):
            entry = self.entry(Batch(number))
            if entry is None:
                raise BadStorage(
                    f"{self.directory} has no segment of {self.channel} for batch {number}: restore a checkpoint"
                )
            found.append(entry)
        return found

    def _log(self, batch: Batch) -> Path:
        return self.directory / "log" / self.channel / f"{batch}.json"


def drop(directory: Path, channel: ChannelId, batch: Batch) -> None:
    """Delete an entry, and the segment's files if no other reader has an entry for them."""
    segments = Segments(directory, channel)
    segments._log(batch).unlink(missing_ok=True)  # noqa: SLF001 - the same module
    log = directory / "log"
    others = log.iterdir() if log.is_dir() else ()
    if not any((other / f"{batch}.json").exists() for other in others):
        shutil.rmtree(directory / str(batch), ignore_errors=True)


def _data_files(where: Path) -> list[tuple[str, int]]:
    """Files that hold rows. Spark leaves marks and checksums beside them, which begin with ``_`` or ``.``."""
    with os.scandir(where) as found:
        return [(each.name, each.stat().st_size) for each in found if each.name[0] not in "_." and each.is_file()]
