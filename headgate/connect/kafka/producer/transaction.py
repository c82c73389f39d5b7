"""A transaction of Kafka that is written from Arrow, and can be left open for another process to end.

One rule: a transaction counts as pre-committed only when the broker has every row of it. Without librdkafka's own
commit nobody else checks that, so every failed delivery is collected, and a pre-commit asks that none failed and none
is left over.

Rows go to librdkafka in batches, by one call for each. Rows with a timestamp or headers take one call each, as
librdkafka has no other way; what that call reads is still laid out for the whole batch at once.

To let go of a producer is not to abort: ``rd_kafka_destroy`` ends its threads and frees its memory within
milliseconds, and says nothing to the broker. So a pre-committed transaction stays open there until it is ended by its
transactional id, producer id and epoch, or until its timeout. (``close`` of confluent-kafka's own producer aborts.)
A transaction that was neither pre-committed nor ended is aborted when its writer is closed, as far as that goes within
a short time; else the next producer of the same id aborts it, or the broker after the timeout.

After any error throw the writer away and open another.
"""

import ctypes
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc

from headgate.connect.kafka.producer import native
from headgate.connect.kafka.producer.client import STEP_MS, Indefinite, LibrdkafkaClient, LibrdkafkaTopic
from headgate.connect.kafka.producer.messages import TOPIC, Singly, Together, build, check
from headgate.connect.kafka.producer.settings import Option, settings
from headgate.errors import UserError

PIECE = 50_000
"""Rows that are handed over by one call."""
ROOM_MS = 2
"""How long to wait for room in a full queue before asking again."""
ABORT_MS = 3_000
MARKER_STEP_MS = 5_000
"""A marker that is not answered in this time is sent again; the call cannot be taken up where it was."""
TAKE_UP_MS = 8
"""How long to wait first when an id is taken up. Each call has librdkafka look for the coordinator at once; by itself
it looks every 500 ms, and now and then just before the connection stands."""
WAIT_MS = 60_000


@dataclass(frozen=True)
class PreCommitted:
    """A transaction that the broker has all rows of. With no rows there is none at the broker, and nothing to end."""

    producer_id: int
    epoch: int
    rows: int


