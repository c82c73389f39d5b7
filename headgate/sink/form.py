"""The text form of handles: JSON with a version.

One rule: what does not read back as what was written is refused, and never guessed at.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from headgate.core.ids import Batch, CheckpointId, Generation, Run, SinkId
from headgate.errors import BadStorage
from headgate.sink.api import Attempt

T = TypeVar("T")

VERSION = 1


@dataclass(frozen=True)
class Whose:
    """What every handle says first."""

    job: str
    sink: SinkId
    generation: Generation
    checkpoint: CheckpointId

    def attempt(self, batch: Any, run: Any) -> Attempt:
        """One of its attempts, from the numbers in a handle."""
        return Attempt(self.job, self.sink, self.generation, Batch(number(batch)), Run(number(run)))


def to_text(whose: Whose, rest: Mapping[str, Any]) -> str:
    """A handle. ``rest`` is what the sink itself has to say, as plain data."""
    fields = {
        "version": VERSION,
        "job": whose.job,
        "sink": whose.sink,
        "generation": whose.generation,
        "checkpoint": whose.checkpoint,
        **rest,
    }
    return json.dumps(fields, separators=(",", ":"))


def from_text(handle: str, read: Callable[[Whose, Any], T]) -> T:
    """What ``read`` makes of all fields of a handle. Whatever it cannot read is refused as ``BadStorage``."""
    try:
        fields = json.loads(handle)
        version = fields["version"]
        if version == VERSION:
            whose = Whose(
                text(fields["job"]),
                SinkId(text(fields["sink"])),
                Generation(number(fields["generation"])),
                CheckpointId(number(fields["checkpoint"])),
            )
            return read(whose, fields)
    except (ValueError, KeyError, TypeError) as error:
        raise BadStorage(
            f"the handle of a sealed transaction cannot be read ({error}): {handle[:80]!r}; restore the checkpoint's "
            "record from a copy, and see that the sink is of the kind that it was"
        ) from error
    raise BadStorage(f"a sealed transaction has format {version!r}, known is {VERSION}: use the Headgate that wrote it")


def text(value: Any) -> str:
    """A value that must be a text."""
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a text")
    return value


def number(value: Any) -> int:
    """A value that must be a whole number, not below zero."""
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is not a number")
    return value
