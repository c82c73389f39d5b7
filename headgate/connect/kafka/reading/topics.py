"""What the brokers say about topics.

One rule: a question is answered within seconds, or an error says who did not answer, or what was refused.
"""

import re
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

from headgate.errors import ExternalError, InvalidOption, UserError

try:
    import confluent_kafka
    from confluent_kafka import IsolationLevel, TopicCollection, TopicPartition
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.admin._listoffsets import OffsetSpec  # the only place where its type is said
except ImportError as error:
    raise InvalidOption("kafka needs confluent-kafka: pip install 'headgate[kafka]'") from error

T = TypeVar("T")

ANSWER_S = 8.0
"""How long a question waits for its answer."""
LOOK_S = 1.0

_REFUSED = (
    confluent_kafka.KafkaError._AUTHENTICATION,  # noqa: SLF001 - that is how librdkafka's own codes are written
    confluent_kafka.KafkaError._SSL,  # noqa: SLF001
    confluent_kafka.KafkaError.SASL_AUTHENTICATION_FAILED,
    confluent_kafka.KafkaError.UNSUPPORTED_SASL_MECHANISM,
)
_NOT_ALLOWED = (
    confluent_kafka.KafkaError.TOPIC_AUTHORIZATION_FAILED,
    confluent_kafka.KafkaError.GROUP_AUTHORIZATION_FAILED,
    confluent_kafka.KafkaError.CLUSTER_AUTHORIZATION_FAILED,
)
_NO_TOPIC = (
    confluent_kafka.KafkaError.UNKNOWN_TOPIC_OR_PART,
    confluent_kafka.KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001
)
_QUIET = {"log_level": "0", "socket.connection.setup.timeout.ms": "5000", "enable.metrics.push": "false"}


@dataclass(frozen=True)
class Topic:
    """A topic, as it is now."""

    id: str
    """Made anew with the topic: another one of the same name has another."""
    partitions: int


class Brokers:
    """Questions to the brokers of one cluster."""

    def __init__(self, servers: str, options: Mapping[str, str]) -> None:
        """``options`` has what lets us in, in librdkafka's words."""
        self._servers = servers
        self._why: confluent_kafka.KafkaError | None = None
        try:
            settings: dict[str, Any] = {**_QUIET, **options, "bootstrap.servers": servers, "error_cb": self._learn}
            self._admin = AdminClient(settings)
        except (confluent_kafka.KafkaException, ValueError) as error:
            raise InvalidOption(f"kafka: {_text(error)}") from error

    def _learn(self, why: confluent_kafka.KafkaError) -> None:
        """What the client says about its connections. A refusal says more than that nobody was there."""
        if self._why is None or why.code() in _REFUSED:
            self._why = why

    def matching(self, pattern: str) -> list[str]:
        """The names of topics that a pattern fits as a whole."""
        return sorted(name for name in self._names() if re.fullmatch(pattern, name))

    def topics(self, names: Iterable[str]) -> dict[str, Topic]:
        """Those of the topics that are there."""
        wanted = sorted(set(names))
        if not wanted:
            return {}
        self._names()  # Whether anybody is there, in few words.
        futures = self._admin.describe_topics(TopicCollection(wanted), request_timeout=ANSWER_S)
        found: dict[str, Topic] = {}
        for name, future in futures.items():
            try:
                described = future.result(ANSWER_S)
            except confluent_kafka.KafkaException as error:
                if error.args[0].code() in _NO_TOPIC:
                    continue
                raise self._fault(error, f"topic {name}") from error
            except TimeoutError as error:
                raise self._away() from error
            found[name] = Topic(str(described.topic_id), len(described.partitions))
        return found

    def earliest(self, topics: Mapping[str, Topic]) -> dict[tuple[str, int], int]:
        """Where each partition begins."""
        return self._offsets(topics, OffsetSpec.earliest(), committed=False)  # type: ignore[no-untyped-call]

    def ends(self, topics: Mapping[str, Topic], *, committed: bool) -> dict[tuple[str, int], int]:
        """Where each partition ends: for all, or for those who see only what is committed."""
        return self._offsets(topics, OffsetSpec.latest(), committed=committed)  # type: ignore[no-untyped-call]

    def _names(self) -> list[str]:
        """The names of all topics. Who is not let in hears of it at once; who finds nobody waits for them."""
        deadline = time.monotonic() + ANSWER_S
        while True:
            try:
                return list(self._admin.list_topics(timeout=LOOK_S).topics)
            except confluent_kafka.KafkaException as error:
                fault = self._fault(error, "the list of topics")
                if isinstance(fault, UserError) or time.monotonic() > deadline - LOOK_S:
                    raise fault from error

    def _offsets(self, topics: Mapping[str, Topic], spec: OffsetSpec, *, committed: bool) -> dict[tuple[str, int], int]:
        level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        asked = {
            TopicPartition(name, partition): spec
            for name, topic in topics.items()
            for partition in range(topic.partitions)
        }
        if not asked:
            return {}
        futures = self._admin.list_offsets(asked, isolation_level=level, request_timeout=ANSWER_S)
        return {
            (each.topic, each.partition): self._result(future, f"the offsets of {each.topic}").offset
            for each, future in futures.items()
        }

    def _result(self, future: "Future[T]", what: str) -> T:
        try:
            return future.result(ANSWER_S)
        except confluent_kafka.KafkaException as error:
            raise self._fault(error, what) from error
        except TimeoutError as error:
            raise self._away() from error

    def _fault(self, error: confluent_kafka.KafkaException, what: str) -> UserError | ExternalError:
        found = error.args[0]
        self._admin.poll(0)
        why = found if self._why is None else self._why
        if why.code() in _REFUSED:
            return UserError(
                f"Kafka at {self._servers} refused the login: {why.str()}: check security.protocol, user, password "
                "and certificates"
            )
        if found.code() in _NOT_ALLOWED:
            return UserError(f"Kafka at {self._servers}: {what}: not allowed: let this user describe and read it")
        if found.code() in _NO_TOPIC:
            return UserError(f"Kafka at {self._servers} has no {what}: create it first")
        return self._away() if found.code() < 0 else ExternalError(f"Kafka at {self._servers}: {what}: {found.str()}")

    def _away(self) -> ExternalError:
        self._admin.poll(0)
        reason = "" if self._why is None else f" ({self._why.str()})"
        return ExternalError(
            f"Kafka at {self._servers} does not answer within {ANSWER_S:g} s{reason}: see that a broker is there"
        )


def _text(error: Any) -> str:
    return str(getattr(error.args[0], "str", lambda: error)()) if error.args else str(error)
