"""Rebuilding from a checkpoint: a task's directory, and what is in flight to it.

One rule: the new generation gets a directory of its own and nothing of the old one changes. Files are linked where the
file system can, and copied where it cannot; each is seen to be there, and whole by its size, before anything starts.
"""

import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from headgate import layout
from headgate.core.ids import Batch, ChannelId
from headgate.durable import directories, force, linked, sync
from headgate.errors import BadStorage
from headgate.snapshot.files import FileFacts, measure

INSIDE = re.compile(r"^(.*/)?tasks/[^/]+/g[0-9]+/")


@dataclass(frozen=True)
class Sources:
    """Where files of a checkpoint are found: in the working directory if they are still there, else in the storage."""

    root: Path
    fetch: Callable[[str, Path], None] | None
    """Brings a file of the storage to a path, when the storage is not the working directory."""

    def bring(self, name: str, target: Path, wanted: FileFacts) -> None:
        """Put a file of a checkpoint where a new generation needs it. What stands there was left by a try that died."""
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)
        here = self.root / name
        if self.fetch is None and here.exists():
            _link(here, target)
        elif self.fetch is not None:
            # The storage's copy is the one that was seen to be whole. The working directory's saves a journey.
            if here.exists() and measure(here) == wanted:
                _link(here, target)
            else:
                self.fetch(name, target)
        else:
            raise BadStorage(f"{here} is gone: restore another checkpoint (--from N, or --fallback)")
        if target.stat().st_size != wanted.size:
            raise BadStorage(
                f"{here} has {target.stat().st_size} bytes and should have {wanted.size}: "
                "restore another checkpoint (--from N, or --fallback)"
            )


def _link(source: Path, target: Path) -> None:
    if not linked(source, target):
        shutil.copyfile(source, target)
        sync(target)


def rebuild(
    sources: Sources,
    query: Path,
    files: Mapping[str, FileFacts],
    batch: Batch,
    positions: Mapping[ChannelId, Batch],
    renamed: Mapping[ChannelId, ChannelId],
) -> dict[str, FileFacts]:
    """Make a query's directory from the files of a snapshot. Returns what is known of the files that are now there.

    ``files`` are named as in ``take``: the part after the generation is the name inside the query's directory.
    ``positions`` is where the inputs begin, and ``renamed`` what they were called in the snapshot.
    """
    shutil.rmtree(query, ignore_errors=True)
    known: dict[str, FileFacts] = {}
    for name, facts in files.items():
        inside = INSIDE.sub("", name)
        sources.bring(name, query / inside, facts)
        known[inside] = facts
    for name in (*layout.move_positions(query, batch, positions, renamed), *layout.relocate(query)):
        known.pop(name)
    # What the links lead to is on the disk already; the links are not.
    force(directories([query / name for name in known], top=sources.root))
    return known
