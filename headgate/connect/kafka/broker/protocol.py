"""A small client of Kafka's protocol, which ends transactions from any process.

One rule: every call may be repeated, in this process or in another, as if it had been made once.

A transaction stays open on the broker when its producer is gone. Whoever knows the transactional id, the producer id
and the epoch can end it with one request to its coordinator. Nothing here writes or reads records.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from types import TracebackType
from typing import Any, Self

from headgate.connect.kafka.broker import requests
from headgate.connect.kafka.broker.cluster import Cluster, Unfinished
from headgate.connect.kafka.broker.connection import Deadline, addresses
from headgate.connect.kafka.broker.problems import (
    FENCED,
    INVALID_TXN_STATE,
    TRANSACTIONAL_ID_NOT_FOUND,
    UNKNOWN_TOPIC,
    check,
    name_of,
)
from headgate.connect.kafka.broker.requests import (
    GROUP_COORDINATOR,
    TRANSACTION_COORDINATOR,
    Broker,
    CommittedOffset,
    ListedTransaction,
    Metadata,
    Partition,
    Producer,
    TransactionDescription,
)
from headgate.connect.kafka.security import security
from headgate.errors import InvalidOption

TIMEOUT_S = 8.0
"""Below the ten seconds within which a sink says that it cannot be opened."""
UNFINISHED = frozenset({"PrepareCommit", "PrepareAbort", "PrepareEpochFence"})
"""Decided, but readers may not see it yet."""


class TransactionOutcome(Enum):
    """What became of a transaction that was to be ended."""

    DONE = "done"
    """It is ended as asked, now or before."""
    WRONG_STATE = "wrong state"
    """It was ended the other way, or never begun."""
    FENCED = "fenced"
    """Its transactional id belongs to a later producer, or the broker has forgotten it: how it ended is not known."""


@dataclass(frozen=True)
class Ended:
    """What became of a transaction, with Kafka's own name for it where it was refused."""

    outcome: TransactionOutcome
    name: str = ""

    @property
    def ok(self) -> bool:
        """Whether the transaction is ended as asked."""
        return self.outcome is TransactionOutcome.DONE


