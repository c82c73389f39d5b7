"""What is where in the storage of one job.

One rule: this module alone knows the names below. A job's folder is claimed by ``job.json`` before anything else is
written there, and one that another claims is refused.

::

    <storage>/<job>/job.json                 whose folder it is
                    checkpoint-log/<id>.json          the records, each created once
                    checkpoint-log.json               which of the old records need be read
                    manifests/<id>.json      the files of a large checkpoint, which records refer to
                    holds/<id>               the checkpoint of that id is held
                    savepoints/<id>/         a savepoint's own copy, complete if it has a manifest.json
                    savepoints/copied/<id>   that it was complete once: it is never copied again
                    savepoints/labels/<id>   what users call it
                    incarnation                     a name for the time since the storage was begun anew
                    begun.json               when that was
                    control.json             how to reach the process that leads
                    description.json         the plan and the settings of the job as it was last run
                    forgetting               all of this is being deleted
                    history/                 notable events, in segments: see ``headgate.store.history``
                    history.jsonl            the same, of earlier releases

Names that begin with a dot are not ours: file systems leave such things about.
"""

import contextlib
import re
import uuid
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Self

from headgate.checksums import checked_fields, checked_text, in_parallel
from headgate.core.ids import NO_CHECKPOINT, CheckpointId
from headgate.core.records import EpochRecord, Record
from headgate.errors import BadStorage, ExternalError, HeadgateError, InvalidOption
from headgate.store import codec
from headgate.store.api import Missing, Store
from headgate.store.folder import Folder
from headgate.store.history import HistoryBounds, HistoryReader, HistoryWriter, Lines
from headgate.store.manifests import Manifests

CLAIM = "job.json"
CONTROL = "control.json"
DESCRIPTION = "description.json"
FOLD = "checkpoint-log.json"
INCARNATION = "incarnation"
BEGUN = "begun.json"
PROBE = "writable"
FORGETTING = "forgetting"
LAYOUT = 3
"""The format of a claim, which stands for the names of all files here. Others are not guessed at."""
READ_AT_ONCE = 16


