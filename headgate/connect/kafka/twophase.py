"""Kafka out, exactly once, in two phases.

One rule: a batch is written into open transactions of the broker, one for each partition, and a commit only ends them.
So rows show within milliseconds of the checkpoint, and were sent once.

A broker aborts a transaction that is open for longer than its timeout. With the write-ahead log, rows are also kept in
files until they are committed: what the broker has given up by then is written anew. Without it, that is noticed and
refused.
"""

import json
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from pyspark.sql import DataFrame

from headgate.access import make_directory
from headgate.connect.kafka import rows
from headgate.connect.kafka.handle import OpenTransaction, SealedBatches
from headgate.connect.kafka.names import Names, Scheme, token
from headgate.connect.kafka.preflight import check_standing, check_timeout
from headgate.connect.kafka.protocol import Client, Producer
from headgate.connect.kafka.slots import Slots
from headgate.connect.kafka.target import Owned, Target, client_options
from headgate.connect.kafka.writing import Lost, PartitionWriter, is_committed, whose, write_anew
from headgate.core.ids import CheckpointId, Generation
from headgate.errors import BadStorage, ExternalError, InvalidOption
from headgate.sink.api import Abandoned, Attempt, Guarantee, SinkContext, StagedFile, Strangers, TwoPhaseSink
from headgate.sink.partitions import on_executors, write_partitions
from headgate.sink.staged import external
from headgate.sink.staging import Staging, discard, force

WAIT_FOR_SLOT_S = 30.0
ENDERS = 4
"""So many transactions are ended at a time."""

logger = logging.getLogger("headgate")
Item = TypeVar("Item")
Result = TypeVar("Result")


