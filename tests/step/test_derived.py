"""What follows from a state fires in one place, until nothing follows any more.

That nothing is left to follow is checked after every step of the other tests: ``tests.step_helpers.follows``.
"""

import ast
from pathlib import Path

import pytest

from headgate.core import derived, events as e
from headgate.core.errors import ProtocolError
from headgate.core.state import Phase, StepContext
from tests.helpers import line
from tests.step_helpers import running

CORE = Path(derived.__file__).parent
FIRED = {transition.__name__ for _, row in derived.ROWS for transition in row}


def calls(source: str) -> set[str]:
    """The transitions that a module of the core calls by itself."""
    called = [ast.unparse(node.func) for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    return {each for each in called if each in FIRED or each.partition(".")[2] in FIRED}


@pytest.mark.parametrize("path", sorted(CORE.glob("*.py")), ids=lambda path: path.stem)
def test_nobody_else_fires_what_follows(path: Path) -> None:
    assert calls(path.read_text(encoding="utf-8")) - {"retention.collect"} == set(), "but for a plan of the same name"


def test_a_call_of_what_follows_is_found() -> None:
    assert calls("def f(x):\n    closing.closed(x)\n    recovered(x)") == {"closing.closed", "recovered"}


def test_a_step_that_does_not_come_to_an_end_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def restless(context: StepContext) -> None:
        context.tell_story("once more")

    core = running(line("a"))
    monkeypatch.setattr(derived, "ROWS", ((Phase.RUNNING, (restless,)),))
    with pytest.raises(ProtocolError, match="a job that is running does not come to an end"):
        core.tell(e.Ticked(1))
