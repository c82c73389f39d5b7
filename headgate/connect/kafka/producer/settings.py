"""How a producer is set up.

One rule: what the guarantee rests on is set here, and cannot be set by users. Everything else of librdkafka's can.
"""

import ctypes
from collections.abc import Mapping

from headgate.connect.kafka.producer import native
from headgate.errors import InvalidOption

Option = str | int | float | bool

STATISTICS_MS = 20
"""How often librdkafka says which producer id and epoch it has: a pre-commit may wait that long."""
SOCKET_TIMEOUT_MS = 60_000
MESSAGE_MAX = "message.max.bytes"
MESSAGE_MAX_BYTES = 1_000_000
"""What librdkafka has when nobody sets it."""

DEFAULTS: dict[str, Option] = {
    "linger.ms": 20,
    "batch.num.messages": 20_000,
    "queue.buffering.max.messages": 200_000,
    "queue.buffering.max.kbytes": 131_072,
    "partitioner": "murmur2_random",
    "enable.metrics.push": False,
    "log.connection.close": False,
    "reconnect.backoff.max.ms": 1_000,
}
"""What users may change. The partitioner is that of Java's clients."""

OWNED = {
    "bootstrap.servers",
    "metadata.broker.list",
    "transactional.id",
    "transaction.timeout.ms",
    "enable.idempotence",
    "enable.gapless.guarantee",
    "acks",
    "request.required.acks",
    "retries",
    "message.send.max.retries",
    "max.in.flight",
    "max.in.flight.requests.per.connection",
    "message.timeout.ms",
    "delivery.timeout.ms",
    "delivery.report.only.error",
    "queuing.strategy",
    "statistics.interval.ms",
    "enabled_events",
    "log.queue",
    "enable.sparse.connections",
}
"""What the guarantee rests on."""


def check_options(options: Mapping[str, Option], *, who: str = "kafka") -> None:
    """Refuse options that librdkafka does not know, or that the guarantee does not allow."""
    for name in options:
        if name in OWNED:
            raise InvalidOption(f"{who}: option {name!r} is set by Headgate: leave it out")
    lib = native.library()
    conf = lib.rd_kafka_conf_new()
    try:
        fill(conf, options, who=who)
    finally:
        lib.rd_kafka_conf_destroy(conf)


def settings(
    servers: str, options: Mapping[str, Option], transactional_id: str, *, timeout_ms: int, wait_ms: int
) -> dict[str, Option]:
    """Everything that a producer is made with.

    The timeouts of sockets and messages are said outright: librdkafka would derive them from that of the
    transaction, and above 35 minutes that overflows.
    """
    return {
        **DEFAULTS,
        "socket.timeout.ms": max(900, min(SOCKET_TIMEOUT_MS, timeout_ms - 100)),
        **options,
        "bootstrap.servers": servers,
        "transactional.id": transactional_id,
        "transaction.timeout.ms": timeout_ms,
        "message.timeout.ms": min(wait_ms, timeout_ms),
        "enable.idempotence": True,
        "enable.sparse.connections": False,
        "delivery.report.only.error": True,
        "statistics.interval.ms": STATISTICS_MS,
    }


def fill(conf: int, options: Mapping[str, Option], *, who: str = "kafka") -> None:
    """Set every option. The values of those that may be secret are never shown."""
    lib = native.library()
    text = ctypes.create_string_buffer(native.TEXT_MAX)
    for name, value in options.items():
        if not isinstance(value, (str, int, float)):
            raise InvalidOption(f"{who}: option {name!r} must be text or a number, got {type(value).__name__}")
        shown = str(value).lower() if isinstance(value, bool) else str(value)
        if lib.rd_kafka_conf_set(conf, name.encode(), shown.encode(), text, native.TEXT_MAX):
            reason = text.value.decode(errors="replace")
            raise InvalidOption(f"{who}: option {name!r} is not valid: {reason}")
