"""What can go wrong inside the core, split by who must act. The other branches are in ``headgate.errors``.

::

    HeadgateError
    ├── InvalidSettings    the user: a setting that is not valid
    ├── InvalidGraph       the user: a job that cannot run
    ├── NotRestorable      the user: the job no longer fits the checkpoint it should return to
    └── ProtocolError      the developers: a fact that cannot be, or a broken invariant

A message is a short fact, then the detail, then what to do. Every error keeps its fields through pickling.
"""


class HeadgateError(Exception):
    """The base of all that Headgate raises."""


class InvalidSettings(HeadgateError):
    """A setting, or two together, that are not valid."""


class InvalidGraph(HeadgateError):
    """A job graph that no run could make sense of."""


class NotRestorable(HeadgateError):
    """The checkpoint has state or data in flight for which the job has no place."""


class ProtocolError(HeadgateError):
    """A fact that cannot be, or an invariant that does not hold. Carries the story so far."""

    def __init__(self, what: str, story: tuple[str, ...] = ()) -> None:
        """``what`` happened, and the last lines of the ``story`` that led there."""
        super().__init__(what, story)
        self.what = what
        self.story = story

    def __str__(self) -> str:
        """Show the fact first, then the story, oldest line first."""
        if not self.story:
            return self.what
        return self.what + "\nthe story so far:\n" + "\n".join(f"  {line}" for line in self.story)
