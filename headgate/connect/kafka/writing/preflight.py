"""Whether a Kafka sink can work.

One rule: what would fail later is refused before anything runs, and says what to do.
"""

import logging
from dataclasses import replace

from headgate.connect.kafka.broker import BrokerClient
from headgate.connect.kafka.security import warn_of_login
from headgate.connect.kafka.writing.target import Target, client_options
from headgate.core.ids import SinkId
from headgate.errors import InvalidOption, UserError
from headgate.retry import Retry, RetryPolicy
from headgate.sink.api import SinkContext

logger = logging.getLogger("headgate")
LIMIT = "transaction.max.timeout.ms"
TAKES = "max.message.bytes"
HEARD_OF = RetryPolicy(first_s=0.05, longest_s=0.2, seconds=2.0)
"""How long a broker may be late to hear of a topic."""


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
    refused = timeout_ms < pre_committed_ms or not write_ahead
    needed = pre_committed_ms if timeout_ms < pre_committed_ms and write_ahead else interval_ms + pre_committed_ms
    text = (
        f"sink {context.sink}: transaction_timeout is {timeout_ms / 1000:g} s, and a transaction may be open for "
        f"{(interval_ms + pre_committed_ms) / 1000:g} s (checkpoint interval {interval_ms / 1000:g} s, checkpoint "
        f"timeout {context.checkpoint_timeout_ms / 1000:g} s, allowed_downtime {downtime_ms / 1000:g} s): make it "
        f"{needed / 1000:g} s or more, with {LIMIT} of the broker, or lower one of those"
    )
    if refused:
        raise InvalidOption(text)
    logger.warning(
        "%s; until then the broker may abort transactions, whose rows are written anew from the write-ahead log", text
    )


def check_standing(client: BrokerClient, target: Target, sink: SinkId, owner: str) -> Target:
    """See that the topic is there, that the broker lets a transaction be open this long, and that we may use our ids.

    Returns the target with how much it takes at once, if we may know.
    """
    warn_of_login(f"sink {sink}", target.servers, client_options(target))
    if _is_missing(client, target.topic):
        raise InvalidOption(f"sink {sink}: Kafka at {target.servers} has no topic {target.topic}: create it first")
    limit = _limit(client)
    if limit is not None and target.timeout_ms > limit:
        raise InvalidOption(
            f"sink {sink}: transaction_timeout is {target.timeout_ms / 1000:g} s, and the broker allows "
            f"{limit / 1000:g} s: raise {LIMIT} of the broker, or lower transaction_timeout and the checkpoint timeout"
        )
    client.init_producer(f"{owner}open", min(target.timeout_ms, limit or target.timeout_ms))
    return replace(target, takes=_takes(client, target.topic))


def _is_missing(client: BrokerClient, topic: str) -> bool:
    """Whether nobody knows of the topic. A broker may be late to hear of one that was made a moment ago."""
    retry = Retry(HEARD_OF)
    while client.metadata([topic]).missing:
        if not retry.again():
            return True
    return False


def _limit(client: BrokerClient) -> int | None:
    """The longest that a transaction may be open. None if we may not know: the broker itself refuses then."""
    try:
        said = client.broker_config(LIMIT)
    except UserError:
        return None
    return None if said is None else int(said)


def _takes(client: BrokerClient, topic: str) -> int | None:
    try:
        said = client.topic_config(topic, TAKES)
    except UserError:
        return None
    return None if said is None else int(said)