class BrokerClient:
    """Connections to the brokers of one cluster, made when they are needed.

    Any thread may call; calls are made one after the other. A pickled client is one that is not connected.
    """

    def __init__(self, servers: str, options: Mapping[str, str] | None = None, timeout_s: float = TIMEOUT_S) -> None:
        """``servers``: ``host:port,host:port``. ``options``: as librdkafka has them; those about security are used.

        ``timeout_s``: how long one call may take, with all its repeats. Then it raises ``ExternalError``.
        """
        if timeout_s <= 0:
            raise InvalidOption(f"kafka: timeout_s must be above 0, got {timeout_s:g}")
        self.servers = servers
        self._bootstrap = addresses(servers)
        self._security = security(options or {})
        self._timeout_s = timeout_s
        self._cluster = Cluster(self._bootstrap, self._security, timeout_s)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_cluster"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._cluster = Cluster(self._bootstrap, self._security, self._timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of all connections. The client can be used again."""
        self._cluster.close()

    def coordinator(self, transactional_id: str) -> Broker:
        """Who looks after a transactional id."""

        def attempt(deadline: Deadline) -> Broker:
            return self._cluster.find(transactional_id, TRANSACTION_COORDINATOR, deadline)

        return self._cluster.until_done(attempt)

    def end(self, transactional_id: str, producer_id: int, epoch: int, *, commit: bool) -> Ended:
        """Commit or abort the open transaction of a producer.

        Harmless to repeat as long as that producer begins no other transaction. Not allowed: ``UserError``.
        """
        call = requests.end_txn(transactional_id, Producer(producer_id, epoch), commit=commit)
        doing = f"to {'commit' if commit else 'abort'} transaction {transactional_id}"

        def attempt(deadline: Deadline) -> Ended:
            code = self._cluster.ask_coordinator(transactional_id, TRANSACTION_COORDINATOR, call, deadline)
            if code == INVALID_TXN_STATE:
                return Ended(TransactionOutcome.WRONG_STATE, name_of(code))
            if code in FENCED:
                return Ended(TransactionOutcome.FENCED, name_of(code))
            self._cluster.check_coordinator(code, doing, transactional_id, TRANSACTION_COORDINATOR)
            return Ended(TransactionOutcome.DONE)

        return self._cluster.until_done(attempt)

    def see_through(
        self, transactional_id: str, producer_id: int, epoch: int, timeout_s: float | None = None
    ) -> TransactionDescription | None:
        """As ``see_all_through``, for one. None if the brokers have forgotten the id."""
        ended = {transactional_id: Producer(producer_id, epoch)}
        return self.see_all_through(ended, timeout_s).get(transactional_id)

    def see_all_through(
        self, ended: Mapping[str, Producer], timeout_s: float | None = None
    ) -> dict[str, TransactionDescription]:
        """Wait until transactions that were ended are over, so that readers see their end; return their last states.

        A broker that dies after it has answered may have the end in its log and not yet in all partitions; whoever
        coordinates next completes it. A transaction of a later producer proves that the earlier one is over.
        """

        def attempt(deadline: Deadline) -> dict[str, TransactionDescription]:
            found = self._described(list(ended), deadline)
            for name, transaction in found.items():
                if _is_unfinished(transaction, ended[name]):
                    raise Unfinished(f"transaction {name} is still in {transaction.state}: are all brokers up?")
            return found

        return self._cluster.until_done(attempt, timeout_s)

    def settle(self, transactional_id: str) -> None:
        """Wait until readers see the end of whatever was ended last under an id."""
        found = self.describe([transactional_id]).get(transactional_id)
        if found is not None:
            self.see_through(transactional_id, found.producer_id, found.epoch)

    def describe(self, transactional_ids: Sequence[str]) -> dict[str, TransactionDescription]:
        """What is known of these ids. One that the brokers do not know is left out."""
        return self._cluster.until_done(lambda deadline: self._described(transactional_ids, deadline))

    def list_transactions(self, prefix: str = "", states: Sequence[str] = ()) -> list[ListedTransaction]:
        """All ids with this prefix, in these states or in any. Those that the user may not see are left out."""
        call = requests.list_transactions(states)

        def attempt(deadline: Deadline) -> list[ListedTransaction]:
            brokers, _ = self._cluster.ask_any(requests.metadata([]), deadline)
            found: dict[str, ListedTransaction] = {}
            for broker in brokers:
                code, listed = self._cluster.ask((broker.host, broker.port), call, deadline)
                check(code, "to list transactions")
                found.update({each.transactional_id: each for each in listed})
            return [found[name] for name in sorted(found) if name.startswith(prefix)]

        return self._cluster.until_done(attempt)

    def init_producer(self, transactional_id: str, timeout_ms: int) -> Producer:
        """Take over an id: whatever is open under it is aborted, and its producers so far are fenced."""
        call = requests.init_producer_id(transactional_id, timeout_ms)
        doing = f"to take over transactional id {transactional_id}"

        def attempt(deadline: Deadline) -> Producer:
            code, producer = self._cluster.ask_coordinator(transactional_id, TRANSACTION_COORDINATOR, call, deadline)
            self._cluster.check_coordinator(code, doing, transactional_id, TRANSACTION_COORDINATOR)
            return producer

        return self._cluster.until_done(attempt)

    def metadata(self, topics: Sequence[str] = ()) -> Metadata:
        """The brokers, and the partitions of these topics. A topic that is not there is named as missing."""

        def attempt(deadline: Deadline) -> Metadata:
            brokers, answers = self._cluster.ask_any(requests.metadata(topics), deadline)
            missing = tuple(answer.name for answer in answers if answer.code == UNKNOWN_TOPIC)
            found = [answer for answer in answers if answer.code != UNKNOWN_TOPIC]
            for answer in found:
                check(answer.code, f"to describe topic {answer.name}")
            return Metadata(tuple(brokers), {answer.name: answer.leaders for answer in found}, missing)

        return self._cluster.until_done(attempt)

    def fetch_offsets(
        self, group: str, partitions: Iterable[Partition], *, stable: bool = True
    ) -> dict[Partition, CommittedOffset]:
        """What a group has stored; a partition for which it has nothing is left out.

        Waits until no transaction is open in which offsets of this group were stored. If not ``stable`` it does not
        wait, and what is found may have been overtaken.
        """
        call = requests.offset_fetch(group, list(partitions), stable=stable)
        doing = f"to read the offsets of group {group}"

        def attempt(deadline: Deadline) -> dict[Partition, CommittedOffset]:
            code, answers = self._cluster.ask_coordinator(group, GROUP_COORDINATOR, call, deadline)
            for each in (code, *(code for code, _ in answers.values())):
                self._cluster.check_coordinator(each, doing, group, GROUP_COORDINATOR)
            return {partition: stored for partition, (_, stored) in answers.items() if stored.offset >= 0}

        return self._cluster.until_done(attempt)

    def commit_offsets(self, group: str, offsets: Mapping[Partition, CommittedOffset | int]) -> None:
        """Store offsets for a group without members, for others to see how far a job is."""
        stored = {
            partition: offset if isinstance(offset, CommittedOffset) else CommittedOffset(offset)
            for partition, offset in offsets.items()
        }
        call = requests.offset_commit(group, stored)

        def attempt(deadline: Deadline) -> None:
            for partition, code in self._cluster.ask_coordinator(group, GROUP_COORDINATOR, call, deadline):
                doing = f"to store offsets of {partition.topic}-{partition.number} for group {group}"
                self._cluster.check_coordinator(code, doing, group, GROUP_COORDINATOR)

        self._cluster.until_done(attempt)

    def broker_config(self, name: str) -> str | None:
        """A setting of the brokers, as it is in force at the first of them who answers.

        None if there is no such setting, or it is secret.
        """

        def attempt(deadline: Deadline) -> str | None:
            brokers, _ = self._cluster.ask_any(requests.metadata([]), deadline)
            calls = [
                (
                    (each.host, each.port),
                    requests.describe_config(requests.BROKER_RESOURCE, str(each.node), name),
                )
                for each in brokers
            ]
            return _setting(name, self._cluster.ask_first(calls, deadline))

        return self._cluster.until_done(attempt)

    def topic_config(self, topic: str, name: str) -> str | None:
        """A setting of a topic, as ``broker_config``."""
        call = requests.describe_config(requests.TOPIC_RESOURCE, topic, name)
        return self._cluster.until_done(lambda deadline: _setting(name, self._cluster.ask_any(call, deadline)))

    def _described(self, transactional_ids: Sequence[str], deadline: Deadline) -> dict[str, TransactionDescription]:
        by_broker: dict[Broker, list[str]] = {}
        for name in dict.fromkeys(transactional_ids):
            by_broker.setdefault(self._cluster.find(name, TRANSACTION_COORDINATOR, deadline), []).append(name)
        found = {}
        for broker, names in by_broker.items():
            call = requests.describe_transactions(names)
            for code, transaction in self._cluster.ask((broker.host, broker.port), call, deadline):
                if code == TRANSACTIONAL_ID_NOT_FOUND:
                    continue
                name = transaction.transactional_id
                doing = f"to describe transaction {name}"
                self._cluster.check_coordinator(code, doing, name, TRANSACTION_COORDINATOR)
                found[name] = transaction
        return found


def _setting(name: str, answers: list[tuple[int, dict[str, str | None]]]) -> str | None:
    found: str | None = None
    for code, settings in answers:
        check(code, f"to show the setting {name}")
        found = settings.get(name, found)
    return found


def _is_unfinished(found: TransactionDescription, producer: Producer) -> bool:
    # Whoever fences a producer aborts its transaction under the next epoch: that one is waited for too.
    later = found.producer_id != producer.producer_id or found.epoch > producer.epoch + 1
    return found.state in UNFINISHED and not later
