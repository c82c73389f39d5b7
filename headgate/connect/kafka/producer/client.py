"""A producer of librdkafka with what it reports: failed deliveries, errors, and its identity.

One rule: whatever librdkafka says is heard at the next step, and raised there, as the error that says who must act; no
callback runs in any other thread than the caller's.

An error whose outcome is not known is never taken for success or failure: the producer is thrown away, and what it
wrote is aborted or written anew. ::

    UserError           not allowed, too large, no such topic: trying again cannot help
    ExternalError
    ├── Fenced          somebody else uses the transactional id, or it was taken up anew
    └── Indefinite      the broker was away, or nobody knows how it ended: make a new producer
"""

import ctypes
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from headgate.connect.kafka.producer import native
from headgate.connect.kafka.producer.native import Message, Problem
from headgate.connect.kafka.producer.settings import MESSAGE_MAX, MESSAGE_MAX_BYTES, Option, fill
from headgate.errors import ExternalError, InvalidOption, UserError

STEP_MS = 500
"""How long one call may block, so that what the broker says meanwhile is heard."""
BREATH_MS = 20
"""How long to wait before a step that failed is tried again."""

TOO_LARGE = (10, 18)
UNKNOWN_TOPIC = (3, native.UNKNOWN_TOPIC)
NOT_ALLOWED = (29, 30, 31, 53)
NOT_KNOWN = (58, native.AUTHENTICATION)
FENCED = (47, 90, native.FENCED)
BAD_TIMEOUT = 50
BAD_TIMESTAMP = 32
BAD_PARTITION = native.UNKNOWN_PARTITION
CONSEQUENCES = (native.PURGE_QUEUE, native.PURGE_INFLIGHT)
"""What happens to other messages after one has failed."""


class Fenced(ExternalError):
    """Another producer has taken up the same transactional id. What this one wrote is aborted."""


class Indefinite(ExternalError):
    """Nobody knows how it ended. Throw the producer away and make another."""


@dataclass(frozen=True)
class LibrdkafkaTopic:
    """A topic that is there. ``handle`` is librdkafka's."""

    name: str
    handle: int
    partitions: int


@dataclass(frozen=True)
class _Failure:
    """A row that the broker does not have."""

    problem: Problem
    size: int


