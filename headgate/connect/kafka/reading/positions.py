"""Places in topics of Kafka: where a job stands, where it began, where it ends.

One rule: what is read here was written by this module or by Spark's connector, or is refused.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from headgate.errors import BadStorage, InvalidOption

PLACES = {"earliest": -2, "latest": -1}
"""How Spark writes them among offsets."""

Starting = str | datetime | Mapping[int, int | str] | Mapping[str, Mapping[int, int | str]]


@dataclass(frozen=True)
class Memory:
    """What the source remembers beside the offset."""

    topics: Mapping[str, tuple[str, int]]
    """The id and the number of partitions of each."""
    ends: Mapping[str, Mapping[int, int]] | None
    """Where each partition ends, if the source is bounded."""

    @staticmethod
    def of(text: str) -> "Memory":
        """Read what ``text`` wrote."""
        try:
            found = json.loads(text)
            if found["version"] != 1:
                raise BadStorage(f"kafka: the source's memory has version {found['version']}: use a newer Headgate")
            ends = found.get("ends")
            return Memory(
                {name: (str(each["id"]), int(each["partitions"])) for name, each in found["topics"].items()},
                None if ends is None else {name: _numbered(each) for name, each in ends.items()},
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise BadStorage(f"kafka: the source's memory is damaged ({error}): restore another checkpoint") from error

    @property
    def text(self) -> str:
        """As it is kept."""
        found: dict[str, object] = {
            "version": 1,
            "topics": {name: {"id": each, "partitions": n} for name, (each, n) in sorted(self.topics.items())},
        }
        if self.ends is not None:
            found["ends"] = {name: {str(p): end for p, end in each.items()} for name, each in sorted(self.ends.items())}
        return json.dumps(found)


def gaps(
    offsets: Mapping[str, Mapping[int, int]],
    begins: Mapping[tuple[str, int], int],
    ends: Mapping[tuple[str, int], int],
) -> list[str]:
    """What is between where the job stands and what the partitions have."""
    lost = []
    for name, each in offsets.items():
        for p, at in sorted(each.items()):
            if (name, p) not in begins:
                lost.append(f"partition {name}-{p} is gone")
            elif begins[name, p] > at:
                lost.append(f"the job stands at {at} of {name}-{p}, which now begins at {begins[name, p]}")
            elif ends[name, p] < at:
                lost.append(f"the job stands at {at} of {name}-{p}, which now ends at {ends[name, p]}")
    return lost


def offsets_of(text: str) -> dict[str, dict[int, int]]:
    """An entry of Spark's offset log, as its connector for Kafka writes it."""
    try:
        return {str(name): _numbered(each) for name, each in json.loads(text).items()}
    except (ValueError, AttributeError, TypeError) as error:
        raise BadStorage(
            f"{text[:80]!r} is not an offset in topics of Kafka: give a changed source a new uid"
        ) from error


def _numbered(each: Mapping[str, int]) -> dict[int, int]:
    return {int(p): int(at) for p, at in each.items()}


def by_topic(positions: Mapping[tuple[str, int], int]) -> dict[str, dict[int, int]]:
    """The same, topic by topic."""
    found: dict[str, dict[int, int]] = {}
    for (name, p), at in sorted(positions.items()):
        found.setdefault(name, {})[p] = at
    return found


def starting_at(given: Starting, names: tuple[str, ...]) -> str | datetime | dict[str, dict[int, int]]:
    """Where to begin, as the user writes it, if it can hold."""
    example = "write starting_offsets='earliest', 'latest', a datetime with a time zone, or {0: 17}"
    match given:
        case "earliest" | "latest":
            return str(given)
        case datetime() if given.tzinfo is not None:
            return given
        case Mapping() if given:
            nested = all(isinstance(each, Mapping) for each in given.values())
            if not nested and len(names) != 1:
                raise InvalidOption(
                    f"kafka: starting_offsets={given!r}: name the topics, starting_offsets={{'orders': {{0: 17}}}}"
                )
            named = given if nested else {names[0]: given}
            if unknown := [name for name in named if names and name not in names]:
                raise InvalidOption(f"kafka: starting_offsets names topic {unknown[0]}, which is not read")
            try:
                return {str(name): {int(p): _place(at) for p, at in each.items()} for name, each in named.items()}  # type: ignore[union-attr]
            except (ValueError, TypeError) as error:
                raise InvalidOption(f"kafka: starting_offsets={given!r}: {example}") from error
        case _:
            raise InvalidOption(f"kafka: starting_offsets={given!r}: {example}")


def _place(at: object) -> int:
    if isinstance(at, str):
        return PLACES[at] if at in PLACES else int(at)
    if isinstance(at, bool) or not isinstance(at, int) or at < 0:
        raise ValueError(at)
    return at
