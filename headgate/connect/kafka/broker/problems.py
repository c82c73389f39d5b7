"""What a broker says when it does not do what it was asked.

One rule: a code keeps its number and its name, and is one of four things: to be tried again, for the user to put right,
an outcome that the caller must tell apart, or a plain refusal.
"""

from headgate.errors import ExternalError, UserError

NAMES = {
    -1: "UNKNOWN_SERVER_ERROR",
    3: "UNKNOWN_TOPIC_OR_PARTITION",
    5: "LEADER_NOT_AVAILABLE",
    6: "NOT_LEADER_OR_FOLLOWER",
    7: "REQUEST_TIMED_OUT",
    8: "BROKER_NOT_AVAILABLE",
    12: "OFFSET_METADATA_TOO_LARGE",
    13: "NETWORK_EXCEPTION",
    14: "COORDINATOR_LOAD_IN_PROGRESS",
    15: "COORDINATOR_NOT_AVAILABLE",
    16: "NOT_COORDINATOR",
    17: "INVALID_TOPIC_EXCEPTION",
    19: "NOT_ENOUGH_REPLICAS",
    20: "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
    22: "ILLEGAL_GENERATION",
    24: "INVALID_GROUP_ID",
    25: "UNKNOWN_MEMBER_ID",
    27: "REBALANCE_IN_PROGRESS",
    28: "INVALID_COMMIT_OFFSET_SIZE",
    29: "TOPIC_AUTHORIZATION_FAILED",
    30: "GROUP_AUTHORIZATION_FAILED",
    31: "CLUSTER_AUTHORIZATION_FAILED",
    33: "UNSUPPORTED_SASL_MECHANISM",
    34: "ILLEGAL_SASL_STATE",
    35: "UNSUPPORTED_VERSION",
    42: "INVALID_REQUEST",
    47: "INVALID_PRODUCER_EPOCH",
    48: "INVALID_TXN_STATE",
    49: "INVALID_PRODUCER_ID_MAPPING",
    50: "INVALID_TRANSACTION_TIMEOUT",
    51: "CONCURRENT_TRANSACTIONS",
    52: "TRANSACTION_COORDINATOR_FENCED",
    53: "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    56: "KAFKA_STORAGE_ERROR",
    58: "SASL_AUTHENTICATION_FAILED",
    69: "GROUP_ID_NOT_FOUND",
    88: "UNSTABLE_OFFSET_COMMIT",
    89: "THROTTLING_QUOTA_EXCEEDED",
    90: "PRODUCER_FENCED",
    105: "TRANSACTIONAL_ID_NOT_FOUND",
    113: "STALE_MEMBER_EPOCH",
    120: "TRANSACTION_ABORTABLE",
}
RETRIABLE = frozenset({5, 6, 7, 8, 13, 14, 15, 16, 19, 20, 51, 56, 88, 89})
"""The broker is busy, or another one is asked next time."""
MOVED = frozenset({15, 16})
"""The coordinator may be another broker by now."""
UNKNOWN_TOPIC = 3
UNSUPPORTED_SASL_MECHANISM = 33
INVALID_TXN_STATE = 48
FENCED = frozenset({47, 49, 90})
"""The transactional id belongs to a later producer, or to none."""
TRANSACTIONAL_ID_NOT_FOUND = 105
REMEDY = {
    17: "give a name that Kafka allows",
    24: "give a group id that Kafka allows",
    29: "allow the user to describe, read or write the topic",
    30: "allow the user to read the group",
    31: "allow the user to describe the cluster",
    50: "lower the transaction timeout, or raise the broker's transaction.max.timeout.ms",
    53: "allow the user to write and describe the transactional id",
}
"""What the user must do."""


class KafkaProblem(ExternalError):
    """A broker refused something. ``code`` and ``name`` are Kafka's own."""

    def __init__(self, code: int, name: str, doing: str = "a request") -> None:
        super().__init__(code, name, doing)
        self.code = code
        self.name = name
        self.doing = doing

    def __str__(self) -> str:
        return f"Kafka refused {self.doing}: {self.name}"


def name_of(code: int) -> str:
    """Kafka's name for a code."""
    return NAMES.get(code, f"error {code}")


def check(code: int, doing: str) -> None:
    """Raise unless the code says that all went well: ``UserError`` for what the user must put right."""
    if code == 0:
        return
    if code in REMEDY:
        raise UserError(f"Kafka refused {doing}: {name_of(code)}: {REMEDY[code]}")
    raise KafkaProblem(code, name_of(code), doing)
