"""The files of checkpoints as records carry them: each name once, and of many only what is new.

One rule: what a record costs is what is new in it. Up to ``INLINE_MAX`` files stand in the record itself. More are
written whole into ``manifests/<id>.json`` once in a while, and records name that manifest, with its checksum, and what
has been added and dropped since. A record depends on that one file and on no other record, so any other record may go.

::

    "manifest": {"whole": 12, "sha256": "...", "added": {"<task>": [[name, size, checksum], ...]}, "dropped": {...}}

Files that belong to no task, which are those in flight, stand under the empty name. Older records carry all names in
the record and once more in ``files``; they are read as they are.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from operator import is_not
from typing import Any, cast

from headgate.core.evolve import evolve
from headgate.core.ids import CheckpointId
from headgate.core.records import CompletedCheckpoint, Record
from headgate.errors import BadStorage
from headgate.store import codec

FORMAT = 2
"""Records of this format name no files by themselves: who does not know manifests must not read them."""
INLINE_MAX = 1_000
CHANGES_MAX = 1_000
"""With more added and dropped than this, the next record gets a manifest of its own."""
NO_TASK = ""

FileEntry = dict[str, Any]
"""Size and checksum by name."""
FileSlots = Mapping[str, Sequence[FileEntry]]
"""The files of each task, in groups that have no name in common. A group that is the same object has not changed."""


@dataclass(frozen=True)
class Whole:
    """A manifest that stands in a file of its own."""

    id: CheckpointId
    sha256: str
    slots: Mapping[str, FileEntry]


class Changes:
    """What has become of the files of one task since a manifest was written. Looks only at groups that have changed."""

    def __init__(self, groups: Sequence[FileEntry]) -> None:
        """The manifest has these."""
        self._whole: FileEntry = {}
        for group in groups:
            self._whole.update(group)
        self._groups = {id(group): group for group in groups}
        self.added: FileEntry = {}
        self.dropped: dict[str, None] = {}

    def follow(self, groups: Sequence[FileEntry]) -> None:
        """The task has these now."""
        now = {id(group): group for group in groups}
        gone: FileEntry = {}
        for place in self._groups.keys() - now.keys():
            gone.update(self._groups[place])
        fresh: FileEntry = {}
        for place in now.keys() - self._groups.keys():
            fresh.update(now[place])
        for name in gone.keys() - fresh.keys():
            self.added.pop(name, None)
            if name in self._whole:
                self.dropped[name] = None
        for name in list(compress(fresh, map(is_not, fresh.values(), map(gone.get, fresh)))):
            facts = fresh[name]
            self.dropped.pop(name, None)
            self.added.pop(name, None)
            if self._whole.get(name) != facts:
                self.added[name] = facts
        self._groups = now

    def __len__(self) -> int:
        """How many there are."""
        return len(self.added) + len(self.dropped)


class Manifests:
    """How one process writes manifests and reads them. ``put`` and ``read`` are about ``manifests/<id>.json``."""

    def __init__(self, put: Callable[[CheckpointId, bytes], None], read: Callable[[CheckpointId], bytes]) -> None:
        """Nothing is known yet: the first large record gets a manifest of its own."""
        self._put = put
        self._read = read
        self._newest: tuple[CheckpointId, str] | None = None
        self._since: dict[str, Changes] = {}
        """What has changed in each slot since the newest manifest was written."""
        self._seen: dict[CheckpointId, Whole] = {}
        self._used: dict[CheckpointId, CheckpointId] = {}
        """For each record that was read or written here, the manifest that it names."""
        self._there: set[CheckpointId] = set()

    def encode(self, record: Record, extra: Mapping[str, Any]) -> bytes:
        """A record as bytes, once the manifest that it names is in the storage.

        The files are in ``extra``, as ``groups`` for each task or as one table of ``files``.
        """
        if not isinstance(record, CompletedCheckpoint) or not extra.keys() & {"files", "groups"}:
            return codec.encode(record, extra)
        slots: FileSlots | None = extra["groups"] if "groups" in extra else _slots(record, extra["files"])
        if slots is None:
            return codec.encode(record, extra)
        if sum(len(group) for groups in slots.values() for group in groups) <= INLINE_MAX:
            self._used.pop(record.id, None)
            manifest: dict[str, object] = {"added": {slot: _listed(groups) for slot, groups in slots.items()}}
        else:
            manifest = self._changes(record.id, slots)
        bare = evolve(record, tasks=tuple(evolve(snapshot, files=()) for snapshot in record.tasks))
        rest = {key: value for key, value in extra.items() if key not in ("files", "groups")}
        return codec.encode(bare, {**rest, "manifest": manifest}, FORMAT)

    def decode(self, data: bytes, where: str) -> tuple[Record, dict[str, Any]]:
        """The record and what else it carries, with all files named in both."""
        record, extra = codec.decode(data, where)
        manifest = extra.pop("manifest", None)
        if manifest is None or not isinstance(record, CompletedCheckpoint):
            return record, extra
        slots: dict[str, FileEntry] = {}
        if "whole" in manifest:
            whole = self._whole(CheckpointId(manifest["whole"]), manifest["sha256"], where)
            self._used[record.id] = whole.id
            self._there.add(whole.id)
            slots = {slot: dict(files) for slot, files in whole.slots.items()}
        for slot, names in manifest.get("dropped", {}).items():
            for name in names:
                slots.get(slot, {}).pop(name, None)
        for slot, files in manifest["added"].items():
            slots.setdefault(slot, {}).update(_table(files))
        tasks = tuple(evolve(each, files=tuple(slots.get(str(each.task), {}))) for each in record.tasks)
        named = {name: facts for files in slots.values() for name, facts in files.items()}
        return evolve(record, tasks=tasks), {**extra, "files": named}

    def forget(self, records: Iterable[CheckpointId]) -> None:
        """Records that are gone."""
        for record in records:
            self._used.pop(record, None)

    def meet(self, there: Iterable[CheckpointId]) -> None:
        """Manifests that are in the storage."""
        self._there.update(there)

    def unused(self, gone: CheckpointId) -> list[CheckpointId]:
        """Manifests that no record names any more. They are about to be deleted, and forgotten here.

        ``gone`` is the newest record that went: a manifest that is newer may be that of a record that is being created.
        """
        used = {*self._used.values(), *(() if self._newest is None else self._newest[:1])}
        found = [manifest for manifest in sorted(self._there) if manifest <= gone and manifest not in used]
        self._there.difference_update(found)
        return found

    def _changes(self, record: CheckpointId, slots: FileSlots) -> dict[str, object]:
        if self._newest is None or self._since.keys() != slots.keys() or self._many(slots):
            data = codec.wrap({"files": {slot: _listed(groups) for slot, groups in slots.items()}}, FORMAT)
            self._put(record, data)
            self._there.add(record)
            self._newest = (record, hashlib.sha256(data).hexdigest())
            self._since = {slot: Changes(groups) for slot, groups in slots.items()}
        self._used[record], sha256 = self._newest
        since = self._since.items()
        return {
            "whole": self._used[record],
            "sha256": sha256,
            "added": {slot: _listed([changes.added]) for slot, changes in since if changes.added},
            "dropped": {slot: list(changes.dropped) for slot, changes in since if changes.dropped},
        }

    def _many(self, slots: FileSlots) -> bool:
        """Whether too much has changed since the newest manifest was written."""
        for slot, groups in slots.items():
            self._since[slot].follow(groups)
        return sum(map(len, self._since.values())) > CHANGES_MAX

    def _whole(self, manifest: CheckpointId, sha256: str, where: str) -> Whole:
        found = self._seen.get(manifest)
        if found is None or found.sha256 != sha256:
            data = self._read(manifest)
            if hashlib.sha256(data).hexdigest() != sha256:
                raise BadStorage(
                    f"{where} names manifests/{manifest:010d}.json, which is damaged or of another checkpoint: "
                    "put back a good copy of it, or restore another checkpoint"
                )
            files = cast("dict[str, list[list[Any]]]", codec.unwrap(data, where)["files"])
            found = Whole(manifest, sha256, {slot: _table(listed) for slot, listed in files.items()})
            self._seen = {manifest: found}
        return found


def _slots(record: CompletedCheckpoint, files: FileEntry) -> FileSlots | None:
    """The files by the task that named them. None if there are some of which nothing else is known."""
    if not all(name in files for each in record.tasks for name in each.files):
        return None
    slots = {str(each.task): {name: files[name] for name in each.files} for each in record.tasks}
    rest = files.keys() - set().union(*slots.values())
    slots[NO_TASK] = {name: files[name] for name in sorted(rest)}
    return {slot: [files] for slot, files in slots.items()}


def _listed(groups: Iterable[FileEntry]) -> list[list[Any]]:
    return [[name, *facts] for group in groups for name, facts in group.items()]


def _table(listed: Iterable[list[Any]]) -> FileEntry:
    return {name: [size, checksum] for name, size, checksum in listed}