class LibrdkafkaClient:
    """A handle, made with options that are checked. For one thread, and never to be carried over a fork."""

    def __init__(self, options: Mapping[str, Option], *, wait_ms: int) -> None:
        """``wait_ms`` is how long each step waits for brokers that are away."""
        self.library = native.library()
        self.ready = False
        self._servers = str(options["bootstrap.servers"])
        self._transactional_id = str(options["transactional.id"])
        self._message_max = int(options.get(MESSAGE_MAX, MESSAGE_MAX_BYTES))
        self._wait_ms = wait_ms
        self._topics: dict[str, LibrdkafkaTopic] = {}
        self._failure: _Failure | None = None
        self._heard: Problem | None = None
        self._statistics = b""
        self._callbacks = (
            native.ON_DELIVERY(self._on_failed_delivery),
            native.ON_STATISTICS(self._on_statistics),
            native.ON_ERROR(self._on_error),
        )
        self._handle: int | None = self._made(options)

    @property
    def handle(self) -> int:
        """The handle as librdkafka knows it."""
        assert self._handle is not None, "the producer was let go of"
        return self._handle

    @property
    def closed(self) -> bool:
        """Whether it was let go of."""
        return self._handle is None

    def close(self) -> None:
        """End its threads and free its memory. The broker hears nothing of it."""
        handle, self._handle = self._handle, None
        if handle is None:
            return
        for topic in self._topics.values():
            self.library.rd_kafka_topic_destroy(topic.handle)
        self._topics = {}
        self.library.rd_kafka_destroy(handle)
        self._callbacks = ()  # type: ignore[assignment]  # they hold this object, and are not called any more

    def until_done(
        self, doing: str, call: Callable[[int, int], int | None], *, step_ms: int = STEP_MS, first_ms: int | None = None
    ) -> None:
        """Call until it succeeds. What is worth a repeat is repeated for as long as brokers are waited for.

        A call may block for ``step_ms``; with ``first_ms`` the first for only that long, and each next for twice that.
        """
        deadline, most_ms = self.deadline(), step_ms if first_ms is None else first_ms
        while True:
            problem = native.taken(call(self.handle, self.step(deadline, most_ms)))
            if problem is None:
                return
            most_ms = min(2 * most_ms, step_ms)
            self.hear(doing)
            if not problem.retriable and problem.code != native.TIMED_OUT:
                self.fail(doing, problem)
            if time.monotonic() > deadline:
                self.fail(doing, self.timed_out())
            self.poll(BREATH_MS)

    def find(self, name: str) -> LibrdkafkaTopic:
        """The topic, which must be there."""
        known = self._topics.get(name)
        if known is not None:
            return known
        lib, doing = self.library, f"cannot find topic {name}"
        handle = lib.rd_kafka_topic_new(self.handle, name.encode(), None)
        if not handle:
            self.fail(doing, self._problem(lib.rd_kafka_last_error()))
        try:
            code, count = self._partitions(handle, doing)
            if code or not count:
                self.fail(doing, self._problem(code or native.UNKNOWN_TOPIC))
        except BaseException:
            lib.rd_kafka_topic_destroy(handle)
            raise
        self._topics[name] = LibrdkafkaTopic(name, handle, count)
        return self._topics[name]

    def hear(self, doing: str) -> None:
        """Raise if anything that was reported makes it useless to go on."""
        problem = native.fatal(self.handle)
        if problem is not None:
            self.fail(doing, problem)
        if self._failure is not None:
            problem, size = self._failure.problem, self._failure.size
            if problem.code in TOO_LARGE:
                raise too_large(doing, size, self._message_max, servers=self._servers)
            self.fail(doing, self._reason() or problem if problem.code in CONSEQUENCES else problem)
        if self._heard is not None and self._heard.code in NOT_KNOWN and not self.ready:
            self.fail(doing, self._heard)

    def refused(self, doing: str, code: int, size: int) -> NoReturn:
        """Raise for a row that librdkafka itself did not take."""
        if code in TOO_LARGE:
            raise too_large(doing, size, self._message_max, servers=self._servers)
        self.poll(0)
        self.hear(doing)
        self.fail(doing, self._reason() or self._problem(code))

    def fail(self, doing: str, problem: Problem) -> NoReturn:
        """Raise the error that says who must act."""
        raise fault(doing, problem, transactional_id=self._transactional_id, servers=self._servers)

    def forget(self) -> None:
        """A transaction was aborted: what failed in it does not count any more."""
        self._failure = None

    def identity(self, since_us: int) -> tuple[int, int]:
        """Producer id and epoch, as librdkafka's statistics say them, not before this time of its clock."""
        deadline = self.deadline()
        while True:
            if self._statistics:
                said = json.loads(self._statistics)
                eos = said["eos"]
                if said["ts"] >= since_us and eos["txn_state"] == "InTransaction" and eos["producer_id"] >= 0:
                    return int(eos["producer_id"]), int(eos["producer_epoch"])
                self._statistics = b""
            self.poll(BREATH_MS)
            self.hear("cannot pre-commit")
            if time.monotonic() > deadline:
                self.fail("cannot pre-commit: no producer id was reported", self.timed_out())

    def poll(self, timeout_ms: int) -> None:
        """Take in what librdkafka has to report; return when there was something, or after the time."""
        self.library.rd_kafka_poll(self.handle, timeout_ms)

    def waiting(self) -> int:
        """The rows that the broker does not have yet, and reports that were not heard."""
        return int(self.library.rd_kafka_outq_len(self.handle))

    def deadline(self) -> float:
        """The moment up to which brokers are waited for."""
        return time.monotonic() + self._wait_ms / 1000

    def step(self, deadline: float, most_ms: int = STEP_MS) -> int:
        """How long the next call may block."""
        return max(1, min(most_ms, int((deadline - time.monotonic()) * 1000)))

    def timed_out(self) -> Problem:
        """Nothing came in time. What was heard last says why."""
        last = f"; the last that was heard: {self._heard.text}" if self._heard is not None else ""
        return Problem(native.TIMED_OUT, f"no answer within {self._wait_ms / 1000:g} s{last}")

    def _made(self, options: Mapping[str, Option]) -> int:
        lib = self.library
        conf = lib.rd_kafka_conf_new()
        text = ctypes.create_string_buffer(native.TEXT_MAX)
        try:
            fill(conf, options)
            delivery, statistics, error = self._callbacks
            lib.rd_kafka_conf_set_dr_msg_cb(conf, delivery)
            lib.rd_kafka_conf_set_stats_cb(conf, statistics)
            lib.rd_kafka_conf_set_error_cb(conf, error)
            if "debug" not in options:
                lib.rd_kafka_conf_set_log_cb(conf, None)  # what matters is raised
            handle: int | None = lib.rd_kafka_new(native.PRODUCER, conf, text, native.TEXT_MAX)
        except BaseException:
            lib.rd_kafka_conf_destroy(conf)
            raise
        if handle is None:
            lib.rd_kafka_conf_destroy(conf)
            raise InvalidOption(f"kafka: librdkafka refuses the options: {text.value.decode(errors='replace')}")
        return handle

    def _partitions(self, handle: int, doing: str) -> tuple[int, int]:
        """What the broker says about a topic: an error, and how many partitions it has."""
        lib, deadline = self.library, self.deadline()
        while True:
            answer = ctypes.POINTER(native.NativeMetadata)()
            code = lib.rd_kafka_metadata(self.handle, 0, handle, ctypes.byref(answer), self.step(deadline))
            if not code:
                break
            self.poll(BREATH_MS)
            self.hear(doing)
            if time.monotonic() > deadline:
                self.fail(doing, self.timed_out())
            if code not in (native.TIMED_OUT, native.TRANSPORT):
                self.fail(doing, self._problem(code))
        found = answer.contents.topics[0] if answer.contents.topic_cnt else None
        result = (int(found.err), int(found.partition_cnt)) if found is not None else (native.UNKNOWN_TOPIC, 0)
        lib.rd_kafka_metadata_destroy(answer)
        return result

    def _reason(self) -> Problem | None:
        """Why the transaction failed, if it did. librdkafka says so when asked to begin another."""
        problem = native.taken(self.library.rd_kafka_begin_transaction(self.handle))
        return None if problem is None or problem.code == native.WRONG_STATE else problem

    def _problem(self, code: int) -> Problem:
        return Problem(code, native.text_of(code))

    def _on_failed_delivery(self, _handle: Any, message: Any, _opaque: Any) -> None:
        failed: Message = message.contents
        known = self._failure
        if failed.err and (known is None or known.problem.code in CONSEQUENCES):
            self._failure = _Failure(self._problem(failed.err), failed.len + failed.key_len)

    def _on_statistics(self, _handle: Any, text: Any, size: int, _opaque: Any) -> int:
        self._statistics = ctypes.string_at(text, size)
        return 0

    def _on_error(self, _handle: Any, code: int, text: bytes, _opaque: Any) -> None:
        if self._heard is None or code != native.ALL_BROKERS_DOWN:
            self._heard = Problem(code, text.decode(errors="replace"))


