"""One name, one thing."""

import ast
from collections import defaultdict
from pathlib import Path

import headgate

PACKAGE = Path(headgate.__file__).parent


def test_no_two_classes_have_the_same_name() -> None:
    """Whoever reads a name need not look up which of them it is. Classes for their own module begin with ``_``."""
    places: defaultdict[str, list[str]] = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(str(path.relative_to(PACKAGE)))
    assert len(places) > 100, "they are found"
    assert {name: where for name, where in places.items() if len(where) > 1} == {}
