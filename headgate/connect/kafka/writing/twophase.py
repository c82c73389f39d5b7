"""Kafka out, exactly once, in two phases.

One rule: a batch is written into open transactions of the broker, one for each partition, and a commit only ends them.
So rows show within milliseconds of the checkpoint, and were sent once.

A broker aborts a transaction that is open for longer than its timeout. With the write-ahead log, rows are also kept in
files until they are committed: what the broker has given up by then is written anew. Without it, that is noticed and
refused.

Transactional ids come from a pool of slots. A slot has one attempt at a time, from its beginning until what it wrote is
committed or thrown away.
"""

import json
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from pyspark.sql import DataFrame

from headgate.access import make_directory
from headgate.connect.kafka.broker import BrokerClient, Producer
from headgate.connect.kafka.producer.messages import check_frame
from headgate.connect.kafka.writing.checks import check_timeout, preflight
from headgate.connect.kafka.writing.executor import Lost, PartitionWriter, is_committed, whose, write_anew
from headgate.connect.kafka.writing.names import (
    KafkaCommittable,
    Names,
    OpenTransaction,
    Owned,
    Scheme,
    Target,
    client_options,
    token,
)
from headgate.core.ids import Generation
from headgate.durable import force
from headgate.errors import BadStorage, ExternalError, InvalidOption
from headgate.sink.api import AbortScope, SinkContext, StagedFile, StaleGenerations, WriteId
from headgate.sink.partitions import on_executors, side_by_side, write_partitions
from headgate.sink.staged import external
from headgate.sink.staging import Staging, discard
from headgate.sink.transaction_committable import TransactionCommittable
from headgate.sink.transactions import TransactionSink

WAIT_FOR_SLOT_S = 30.0
ENDERS = 4
"""How many transactions are ended at a time."""

logger = logging.getLogger("headgate")
Item = TypeVar("Item")
Returned = TypeVar("Returned")