def fault(doing: str, problem: Problem, *, transactional_id: str, servers: str) -> UserError | ExternalError:
    """The error to raise for what librdkafka answered. ``doing`` begins the sentence: "cannot begin"."""
    where = f"kafka at {servers}: {doing}"
    reason = f"{problem.text} ({native.name_of(problem.code)})"
    match problem.code:
        case code if code in FENCED:
            return Fenced(
                f"{where}: another producer uses the transactional id {transactional_id}: {reason}: "
                "see that no other job has the same prefix, and that transactions do not outlive their timeout"
            )
        case code if code in NOT_ALLOWED:
            return UserError(
                f"{where}: not allowed: {reason}: let this user write to the topic and use transactional ids that "
                f"begin like {transactional_id}"
            )
        case code if code in NOT_KNOWN:
            return UserError(f"{where}: the broker refused the login: {reason}: check user, password and mechanism")
        case code if code in TOO_LARGE:
            return UserError(f"{where}: {reason}: raise max.message.bytes of the topic, or send smaller rows")
        case code if code in UNKNOWN_TOPIC:
            return UserError(f"{where}: {reason}: create the topic first")
        case code if code == BAD_TIMEOUT:
            return UserError(
                f"{where}: {reason}: raise transaction.max.timeout.ms of the broker, or ask for a shorter transaction"
            )
        case code if code == BAD_TIMESTAMP:
            return UserError(f"{where}: {reason}: see message.timestamp.after.max.ms of the topic")
        case code if code == BAD_PARTITION:
            return UserError(f"{where}: {reason}: give a lower number, or add partitions to the topic")
        case _:
            return Indefinite(f"{where}: {reason}: see that the brokers are there; trying again may help")


def too_large(doing: str, size: int, limit: int, *, servers: str) -> UserError:
    """The error for a row of this size. ``limit`` is what librdkafka itself would send."""
    whose = (
        f"librdkafka sends at most {limit} with the option message.max.bytes"
        if size > limit
        else "the topic takes no more than its max.message.bytes, of all rows of a batch together (option batch.size)"
    )
    return UserError(
        f"kafka at {servers}: {doing}: a row of {size} bytes is too large: {whose}: raise that, or send smaller rows"
    )