class TransactionWriter:
    """A producer with one transactional id. For one thread; not to be carried over a fork."""

    def __init__(self, client: LibrdkafkaClient, transactional_id: str, topic: str | None) -> None:
        """Use ``open``."""
        self.transactional_id = transactional_id
        self._client = client
        self._topic = topic
        self._in_transaction = False
        self._begun_us = 0
        self._rows = 0

    @classmethod
    def open(
        cls,
        servers: str,
        options: Mapping[str, Option],
        transactional_id: str,
        timeout_ms: int,
        topic: str | None,
        *,
        wait_ms: int = WAIT_MS,
    ) -> Self:
        """Take up a transactional id: whatever was open under it is aborted, whoever else has it is fenced.

        ``timeout_ms`` is how long the broker lets a transaction stay open. ``wait_ms`` is how long each step waits
        for brokers that are away. Rows without a topic of their own go to ``topic``.
        """
        made = settings(servers, options, transactional_id, timeout_ms=timeout_ms, wait_ms=wait_ms)
        client = LibrdkafkaClient(made, wait_ms=wait_ms)
        try:
            if topic is not None:
                client.find(topic)
            client.until_done(
                "cannot take up the transactional id", client.library.rd_kafka_init_transactions, first_ms=TAKE_UP_MS
            )
        except BaseException:
            client.close()
            raise
        client.ready = True
        return cls(client, transactional_id, topic)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def begin(self) -> None:
        """Begin a transaction. At the broker it begins with the first row or marker."""
        client = self._client
        self._begun_us = time.monotonic_ns() // 1000
        problem = native.taken(client.library.rd_kafka_begin_transaction(client.handle))
        if problem is not None:
            client.hear("cannot begin a transaction")
            client.fail("cannot begin a transaction", problem)
        self._in_transaction = True
        self._rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Hand over rows; those for one partition keep their order. They are copied: the batch is not kept."""
        self._require_transaction()
        check(batch.schema, topic=self._topic)
        if TOPIC not in batch.schema.names:
            assert self._topic is not None, "checked with the schema"
            self._write(batch, self._topic)
            return
        names = batch.column(TOPIC)
        rest = batch.select([name for name in batch.schema.names if name != TOPIC])
        if names.null_count:
            if self._topic is None:
                raise UserError("kafka: a row without a topic: give every row one, or give the sink one")
            names = pc.fill_null(names, self._topic)
        for name in pc.unique(names).to_pylist():
            self._write(rest.filter(pc.equal(names, name)), name)

    def flush(self) -> None:
        """Wait until the broker has every row. Raises if it refused one."""
        client, doing = self._client, "cannot write"
        deadline, left, step_ms = client.deadline(), client.waiting(), 1
        while client.library.rd_kafka_flush(client.handle, step_ms):
            client.hear(doing)
            if client.waiting() != left:
                left, deadline = client.waiting(), client.deadline()
            elif time.monotonic() > deadline:
                client.fail(f"{left} rows are not written", client.timed_out())
            step_ms = min(step_ms + 1, STEP_MS)  # librdkafka itself would look only every 10 ms
        client.hear(doing)

    def pre_commit(self) -> PreCommitted:
        """See that the broker has every row, let go of the producer, and leave the transaction open."""
        self._require_transaction()
        self.flush()
        pre_committed = PreCommitted(*self._client.identity(self._begun_us), self._rows)
        self._in_transaction = False
        self._client.close()
        return pre_committed

    def commit(self) -> None:
        """Show what was written. If it raises ``Indefinite`` nobody knows whether it is shown."""
        self._require_transaction()
        self.flush()
        try:
            self._client.until_done("cannot commit", self._client.library.rd_kafka_commit_transaction)
        except Indefinite:
            self._in_transaction = False  # an abort now would be a gamble
            raise
        self._in_transaction = False

    def abort(self) -> None:
        """Throw away what was written."""
        self._require_transaction()
        self._client.forget()
        self._client.until_done("cannot abort", self._client.library.rd_kafka_abort_transaction)
        self._client.forget()
        self._in_transaction = False

    def send_marker(self, group: str, topic: str, partition: int, offset: int, metadata: str = "") -> None:
        """Have the offset of a consumer group set when the transaction is committed, and only then."""
        self._require_transaction()
        lib = self._client.library
        offsets = lib.rd_kafka_topic_partition_list_new(1)
        who = lib.rd_kafka_consumer_group_metadata_new(group.encode())
        try:
            entry = lib.rd_kafka_topic_partition_list_add(offsets, topic.encode(), partition).contents
            entry.offset = offset
            text = metadata.encode()
            entry.metadata = lib.rd_kafka_mem_malloc(None, len(text) + 1)  # freed with the list
            ctypes.memmove(entry.metadata, text + b"\0", len(text) + 1)
            entry.metadata_size = len(text)
            self._client.until_done(
                f"cannot set the offset of group {group}",
                lambda handle, step_ms: lib.rd_kafka_send_offsets_to_transaction(handle, offsets, who, step_ms),
                step_ms=MARKER_STEP_MS,
            )
        finally:
            lib.rd_kafka_topic_partition_list_destroy(offsets)
            lib.rd_kafka_consumer_group_metadata_destroy(who)

    def close(self) -> None:
        """Let go of the producer.

        A transaction that was neither pre-committed nor ended is aborted if that goes quickly.
        """
        client = self._client
        if self._in_transaction and not client.closed and not native.fatal(client.handle):
            native.taken(client.library.rd_kafka_abort_transaction(client.handle, ABORT_MS))
        self._in_transaction = False
        client.close()

    def _write(self, batch: pa.RecordBatch, name: str) -> None:
        topic = self._client.find(name)
        for start in range(0, batch.num_rows, PIECE):
            piece = batch.slice(start, PIECE)
            messages = build(piece, handle=topic.handle, topic=name, partition_count=topic.partitions)
            if isinstance(messages, Together):
                self._send_together(messages, topic)
            else:
                self._send_singly(messages, topic)
            self._rows += len(messages)
            self._client.poll(0)
            self._client.hear(f"cannot write to topic {name}")

    def _send_together(self, messages: Together, topic: LibrdkafkaTopic) -> None:
        """Hand over an array. When the queue is full librdkafka takes none of the rest: that is handed over again."""
        produce = self._client.library.rd_kafka_produce_batch
        flags = native.F_COPY | (native.F_PARTITION if messages.partitioned else 0)
        base, errors = messages.messages.ctypes.data, messages.messages["err"]
        done, wait = 0, self._room(topic)
        while True:
            rest = len(messages) - done
            place = base + done * native.MESSAGE.itemsize
            if produce(topic.handle, native.NO_PARTITION, flags, place, rest) == rest:
                return
            done += int((errors[done:] != 0).argmax())
            code = int(errors[done])
            if code != native.QUEUE_FULL:
                self._client.refused(f"cannot write to topic {topic.name}", code, messages.size(done))
            wait()

    def _send_singly(self, messages: Singly, topic: LibrdkafkaTopic) -> None:
        """Hand over one by one."""
        produce, handle = self._client.library.rd_kafka_produceva, self._client.handle
        wait = self._room(topic)
        places = (messages.starts * native.FIELD.itemsize + messages.fields.ctypes.data).tolist()
        for index, (place, count) in enumerate(zip(places, messages.counts.tolist(), strict=True)):
            while (problem := native.taken(produce(handle, place, count))) is not None:
                if problem.code != native.QUEUE_FULL:
                    doing = f"cannot write to topic {topic.name}"
                    self._client.refused(doing, problem.code, messages.size(index))
                wait()

    def _room(self, topic: LibrdkafkaTopic) -> Callable[[], None]:
        """What to call while the queue is full. It gives up when the queue has not moved for long."""
        client = self._client
        seen, deadline = client.waiting(), client.deadline()

        def wait() -> None:
            nonlocal seen, deadline
            client.poll(ROOM_MS)
            client.hear(f"cannot write to topic {topic.name}")
            left = client.waiting()
            if left != seen:
                seen, deadline = left, client.deadline()
            elif time.monotonic() > deadline:
                client.fail(f"{left} rows are not written to topic {topic.name}", client.timed_out())

        return wait

    def _require_transaction(self) -> None:
        assert self._in_transaction, "begin comes first"
