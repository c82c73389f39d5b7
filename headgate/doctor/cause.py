"""What a rule over the facts of a job says. One rule: a cause names the setting to change."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from headgate.doctor.finding import Finding, as_text, counts, has_problem


@dataclass(frozen=True, kw_only=True)
class Cause(Finding):
    """Something that is not in order with a job. ``name`` is the cause in words, ``rule`` the id of the rule."""

    rule: str
    setting: str
    """The exact name of what to change: of Headgate's, Spark's, a connector's or the machine's."""
    value: str = ""
    """What to try first. Empty where only the user can know."""
    tasks: tuple[str, ...] = ()
    checkpoints: tuple[int, ...] = ()
    """The checkpoints that show it, the oldest first."""


@dataclass(frozen=True)
class Diagnosis:
    """What all rules said of a job."""

    job: str
    at_ms: int
    causes: tuple[Cause, ...]
    """The worst first."""
    rules: tuple[str, ...]
    """The ids of the rules that looked."""
    unknown: tuple[str, ...]
    """Those of them that had no facts to look at: nobody has recorded any, or not enough yet."""

    @property
    def ok(self) -> bool:
        """Whether nothing must be put right."""
        return not has_problem(self.causes)


def diagnosis_data(found: Diagnosis) -> dict[str, Any]:
    """For programs."""
    return {
        "job": found.job,
        "at": found.at_ms,
        "ok": found.ok,
        "counts": {str(level): number for level, number in counts(found.causes).items()},
        "rules": list(found.rules),
        "unknown": list(found.unknown),
        "findings": [
            {
                "rule": each.rule,
                "name": each.name,
                "verdict": str(each.verdict),
                "evidence": each.evidence,
                "advice": each.advice,
                "setting": each.setting,
                "value": each.value,
                "tasks": list(each.tasks),
                "checkpoints": list(each.checkpoints),
            }
            for each in found.causes
        ],
    }


def diagnosis_text(found: Diagnosis) -> str:
    """For people: a line for each cause, and one that sums up."""
    looked = len(found.rules) - len(found.unknown)
    told = f"{looked} rules looked" + (f", {len(found.unknown)} have too few facts yet" if found.unknown else "")
    if not found.causes:
        return f"nothing found: {told}"
    return f"{as_text(found.causes)} ({told})"


def worst_first(causes: Iterable[Cause]) -> tuple[Cause, ...]:
    """By how bad they are; the order of the rules among equals."""
    levels = list(reversed(type(first.verdict))) if (first := next(iter(found := list(causes)), None)) else []
    return tuple(sorted(found, key=lambda each: levels.index(each.verdict)))