class TwoPhaseKafkaSink(TwoPhaseSink):
    """What ``kafka.sink`` makes, unless it is asked for the staged way."""

    def __init__(
        self, target: Target, *, downtime_ms: int, write_ahead: bool, lanes: int | None, max_open: int
    ) -> None:
        """All checked by ``kafka.sink``."""
        self._target = target
        self._downtime_ms = downtime_ms
        self._write_ahead = write_ahead
        self._lanes = lanes
        self._max_open = max_open
        self._work: _Work | None = None

    @property
    def guarantee(self) -> Guarantee:
        """Every row once, for readers with ``read_committed``."""
        return Guarantee.EXACTLY_ONCE

    def describe(self) -> str:
        """Topic, place and way."""
        return f"{self._target.describe()}, two-phase{' with a write-ahead log' if self._write_ahead else ''}"

    def open(self, context: SinkContext) -> None:
        """See that topic, rights and timeouts are as they must be."""
        check_timeout(context, self._target.timeout_ms, self._downtime_ms, write_ahead=self._write_ahead)
        if self._write_ahead and context.staging is None:
            raise InvalidOption(
                f"sink {context.sink}: the write-ahead log needs a directory for rows, and was given none"
            )
        names = Names(self._target.prefix, context.job, context.sink, context.life)
        staging = None
        if self._write_ahead and context.staging is not None:
            staging = Staging(context.staging, context.job, context.sink)
            with external(f"sink {context.sink}: cannot make {staging.root}"):
                make_directory(staging.root, context.directory_mode)
        client = Client(self._target.servers, client_options(self._target))
        try:
            target = check_standing(client, self._target, context.sink, names.owner)
        except BaseException:
            client.close()
            raise
        self._work = _Work(Owned(target, names), client, staging, Slots(self._max_open, WAIT_FOR_SLOT_S))

    def has_room(self, attempt: Attempt) -> bool:
        """Whether a slot is free, or will be as soon as the batch begins."""
        slots = self._opened.slots
        return slots.has_room or any(_is_same_batch(other, attempt) for other in slots.attempts())

    def begin_transaction(self, attempt: Attempt) -> None:
        """Take a slot, and make room for the copy. What was left open for the same batch is thrown away.

        An open transaction holds back the readers of all that comes after it, so it does not wait for ``abort``.
        """
        work = self._opened
        for other in work.slots.attempts():
            if _is_same_batch(other, attempt):
                self._throw_away(other)
        work.slots.take(attempt)
        if work.staging is not None:
            with external(f"sink {attempt.sink}: cannot begin batch {attempt.batch}"):
                work.staging.root.stat()
                discard(work.staging.part(attempt))
                work.staging.part(attempt).mkdir(parents=True)

    def invoke(self, attempt: Attempt, dataframe: DataFrame) -> None:
        """Have executors write the rows into transactions that stay open."""
        work = self._opened
        rows.check_frame(dataframe.schema, topic=self._target.topic, who=f"sink {attempt.sink}")
        if attempt in work.written:  # once more: some partitions may have no rows this time
            self._throw_away(attempt)
            self.begin_transaction(attempt)
        if self._lanes is not None:
            dataframe = dataframe.repartition(self._lanes)
        part = None if work.staging is None else work.staging.part(attempt)
        slot = work.slots.take(attempt)
        use = token(attempt.generation, attempt.batch, attempt.run)
        write = PartitionWriter(work.owned, attempt.generation, slot, use, None if part is None else str(part))
        answers = write_partitions(dataframe, write)
        if part is not None:
            with external(f"sink {attempt.sink}: cannot keep batch {attempt.batch}"):
                force([part, part.parent])
        work.written[attempt] = tuple(OpenTransaction.of(json.loads(answer)) for answer in answers if answer)

    def pre_commit(self, checkpoint: CheckpointId, generation: Generation, attempts: Sequence[Attempt]) -> str:
        """List the transactions of these attempts, once the broker says that all of them are open."""
        work = self._opened
        gone = [attempt for attempt in attempts if attempt not in work.written]
        if gone:
            raise BadStorage(
                f"sink {gone[0].sink}: nobody knows what batch {gone[0].batch} wrote: restart the job from its last "
                "checkpoint"
            )
        batches = tuple((attempt.batch, attempt.run, work.written[attempt]) for attempt in attempts)
        now_ms = time.time_ns() // 1_000_000
        sealed = SealedBatches(work.names.job, work.names.sink, generation, checkpoint, batches, now_ms)
        if work.staging is None:
            self._see_that_all_is_open(sealed)
        return sealed.to_handle()

    def staged(self, handle: str) -> Sequence[StagedFile]:
        """The files of the write-ahead log."""
        staging = self._opened.staging
        if staging is None:
            return ()
        sealed = SealedBatches.from_handle(handle)
        return [
            StagedFile(staging.name(attempt, each.file), each.size, each.checksum, sealed.sealed_ms)
            for attempt, transactions in sealed.attempts()
            for each in transactions
            if each.file
        ]

    def commit(self, handle: str) -> None:
        """End every transaction, and write anew what was lost."""
        work = self._opened
        sealed = SealedBatches.from_handle(handle)
        every = [(attempt, each, sealed.scheme) for attempt, found in sealed.attempts() for each in found]
        ends = work.in_parallel(self._end, every)
        work.client.see_all_through({end.transactional_id: end.producer for end in ends if isinstance(end, _Ended)})
        lost = [end for end in ends if isinstance(end, Lost)]
        if lost:
            logger.warning(
                "sink %s: %d of %d sealed transactions were lost at the broker (%s): their rows are written anew",
                sealed.sink,
                len(lost),
                len(every),
                lost[0].transactional_id,
            )
            on_executors(lost, write_anew)
        for attempt, _ in sealed.attempts():
            self._settle(attempt)

    def abort(self, abandoned: Abandoned) -> None:
        """Fence off every transaction that is open and covered."""
        work = self._opened
        for attempt in work.slots.attempts():
            if abandoned.covers(attempt):
                self._throw_away(attempt)
        if isinstance(abandoned, Strangers):
            self._fence(work.names.owner, earlier_than=abandoned.below)
        if work.staging is not None:
            with external(f"sink {work.names.sink}: cannot throw away what is abandoned"):
                for attempt in work.staging.attempts():
                    if abandoned.covers(attempt):
                        discard(work.staging.part(attempt))
                if isinstance(abandoned, Strangers):
                    work.staging.tidy(abandoned.below)

    def close(self) -> None:
        """Let go of connections. Transactions stay open."""
        if self._work is not None:
            self._work.close()

    def __getstate__(self) -> dict[str, object]:
        """Another process opens it anew."""
        return {**self.__dict__, "_work": None}

    @property
    def _opened(self) -> "_Work":
        assert self._work is not None, "open comes first"
        return self._work

    def _end(self, client: Client, one: tuple[Attempt, OpenTransaction, Scheme]) -> "_Ended | Lost | None":
        """Commit one transaction. Nothing is returned for one that was committed before, and taken up since."""
        attempt, transaction, scheme = one
        work = self._opened
        name = work.names.transactional_id(attempt.generation, transaction.slot, scheme)
        ended = client.end(name, transaction.producer_id, transaction.epoch, commit=True)
        if ended.ok:
            return _Ended(name, Producer(transaction.producer_id, transaction.epoch))
        use = token(attempt.generation, attempt.batch, attempt.run, scheme)
        if is_committed(work.owned, name, use, client):
            return None
        if work.staging is None or not transaction.file:
            raise BadStorage(
                f"sink {attempt.sink}: {transaction.rows} sealed rows of batch {attempt.batch} are lost: the broker has"
                f" given up transaction {name} ({ended.name}; {whose(work.owned, name)}): go back to an earlier "
                "checkpoint, and use write_ahead=True or a longer transaction_timeout"
            )
        path = work.staging.part(attempt) / transaction.file
        return Lost(work.owned, name, use, str(path), transaction.size, transaction.checksum)

    def _see_that_all_is_open(self, sealed: SealedBatches) -> None:
        work = self._opened
        wanted = {
            work.names.transactional_id(attempt.generation, each.slot): (each.producer_id, each.epoch)
            for attempt, transactions in sealed.attempts()
            for each in transactions
        }
        found = work.client.describe(list(wanted)) if wanted else {}
        for name, producer in wanted.items():
            seen = found.get(name)
            if seen is None or seen.state != "Ongoing" or (seen.producer_id, seen.epoch) != producer:
                state = "forgotten" if seen is None else f"{seen.state}, epoch {seen.epoch}"
                raise ExternalError(
                    f"sink {sealed.sink}: the broker has given up transaction {name} ({state}) before its checkpoint: "
                    "the job must go back to its last one"
                )

    def _settle(self, attempt: Attempt) -> None:
        """What an attempt wrote is committed: nothing of it is needed any more."""
        work = self._opened
        work.written.pop(attempt, None)
        if work.staging is not None:
            with external(f"sink {attempt.sink}: cannot remove what is committed"):
                discard(work.staging.part(attempt))
        work.slots.give_back(attempt)

    def _throw_away(self, attempt: Attempt) -> None:
        work = self._opened
        slot = work.slots.of(attempt)
        if slot is not None:
            self._fence(work.names.slot_prefix(attempt.generation, slot))
        self._settle(attempt)

    def _fence(self, prefix: str, *, earlier_than: Generation | None = None) -> None:
        """Abort every open transaction whose id begins so, and let none of their producers write any more."""
        work = self._opened
        for listed in work.client.list_transactions(prefix, ["Ongoing"]):
            name = listed.transactional_id
            if earlier_than is not None and not work.names.is_earlier(name, earlier_than):
                continue
            producer = work.client.init_producer(name, self._target.timeout_ms)
            work.client.see_through(name, producer.producer_id, producer.epoch)


