"""The brokers of one cluster, as one who is asked.

One rule: every request may be repeated. So whatever broke or was busy is asked again, until the deadline of the call.
"""

import ssl
import threading
from collections.abc import Callable, Iterable
from typing import TypeVar

from headgate.connect.kafka.broker import requests
from headgate.connect.kafka.broker.connection import Connection, Deadline, TimedOut, Unreachable
from headgate.connect.kafka.broker.problems import MOVED, RETRIABLE, KafkaProblem, check
from headgate.connect.kafka.broker.requests import Broker, Call
from headgate.connect.kafka.security import Security
from headgate.errors import ExternalError
from headgate.retry import Retry, RetryPolicy

T = TypeVar("T")

POLICY = RetryPolicy(first_s=0.005, longest_s=0.25)

BrokerAddress = tuple[str, int]


class Unfinished(ExternalError):
    """Asked too early: the brokers have work to do first."""


class Cluster:
    """Connections to brokers, made when they are needed, and who coordinates what, as far as it was asked."""

    def __init__(self, bootstrap: tuple[BrokerAddress, ...], security: Security, timeout_s: float) -> None:
        """``timeout_s``: how long a call may take, with all its repeats."""
        self._bootstrap = bootstrap
        self._security = security
        self._timeout_s = timeout_s
        self._lock = threading.RLock()
        self._connections: dict[BrokerAddress, Connection] = {}
        self._coordinators: dict[tuple[int, str], Broker] = {}
        self._context: ssl.SSLContext | None = None

    def close(self) -> None:
        """Let go of all connections. They are made again when they are needed."""
        with self._lock:
            for address in list(self._connections):
                self._drop(address)
            self._coordinators.clear()

    def until_done(self, attempt: Callable[[Deadline], T], timeout_s: float | None = None) -> T:
        """Try, and try again while there is time. Then the last error is raised that says more than that time is up."""
        with self._lock:
            deadline = Deadline(self._timeout_s if timeout_s is None else timeout_s)
            retry = Retry(POLICY.within(deadline.seconds))
            told: ExternalError | None = None
            while True:
                try:
                    return attempt(deadline)
                except (Unreachable, Unfinished, KafkaProblem) as problem:
                    if isinstance(problem, KafkaProblem) and problem.code not in RETRIABLE:
                        raise
                    if told is None or not isinstance(problem, TimedOut):
                        told = problem
                if not retry.again():
                    raise told

    def check_coordinator(self, code: int, doing: str, key: str, kind: int) -> None:
        """As ``check``, for the answer of a coordinator, who may have been followed by another."""
        if code in MOVED:
            self._coordinators.pop((kind, key), None)
        check(code, doing)

    def find(self, key: str, kind: int, deadline: Deadline) -> Broker:
        """Who coordinates a transactional id or a group."""
        known = self._coordinators.get((kind, key))
        if known is not None:
            return known
        code, broker = self.ask_any(requests.find_coordinator(key, kind), deadline)
        check(code, f"to find the coordinator of {key}")
        self._coordinators[kind, key] = broker
        return broker

    def ask_coordinator(self, key: str, kind: int, call: Call[T], deadline: Deadline) -> T:
        """Ask the coordinator of a transactional id or a group."""
        broker = self.find(key, kind, deadline)
        return self.ask((broker.host, broker.port), call, deadline)

    def ask_any(self, call: Call[T], deadline: Deadline) -> T:
        """Ask one broker after the other, until one answers."""
        return self.ask_first([(each, call) for each in (*self._connections, *self._bootstrap)], deadline)

    def ask_first(self, calls: Iterable[tuple[BrokerAddress, Call[T]]], deadline: Deadline) -> T:
        """Ask these brokers one after the other, each what is for it, until one answers."""
        candidates = dict(calls)
        failure: Unreachable | None = None
        for number, (address, call) in enumerate(candidates.items()):
            try:
                return self.ask(address, call, deadline.part(len(candidates) - number))
            except Unreachable as problem:
                failure = problem
        raise failure or Unfinished("Kafka names no broker")

    def ask(self, address: BrokerAddress, call: Call[T], deadline: Deadline) -> T:
        """Ask one broker."""
        try:
            connection = self._connections.get(address)
            if connection is None:
                connection = Connection(*address, self._security, self._tls(), deadline)
                self._connections[address] = connection
            return connection.call(call, deadline)
        except BaseException:
            self._drop(address)
            raise

    def _drop(self, address: BrokerAddress) -> None:
        """Forget a broker that did not answer, and all that was known to be there."""
        connection = self._connections.pop(address, None)
        if connection is not None:
            connection.close()
        for key, broker in list(self._coordinators.items()):
            if (broker.host, broker.port) == address:
                del self._coordinators[key]

    def _tls(self) -> ssl.SSLContext | None:
        if self._context is None and self._security.tls is not None:
            self._context = self._security.tls.context()
        return self._context