class TwoPhaseKafkaSink(TransactionSink[BrokerClient, OpenTransaction]):
    """What ``kafka.sink`` makes, unless it is asked for the staged way."""

    committable = KafkaCommittable

    def __init__(
        self, target: Target, *, downtime_ms: int, write_ahead: bool, parallelism: int | None, max_open: int
    ) -> None:
        """All checked by ``kafka.sink``."""
        self._target = target
        self._downtime_ms = downtime_ms
        self._write_ahead = write_ahead
        self._parallelism = parallelism
        self._max_open = max_open
        self._work: _Work | None = None

    @property
    def transaction_timeout_ms(self) -> int | None:
        """Of the transactions that wait on the broker for their checkpoint."""
        return self._target.timeout_ms

    def describe(self) -> str:
        """Topic, place and way."""
        return f"{self._target.describe()}, two-phase{' with a write-ahead log' if self._write_ahead else ''}"

    @property
    def place(self) -> str | None:
        """The topic."""
        return self._target.place

    def open(self, context: SinkContext) -> None:
        """See that topic, rights and timeouts are as they must be."""
        check_timeout(context, self._target.timeout_ms, self._downtime_ms, write_ahead=self._write_ahead)
        if self._write_ahead and context.staging is None:
            raise InvalidOption(
                f"sink {context.sink}: the write-ahead log needs a directory for rows, and was given none"
            )
        names = Names(self._target.prefix, context.job, context.sink, context.incarnation)
        staging = None
        if self._write_ahead and context.staging is not None:
            staging = Staging(context.staging, context.job, context.sink)
            with external(f"sink {context.sink}: cannot make {staging.root}"):
                make_directory(staging.root, context.directory_mode)
        client = BrokerClient(self._target.servers, client_options(self._target))
        try:
            target = preflight(client, self._target, context.sink, names.owner)
        except BaseException:
            client.close()
            raise
        self._work = _Work(Owned(target, names), client, staging, Slots(self._max_open, WAIT_FOR_SLOT_S))
        super().open(context)

    @contextmanager
    def connected(self, what: str) -> Iterator[BrokerClient]:
        """The client of this process, which says itself what the broker answers; and the directory for rows."""
        with external(what):
            yield self._opened.client

    def has_room(self, write_id: WriteId) -> bool:
        """Whether a slot is free, or will be as soon as the batch begins."""
        slots = self._opened.slots
        return slots.has_room or any(self.replaces(write_id, other) for other in slots.write_ids())

    def begin_transaction(self, write_id: WriteId) -> None:
        """Take a slot, and make room for the copy. What was left open for the same batch is thrown away.

        An open transaction holds back the readers of all that comes after it, so it does not wait for ``abort``.
        """
        super().begin_transaction(write_id)
        work = self._opened
        work.slots.take(write_id)
        if work.staging is not None:
            with external(f"sink {write_id.sink}: cannot make a directory for batch {write_id.batch}"):
                work.staging.root.stat()
                discard(work.staging.part(write_id))
                work.staging.part(write_id).mkdir(parents=True)

    def prepare(self, write_id: WriteId, dataframe: DataFrame) -> Sequence[OpenTransaction]:
        """Have executors write the rows into transactions that stay open."""
        work = self._opened
        check_frame(dataframe.schema, topic=self._target.topic, who=f"sink {write_id.sink}")
        if self._parallelism is not None:
            dataframe = dataframe.repartition(self._parallelism)
        part = None if work.staging is None else work.staging.part(write_id)
        slot = work.slots.take(write_id)
        use = token(write_id.generation, write_id.batch, write_id.run)
        write = PartitionWriter(work.owned, write_id.generation, slot, use, None if part is None else str(part))
        answers = write_partitions(dataframe, write)
        if part is not None:
            with external(f"sink {write_id.sink}: cannot keep batch {write_id.batch}"):
                force([part, part.parent])
        return [OpenTransaction.of(json.loads(answer)) for answer in answers if answer]

    def facts(self) -> Mapping[str, Any]:
        """When."""
        return {"pre_committed_ms": time.time_ns() // 1_000_000}

    def missing(
        self, session: BrokerClient, pre_committed: TransactionCommittable[OpenTransaction]
    ) -> Collection[OpenTransaction]:
        """None: what the broker has given up is written anew from the files, and without files it is refused here."""
        if self._opened.staging is None:
            self._see_that_all_is_open(session, pre_committed)
        return ()

    def staged(self, committable: str) -> Sequence[StagedFile]:
        """The files of the write-ahead log."""
        staging = self._opened.staging
        if staging is None:
            return ()
        pre_committed = KafkaCommittable.from_text(committable)
        return [
            StagedFile(staging.name(write_id, each.file), each.size, each.checksum, pre_committed.pre_committed_ms)
            for write_id, transactions in pre_committed.parts
            for each in transactions
            if each.file
        ]

    def commit_all(self, session: BrokerClient, pre_committed: TransactionCommittable[OpenTransaction]) -> None:
        """End every transaction, and write anew what was lost."""
        assert isinstance(pre_committed, KafkaCommittable)
        work = self._opened
        every = [(write_id, each, pre_committed.scheme) for write_id, found in pre_committed.parts for each in found]
        ends = work.in_parallel(self._end, every)
        session.see_all_through({end.transactional_id: end.producer for end in ends if isinstance(end, _Ended)})
        lost = [end for end in ends if isinstance(end, Lost)]
        if lost:
            logger.warning(
                "sink %s: %d of %d pre-committed transactions were lost at the broker (%s): "
                "their rows are written anew",
                pre_committed.whose.sink,
                len(lost),
                len(every),
                lost[0].transactional_id,
            )
            on_executors(lost, write_anew)

    def throw_away(self, session: BrokerClient, covered: Callable[[WriteId], bool]) -> None:
        """Abort what this process has open and is covered, and remove the rows that wait for it."""
        work = self._opened
        for write_id in work.slots.write_ids():
            if covered(write_id):
                slot = work.slots.of(write_id)
                if slot is not None:
                    self._fence_off(session, work.names.slot_prefix(write_id.generation, slot))
                self.forget(write_id)
        if work.staging is not None:
            for write_id in work.staging.write_ids():
                if covered(write_id):
                    discard(work.staging.part(write_id))

    def abort(self, scope: AbortScope) -> None:
        """Throw away what is covered; of stale generations also what other processes left open."""
        super().abort(scope)
        work = self._opened
        if isinstance(scope, StaleGenerations):
            self._fence_off(work.client, work.names.owner, earlier_than=scope.below)
            if work.staging is not None:
                with external(f"sink {work.names.sink}: cannot remove the directories of earlier generations"):
                    work.staging.tidy(scope.below)

    def forget(self, write_id: WriteId) -> None:
        """Nothing of what an attempt wrote is needed any more: neither its rows nor its slot."""
        super().forget(write_id)
        work = self._opened
        if work.staging is not None:
            with external(f"sink {write_id.sink}: cannot remove what is committed"):
                discard(work.staging.part(write_id))
        work.slots.give_back(write_id)

    def close(self) -> None:
        """Let go of connections. Transactions stay open."""
        if self._work is not None:
            self._work.close()

    def __getstate__(self) -> dict[str, object]:
        """Another process opens it anew."""
        return {**super().__getstate__(), "_work": None}

    @property
    def _opened(self) -> "_Work":
        assert self._work is not None, "open comes first"
        return self._work

    def _end(self, client: BrokerClient, one: tuple[WriteId, OpenTransaction, Scheme]) -> "_Ended | Lost | None":
        """Commit one transaction. Nothing is returned for one that was committed before, and taken up since."""
        write_id, transaction, scheme = one
        work = self._opened
        name = work.names.transactional_id(write_id.generation, transaction.slot, scheme)
        ended = client.end(name, transaction.producer_id, transaction.epoch, commit=True)
        if ended.ok:
            return _Ended(name, Producer(transaction.producer_id, transaction.epoch))
        use = token(write_id.generation, write_id.batch, write_id.run, scheme)
        if is_committed(work.owned, name, use, client):
            return None
        if work.staging is None or not transaction.file:
            raise BadStorage(
                f"sink {write_id.sink}: {transaction.rows} pre-committed rows of batch {write_id.batch} are lost: the "
                f"broker has given up transaction {name} ({ended.name}; {whose(work.owned, name)}): go back to an "
                "earlier checkpoint, and use write_ahead=True or a longer transaction_timeout"
            )
        path = work.staging.part(write_id) / transaction.file
        return Lost(work.owned, name, use, str(path), transaction.size, transaction.checksum)

    def _see_that_all_is_open(
        self, client: BrokerClient, pre_committed: TransactionCommittable[OpenTransaction]
    ) -> None:
        wanted = {
            self._opened.names.transactional_id(write_id.generation, each.slot): (each.producer_id, each.epoch)
            for write_id, transactions in pre_committed.parts
            for each in transactions
        }
        found = client.describe(list(wanted))
        for name, producer in wanted.items():
            seen = found.get(name)
            if seen is None or seen.state != "Ongoing" or (seen.producer_id, seen.epoch) != producer:
                state = "forgotten" if seen is None else f"{seen.state}, epoch {seen.epoch}"
                raise ExternalError(
                    f"sink {pre_committed.whose.sink}: the broker has given up transaction {name} ({state}) before "
                    "its checkpoint: the job must go back to its last one"
                )

    def _fence_off(self, client: BrokerClient, prefix: str, *, earlier_than: Generation | None = None) -> None:
        """Abort every open transaction whose id begins so, and let none of their producers write any more."""
        for listed in client.list_transactions(prefix, ["Ongoing"]):
            name = listed.transactional_id
            if earlier_than is not None and not self._opened.names.is_earlier(name, earlier_than):
                continue
            producer = client.init_producer(name, self._target.timeout_ms)
            client.see_through(name, producer.producer_id, producer.epoch)


class Slots:
    """A bounded pool. Any thread may take and give back."""

    def __init__(self, bound: int, wait_s: float) -> None:
        """``bound`` slots at most; who finds none waits this long for one."""
        self._bound = bound
        self._wait_s = wait_s
        self._free: deque[int] = deque()
        self._made = 0
        self._taken: dict[WriteId, int] = {}
        self._changed = threading.Condition()

    def take(self, write_id: WriteId) -> int:
        """The attempt's slot: the one it has, else the one that was free longest."""
        deadline = time.monotonic() + self._wait_s
        with self._changed:
            while write_id not in self._taken:
                if self._free:
                    self._taken[write_id] = self._free.popleft()
                elif self._made < self._bound:
                    self._taken[write_id] = self._made
                    self._made += 1
                elif not self._changed.wait(deadline - time.monotonic()) and not self._free:
                    raise ExternalError(
                        f"sink {write_id.sink}: {self._bound} batches are written and not committed yet, and no room "
                        f"was left for another within {self._wait_s:g} s: take checkpoints more often, or raise "
                        "max_open"
                    )
            return self._taken[write_id]

    @property
    def has_room(self) -> bool:
        """Whether somebody who has no slot would get one at once."""
        with self._changed:
            return bool(self._free) or self._made < self._bound

    def of(self, write_id: WriteId) -> int | None:
        """The slot that an attempt has."""
        with self._changed:
            return self._taken.get(write_id)

    def write_ids(self) -> list[WriteId]:
        """Who has a slot."""
        with self._changed:
            return list(self._taken)

    def give_back(self, write_id: WriteId) -> None:
        """The attempt is over. If it had no slot, nothing happens."""
        with self._changed:
            slot = self._taken.pop(write_id, None)
            if slot is not None:
                self._free.append(slot)
                self._changed.notify_all()


@dataclass(frozen=True)
class _Ended:
    """A transaction that is decided. Readers may not see it yet."""

    transactional_id: str
    producer: Producer


class _Work:
    """What an opened sink has."""

    def __init__(self, owned: Owned, client: BrokerClient, staging: Staging | None, slots: Slots) -> None:
        self.owned = owned
        self.client = client
        self.staging = staging
        self.slots = slots
        self._clients = [client]
        """Each makes one call at a time."""

    @property
    def names(self) -> Names:
        """What things are called."""
        return self.owned.names

    def in_parallel(self, end: Callable[[BrokerClient, Item], Returned], items: Sequence[Item]) -> list[Returned]:
        """Do something for each item, a few at a time."""
        wanted = min(ENDERS, len(items))
        while len(self._clients) < wanted:
            self._clients.append(BrokerClient(self.owned.target.servers, client_options(self.owned.target)))
        return side_by_side(lambda number, some: [end(self._clients[number], item) for item in some], items, wanted)

    def close(self) -> None:
        """Let go of connections."""
        for client in self._clients:
            client.close()
