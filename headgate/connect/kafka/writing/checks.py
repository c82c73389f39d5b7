"""Whether a Kafka sink can work, whether Kafka takes a row, and whether a marker that is not there proves anything.

One rule: what would fail later, or could not be told from success, is refused before it does harm, in one line that
says what to do.

Before anything runs: topic, rights and timeouts. While Spark stages rows: their size, the number of the partition, and
the time, because what is staged is published some day, and until then nothing behind it is. With compression a broker
may take rows that are larger than its limit: then only the client's own limit counts. Before anything is published or
written anew: whether the broker may have forgotten its markers.
"""

import logging
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from pyspark.sql import Column, DataFrame, functions as F  # noqa: N812 - as everybody writes it

from headgate.connect.kafka.broker import BrokerClient
from headgate.connect.kafka.producer.messages import EARLIEST_MS, HEADERS, KEY, PARTITION, TIMESTAMP, TOPIC, VALUE
from headgate.connect.kafka.producer.settings import MESSAGE_MAX, MESSAGE_MAX_BYTES
from headgate.connect.kafka.security import warn_of_login
from headgate.connect.kafka.writing.names import Target, client_options
from headgate.core.ids import SinkId
from headgate.errors import InvalidOption, UserError
from headgate.retry import Retry, RetryPolicy
from headgate.sink.api import SinkContext

LIMIT = "transaction.max.timeout.ms"
TAKES = "max.message.bytes"
HEARD_OF = RetryPolicy(first_s=0.05, longest_s=0.2, seconds=2.0)
"""How long a broker may be late to hear of a topic."""

RETENTION = "offsets.retention.minutes"
UNKNOWN_MS = 24 * 60 * 60 * 1000
"""What is taken for the retention when the broker does not say it."""

FRAME_BYTES = 100
"""At most this much is added to a row when it is sent alone."""
HEADER_BYTES = 10
"""At most this much is added to a header."""
COMPRESSION = ("compression.type", "compression.codec")

_MARK = "headgate refuses a row"
_SAID = re.compile(rf"{_MARK} <([^>]*)>")

logger = logging.getLogger("headgate")


def check_timeout(context: SinkContext, timeout_ms: int, downtime_ms: int, *, write_ahead: bool) -> None:
    """See that the broker keeps a transaction open for as long as it may take until its commit.

    It is begun right after a checkpoint at the earliest, pre-committed by the next, and committed by whoever comes back
    after a downtime. What a checkpoint has pre-committed must stay. What the broker gives up before that is written
    anew from the write-ahead log; without that it would send the job back each time, for ever.
    """
    pre_committed_ms = context.checkpoint_timeout_ms + downtime_ms
    interval_ms = context.checkpoint_interval_ms or 0
    if timeout_ms >= interval_ms + pre_committed_ms:
        return
    too_short = timeout_ms < pre_committed_ms or not write_ahead
    needed = pre_committed_ms if timeout_ms < pre_committed_ms and write_ahead else interval_ms + pre_committed_ms
    text = (
        f"sink {context.sink}: transaction_timeout is {timeout_ms / 1000:g} s, and a transaction may be open for "
        f"{(interval_ms + pre_committed_ms) / 1000:g} s (checkpoint interval {interval_ms / 1000:g} s, checkpoint "
        f"timeout {context.checkpoint_timeout_ms / 1000:g} s, allowed_downtime {downtime_ms / 1000:g} s): make it "
        f"{needed / 1000:g} s or more, with {LIMIT} of the broker, or lower one of those"
    )
    if too_short:
        raise InvalidOption(text)
    logger.warning(
        "%s; until then the broker may abort transactions, whose rows are written anew from the write-ahead log", text
    )


def preflight(client: BrokerClient, target: Target, sink: SinkId, owner: str) -> Target:
    """See that the topic is there, that the broker lets a transaction be open this long, and that we may use our ids.

    Returns the target with how much it takes at once, if we may know.
    """
    warn_of_login(f"sink {sink}", target.servers, client_options(target))
    if _is_missing(client, target.topic):
        raise InvalidOption(f"sink {sink}: Kafka at {target.servers} has no topic {target.topic}: create it first")
    limit = _timeout_limit(client)
    if limit is not None and target.timeout_ms > limit:
        raise InvalidOption(
            f"sink {sink}: transaction_timeout is {target.timeout_ms / 1000:g} s, and the broker allows "
            f"{limit / 1000:g} s: raise {LIMIT} of the broker, or lower transaction_timeout and the checkpoint timeout"
        )
    client.init_producer(f"{owner}open", min(target.timeout_ms, limit or target.timeout_ms))
    return replace(target, takes=_taken_bytes(client, target.topic))


