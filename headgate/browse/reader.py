"""What is asked of kept state, and what is answered.

One rule: pure. A question that cannot be answered is refused in one line that says what there is.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from headgate.errors import InvalidOption

LIMIT = 50
LIMIT_MAX = 1000
TIMEOUT_S = 60.0


@dataclass(frozen=True)
class KeptOperator:
    """An operator that a checkpoint has state of."""

    name: str
    """Its uid, or ``TASK/NUMBER`` where a task has several and nobody knows which of them is whose."""
    task: str
    number: int
    """As Spark numbers the operators of a query."""
    kind: str
    """What Spark calls it."""
    partitions: int
    states: tuple[str, ...]
    """What can be read of it: state variables and ``timers`` of a processor, ``left`` and ``right`` of a join."""
    uids: tuple[str, ...]
    """Whose state it may be."""

    def told(self) -> dict[str, Any]:
        """As plain data."""
        fields = {name: getattr(self, name) for name in ("name", "task", "number", "kind", "partitions")}
        return {**fields, "states": list(self.states), "uids": list(self.uids)}


@dataclass(frozen=True)
class StateQuestion:
    """Which rows are wanted."""

    operator: KeptOperator
    state: str
    keys: tuple[tuple[str, str], ...] = ()
    """Columns of the key, and what they must be, as text."""
    limit: int = LIMIT
    timeout_s: float = TIMEOUT_S


class StateReader(Protocol):
    """Reads the state of kept checkpoints of one job."""

    def operators(self, checkpoint: int) -> Sequence[KeptOperator]:
        """Of which operators a checkpoint has state."""

    def rows(self, checkpoint: int, question: StateQuestion) -> tuple[list[dict[str, Any]], bool]:
        """Rows with ``partition``, ``key`` and ``value``, in no order; and whether there are more."""

    def difference(self, before: int, after: int, question: StateQuestion) -> tuple[list[dict[str, Any]], bool]:
        """Keys with ``change`` (added, removed or changed), ``before`` and ``after``; and whether there are more."""


def question(
    operators: Sequence[KeptOperator],
    *,
    operator: str | None,
    state: str | None,
    keys: Iterable[str],
    limit: int,
    timeout_s: float = TIMEOUT_S,
    where: str,
) -> StateQuestion:
    """A question, of what a user said. ``where`` is the checkpoint in words."""
    if not 1 <= limit <= LIMIT_MAX:
        raise InvalidOption(f"limit {limit}: give a number from 1 to {LIMIT_MAX}")
    chosen = _operator(operators, operator, where)
    return StateQuestion(chosen, _state(chosen, state), tuple(map(key_of, keys)), limit, timeout_s)


def _operator(operators: Sequence[KeptOperator], wanted: str | None, where: str) -> KeptOperator:
    there = ", ".join(each.name for each in operators)
    if not operators:
        raise InvalidOption(f"{where} has no state: none of the job's operators kept any")
    if wanted is None:
        if len(operators) > 1:
            raise InvalidOption(f"{where} has the state of several operators: name one of {there}")
        return operators[0]
    for each in operators:
        if each.name == wanted:
            return each
    among = [each.name for each in operators if wanted in each.uids]
    if among:
        raise InvalidOption(f"{wanted} is one of several operators of its task: name one of {', '.join(among)}")
    raise InvalidOption(f"{where} has no state of an operator {wanted}; it has: {there}")


def _state(operator: KeptOperator, wanted: str | None) -> str:
    there = ", ".join(operator.states)
    if wanted is None:
        if len(operator.states) > 1:
            raise InvalidOption(f"operator {operator.name} has several states: name one of {there}")
        return operator.states[0]
    if wanted not in operator.states:
        raise InvalidOption(f"operator {operator.name} has no state {wanted}; it has: {there}")
    return wanted


def key_of(text: str) -> tuple[str, str]:
    """What a user wants a column of the key to be: ``column=value``."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise InvalidOption(f"key {text!r}: write COLUMN=VALUE, such as user=ann")
    return name.strip(), value


def refuse_column(name: str, there: Iterable[str]) -> InvalidOption:
    """There is no such column in the key."""
    return InvalidOption(f"key {name}: the key has no such column; it has: {', '.join(there)}")


def changes(found: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Pairs of values by key, as what has become of it."""
    return [
        {
            "change": "added" if one["before"] is None else "removed" if one["after"] is None else "changed",
            "key": one["key"],
            "before": one["before"],
            "after": one["after"],
        }
        for one in found
    ]
