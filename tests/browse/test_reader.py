"""What is asked of kept state is refused in one line that says what there is, or is a question."""

from typing import Any

import pytest

from headgate.browse.reader import LIMIT_MAX, KeptOperator, StateQuestion, changes, key_of, question
from headgate.errors import InvalidOption

WINDOWS = KeptOperator("windows", "windows", 0, "stateStoreSave", 4, ("all",), ("windows",))
BALANCES = KeptOperator(
    "balances", "balances", 0, "transformWithStateInPySparkExec", 4, ("total", "timers"), ("balances",)
)
FIRST = KeptOperator("both/0", "both", 0, "stateStoreSave", 4, ("all",), ("unique", "sums"))
SECOND = KeptOperator("both/1", "both", 1, "dedupe", 4, ("all",), ("unique", "sums"))


def asked(*operators: KeptOperator, **given: Any) -> StateQuestion:
    plain = {"operator": None, "state": None, "keys": (), "limit": 50}
    return question(operators, where="checkpoint 12", **{**plain, **given})


def test_the_only_operator_and_the_only_state_need_no_name() -> None:
    found = asked(WINDOWS, keys=["user=ann", "window.start=2026-01-31 12:00:00", "note=a=b"])
    assert (found.operator, found.state) == (WINDOWS, "all")
    assert found.keys == (("user", "ann"), ("window.start", "2026-01-31 12:00:00"), ("note", "a=b"))


def test_an_operator_is_named_by_its_uid_or_its_place() -> None:
    assert asked(WINDOWS, BALANCES, operator="balances", state="total").operator is BALANCES
    assert asked(FIRST, SECOND, operator="both/1").operator is SECOND


@pytest.mark.parametrize(
    ("operators", "given", "words"),
    [
        ((), {}, "checkpoint 12 has no state: none of the job's operators kept any"),
        ((WINDOWS, BALANCES), {}, "checkpoint 12 has the state of several operators: name one of windows, balances"),
        ((WINDOWS,), {"operator": "sums"}, "checkpoint 12 has no state of an operator sums; it has: windows"),
        (
            (FIRST, SECOND, WINDOWS),
            {"operator": "unique"},
            "unique is one of several operators of its task: name one of both/0, both/1",
        ),
        ((BALANCES,), {}, "operator balances has several states: name one of total, timers"),
        ((BALANCES,), {"state": "totals"}, "operator balances has no state totals; it has: total, timers"),
        ((WINDOWS,), {"keys": ["user"]}, "key 'user': write COLUMN=VALUE, such as user=ann"),
        ((WINDOWS,), {"keys": ["=ann"]}, "key '=ann': write COLUMN=VALUE, such as user=ann"),
        ((WINDOWS,), {"limit": 0}, f"limit 0: give a number from 1 to {LIMIT_MAX}"),
        ((WINDOWS,), {"limit": LIMIT_MAX + 1}, f"limit {LIMIT_MAX + 1}: give a number from 1 to {LIMIT_MAX}"),
    ],
)
def test_what_cannot_be_answered_is_refused(
    operators: tuple[KeptOperator, ...], given: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidOption) as refused:
        asked(*operators, **given)
    assert str(refused.value) == words


def test_a_key_may_be_empty() -> None:
    assert key_of("user=") == ("user", "")


def test_what_became_of_a_key_is_told_from_its_two_values() -> None:
    pairs: list[dict[str, Any]] = [
        {"key": {"u": 1}, "before": None, "after": {"n": 1}},
        {"key": {"u": 2}, "before": {"n": 1}, "after": None},
        {"key": {"u": 3}, "before": {"n": 1}, "after": {"n": 2}},
    ]
    found = changes(pairs)
    assert [one["change"] for one in found] == ["added", "removed", "changed"]
    assert [{name: one[name] for name in ("key", "before", "after")} for one in found] == pairs
