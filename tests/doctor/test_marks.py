"""Each rule of the doctor is tried on real Spark: on a job that has its illness, and on one that could and has not."""

import pytest

from headgate.doctor.diagnosis import RULES
from tests.spark import test_illnesses


def marked(kind: str) -> set[str]:
    """The rules in the marks of all tests of illnesses. Each test is held to its own when it runs."""
    tests = [test for name, test in vars(test_illnesses).items() if name.startswith("test_")]
    marks = [mark for test in tests for mark in getattr(test, "pytestmark", ()) if mark.name == kind]
    return {rule for mark in marks for rule in mark.args}


@pytest.mark.parametrize("kind", ["ill", "well"])
def test_every_rule_is_tried_on_real_spark(kind: str) -> None:
    assert marked(kind) == set(RULES)
