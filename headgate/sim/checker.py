"""What must hold in every world, whatever happens.

One rule: the checker has a model of its own and uses none of the core's code. It looks at what became durable: records
that landed, transactions that became visible, files that were deleted. It never asks the core what it thinks.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from headgate.sim.disk import Disk, Planned, TaskImage, key_of, weigh
from headgate.sim.sink import SimSink
from headgate.sim.table import SimTable

GARBAGE_MAX = 24
"""A file that nobody needs is gone after this many collections, each for another checkpoint."""


class Scene(Protocol):
    """What the checker can see of a world."""

    now: int
    disk: Disk
    sinks: dict[str, SimSink]
    tables: dict[str, SimTable]

    def violation(self, what: str) -> None:
        """Report something that must not be."""


@dataclass(frozen=True)
class Shape:
    """The job as the checker sees it: who reads whom, who writes which sink, how many records there are."""

    mode: str
    num_retained: int
    max_batches_ahead: int | None
    aligned: bool
    """Whether every checkpoint is to be aligned. Savepoints always are."""
    leftovers_ms: int
    """What a dead generation left may be there for this long while a later one leads and nothing holds it up."""
    held_up: tuple[tuple[int, int], ...]
    """What holds a leader up: until when, and how much longer the sinks may take to find leftovers because of it."""
    channels: tuple[tuple[str, str, str], ...]
    """Name, upstream, downstream."""
    sinks: tuple[tuple[str, str], ...]
    """Name, task."""
    records: Mapping[str, int]


class Checker:
    """One world's judge."""

    def __init__(self, scene: Scene, shape: Shape) -> None:
        """Judge ``scene``, which runs a job of this ``shape``."""
        self.scene = scene
        self.shape = shape
        self.checkpoint_log: list[Any] = []
        self.permitted: dict[tuple[str, int, int], int] = {}
        """Transactions that a published checkpoint named, with that checkpoint."""
        self.owner_of_id: dict[int, int] = {}
        self.waiting: dict[str, str] = {}
        """Requests that nobody has answered, with the process that was asked."""
        self.latest: dict[str, tuple[int, int]] = {}
        """For each sink, the generation and checkpoint of the last transaction that became visible."""
        self.deleted: dict[int, None] = {}
        """Checkpoints that were deleted. A late create may bring a record back; nobody relies on it."""
        self.lost: dict[tuple[int, int], None] = {}
        """Records that at-most-once may leave out."""
        self.garbage: dict[str, tuple[int, int]] = {}
        """Files that nobody needs: the newest checkpoint at the last collection, and how many left it in its place."""
        self.completed = 0
        self.beside: dict[int, int] = {}
        """Checkpoints that were taken before every task had shown that it can run, with the one that stays for it."""
        self.fenced_at = 0
        """When the last generation began."""
        self.drain_asked = False
        """A user wanted the job drained."""
        self.drained: Any = None
        """The savepoint at the end of that."""
        self.dry: dict[int, None] = {}
        """Generations in which a checkpoint said that the job drains, or which began from such a one."""
        self.says_dry: dict[int, bool] = {}
        """For each checkpoint, whether it says so."""

    # -- the checkpoint log ----------------------------------------------------------------------------------------

    def created(self, record: Any) -> None:
        """A record has landed in the store."""
        if self.checkpoint_log and record.id < self.checkpoint_log[-1].id and hasattr(record, "base"):
            return  # An epoch record where one was deleted: it must not count, and ``starts`` sees to that.
        for earlier in self.checkpoint_log[-2:]:
            if earlier.id >= record.id:
                self.scene.violation(f"record {record.id} landed after record {earlier.id}")
            if earlier.generation > record.generation:
                self.scene.violation(
                    f"record {record.id} of generation {record.generation} landed behind one of {earlier.generation}"
                )
        self.checkpoint_log.append(record)
        if getattr(record, "ending", None) is not None:
            self._ended(record)
        if hasattr(record, "base"):
            self.fenced_at = self.scene.now
            if self.says_dry.get(record.base):
                self.dry[record.generation] = None
        if hasattr(record, "transactions"):
            self.completed += 1
            self._completed(record)

    def _ended(self, epoch_record: Any) -> None:
        """The job has come to its end: all that was permitted is visible, or was given up by a user and is named."""
        given_up = {(each.sink, each.generation, each.checkpoint) for each in epoch_record.abandoned}
        for sink, generation, checkpoint in self.permitted:
            done = (generation, checkpoint) in self.scene.sinks[sink].committed
            if not done and (sink, generation, checkpoint) not in given_up:
                self.scene.violation(f"the job has ended, and {sink} has not committed transaction {checkpoint}")

    def _stays_beside(self, record: Any) -> None:
        """See whether every task has committed a batch since its generation began. If not, its base must stay."""
        epoch_record = next(
            r for r in reversed(self.checkpoint_log) if hasattr(r, "base") and r.generation == record.generation
        )
        works = self.scene.disk.works
        begun = {s.task: works.get((record.generation, s.task)) for s in record.tasks}
        moved = [s.finished or ((work := begun[s.task]) and s.batch > min(work.images)) for s in record.tasks]
        if epoch_record.base is not None and not all(moved):
            self.beside[record.id] = self.beside.get(epoch_record.base, epoch_record.base)

    def _completed(self, record: Any) -> None:
        """A checkpoint is complete: its state must be exactly what came before its barriers."""
        self._stays_beside(record)
        self._dries(record)
        for transaction in record.transactions:
            self.permitted.setdefault(
                (transaction.sink, transaction.generation, transaction.checkpoint), int(record.id)
            )
        images = {snapshot.task: self._image(record, snapshot) for snapshot in record.tasks}
        if any(image is None for image in images.values()):
            return
        if self.shape.mode == "at-least-once":
            for held in record.channels:
                self._at_least(record, held, images[held.upstream], images[held.downstream])
            return
        for task, image in images.items():
            expected = image.offset * (image.offset + 1) // 2
            if image.read != expected:
                self.scene.violation(f"checkpoint {record.id}: {task} has read other records than its offset says")
        for held in record.channels:
            self._channel(record, held, images[held.upstream], images[held.downstream])
        for sink, task in self.shape.sinks:
            self._sink(record, sink, images[task])

    def _dries(self, record: Any) -> None:
        """Whoever returns to a checkpoint must know whether its sources were cut short, and then for good."""
        self.says_dry[record.id] = record.draining
        images = {one.task: self._image(record, one) for one in record.tasks}
        if any(image is None for image in images.values()):
            return
        short = [
            task for task, count in self.shape.records.items() if images[task].over and images[task].offset < count
        ]
        if short and not record.draining:
            self.scene.violation(f"checkpoint {record.id} does not say that {short[0]} is not to read on")
        if record.draining and not self.drain_asked:
            self.scene.violation(f"checkpoint {record.id} says that the job drains, and nobody wanted that")
        if record.generation in self.dry and not record.draining:
            self.scene.violation(f"checkpoint {record.id} forgets that the job drains")
        if record.draining:
            self.dry[record.generation] = None
        if record.draining and record.stop:
            open_still = [one.task for one in record.tasks if not (one.finished and images[one.task].over)]
            flying = [part.channel for part in record.channels if part.after < part.through]
            if open_still or flying or record.kind.value != "savepoint":
                self.scene.violation(f"savepoint {record.id} is no end of a drain: {(open_still + flying)[:1]} goes on")
            self.drained = record

    def reads(self, generation: int, task: str, before: TaskImage, after: TaskImage) -> None:
        """A task commits a batch. Nothing may be read once time is at its end, or when the job has been drained."""
        if self.superseded(generation):
            return
        more = (after.offset, after.positions) != (before.offset, before.positions)
        if more and before.over:
            self.scene.violation(f"{task} reads on after the end of time")
        if self.drained is not None:
            self.scene.violation(f"{task} works on after savepoint {self.drained.id}, with which the job was drained")
        begun = [each for each in self.checkpoint_log if hasattr(each, "base") and each.generation == generation]
        reads_channels = any(down == task for _, _, down in self.shape.channels)
        if after.offset > before.offset and not reads_channels and self.says_dry.get(begun[-1].base):
            self.scene.violation(f"{task} reads its source, and began from a checkpoint of a job that drains")

    def _image(self, record: Any, snapshot: Any) -> Any:
        work = self.scene.disk.works.get((snapshot.generation, snapshot.task))
        image = work.images.get(snapshot.batch) if work else None
        if image is None:
            what = f"checkpoint {record.id} names batch {snapshot.batch} of {snapshot.task}, never committed"
            self.scene.violation(what)
        elif image.files != snapshot.files:
            what = f"checkpoint {record.id} names files that do not rebuild {snapshot.task} at {snapshot.batch}"
            self.scene.violation(what)
        return image

    def _channel(self, record: Any, held: Any, upstream: TaskImage, downstream: TaskImage) -> None:
        inputs = [name for name, _, down in self.shape.channels if down == held.downstream]
        place = inputs.index(held.channel)
        segments = self.scene.disk.segments.get((record.generation, held.channel), {})
        if held.after < held.through and (self.shape.aligned or record.kind.value == "savepoint"):
            self.scene.violation(f"checkpoint {record.id} should be aligned, but {held.channel} has data in flight")
        in_flight = 0
        for batch in range(held.after + 1, held.through + 1):
            if batch not in segments:
                self.scene.violation(f"checkpoint {record.id} holds segment {batch} of {held.channel}: it is not there")
                return
            in_flight += weigh(segments[batch])
        taken = downstream.taken[place] + downstream.skipped[place]
        if taken + in_flight != upstream.given:
            self.scene.violation(
                f"checkpoint {record.id}: {held.downstream} and what is in flight on {held.channel} "
                f"are not what {held.upstream} put out"
            )

    def _at_least(self, record: Any, held: Any, upstream: TaskImage, downstream: TaskImage) -> None:
        """At-least-once may have more behind it than its barriers, never less, and goes back to the barrier.

        What overtook data, to make room in a sink, goes back to where it stood, with the rest in flight.
        """
        inputs = [name for name, _, down in self.shape.channels if down == held.downstream]
        stands = downstream.positions[inputs.index(held.channel)]
        segments = self.scene.disk.segments.get((record.generation, held.channel), {})
        flies = all(batch in segments for batch in range(held.after + 1, held.through + 1))
        overtakes = not self.shape.aligned and stands == held.after and flies
        if held.through != upstream.batch or (held.after != upstream.batch and not overtakes) or stands < held.after:
            self.scene.violation(f"checkpoint {record.id}: {held.downstream} lacks what {held.upstream} had put out")

    def _sink(self, record: Any, name: str, image: TaskImage) -> None:
        sink = self.scene.sinks[name]
        total = sink.visible_sum
        for transaction in record.transactions:
            if transaction.sink == name:
                weight = sink.weight(transaction.generation, transaction.checkpoint)
                if weight is None:
                    self.scene.violation(
                        f"checkpoint {record.id} names transaction {transaction.checkpoint} of {name}: it is not there"
                    )
                    return
                total += weight
        if total != image.given:
            self.scene.violation(f"checkpoint {record.id}: what {name} has and may commit is not what its task put out")

    # -- orders --------------------------------------------------------------------------------------------------------

    def numbered(self, checkpoint: int, generation: int) -> None:
        """A checkpoint of this id is under way in this generation."""
        if self.owner_of_id.setdefault(checkpoint, generation) != generation:
            self.scene.violation(
                f"id {checkpoint} is used by generations {self.owner_of_id[checkpoint]} and {generation}"
            )

    def starts(self, task: str, generation: int) -> None:
        """A task is started. Its generation must have an epoch record."""
        if not any(hasattr(record, "base") and record.generation == generation for record in self.checkpoint_log):
            self.scene.violation(
                f"{task} is started in generation {generation}, which has no epoch record in the store"
            )

    def superseded(self, generation: int) -> bool:
        """Whether a later generation has begun."""
        return any(record.generation > generation for record in self.checkpoint_log[-1:])

    def runs_ahead(self, generation: int, task: str, batch: int) -> None:
        """A task commits a batch. It may not be further ahead of any of its readers than the user allows."""
        for name, upstream, downstream in self.shape.channels:
            reader = self.scene.disk.works.get((generation, downstream))
            if upstream != task or reader is None or self.shape.max_batches_ahead is None:
                continue
            inputs = [channel for channel, _, down in self.shape.channels if down == downstream]
            behind = batch - reader.committed.positions[inputs.index(name)]
            if behind > self.shape.max_batches_ahead:
                self.scene.violation(f"{task} runs {behind} batches ahead of {downstream}")

    def orders_commit(self, sink: str, generation: int, checkpoint: int) -> None:
        """A process wants a transaction committed that ``checkpoint`` permits. A job that has come to its end had
        committed all, and whoever begins after that owes nothing.
        """
        for record in reversed(self.checkpoint_log):
            if record.id < checkpoint:
                break
            if getattr(record, "ending", None) is not None and record.generation < generation:
                self.scene.violation(f"{sink} is to commit for checkpoint {checkpoint}, and the job has ended since")

    def commits(self, sink: str, generation: int, checkpoint: int) -> None:
        """A transaction is about to be committed, for the first time or again."""
        if (sink, generation, checkpoint) not in self.permitted:
            self.scene.violation(f"{sink} commits transaction {checkpoint} of generation {generation}, never published")
        if (generation, checkpoint) in self.scene.sinks[sink].committed:
            return
        if (generation, checkpoint) <= self.latest.get(sink, (0, 0)):
            self.scene.violation(f"{sink} commits transaction {checkpoint} after {self.latest[sink][1]}")
        self.latest[sink] = (generation, checkpoint)

    def lost_transaction(self, sink: str, checkpoint: int) -> None:
        """A decided transaction is not there any more."""
        self.scene.violation(f"{sink} cannot commit transaction {checkpoint}: it was thrown away")

    def leftovers(self, sink: SimSink, below: int) -> None:
        """What generations before ``below`` left is looked for. Nothing of it may have been there for long."""
        for key in sink.left_by(min([below, *(record.generation for record in self.checkpoint_log[-1:])])):
            since = max(sink.since[key], self.fenced_at)
            age_ms = self.scene.now - since
            if age_ms > self.shape.leftovers_ms + sum(ms for until, ms in self.shape.held_up if until > since):
                self.scene.violation(f"{sink.name} has held what generation {key[0]} left for {age_ms} ms")

    def deletes(
        self,
        who: str,
        records: Mapping[int, Any],
        held: Iterable[int],
        pending_deletion: tuple[int, ...],
        files: tuple[str, ...],
    ) -> None:
        """Records and files are about to be deleted by ``who``.

        A cancelled job's closing record lets all of them go.
        """
        last = self.checkpoint_log[-1]
        cancelled = hasattr(last, "ending") and last.ending is not None and last.ending.value == "cancelled"
        all_go = cancelled and last.base is None and last.leader == who
        completed = [
            record
            for number, record in sorted(records.items())
            if hasattr(record, "transactions") and number not in self.deleted
        ]
        periodic = [record.id for record in completed if record.kind.value == "checkpoint"]
        kept = {record.id for record in completed if record.kind.value == "savepoint"}
        kept.update(held)
        if not all_go:
            kept.update(periodic[-self.shape.num_retained :])
            kept.update(record.id for record in completed[-1:])
            kept.update(self.beside[record.id] for record in completed[-1:] if record.id in self.beside)
        for number in pending_deletion:
            if number in kept or any(
                earlier.id == number and hasattr(earlier, "base") for earlier in self.checkpoint_log
            ):
                self.scene.violation(f"record {number} is deleted though it is kept")
            self.deleted[number] = None
        needed = _needed(record for record in completed if record.id in kept)
        for name in files:
            if name in needed:
                self.scene.violation(f"file {name} is deleted though checkpoint {needed[name]} is kept")

    def collected(self, generation: int, records: Mapping[int, Any]) -> None:
        """A collection of a generation is over. What nobody has needed for long must be gone, whatever is pending."""
        completed = [record for _, record in sorted(records.items()) if hasattr(record, "transactions")]
        ours = [record for record in completed if record.generation == generation]
        if not ours or self.superseded(generation):
            return
        newest = ours[-1]
        cuts: dict[str, int] = {snapshot.task: snapshot.batch for snapshot in newest.tasks}
        cuts.update({part.channel: part.after for part in newest.channels})
        needed = _needed(completed)
        garbage: dict[str, tuple[int, int]] = {}
        # What is in flight in a checkpoint that is kept stays in every generation that has gone on from it.
        in_flight = [part for record in completed for part in record.channels]
        for name, (made_in, owner, batch) in self.scene.disk.files.items():
            if any(part.channel == owner and part.after < batch <= part.through for part in in_flight):
                continue
            if made_in == generation and name not in needed and batch <= cuts.get(owner, -1):
                last, rounds = self.garbage.get(name, (-1, 0))
                garbage[name] = (int(newest.id), rounds + (newest.id != last))
                if garbage[name][1] > GARBAGE_MAX:
                    self.scene.violation(f"file {name} is left by {GARBAGE_MAX} collections, and nobody needs it")
        self.garbage = garbage

    def deletes_savepoint(self, records: Mapping[int, Any], number: int) -> None:
        """A savepoint is about to be deleted. The job must not be in need of it."""
        completed = [record for _, record in sorted(records.items()) if hasattr(record, "transactions")]
        needed = {record.id for record in completed[-1:]}
        needed.update(self.beside[record.id] for record in completed[-1:] if record.id in self.beside)
        if number in needed:
            self.scene.violation(f"savepoint {number} is deleted though the job would return to it")
        if any(record.id == number and record.kind.value != "savepoint" for record in completed):
            self.scene.violation(f"checkpoint {number} is deleted as if it were a savepoint")
        self.deleted[number] = None

    def asked(self, request: str, who: str) -> None:
        """A user asked a process for something."""
        self.waiting[request] = who

    def answered(self, request: str) -> None:
        """A user was answered: once, and only if there was a request."""
        if self.waiting.pop(request, None) is None:
            self.scene.violation(f"request {request} is answered twice")

    def at_rest(self, who: str) -> None:
        """A process has come to rest: nobody may still be waiting for it."""
        left = [request for request, asked in self.waiting.items() if asked == who]
        if left:
            self.scene.violation(f"{who} has come to rest, and request {left[0]} has no answer")

    def skipped(
        self,
        task: str,
        source: int,
        numbers: range,
        planned: Planned,
        image: TaskImage,
        inputs: tuple[str, ...],
        generation: int,
    ) -> None:
        """At-most-once left a batch out: these records may be missing further down."""
        del task
        for number in numbers:
            self.lost[source, number] = None
        for index, channel in enumerate(inputs):
            segments = self.scene.disk.segments.get((generation, channel), {})
            for batch in range(image.positions[index] + 1, planned.positions[index] + 1):
                for row in segments.get(batch, ()):
                    self.lost[row[0], row[1]] = None

    # -- the end -------------------------------------------------------------------------------------------------------

    def finished(self) -> None:
        """The job has come to its end: every record's effect at every sink, as often as the mode promises."""
        self._came_out(self.shape.records)

    def stopped_drained(self) -> None:
        """The job was drained: the same for every record that was read."""
        read = {one.task: self._image(self.drained, one).offset for one in self.drained.tasks}
        self._came_out({source: read[source] for source in self.shape.records})

    def _came_out(self, records: Mapping[str, int]) -> None:
        self._nothing_left()
        for sink, task in self.shape.sinks:
            counts = Counter((source, number, path) for source, number, path, _ in self.scene.sinks[sink].visible)
            for source, path in self.paths(task):
                for number in range(records[source]):
                    seen = counts.pop((int(source[1:]), number, path), 0)
                    self._judge(sink, source, number, seen)
            if self.shape.mode == "at-least-once":  # What was read, and was to be read again, may be there.
                counts = Counter({way: seen for way, seen in counts.items() if way[1] < records[f"t{way[0]}"]})
            if counts:
                self.scene.violation(f"{sink} has rows that no source gave: {sorted(counts)[:3]}")
            self._no_stale_rows(sink, records)

    def _no_stale_rows(self, sink: str, records: Mapping[str, int]) -> None:
        """What was written at once under keys must be what was committed last under each.

        Of a drained job a row beyond ``records`` was read before a failure, and not again after it.
        """
        short = {int(source[1:]): count for source, count in records.items() if count < self.shape.records[source]}
        newest = {key_of(row): row for row in self.scene.sinks[sink].visible}
        found = {
            key: row
            for key, (_, row) in self.scene.tables[sink].rows.items()
            if row[:2] not in self.lost and not (row[0] in short and row[1] >= short[row[0]])
        }
        for key, row in found.items():
            if newest.get(key) != row:
                self.scene.violation(f"{sink} has {row} under {key}; committed last was {newest.get(key)}")
                return
        if missing := [key for key, row in newest.items() if key not in self.scene.tables[sink].rows]:
            self.scene.violation(f"{sink} has nothing under {missing[0]}")

    def count(self, sink: str, task: str) -> tuple[int, int]:
        """How many records a sink's reader misses, and how many it sees too often."""
        counts = Counter((source, number, path) for source, number, path, _ in self.scene.sinks[sink].visible)
        ways = [
            (int(source[1:]), number, path)
            for source, path in self.paths(task)
            for number in range(self.shape.records[source])
        ]
        lost = sum(1 for way in ways if not counts[way])
        return lost, sum(seen - 1 for seen in counts.values() if seen > 1)

    def interrupted(self) -> None:
        """The job was cancelled: nothing may be there twice."""
        self._nothing_left()
        for sink, _ in self.shape.sinks:
            counts = Counter(row[:3] for row in self.scene.sinks[sink].visible)
            if self.shape.mode != "at-least-once" and any(seen > 1 for seen in counts.values()):
                self.scene.violation(f"{sink} has rows twice after a cancellation")

    def _nothing_left(self) -> None:
        """Whatever the dead left, but for what came at the very last, is gone."""
        for sink in self.scene.sinks.values():
            self.leftovers(sink, self.checkpoint_log[-1].generation if self.checkpoint_log else 0)

    def _judge(self, sink: str, source: str, number: int, seen: int) -> None:
        mode = self.shape.mode
        if seen == 1 or (mode == "at-least-once" and seen > 1):
            return
        if mode == "at-most-once" and seen == 0 and (int(source[1:]), number) in self.lost:
            return
        self.scene.violation(f"{sink} has record {number} of {source} {seen} times")

    def paths(self, task: str) -> list[tuple[str, int]]:
        """Every way from a source to this task: the source's task, and the code that rows of this way carry."""
        found = [(task, 0)] if task in self.shape.records else []
        for name, upstream, downstream in self.shape.channels:
            if downstream == task:
                found += [(source, path * 31 + int(name[1:]) + 1) for source, path in self.paths(upstream)]
        return found


def _needed(kept: Iterable[Any]) -> dict[str, int]:
    """The files that checkpoints need, each with one that does."""
    needed: dict[str, int] = {}
    for record in kept:
        for snapshot in record.tasks:
            needed.update(dict.fromkeys(snapshot.files, int(record.id)))
        for part in record.channels:
            for batch in range(part.after + 1, part.through + 1):
                needed[f"{part.channel}/{record.generation}/{batch}"] = int(record.id)
    return needed
