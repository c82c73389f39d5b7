"""What was measured: one file, which grows by one round at a time.

One rule: a round that is finished is on the disk before the next begins. A run that was broken off goes on after it.
"""

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

FORMAT = 1
ENOUGH = 3
"""With fewer undisturbed rounds than this, disturbed ones count, and the report says so."""


@dataclass(frozen=True)
class Round:
    """One round of one contender."""

    contender: str
    number: int
    values: Mapping[str, float]
    wall_s: float
    cpu_s: float
    others_cores: float
    disturbed: bool
    at: str
    commit: str


@dataclass
class CaseResults:
    """All rounds of a case with one size."""

    name: str
    title: str
    size: Mapping[str, Any]
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    rounds: list[Round] = field(default_factory=list)
    failures: list[dict[str, Any]] = field(default_factory=list)
    profiles: dict[str, Any] = field(default_factory=dict)

    def contenders(self) -> list[str]:
        """Those that finished a round, in the order in which they came."""
        return list(dict.fromkeys(each.contender for each in self.rounds))

    def has(self, contender: str, number: int) -> bool:
        """Whether that round is there."""
        return any(each.contender == contender and each.number == number for each in self.rounds)

    def counted(self, contender: str) -> list[Round]:
        """The rounds that count: undisturbed ones, if there are enough of them."""
        own = [each for each in self.rounds if each.contender == contender]
        quiet = [each for each in own if not each.disturbed]
        return quiet if len(quiet) >= min(ENOUGH, len(own)) else own

    def values(self, contender: str, value: str) -> list[float]:
        """One figure of each round that counts."""
        return [each.values[value] for each in self.counted(contender) if value in each.values]

    def median(self, contender: str, value: str) -> float | None:
        """The middle of them."""
        found = self.values(contender, value)
        return statistics.median(found) if found else None

    def ratio(self, contender: str, against: str, value: str) -> float | None:
        """The median, over rounds that both have, of the ratio in each; of all rounds if no number is common."""
        mine = {each.number: each.values[value] for each in self.counted(contender) if value in each.values}
        theirs = {each.number: each.values[value] for each in self.counted(against) if value in each.values}
        both = [mine[number] / theirs[number] for number in mine if theirs.get(number)]
        if both:
            return statistics.median(both)
        first, second = self.median(contender, value), self.median(against, value)
        return first / second if first is not None and second else None

    def disturbed(self, contender: str) -> int:
        """How many of the rounds that count were disturbed."""
        return sum(each.disturbed for each in self.counted(contender))


def spread(values: Sequence[float]) -> float:
    """From the least to the most, as a part of the median."""
    middle = statistics.median(values) if values else 0.0
    return (max(values) - min(values)) / middle if middle else 0.0


@dataclass
class Results:
    """All cases, the machine and the versions."""

    path: Path
    machine: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    cases: dict[str, CaseResults] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> "Results":
        """What is there; nothing, if there is no file."""
        if not path.exists():
            return cls(path)
        told = json.loads(path.read_text(encoding="utf-8"))
        if told.get("format") != FORMAT:
            raise ValueError(f"bench: {path} has format {told.get('format')}, not {FORMAT}: delete it")
        cases = {
            name: CaseResults(**{**case, "rounds": [Round(**each) for each in case["rounds"]]})
            for name, case in told["cases"].items()
        }
        return cls(path, told["machine"], told["versions"], cases)

    def case(self, name: str, title: str, size: Mapping[str, Any]) -> CaseResults:
        """The rounds of a case. With another size it begins anew."""
        found = self.cases.get(name)
        if found is None or dict(found.size) != dict(size):
            found = self.cases[name] = CaseResults(name, title, dict(size))
        found.title = title
        return found

    def write(self) -> None:
        """Put it on the disk, whole or not at all."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        hidden = self.path.with_name(f".{self.path.name}")
        hidden.write_text(self.text(), encoding="utf-8")
        hidden.replace(self.path)

    def text(self) -> str:
        """As it is written."""
        cases = {name: asdict(case) for name, case in self.cases.items()}
        told = {"format": FORMAT, "machine": self.machine, "versions": self.versions, "cases": cases}
        return json.dumps(told, indent=1, ensure_ascii=False) + "\n"