def _is_same_batch(one: Attempt, other: Attempt) -> bool:
    return (one.generation, one.batch) == (other.generation, other.batch)


@dataclass(frozen=True)
class _Ended:
    """A transaction that is decided. Readers may not see it yet."""

    transactional_id: str
    producer: Producer


class _Work:
    """What an opened sink has."""

    def __init__(self, owned: Owned, client: Client, staging: Staging | None, slots: Slots) -> None:
        self.owned = owned
        self.client = client
        self.staging = staging
        self.slots = slots
        self.written: dict[Attempt, tuple[OpenTransaction, ...]] = {}
        self._clients = [client]
        """Each makes one call at a time."""

    @property
    def names(self) -> Names:
        """What things are called."""
        return self.owned.names

    def in_parallel(self, end: Callable[[Client, Item], Result], items: Sequence[Item]) -> list[Result]:
        """Do something for each item, a few at a time."""
        wanted = min(ENDERS, len(items))
        while len(self._clients) < wanted:
            self._clients.append(Client(self.owned.target.servers, client_options(self.owned.target)))
        if wanted <= 1:
            return [end(self.client, item) for item in items]

        def share(number: int) -> list[Result]:
            return [end(self._clients[number], item) for item in items[number::wanted]]

        with ThreadPoolExecutor(wanted, "headgate-kafka") as pool:
            return [result for results in pool.map(share, range(wanted)) for result in results]

    def close(self) -> None:
        """Let go of connections."""
        for client in self._clients:
            client.close()