class JobStore(Folder):
    """The storage of one job. It is a storage itself, with paths that begin at the job's folder.

    Use ``open`` to run the job, and ``find`` to look at it.
    """

    def __init__(self, store: Store, job: str) -> None:
        if "/" in job or job.startswith("."):
            raise InvalidOption(f"{job!r} cannot be the name of a job: use one without '/', not beginning with '.'")
        super().__init__(store, job)
        self.job = job
        self._history = HistoryWriter(self)
        self._manifests = Manifests(
            lambda number, data: self.put(_manifest_path(number), data),
            lambda number: self.read(_manifest_path(number)),
        )
        self._checkpoint_log_read = self._met = False
        self._incarnation: str | None = None
        """The one that this process works in, once it has asked."""

    @classmethod
    def open(cls, store: Store, job: str) -> Self:
        """The storage of a job that is about to run, claimed for it and proved to be writable."""
        found = cls(store, job)
        _refuse_nested(store)
        found.refuse_forgotten()
        if not found._claimed():
            found._refuse_foreign()
            if not found.create_if_absent(CLAIM, _claim(job)):
                found._claimed()
        found.put(PROBE, b"")
        found.delete(PROBE)
        return found

    @classmethod
    def find(cls, store: Store, job: str) -> Self:
        """The storage of a job that has run before. Nothing is written."""
        found = cls(store, job)
        if not found._claimed():
            there = ", ".join(jobs(store)) or "none"
            raise BadStorage(f"there is no job {job!r} in {store.uri}: its jobs are {there}")
        return found

    def for_looking(self) -> "JobStore":
        """The same for another thread, which only looks: what this one remembers is not for two."""
        return JobStore(self._store, self.job)

    # -- forgetting a job --------------------------------------------------------------------------------------------

    def refuse_forgotten(self) -> None:
        """Refuse a job that is being forgotten: a part of what it was may be gone."""
        with contextlib.suppress(Missing):
            self.read(FORGETTING)
            raise BadStorage(
                f"job {self.job} in {self.uri} is being forgotten: finish that with `headgate forget {self.job} --yes`"
            )

    def begin_forgetting(self) -> None:
        """From here on the job cannot be run."""
        self.put(FORGETTING, b"")

    def end_forgetting(self) -> None:
        """The job can be run again, with what is left of it."""
        self.delete(FORGETTING)

    def goes_last(self, path: str) -> bool:
        """Whether a path stays until all else is gone."""
        return path in {FORGETTING, CLAIM}

    def give_up_claim(self) -> None:
        """The folder is nobody's."""
        self.delete(CLAIM)

    def is_there(self) -> bool:
        """Whether the folder of the job can be reached, and is the job's."""
        with contextlib.suppress(HeadgateError):
            return self._claimed()
        return False

    # -- the checkpoint log ----------------------------------------------------------------------------------------

    def read_checkpoint_log(self) -> tuple[Record, ...]:
        """All records, in the order of their ids."""
        return tuple(record for record, _ in self.read_records())

    def read_records(self) -> Iterator[tuple[Record, dict[str, Any]]]:
        """The records that matter with what else they carry, in the order of their ids. One that cannot be read raises.

        Those that a later epoch record has made superfluous are not read, as far as a leader has written down which
        they are.
        """
        numbers = self._ids("checkpoint-log", r"(\d{10,})\.json")
        yield from self._read_each(self._unfolded(numbers))
        self._checkpoint_log_read = True

    def newest(self) -> Record | None:
        """The record with the highest id."""
        while numbers := self._ids("checkpoint-log", r"(\d{10,})\.json"):
            found = self._read_if_there(max(numbers))
            if found is not None:
                return found[0]
        return None

    def _read_each(self, numbers: Sequence[CheckpointId]) -> Iterator[tuple[Record, dict[str, Any]]]:
        """Each for itself where that is quick. Where it takes a while to get there and back, many at once."""
        at_once = 1 if self.local_root is not None else READ_AT_ONCE
        yield from filter(None, in_parallel(self._read_if_there, numbers, at_once))

    def _read_if_there(self, number: CheckpointId) -> tuple[Record, dict[str, Any]] | None:
        try:
            return self.read_record(number)
        except Missing:  # deleted meanwhile
            return None

    def _unfolded(self, numbers: tuple[CheckpointId, ...]) -> tuple[CheckpointId, ...]:
        """The records that must be read.

        All, unless the epoch record that makes others superfluous stands where it should.
        """
        try:
            fold = codec.unwrap(self.read(FOLD), FOLD)
            place = CheckpointId(fold["epoch_record"])
            if place not in numbers:
                return numbers
            epoch_record = self.read_record(place)[0]
            same = isinstance(epoch_record, EpochRecord) and (epoch_record.generation, epoch_record.leader) == (
                fold["generation"],
                fold["leader"],
            )
            needed = {CheckpointId(number) for number in fold["needed"]}
        except (Missing, BadStorage, KeyError, TypeError):  # It saves time, and nothing depends on it.
            return numbers
        return tuple(number for number in numbers if number >= place or number in needed) if same else numbers

    def fold(self, epoch_record: EpochRecord, needed: Collection[CheckpointId]) -> None:
        """Write down that of the records before an epoch record only some need be read."""
        self.put(
            FOLD,
            codec.wrap(
                {
                    "epoch_record": epoch_record.id,
                    "generation": epoch_record.generation,
                    "leader": epoch_record.leader,
                    "needed": list(needed),
                }
            ),
        )

    def read_record(self, number: CheckpointId) -> tuple[Record, dict[str, Any]]:
        """The record of an id with what else it carries. ``Missing`` if there is none."""
        path = _record_path(number)
        where = f"{self.uri}/{path}"
        data = self.read(path)
        try:
            record, extra = self._manifests.decode(data, where)
        except Missing as missing:
            self.read(path)  # Both may have been deleted meanwhile.
            raise BadStorage(
                f"{where} names {missing.where}, which is gone: put back a copy of it, or restore another checkpoint"
            ) from missing
        if record.id != number:
            raise BadStorage(f"{where} holds the record of id {record.id}: put back the one that belongs there")
        return record, extra

    def record_bytes(self, number: CheckpointId) -> int:
        """How large the record of an id is. ``Missing`` if there is none."""
        return len(self.read(_record_path(number)))

    def create_record(self, record: Record, extra: Mapping[str, object]) -> Record | None:
        """Create a record if its id is free. None: it is created; otherwise the record that has the id.

        An error says nothing about whether the record is there.
        """
        self._see_that_it_is_the_same()
        path = _record_path(record.id)
        if self.create_if_absent(path, self._manifests.encode(record, extra)):
            return None
        try:
            return self.read_record(record.id)[0]
        except Missing as error:
            raise ExternalError(f"{self.uri}/{path} was there and is gone: nobody can tell whose it was") from error

    def delete_record(self, *numbers: CheckpointId) -> None:
        """Delete records, durably, before anything they name is deleted."""
        self.delete(*(_record_path(number) for number in numbers))
        self._manifests.forget(numbers)
        if not self._checkpoint_log_read:
            return  # Nobody knows which manifests the others need.
        if not self._met:  # What earlier processes left. From here on, what there is is known.
            self._manifests.meet(self._ids("manifests", r"(\d{10,})\.json"))
            self._met = True
        unused = self._manifests.unused(max(numbers, default=NO_CHECKPOINT))
        self.delete(*(_manifest_path(number) for number in unused))

    # -- holds and savepoints --------------------------------------------------------------------------------------

    def set_hold(self, number: CheckpointId, *, held: bool) -> None:
        """Remember that a checkpoint is held, or that it is not."""
        if held:
            self.put(f"holds/{number}", b"")
        else:
            self.delete(f"holds/{number}")

    def held(self) -> tuple[CheckpointId, ...]:
        """The checkpoints that are held."""
        return self._ids("holds", r"(\d+)")

    def copied(self) -> tuple[CheckpointId, ...]:
        """The savepoints whose own copy is complete, or was: somebody may have carried it off."""
        whole, once = self._copies()
        return tuple(sorted(whole | once))

    def carried_off(self) -> tuple[CheckpointId, ...]:
        """The savepoints whose own copy was complete, and is gone."""
        whole, once = self._copies()
        return tuple(sorted(once - whole))

    def mark_copied(self, number: CheckpointId) -> None:
        """Remember that a savepoint's own copy was complete."""
        self.put(f"savepoints/copied/{number}", b"")

    def forget_copied(self, number: CheckpointId) -> None:
        """The savepoint is deleted."""
        self.delete(f"savepoints/copied/{number}")

    def set_label(self, number: CheckpointId, label: str) -> None:
        """Remember what users call a savepoint. Without a text they call it nothing."""
        if label:
            self.put(f"savepoints/labels/{number}", codec.wrap({"label": label}))
        else:
            self.delete(f"savepoints/labels/{number}")

    def labels(self) -> dict[CheckpointId, str]:
        """What users call savepoints. One that cannot be read says so in its place."""
        found: dict[CheckpointId, str] = {}
        for number in self._ids("savepoints/labels", r"(\d+)"):
            where = f"savepoints/labels/{number}"
            try:
                found[number] = str(codec.unwrap(self.read(where), f"{self.uri}/{where}").get("label", ""))
            except Missing:
                continue
            except BadStorage:
                found[number] = "(damaged)"
        return found

    def _copies(self) -> tuple[set[CheckpointId], set[CheckpointId]]:
        """The savepoints whose own copy is there, and those of which it is remembered."""
        entries = [entry.path for entry in self.list("savepoints", depth=2)]
        there = (re.fullmatch(r"savepoints/(\d+)/manifest\.json", path) for path in entries)
        marks = (re.fullmatch(r"savepoints/copied/(\d+)", path) for path in entries)
        return {CheckpointId(int(n[1])) for n in there if n}, {CheckpointId(int(n[1])) for n in marks if n}

    def incarnation(self) -> str:
        """A name for the time since the storage was begun anew. Made by whoever asks first."""
        try:
            self._incarnation = self._read_incarnation()
        except Missing:
            incarnation = f"inc_{uuid.uuid4().hex[:12]}"
            self.create_if_absent(INCARNATION, f"{incarnation} {_checksum(incarnation)}\n".encode())
            self._incarnation = self._read_incarnation()
        return self._incarnation

    def _see_that_it_is_the_same(self) -> None:
        """Write no record into a storage that was deleted, or begun anew, while this process used it."""
        if self._incarnation is None:
            return
        try:
            now = self._read_incarnation()
        except Missing:
            raise BadStorage(
                f"{self.uri} was deleted while the job ran: start the job again: it begins without state"
            ) from None
        if now != self._incarnation:
            raise BadStorage(
                f"{self.uri} was deleted and created again while the job ran: this process no longer writes to it"
            )

    def begun_ms(self, now_ms: int) -> int:
        """When the storage was begun, by the clock of whoever asked first. It never changes."""
        with contextlib.suppress(Missing):
            return self._read_begun()
        self.create_if_absent(BEGUN, codec.wrap({"begun_ms": now_ms}))
        return self._read_begun()

    def _read_begun(self) -> int:
        where = f"{self.uri}/{BEGUN}"
        begun = codec.unwrap(self.read(BEGUN), where).get("begun_ms")
        if not isinstance(begun, int):
            raise BadStorage(f"{where} does not say when the storage was begun: restore it from a copy")
        return begun

    def _read_incarnation(self) -> str:
        """The incarnation, if its file is whole. One of an earlier version has no checksum in it."""
        text = self.read(INCARNATION).decode(errors="replace").strip()
        found = re.fullmatch(r"(inc_[0-9a-f]{12})( [0-9a-f]{8})?", text, re.ASCII)
        if found is None or (found[2] and found[2].strip() != _checksum(found[1])):
            raise BadStorage(
                f"{self.uri}/{INCARNATION} is damaged ({text[:40]!r}): restore it from a copy; another name in it "
                "would have what is committed taken for lost"
            )
        return found[1]

    # -- the process that leads, and the past ----------------------------------------------------------------------

    def put_control(self, control: Mapping[str, object]) -> None:
        """Say how to reach the process that leads, to nobody but its owner: whoever reads it commands the job."""
        self.put(CONTROL, codec.wrap(control), secret=True)

    def read_control(self) -> dict[str, Any] | None:
        """How to reach the process that leads. None if none does."""
        try:
            return codec.unwrap(self.read(CONTROL), f"{self.uri}/{CONTROL}")
        except Missing:
            return None

    def clear_control(self) -> None:
        """No process leads any more."""
        self.delete(CONTROL)

    def put_description(self, description: Mapping[str, object]) -> None:
        """Write down what the job is, for those who look at it later. It explains and decides nothing."""
        self.put(DESCRIPTION, codec.wrap(description))

    def read_description(self) -> dict[str, Any] | None:
        """What the job was when it was last run. None if nobody has written that down."""
        try:
            return codec.unwrap(self.read(DESCRIPTION), f"{self.uri}/{DESCRIPTION}")
        except Missing:
            return None

    def bound_history(self, bounds: HistoryBounds) -> None:
        """Say how much history is kept, before the first line of it is written here."""
        self._history = HistoryWriter(self, bounds)

    def append_history(self, lines: Lines) -> None:
        """Add notable events to the end of the job's history."""
        self._history.append(lines)

    def history(self) -> HistoryReader:
        """The job's history, to be read by pages."""
        return HistoryReader(self)

    def read_history(self) -> list[dict[str, Any]]:
        """All notable events that are kept, the oldest first."""
        return list(self.history().lines())

    # -- helpers ---------------------------------------------------------------------------------------------------

    def _ids(self, folder: str, name: str) -> tuple[CheckpointId, ...]:
        """The ids that the names in a folder stand for, in their order."""
        found = []
        for entry in self.list(folder, depth=1):
            own = entry.path.removeprefix(f"{folder}/")
            if own.startswith("."):
                continue
            number = re.fullmatch(name, own, re.ASCII)
            if number is None:
                raise BadStorage(f"{self.uri}/{entry.path} does not belong there: move it away")
            found.append(CheckpointId(int(number[1])))
        return tuple(sorted(found))

    def _claimed(self) -> bool:
        """Whether the folder is this job's already. Raises if it is another's."""
        where = f"{self.uri}/{CLAIM}"
        try:
            data = self.read(CLAIM)
        except Missing:
            return False
        owner = _owner(data, where)
        if owner != self.job:
            raise BadStorage(f"{self.uri} is the storage of job {owner!r}, not {self.job!r}: choose another storage")
        return True

    def _refuse_foreign(self) -> None:
        """Refuse a folder that nobody has claimed and that has something in it."""
        there = (entry.path for entry in self.list())
        foreign = next((path for path in there if path not in {CLAIM, PROBE} and not path.startswith(".")), None)
        # Another process of this job may have claimed it by now, and gone on.
        if foreign is not None and not self._claimed():
            raise BadStorage(f"{self.uri} has no {CLAIM}, and is not empty ({foreign}): choose another storage")


