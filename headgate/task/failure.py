"""Who must act on a failure of a query.

One rule: what would surely fail in the same way is the user's, and anything else is tried again. The user's are what
Spark refused, what Headgate or the user said is the user's (``UserError``), data that an expression cannot take, and
what the user's own functions raised, whatever its class is named. Only what speaks of another system, or of the
machine, may pass by itself. What Headgate says cannot be (``InternalError``) sends the whole job back.
"""

import re
from collections.abc import Iterator

from pyspark.errors import PySparkRuntimeError

from headgate.core.restart import Failure, FailureClass
from headgate.errors import ExternalError, HeadgateError, InternalError, UserError
from headgate.redact import redact
from headgate.task import crossed
from headgate.task.crossed import Crossed

LOST = re.compile(r"ExecutorLostFailure|executor \S+ (exited|lost)|Slave lost|Worker lost|Executor heartbeat timed out")
REFUSED = re.compile(
    r"AnalysisException|ParseException|STATE_STORE_\w*SCHEMA\w*|STREAMING_STATEFUL_OPERATOR_NOT_MATCH|"
    r"UNSUPPORTED_STREAMING_OPERATION"
)
BAD_DATA = re.compile(
    r"^(?:\S+Exception: )?\[\w+(?:\.\w+)*\] .*SQLSTATE: (?:22|P0)\w{3}\b|"
    r"\[MALFORMED_CSV_RECORD\] |\bcom\.univocity\.\S*TextParsingException\b",
    re.MULTILINE,
)
"""An expression met a value that it cannot take, or was told to fail: SQL's classes 22 and P0. Or Spark's parser of CSV
met a line beyond its bounds."""
NAMED = re.compile(r"(?:: |Caused by: )?([\w.$]*(?:Error|Exception|Interrupted)\b.*:.*)")
PASSING = (OSError, EOFError, MemoryError, ExternalError, PySparkRuntimeError)
"""Exceptions that say nothing of the row at hand: the network, a disk, memory, Spark's own channels."""
PASSING_NAMES = re.compile(
    r"Time(d)?_?[Oo]ut|Connect|Unavailable|Unreachable|Throttl|TooManyRequests|RateLimit|Temporar|"
    r"Transient|Retr(y|ies)|Network|Socket|Overload|Deadlock|OperationalError|InterfaceError|OutOfMemory|"
    r"(KeyboardInterrupt|SystemExit|GeneratorExit)$"
)
"""The same, where the class is not known on the driver."""
BUSY = re.compile(r"[Pp]ython worker (failed )?to connect back")
TOO_BUSY = (
    "the machine is too busy: a Python process of Spark's did not begin within 10 s, so starts now come one after the "
    "other; run less beside the job, or give it fewer tasks"
)
MESSAGE_MAX = 300
OWN_MAX = 1_000
"""What Headgate itself says ends with what to do: that is not cut off."""


def classify(text: str, cause: BaseException | None = None) -> Failure:
    """The class of a failure, from what Spark says and, if the hook raised it, from the error itself."""
    if isinstance(cause, HeadgateError):
        message = _cut(" ".join(str(cause).split()), OWN_MAX)
        lost = LOST.search(message) is not None and not isinstance(cause, UserError | InternalError)
        return Failure(FailureClass.LOST_EXECUTOR if lost else _own(cause), message)
    account = text if cause is None else str(cause)
    message = shorten(account)
    if BUSY.search(f"{text}\n{cause}"):
        return Failure(FailureClass.EXTERNAL, TOO_BUSY)
    if LOST.search(f"{text}\n{cause}"):
        return Failure(FailureClass.LOST_EXECUTOR, message)
    if REFUSED.search(text.split("\n", 1)[0]) or BAD_DATA.search(account):
        return Failure(FailureClass.USER, message)
    found = crossed.find(account)
    if found is not None and _repeats(found):
        return Failure(FailureClass.USER, message)
    return Failure(FailureClass.EXTERNAL, message)


def shorten(text: str) -> str:
    """The line of a long account that says what happened.

    What crossed from a Python worker, else the last line that names an error, else the first.
    """
    found = crossed.find(text)
    if found is not None:
        return _told(found)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        return "no reason given"
    named = [match[1] for line in lines if (match := NAMED.match(line))]
    return _cut(named[-1] if named else lines[0], MESSAGE_MAX)


def _own(cause: HeadgateError) -> FailureClass:
    if isinstance(cause, InternalError):
        return FailureClass.INTERNAL
    return FailureClass.USER if isinstance(cause, UserError) else FailureClass.EXTERNAL


def _told(found: Crossed) -> str:
    """Headgate's own errors say all there is to say. Others are told with their class and where they were raised."""
    if any(issubclass(kind, HeadgateError) for kind in _classes(found)):
        return _cut(found.message, OWN_MAX)
    said = _cut(": ".join(filter(None, (found.short_name, found.message))), MESSAGE_MAX)
    return f"{said} ({found.place})" if found.place is not None and not found.place.ours else said


def _repeats(found: Crossed) -> bool:
    """Whether the same rows would raise it again."""
    kinds = list(_classes(found))
    if any(issubclass(kind, HeadgateError) for kind in kinds):
        return any(issubclass(kind, UserError) for kind in kinds)
    if any(issubclass(kind, PASSING) for kind in kinds) or PASSING_NAMES.search(found.short_name):
        return False
    # What a system that a sink writes to answers through its client is not about the user's functions.
    return found.place is None or not found.place.ours


def _classes(found: Crossed) -> Iterator[type[BaseException]]:
    """The classes of that name which this process knows. Those of a job's file are among them."""
    pending: list[type[BaseException]] = [BaseException]
    seen: set[type[BaseException]] = set()
    while pending:
        kind = pending.pop()
        if kind in seen:
            continue
        seen.add(kind)
        pending += kind.__subclasses__()
        if found.name in (kind.__qualname__, f"{kind.__module__}.{kind.__qualname__}"):
            yield kind


def _cut(line: str, most: int) -> str:
    line = redact(line)
    return line if len(line) <= most else line[: most - 1] + "…"
