"""Kafka out. One rule: every option is checked where it is written."""

import re
from collections.abc import Mapping
from typing import Literal, get_args

from headgate.connect.kafka.producer.settings import Option, check_options
from headgate.connect.kafka.writing.names import Target
from headgate.connect.kafka.writing.staged import StagedKafkaSink
from headgate.connect.kafka.writing.twophase import TwoPhaseKafkaSink
from headgate.errors import InvalidOption
from headgate.sink.api import TwoPhaseSink
from headgate.values import Duration, count, duration_ms

KafkaMode = Literal["two-phase", "staged"]

_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_PREFIX = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}")


def sink(
    servers: str,
    *,
    topic: str,
    transactional_id_prefix: str,
    mode: KafkaMode = "two-phase",
    write_ahead: bool = True,
    parallelism: int | None = None,
    max_open: int = 100,
    transaction_timeout: Duration = "15min",
    allowed_downtime: Duration = "4min",
    options: Mapping[str, Option] | None = None,
) -> TwoPhaseSink:
    """Write to a Kafka topic, exactly once, for readers with ``isolation.level=read_committed``.

    A row has the column ``value`` (string or binary), and may have ``key``, ``topic``, ``partition``, ``timestamp`` and
    ``headers``, as with Spark's own sink.

    ``transactional_id_prefix``: what all transactional ids and marker groups begin with; give every application its
    own, and the rights to write and describe ids and to read groups with this prefix.
    ``mode``: ``two-phase`` writes rows into open transactions and commits them by ending those; ``staged`` keeps rows
    in files and publishes them after the checkpoint.
    ``write_ahead``: with two phases, keep the rows in files too until they are committed, so that a transaction which
    the broker has given up is written anew.
    ``parallelism``: two-phase: at most this many transactions a batch, for the price of a shuffle; by default one for
    each partition that has rows. Staged: this many transactions a commit, 2 by default.
    ``max_open``: this many batches may be written and not committed yet; the next one waits, and a checkpoint is taken
    early.
    ``transaction_timeout``: how long the broker keeps a transaction open. It must cover the checkpoint timeout and
    ``allowed_downtime``, and should cover the checkpoint interval as well (without the write-ahead log it must);
    the broker's ``transaction.max.timeout.ms`` must allow it.
    ``options``: of librdkafka: ``compression.type``, ``security.protocol``, ``sasl.mechanism``, ...
    """
    who = f"kafka.sink({topic})"
    if not str(servers).strip():
        raise InvalidOption(f"{who}: servers={servers!r}: write 'host:9092,other:9092'")
    if not _TOPIC.fullmatch(str(topic)):
        raise InvalidOption(f"{who}: {topic!r} is not a valid name of a topic: use letters, digits, '.', '_' and '-'")
    if not _PREFIX.fullmatch(str(transactional_id_prefix)):
        raise InvalidOption(
            f"{who}: transactional_id_prefix={transactional_id_prefix!r}: use up to 100 letters, digits, '.', '_', '-'"
        )
    if mode not in get_args(KafkaMode):
        raise InvalidOption(f"{who}: mode={mode!r} is unknown: choose {' or '.join(get_args(KafkaMode))}")
    if mode == "staged":
        downtime = (allowed_downtime, "4min")
        _refuse_others(who, write_ahead=(write_ahead, True), max_open=(max_open, 100), allowed_downtime=downtime)
    if not isinstance(write_ahead, bool):
        raise InvalidOption(f"{who}: write_ahead={write_ahead!r}: write True or False")
    if parallelism is not None:
        count(parallelism, name=f"{who}: parallelism", example=2, least=1)
    count(max_open, name=f"{who}: max_open", example=100, least=1)
    timeout_ms = duration_ms(transaction_timeout, name=f"{who}: transaction_timeout", example="15min", least=1000)
    downtime_ms = duration_ms(allowed_downtime, name=f"{who}: allowed_downtime", example="5min")
    given = dict(options or {})
    check_options(given, who=who)
    target = Target(servers, topic, transactional_id_prefix, timeout_ms, given)
    if mode == "staged":
        return StagedKafkaSink(target, parallelism=parallelism or 2)
    return TwoPhaseKafkaSink(
        target, downtime_ms=downtime_ms, write_ahead=write_ahead, parallelism=parallelism, max_open=max_open
    )


def _refuse_others(who: str, **given: tuple[object, object]) -> None:
    """Options with their defaults, which are of two phases alone: said with another mode they would mean nothing."""
    for name, (value, default) in given.items():
        if value != default:
            raise InvalidOption(f"{who}: {name}={value!r} is for mode='two-phase', not for mode='staged': leave it out")
