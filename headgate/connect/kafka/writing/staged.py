"""Kafka out, exactly once, by a write-ahead log.

One rule: the rows of a partition and the marker that says so are committed in one Kafka transaction. The marker is the
offset of a consumer group that nobody is a member of. It is read only after the partition's transactional id was taken
up, which ends whatever another publisher of the partition has open: so of any number of publishers one succeeds, once.

Rows wait in files until their checkpoint is complete, however long brokers are away. They show after the publication,
later than with two phases, and each row is written twice.

Kafka forgets the offsets of a group without members after ``offsets.retention.minutes``, a week by default. So a note
is written next to the staged rows before the first row of a publication goes out, and again when all are out: a repeat
knows whether anything may be out already, even when Kafka has forgotten the markers.
"""

import logging
import time
from dataclasses import dataclass, replace
from pathlib import Path

from pyspark.sql import DataFrame

from headgate import durable
from headgate.checksums import checked_fields, checked_text
from headgate.connect.kafka.broker import BrokerClient, Partition
from headgate.connect.kafka.producer.client import Fenced
from headgate.connect.kafka.producer.messages import check_frame
from headgate.connect.kafka.producer.transaction import WAIT_MS, TransactionWriter
from headgate.connect.kafka.writing.checks import RETENTION, may_be_forgotten, preflight, refused, validated
from headgate.connect.kafka.writing.names import Names, Target, client_options
from headgate.core.ids import CheckpointId, Generation, SinkId
from headgate.errors import BadStorage, UserError
from headgate.retry import RetryPolicy
from headgate.sink.api import SinkContext, WriteId
from headgate.sink.committable import StagedCommittable
from headgate.sink.staging import StagedMark
from headgate.sink.wal import WriteAheadBatch, WriteAheadSink

FENCED = RetryPolicy(first_s=0.5, longest_s=0.5, tries=4)
"""How often a publisher that was fenced looks whether the other one has done the work."""
CHECKPOINT_BITS = 40
GENERATION_BITS = 63 - CHECKPOINT_BITS
NOTE_FILE = "publication.json"
NOTE_VERSION = 1

logger = logging.getLogger("headgate")


@dataclass(frozen=True)
class Note:
    """The newest publication that has begun."""

    incarnation: str
    """Of the job. Notes of an earlier incarnation say nothing about this one."""
    mark: StagedMark
    begun_ms: int
    """When, by the clock of who began it."""
    done: bool


def read_note(directory: Path, incarnation: str) -> Note | None:
    """What was noted last in this incarnation of the job, if anything was."""
    path = directory / NOTE_FILE
    try:
        fields = checked_fields(path.read_bytes(), path)
        version = fields["version"]
        if version == NOTE_VERSION:
            mark = Generation(int(fields["generation"])), CheckpointId(int(fields["checkpoint"]))
            note = Note(str(fields["incarnation"]), mark, int(fields["begun_ms"]), bool(fields["done"]))
            return note if note.incarnation == incarnation else None
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise BadStorage(f"{path} cannot be read ({error}): restore it from a copy") from error
    raise BadStorage(f"{path} has format {version!r}, known is {NOTE_VERSION}: use the Headgate that wrote it")


def write_note(directory: Path, note: Note) -> None:
    """Put a note in the place of the last one, and on the disk."""
    generation, checkpoint = note.mark
    fields = {
        "version": NOTE_VERSION,
        "incarnation": note.incarnation,
        "generation": generation,
        "checkpoint": checkpoint,
        "begun_ms": note.begun_ms,
        "done": note.done,
    }
    durable.replace(directory / NOTE_FILE, checked_text(fields).encode())


