"""Rules are pure: they are told facts, and reach for nothing."""

import ast
from pathlib import Path

import pytest

from headgate import doctor
from headgate.doctor.finding import Finding, Severity, as_text

RULES = ("finding", "software", "directory", "limits", "cause", "facts", "checkpoints", "tasks", "ends", "diagnosis")
REACHING = {"os", "sys", "time", "datetime", "socket", "subprocess", "tempfile", "pathlib", "resource", "shutil"}


@pytest.mark.parametrize("name", RULES)
def test_a_rule_reaches_for_nothing(name: str) -> None:
    tree = ast.parse((Path(doctor.__file__).parent / f"{name}.py").read_text(encoding="utf-8"))
    plain = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    whole = plain | {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert whole.isdisjoint(REACHING | {"headgate.doctor.asking", "headgate.doctor.measuring"})


def test_what_is_not_in_order_comes_with_what_to_do_and_all_else_without() -> None:
    with pytest.raises(AssertionError):
        Finding("disk", Severity.PROBLEM, "full")
    with pytest.raises(AssertionError):
        Finding("disk", Severity.OK, "empty", "fill it")


def test_a_finding_is_one_line_and_the_sum_counts_the_worst_first() -> None:
    found = [
        Finding("a", Severity.OK, "fine"),
        Finding("long", Severity.NOTE, "two\n  lines", "read"),
        Finding("b", Severity.PROBLEM, "bad", "mend it"),
        Finding("c", Severity.PROBLEM, "worse", "mend it"),
    ]
    assert as_text(found).splitlines() == [
        "ok       a     fine",
        "note     long  two lines: read",
        "problem  b     bad: mend it",
        "problem  c     worse: mend it",
        "2 problems, 1 note, 1 ok",
    ]
