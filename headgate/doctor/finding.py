"""What a rule says. One rule: whatever is not in order comes with what to do about it."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from headgate.redact import redact


class Severity(StrEnum):
    """How bad it is, the best first."""

    OK = "ok"
    NOTE = "note"
    """Good to know; nothing need be done."""
    WARNING = "warning"
    """A job may run, and may come to harm or be slow."""
    PROBLEM = "problem"
    """A job will not run, or not keep what it promises."""


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at. It shows no password, wherever the words came from."""

    name: str
    verdict: Severity
    evidence: str
    advice: str = ""
    """What to do, unless all is well."""

    def __post_init__(self) -> None:
        """Keep it to one line, and secrets out of it."""
        assert (self.verdict is Severity.OK) == (not self.advice), f"{self.name}: advice is for what is not in order"
        for field in ("evidence", "advice"):
            object.__setattr__(self, field, redact(" ".join(getattr(self, field).split())))


def counts(findings: Iterable[Finding]) -> Mapping[Severity, int]:
    """How many there are of each level."""
    found = Counter(finding.verdict for finding in findings)
    return {level: found[level] for level in Severity}


def has_problem(findings: Iterable[Finding]) -> bool:
    """Whether something must be put right."""
    return any(finding.verdict is Severity.PROBLEM for finding in findings)


def as_data(findings: Iterable[Finding]) -> dict[str, Any]:
    """For programs."""
    findings = list(findings)
    return {
        "ok": not has_problem(findings),
        "counts": {str(level): number for level, number in counts(findings).items()},
        "findings": [
            {"name": each.name, "verdict": str(each.verdict), "evidence": each.evidence, "advice": each.advice}
            for each in findings
        ],
    }


def as_text(findings: Iterable[Finding]) -> str:
    """For people: a line for each, and one that sums up."""
    findings = list(findings)
    width = max((len(each.name) for each in findings), default=0)
    lines = [
        f"{each.verdict:<7}  {each.name:<{width}}  {': '.join(filter(None, (each.evidence, each.advice)))}"
        for each in findings
    ]
    number = counts(findings)
    told = [
        f"{many} {level}{'s' if many != 1 and level is not Severity.OK else ''}"
        for level in reversed(Severity)
        if (many := number[level])
    ]
    return "\n".join([*lines, f"{'' if number[Severity.PROBLEM] else 'no problem found: '}{', '.join(told)}"])
