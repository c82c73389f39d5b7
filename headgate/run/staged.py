"""What sinks have staged, in the storage.

One rule: what a checkpoint pre-commits stands in the storage before the checkpoint counts, and stays there until it is
committed. So whoever recovers needs the storage alone, whatever became of the working directory.

Where the working directory is the storage nothing is copied. Otherwise the copies lie side by side::

    <storage>/<job>/staged/<sink>/g<generation>.<digest of the path>.<file name>

Their lifetime follows the sink's own: they go when their transaction is committed, and what a process left behind that
died goes when the next generation throws away whatever earlier ones left. Calls for one sink come one at a time.
"""

import contextlib
import hashlib
import os
import re
from collections.abc import Sequence
from pathlib import Path

from headgate.checksums import damage, in_parallel
from headgate.core.ids import Generation, SinkId
from headgate.durable import temporary
from headgate.errors import HeadgateError
from headgate.sink.api import StagedFile
from headgate.store.api import Missing
from headgate.store.jobstore import JobStore

COPIES = 8
"""How many files are carried at a time: a remote storage takes its time for each."""
DELETED_AT_ONCE = 64

_COPY = re.compile(r"staged/[^/]+/g(\d+)\.[0-9a-f]{16}\..+")


class StagedFiles:
    """Carries staged files of one job into its storage, and back."""

    def __init__(self, store: JobStore, root: Path) -> None:
        """``root`` is the job's working directory: inside the storage, or elsewhere."""
        self._store = store
        self._root = root
        self._elsewhere = store.local_root != root
        self._there: dict[SinkId, set[str]] = {}
        """Copies in the storage that this process knows of."""
        self._pending_deletion: dict[SinkId, set[str]] = {}
        """Copies that nobody needs, and that could not be deleted yet."""

    def keep(self, sink: SinkId, generation: Generation, files: Sequence[StagedFile]) -> None:
        """Copy files into the storage, if it is elsewhere. When it returns they are there for good."""
        if not self._elsewhere:
            return
        there = self._there.setdefault(sink, set())
        new = [(self._path(sink, file), name) for file in files if (name := _name(sink, generation, file)) not in there]

        def copy(one: tuple[Path, str]) -> str:
            self._store.copy_in(*one)
            return one[1]

        there.update(in_parallel(copy, new, COPIES))

    def bring(self, sink: SinkId, generation: Generation, files: Sequence[StagedFile], *, thorough: bool) -> None:
        """Bring back files that are gone, or not what was pre-committed. ``thorough``: by checksum, if there are
        copies.

        What the storage does not have either is left to the sink, which knows whether it is committed already.
        """

        def wanting(file: StagedFile) -> bool:
            path = self._path(sink, file)
            checksum = file.checksum if thorough and self._elsewhere else None
            return not path.exists() or damage(path, file.size, checksum) != ""

        found = [file for file, wanted in zip(files, in_parallel(wanting, files), strict=True) if wanted]
        brought = in_parallel(lambda file: self._bring(sink, generation, file), found, COPIES)
        self._there.setdefault(sink, set()).update(filter(None, brought))

    def drop(self, sink: SinkId, generation: Generation, files: Sequence[StagedFile]) -> None:
        """Delete the copies of what is committed. If that fails, it is done with the next."""
        there, pending_deletion = self._there.setdefault(sink, set()), self._pending_deletion.setdefault(sink, set())
        names = {_name(sink, generation, file) for file in files}
        pending_deletion |= names if self._elsewhere else names & there
        there -= names
        with contextlib.suppress(HeadgateError, OSError):
            self._delete(sorted(pending_deletion))
            pending_deletion.clear()

    def clear(self, sink: SinkId, below: Generation) -> None:
        """Delete all copies of generations before ``below``: whatever of it was to be committed is committed."""
        listed = [entry.path for entry in self._store.list(f"staged/{sink}", depth=1)]
        found = {path: Generation(int(copy[1])) for path in listed if (copy := _COPY.fullmatch(path))}
        old = [path for path, generation in found.items() if generation < below]
        self._delete(old)
        self._there.setdefault(sink, set()).difference_update(old)

    def _bring(self, sink: SinkId, generation: Generation, file: StagedFile) -> str | None:
        """Bring one file back; the name of the copy, if there is one.

        A copy that is damaged itself does not take the place of anything.
        """
        path = self._path(sink, file)
        name = _name(sink, generation, file)
        with temporary(path, ".brought-") as temp:
            try:
                self._copy_out(name, f"staged/{sink}/{file.path}", temp)
            except Missing:
                return None
            if not path.exists() or not damage(temp, file.size, file.checksum):
                if file.pre_committed_ms:
                    os.utime(temp, ns=(file.pre_committed_ms * 1_000_000,) * 2)
                temp.replace(path)
        return name

    def _copy_out(self, name: str, original: str, to: Path) -> None:
        """The copy; or the file itself, from a time when the storage was the working directory."""
        try:
            self._store.copy_out(name, to)
        except Missing:
            if not self._elsewhere:
                raise
            self._store.copy_out(original, to)

    def _delete(self, names: Sequence[str]) -> None:
        some = [names[begin : begin + DELETED_AT_ONCE] for begin in range(0, len(names), DELETED_AT_ONCE)]
        for _ in in_parallel(lambda each: self._store.delete(*each), some, COPIES):
            pass

    def _path(self, sink: SinkId, file: StagedFile) -> Path:
        return self._root / "staged" / sink / file.path


def _name(sink: SinkId, generation: Generation, file: StagedFile) -> str:
    """The name of a copy. No directories: they would stay when what is in them has gone."""
    digest = hashlib.sha256(file.path.encode()).hexdigest()[:16]
    return f"staged/{sink}/g{generation}.{digest}.{file.path.rpartition('/')[2]}"
