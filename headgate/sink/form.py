"""The text form of committables: JSON with a version.

One rule: what does not read back as what was written is refused, and never guessed at.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from headgate.core.ids import Batch, CheckpointId, Generation, Run, SinkId
from headgate.errors import BadStorage
from headgate.sink.api import WriteId

T = TypeVar("T")

VERSION = 1


@dataclass(frozen=True)
class Whose:
    """What every committable says first."""

    job: str
    sink: SinkId
    generation: Generation
    checkpoint: CheckpointId

    def write_id(self, batch: Any, run: Any) -> WriteId:
        """One of its attempts, from the numbers in a committable."""
        return WriteId(self.job, self.sink, self.generation, Batch(number(batch)), Run(number(run)))


def to_text(whose: Whose, rest: Mapping[str, Any]) -> str:
    """A committable. ``rest`` is what the sink itself has to say, as plain data."""
    fields = {
        "version": VERSION,
        "job": whose.job,
        "sink": whose.sink,
        "generation": whose.generation,
        "checkpoint": whose.checkpoint,
        **rest,
    }
    return json.dumps(fields, separators=(",", ":"))


def from_text(committable: str, read: Callable[[Whose, Any], T]) -> T:
    """What ``read`` makes of all fields of a committable. Whatever it cannot read is refused as ``BadStorage``."""
    try:
        fields = json.loads(committable)
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
            f"the committable of a pre-committed transaction cannot be read ({error}): {committable[:80]!r}; restore "
            "the checkpoint's record from a copy, and see that the sink is of the kind that it was"
        ) from error
    raise BadStorage(
        f"a pre-committed transaction has format {version!r}, known is {VERSION}: use the Headgate that wrote it"
    )


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