class StagedKafkaSink(WriteAheadSink):
    """What ``kafka.sink`` makes when it is asked for the staged way."""

    def __init__(self, target: Target, *, parallelism: int) -> None:
        """All checked by ``kafka.sink``. ``parallelism``: this many transactions a commit."""
        super().__init__(parallelism)
        self._target = target
        self._partitions: int | None = None
        """How many the topic has, as far as that was seen."""
        self._forgotten = False
        """Whether a marker that is not there may have been there."""

    @property
    def place(self) -> str | None:
        """The topic."""
        return self._target.place

    def describe(self) -> str:
        """Topic, place and way."""
        return f"{self._target.describe()}, staged"

    def invoke(self, write_id: WriteId, dataframe: DataFrame) -> None:
        """Stage the rows, if Kafka can take them. Whatever is staged must be published: no row is left behind."""
        check_frame(dataframe.schema, topic=self._target.topic, who=f"sink {write_id.sink}")
        with refused(f"sink {write_id.sink}: {self.describe()}"):
            super().invoke(write_id, dataframe)

    def _prepare(self, dataframe: DataFrame) -> DataFrame:
        return validated(dataframe, self._target, self._partitions)

    def publish(self, pre_committed: StagedCommittable) -> None:
        """Publish every partition, unless it is noted that all are published."""
        directory = self._staging.root
        mark = (pre_committed.generation, pre_committed.checkpoint)
        note = read_note(directory, self._incarnation)
        if note is not None and note.done and note.mark >= mark:
            return
        if note is not None and note.mark == mark:
            self._forgotten = self._is_forgotten(note)
        else:
            # Without any note, one may have been lost with the directory: then it began when the rows were staged.
            lost = note is None
            note = Note(self._incarnation, mark, self._staged_ms(pre_committed) if lost else _now_ms(), done=False)
            self._forgotten = lost and self._is_forgotten(note)
            write_note(directory, note)
        super().publish(pre_committed)
        write_note(directory, replace(note, done=True))

    def apply(self, batch: WriteAheadBatch) -> None:
        """Publish a partition, once. If another publisher was faster, see whether it has done the work."""

        def fenced(error: Exception) -> bool:
            if isinstance(error, Fenced):
                logger.warning("sink %s: another publisher has taken partition %d", batch.sink, batch.partition)
            return isinstance(error, Fenced)

        try:
            FENCED.call(lambda: self._publish_partition(batch), fenced)
        except Fenced as error:
            raise UserError(f"sink {batch.sink}: {error}") from error

    def _open(self, context: SinkContext) -> None:
        names = self._names(context.job, context.sink, context.incarnation)
        with BrokerClient(self._target.servers, client_options(self._target)) as client:
            self._target = preflight(client, self._target, context.sink, names.owner)
            self._partitions = len(client.metadata([self._target.topic]).topics[self._target.topic])

    def _publish_partition(self, batch: WriteAheadBatch) -> None:
        target, names = self._target, self._names(batch.job, batch.sink, batch.incarnation)
        transactional_id = names.publisher_id(batch.partition)
        group, partition = names.marker_group(transactional_id), Partition(target.topic, 0)
        number = encoded(batch.mark)
        with TransactionWriter.open(
            target.servers, target.producer_options, transactional_id, target.timeout_ms, target.topic
        ) as writer:  # from here on no other publisher of the partition can commit
            with BrokerClient(target.servers, client_options(target), WAIT_MS / 1000) as client:
                stored = client.fetch_offsets(group, [partition]).get(partition)
            if stored is not None and stored.offset >= number:
                return
            if stored is None and self._forgotten:
                raise BadStorage(
                    f"sink {batch.sink}: Kafka has forgotten whether checkpoint {batch.mark[1]} was published: "
                    f"it began longer ago than {RETENTION}, and the marker of partition {batch.partition} is gone: "
                    "compare the topic with the staged files; then remove them and begin the job anew, or touch them "
                    "and remove publication.json next to them to have them published"
                )
            writer.begin()
            for rows in batch.record_batches():
                writer.write(rows)
            writer.send_marker(group, target.topic, 0, number)
            writer.commit()
        with BrokerClient(target.servers, client_options(target)) as client:
            client.settle(transactional_id)

    def _staged_ms(self, pre_committed: StagedCommittable) -> int:
        """When the first of these rows were staged."""
        times = [
            path.stat().st_mtime_ns // 1_000_000
            for path, _ in self._pre_committed_files(pre_committed)
            if path.exists()
        ]
        return min([*times, _now_ms()])

    def _is_forgotten(self, note: Note) -> bool:
        """Whether Kafka may have forgotten the markers of a publication."""
        with BrokerClient(self._target.servers, client_options(self._target)) as client:
            return may_be_forgotten(client, note.begun_ms)

    def _names(self, job: str, sink: SinkId, incarnation: str) -> Names:
        return Names(self._target.prefix, job, sink, incarnation)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def encoded(mark: StagedMark) -> int:
    """A mark as an offset. Those of one partition only grow."""
    generation, checkpoint = mark
    if generation >= 1 << GENERATION_BITS or checkpoint >= 1 << CHECKPOINT_BITS:
        raise BadStorage(
            f"generation {generation} or checkpoint {checkpoint} is past what a Kafka sink can number: "
            "begin anew under another job name"
        )
    return (generation << CHECKPOINT_BITS) | checkpoint
