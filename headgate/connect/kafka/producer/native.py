"""librdkafka, called directly.

One rule: this is the only module that knows librdkafka's functions, their arguments and their structures in memory.

The library is the one that confluent-kafka brings: its extension module is opened, and what that was linked with is
found through it. So there is never a second copy in the process.
"""

import ctypes
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from headgate.errors import InvalidOption

P = ctypes.c_void_p
INT = ctypes.c_int
SIZE = ctypes.c_size_t
TEXT = ctypes.c_char_p

PRODUCER = 0
F_COPY = 0x2
F_PARTITION = 0x8
NO_PARTITION = -1
TEXT_MAX = 512

QUEUE_FULL = -184
TIMED_OUT = -185
TRANSPORT = -195
ALL_BROKERS_DOWN = -187
UNKNOWN_TOPIC = -188
UNKNOWN_PARTITION = -190
AUTHENTICATION = -169
PURGE_QUEUE = -152
PURGE_INFLIGHT = -151
FATAL = -150
WRONG_STATE = -172
FENCED = -144
MESSAGE_TIMED_OUT = -192

MESSAGE = np.dtype(
    [
        ("err", "i4"),
        ("rkt", "u8"),
        ("partition", "i4"),
        ("payload", "u8"),
        ("len", "u8"),
        ("key", "u8"),
        ("key_len", "u8"),
        ("offset", "i8"),
        ("private", "u8"),
    ],
    align=True,
)
"""``rd_kafka_message_t``."""

_UNION: Any = {
    "vtype": ("i4", 0),
    "number": ("i8", 8),
    "small": ("i4", 8),
    "name": ("u8", 8),
    "pointer": ("u8", 8),
    "size": ("u8", 16),
    "value": ("u8", 16),
    "value_size": ("i8", 24),
    "rest": ("V40", 32),
}
FIELD = np.dtype(_UNION)
"""``rd_kafka_vu_t``, one part of a message: a pointer with its size, a number, or a header (name, value, its size)."""

V_TOPIC_HANDLE, V_PARTITION, V_VALUE, V_KEY, V_FLAGS, V_TIMESTAMP, V_HEADER = 2, 3, 4, 5, 7, 8, 9


class Message(ctypes.Structure):
    """``rd_kafka_message_t``, as a delivery report has it."""

    _fields_ = (
        ("err", INT),
        ("rkt", P),
        ("partition", ctypes.c_int32),
        ("payload", P),
        ("len", SIZE),
        ("key", P),
        ("key_len", SIZE),
        ("offset", ctypes.c_int64),
        ("private", P),
    )


class TopicPartition(ctypes.Structure):
    """``rd_kafka_topic_partition_t``."""

    _fields_ = (
        ("topic", TEXT),
        ("partition", ctypes.c_int32),
        ("offset", ctypes.c_int64),
        ("metadata", P),
        ("metadata_size", SIZE),
        ("opaque", P),
        ("err", INT),
        ("private", P),
    )


class _MetadataTopic(ctypes.Structure):
    _fields_ = (("topic", TEXT), ("partition_cnt", INT), ("partitions", P), ("err", INT))


class NativeMetadata(ctypes.Structure):
    """``rd_kafka_metadata``."""

    _fields_ = (
        ("broker_cnt", INT),
        ("brokers", P),
        ("topic_cnt", INT),
        ("topics", ctypes.POINTER(_MetadataTopic)),
        ("orig_broker_id", ctypes.c_int32),
        ("orig_broker_name", TEXT),
    )


ON_DELIVERY = ctypes.CFUNCTYPE(None, P, ctypes.POINTER(Message), P)
ON_STATISTICS = ctypes.CFUNCTYPE(INT, P, P, SIZE, P)
ON_ERROR = ctypes.CFUNCTYPE(None, P, INT, TEXT, P)

FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "rd_kafka_conf_new": (P, ()),
    "rd_kafka_conf_destroy": (None, (P,)),
    "rd_kafka_conf_set": (INT, (P, TEXT, TEXT, TEXT, SIZE)),
    "rd_kafka_conf_set_dr_msg_cb": (None, (P, ON_DELIVERY)),
    "rd_kafka_conf_set_stats_cb": (None, (P, ON_STATISTICS)),
    "rd_kafka_conf_set_error_cb": (None, (P, ON_ERROR)),
    "rd_kafka_conf_set_log_cb": (None, (P, P)),
    "rd_kafka_new": (P, (INT, P, TEXT, SIZE)),
    "rd_kafka_destroy": (None, (P,)),
    "rd_kafka_topic_new": (P, (P, TEXT, P)),
    "rd_kafka_topic_destroy": (None, (P,)),
    "rd_kafka_last_error": (INT, ()),
    "rd_kafka_err2name": (TEXT, (INT,)),
    "rd_kafka_err2str": (TEXT, (INT,)),
    "rd_kafka_metadata": (INT, (P, INT, P, ctypes.POINTER(ctypes.POINTER(NativeMetadata)), INT)),
    "rd_kafka_metadata_destroy": (None, (ctypes.POINTER(NativeMetadata),)),
    "rd_kafka_init_transactions": (P, (P, INT)),
    "rd_kafka_begin_transaction": (P, (P,)),
    "rd_kafka_commit_transaction": (P, (P, INT)),
    "rd_kafka_abort_transaction": (P, (P, INT)),
    "rd_kafka_send_offsets_to_transaction": (P, (P, P, P, INT)),
    "rd_kafka_consumer_group_metadata_new": (P, (TEXT,)),
    "rd_kafka_consumer_group_metadata_destroy": (None, (P,)),
    "rd_kafka_topic_partition_list_new": (P, (INT,)),
    "rd_kafka_topic_partition_list_add": (ctypes.POINTER(TopicPartition), (P, TEXT, ctypes.c_int32)),
    "rd_kafka_topic_partition_list_destroy": (None, (P,)),
    "rd_kafka_mem_malloc": (P, (P, SIZE)),
    "rd_kafka_produce_batch": (INT, (P, ctypes.c_int32, INT, P, INT)),
    "rd_kafka_produceva": (P, (P, P, SIZE)),
    "rd_kafka_poll": (INT, (P, INT)),
    "rd_kafka_flush": (INT, (P, INT)),
    "rd_kafka_outq_len": (INT, (P,)),
    "rd_kafka_fatal_error": (INT, (P, TEXT, SIZE)),
    "rd_kafka_error_code": (INT, (P,)),
    "rd_kafka_error_string": (TEXT, (P,)),
    "rd_kafka_error_is_retriable": (INT, (P,)),
    "rd_kafka_error_destroy": (None, (P,)),
}


class Problem(NamedTuple):
    """What librdkafka answered when it was not success."""

    code: int
    text: str
    retriable: bool = False


@cache
def library() -> Any:
    """The library, with every function declared."""
    try:
        from confluent_kafka import cimpl  # noqa: PLC0415 - an extra: only who writes to Kafka has it
    except ImportError as error:
        raise InvalidOption("kafka needs confluent-kafka: pip install 'headgate[kafka]'") from error
    opened = ctypes.CDLL(cimpl.__file__)
    for name, (result, arguments) in FUNCTIONS.items():
        try:
            function = getattr(opened, name)
        except AttributeError as error:
            raise InvalidOption(
                f"kafka: this confluent-kafka has no {name}: pip install --upgrade 'headgate[kafka]'"
            ) from error
        function.restype = result
        function.argtypes = arguments
    return opened


def name_of(code: int) -> str:
    """The name of an error, like ``MSG_SIZE_TOO_LARGE``."""
    return str((library().rd_kafka_err2name(code) or b"").decode() or code)


def text_of(code: int) -> str:
    """One line about an error, for people."""
    return str(library().rd_kafka_err2str(code).decode(errors="replace"))


def taken(error: int | None) -> Problem | None:
    """What an ``rd_kafka_error_t`` says, which is freed; None if there is none."""
    if not error:
        return None
    lib = library()
    problem = Problem(
        lib.rd_kafka_error_code(error),
        lib.rd_kafka_error_string(error).decode(errors="replace"),
        bool(lib.rd_kafka_error_is_retriable(error)),
    )
    lib.rd_kafka_error_destroy(error)
    return problem


def fatal(handle: int) -> Problem | None:
    """The error after which a producer can do nothing more; None if there was none."""
    text = ctypes.create_string_buffer(TEXT_MAX)
    code = library().rd_kafka_fatal_error(handle, text, TEXT_MAX)
    return Problem(code, text.value.decode(errors="replace")) if code else None
