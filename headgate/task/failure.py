"""Who must act on a failure of a query.

One rule: a restart strategy sees only the class, so the class errs on the side of trying again: only what will surely
fail in the same way, because Spark refused the query itself, is the user's.
"""

import re

from headgate.core.restart import Failure, FailureClass
from headgate.errors import HeadgateError, UserError
from headgate.redact import redact

LOST = re.compile(r"ExecutorLostFailure|executor \S+ (exited|lost)|Slave lost|Worker lost|Executor heartbeat timed out")
REFUSED = re.compile(
    r"AnalysisException|ParseException|STATE_STORE_\w*SCHEMA\w*|STREAMING_STATEFUL_OPERATOR_NOT_MATCH|"
    r"UNSUPPORTED_STREAMING_OPERATION|PythonDataSourceError.*BadStorage"
)
NAMED = re.compile(r"(?:: |Caused by: )?([\w.$]*(?:Error|Exception|Interrupted)\b.*:.*)")
MESSAGE_MAX = 300
OWN_MAX = 1_000
"""What Headgate itself says ends with what to do: that is not cut off."""


def classify(text: str, cause: BaseException | None = None) -> Failure:
    """The class of a failure, from what Spark says and, if the hook raised it, from the error itself."""
    own = isinstance(cause, HeadgateError)
    message = _cut(" ".join(str(cause).split()), OWN_MAX) if own else shorten(text if cause is None else str(cause))
    if isinstance(cause, UserError):
        return Failure(FailureClass.USER, message)
    seen = f"{text}\n{cause}"
    if LOST.search(seen):
        return Failure(FailureClass.LOST_EXECUTOR, message)
    if REFUSED.search(text.split("\n", 1)[0]):
        return Failure(FailureClass.USER, message)
    return Failure(FailureClass.EXTERNAL, message)


def shorten(text: str) -> str:
    """The line of a long account that says what happened: the last one that names an error, else the first."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        return "no reason given"
    named = [match[1] for line in lines if (match := NAMED.match(line))]
    return _cut(named[-1] if named else lines[0], MESSAGE_MAX)


def _cut(line: str, most: int) -> str:
    line = redact(line)
    return line if len(line) <= most else line[: most - 1] + "…"
