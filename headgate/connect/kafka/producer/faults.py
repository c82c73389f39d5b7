"""What can go wrong between a producer and Kafka, split by who must act.

One rule: an error whose outcome is not known is never taken for success or failure: the producer is thrown away, and
what it wrote is aborted or written anew.

::

    UserError           not allowed, too large, no such topic: trying again cannot help
    ExternalError
    ├── Fenced          somebody else uses the transactional id, or it was taken up anew
    └── Indefinite      the broker was away, or nobody knows how it ended: make a new producer
"""

from headgate.connect.kafka.producer import native
from headgate.connect.kafka.producer.native import Problem
from headgate.errors import ExternalError, UserError

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
            return UserError(f"{where}: the broker does not let us in: {reason}: check user, password and mechanism")
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