def jobs(store: Store) -> list[str]:
    """The names of the jobs that have a folder in a storage."""
    paths = (entry.path.split("/") for entry in store.list(depth=2))
    return sorted(path[0] for path in paths if len(path) == 2 and path[1] == CLAIM)


def _record_path(number: CheckpointId) -> str:
    return f"checkpoint-log/{number:010d}.json"


def _checksum(text: str) -> str:
    return f"{zlib.crc32(text.encode()):08x}"


def _claim(job: str) -> bytes:
    return checked_text({"format": LAYOUT, "job": job}).encode() + b"\n"


def _manifest_path(number: CheckpointId) -> str:
    return f"manifests/{number:010d}.json"


def _owner(data: bytes, where: str) -> str:
    try:
        claim = checked_fields(data, where)
        version, owner = claim["format"], claim["job"]
    except (BadStorage, KeyError, TypeError):
        version, owner = None, None
    if type(version) is not int or version < 1 or not isinstance(owner, str):
        raise BadStorage(f"{where} is damaged: it does not say whose folder this is; put back a good copy of it")
    if version > LAYOUT:
        raise BadStorage(codec.newer_format(where, version, LAYOUT))
    if version < LAYOUT:
        raise BadStorage(
            f"{where} has format {version} of an earlier release, whose files have other names: stop the job with that "
            "release, and begin from its savepoint in a new storage (`headgate run --from DIRECTORY`)"
        )
    return owner


def _refuse_nested(store: Store) -> None:
    """Refuse a storage that is inside the folder of a job: jobs would end up inside one another."""
    try:
        owner = _owner(store.read(CLAIM), f"{store.uri}/{CLAIM}")
    except Missing:
        return
    raise BadStorage(f"{store.uri} is the folder of job {owner!r}, not a storage: give the folder above it")