def validated(dataframe: DataFrame, target: Target, partitions: int | None) -> DataFrame:
    """The same rows. Whoever computes them fails at the first that does not fit."""
    here = TOPIC not in dataframe.columns
    limit = _row_limit(target, known=here)
    size = _size(dataframe)
    fits = F.when(
        size > limit - FRAME_BYTES,
        _refuse(
            F.concat(
                F.lit("a row of "),
                size.cast("string"),
                F.lit(f" bytes is too large: {limit} are taken, with {FRAME_BYTES} for what Kafka adds: raise "),
                F.lit("max.message.bytes of the topic and the option message.max.bytes, or send smaller rows"),
            )
        ),
    )
    if PARTITION in dataframe.columns:
        number = F.col(PARTITION)
        outside = number < 0 if partitions is None or not here else (number < 0) | (number >= partitions)
        advice = F.lit(" is not there: give the number of a partition of the topic, or null")
        fits = fits.when(outside, _refuse(F.concat(F.lit("partition "), number.cast("string"), advice)))
    if TIMESTAMP in dataframe.columns:
        moment = F.col(TIMESTAMP)
        early = F.unix_millis(moment.cast("timestamp")) < EARLIEST_MS
        advice = F.lit(" is not after 1970-01-01, and brokers refuse it: give a later time, or null")
        fits = fits.when(early, _refuse(F.concat(F.lit("timestamp "), moment.cast("string"), advice)))
    return dataframe.where(fits.otherwise(F.lit(True)))


@contextmanager
def refused(who: str) -> Iterator[None]:
    """Say in one line what Spark says in many when a row does not fit."""
    try:
        yield
    except Exception as error:
        found = _SAID.search(str(error))
        if found is None:
            raise
        raise UserError(f"{who}: {found[1]}") from error


def may_be_forgotten(client: BrokerClient, begun_ms: int) -> bool:
    """Whether a marker that was set at that time or later may be gone. Half of the retention is left for clocks."""
    try:
        said = client.broker_config(RETENTION)
    except UserError:  # not for us to know
        said = None
    retention_ms = UNKNOWN_MS if said is None else int(said) * 60_000
    return int(time.time() * 1000) - begun_ms > retention_ms // 2


def _is_missing(client: BrokerClient, topic: str) -> bool:
    """Whether nobody knows of the topic. A broker may be late to hear of one that was made a moment ago."""
    retry = Retry(HEARD_OF)
    while client.metadata([topic]).missing:
        if not retry.again():
            return True
    return False


def _timeout_limit(client: BrokerClient) -> int | None:
    """The longest that a transaction may be open. None if we may not know: the broker itself refuses then."""
    try:
        said = client.broker_config(LIMIT)
    except UserError:
        return None
    return None if said is None else int(said)


def _taken_bytes(client: BrokerClient, topic: str) -> int | None:
    try:
        said = client.topic_config(topic, TAKES)
    except UserError:
        return None
    return None if said is None else int(said)


def _row_limit(target: Target, *, known: bool) -> int:
    """How large a row may be with all that is added to it. ``known``: rows go to the target's own topic."""
    own = int(target.options.get(MESSAGE_MAX, MESSAGE_MAX_BYTES))
    packed = any(str(target.options.get(name, "none")) != "none" for name in COMPRESSION)
    return own if target.takes is None or packed or not known else min(own, target.takes)


def _size(dataframe: DataFrame) -> Column:
    size = _bytes(F.col(VALUE))
    if KEY in dataframe.columns:
        size = size + _bytes(F.col(KEY))
    if HEADERS in dataframe.columns:
        each = F.transform(HEADERS, lambda one: _bytes(one["key"]) + _bytes(one["value"]) + F.lit(HEADER_BYTES))
        size = size + F.coalesce(F.aggregate(each, F.lit(0), lambda sofar, one: sofar + one), F.lit(0))
    return size


def _bytes(column: Column) -> Column:
    return F.coalesce(F.octet_length(column), F.lit(0))


def _refuse(text: Column) -> Column:
    return F.raise_error(F.concat(F.lit(f"{_MARK} <"), text, F.lit(">"))).cast("boolean")
