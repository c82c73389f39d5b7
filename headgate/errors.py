"""What can go wrong outside the core, split by who must act. All errors are one tree; the core has its own branches.

::

    HeadgateError
    ├── UserError           the user: exit code 2, one line, nothing touched
    │   ├── InvalidJob      the job cannot run as it is written; names the user's own source line
    │   ├── InvalidOption   an option or argument that is not valid
    │   ├── BadStorage      the storage is not what it should be: another job's, a newer format, corrupt
    │   └── FencedOff       somebody else leads since: nothing was written, and trying again does not help
    ├── ExternalError       another system was away or busy: trying again may help
    └── InternalError       Headgate itself: what its tasks hold is not to be trusted, and all of it goes back

A message is one line: a short fact, then the detail, then what to do. Every error survives pickling.
"""

from headgate.core.errors import HeadgateError
from headgate.redact import redact

__all__ = [
    "BadStorage",
    "ExternalError",
    "FencedOff",
    "HeadgateError",
    "InternalError",
    "InvalidJob",
    "InvalidOption",
    "UserError",
]


class _Redacted(HeadgateError):
    """Its words show no password, wherever they came from."""

    def __init__(self, *words: object) -> None:
        super().__init__(*(redact(each) if isinstance(each, str) else each for each in words))


class UserError(_Redacted):
    """Something that only the user can put right."""


class InvalidJob(UserError):
    """The job cannot run as it is written."""


class InvalidOption(UserError):
    """An option or an argument that is not valid."""


class BadStorage(UserError):
    """The storage, or something in it, is not what it should be. It is left as it is."""


class FencedOff(UserError):
    """A write came too late: somebody else leads since. Nothing of it was written, and trying again does not help."""


class ExternalError(_Redacted):
    """Another system was away or busy. Trying again may help."""


class InternalError(_Redacted):
    """Something that cannot be. What the tasks hold is not to be trusted: the job goes back to its last checkpoint."""
