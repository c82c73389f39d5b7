"""All that ``headgate doctor JOB`` looks at.

One rule: every rule looks, whatever the others found; and one that has nothing to judge by is named, so that silence
is not taken for health.
"""

from collections.abc import Callable, Iterator, Mapping

from headgate.doctor import checkpoints, ends, tasks
from headgate.doctor.cause import Cause, Diagnosis, worst_first
from headgate.doctor.facts import JobFacts, Unknown

RULES: Mapping[str, Callable[[JobFacts], Iterator[Cause]]] = {**ends.RULES, **checkpoints.RULES, **tasks.RULES}
"""By their ids."""


def diagnose(facts: JobFacts) -> Diagnosis:
    """What is wrong with a job, as far as its facts show."""
    causes: list[Cause] = []
    unknown: list[str] = []
    for name, rule in RULES.items():
        try:
            causes += rule(facts)
        except Unknown:
            unknown.append(name)
    return Diagnosis(facts.job, facts.now_ms, worst_first(causes), tuple(RULES), tuple(unknown))
