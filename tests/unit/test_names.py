"""One name, one thing."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import headgate

PACKAGE = Path(headgate.__file__).parent


def names(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """The classes and types that a module defines, and what each is: an alias is what it stands for."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield node.name, f"class, line {node.lineno}"
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and is_type(node.targets[0].id):
            yield node.targets[0].id, ast.unparse(node.value)


def is_type(name: str) -> bool:
    return name[0].isupper() and not name.isupper()


def test_no_name_of_a_class_or_type_means_two_things() -> None:
    """Whoever reads a name need not look up which of them it is. Names for their own module begin with ``_``."""
    places: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for path in sorted(PACKAGE.rglob("*.py")):
        module = str(path.relative_to(PACKAGE))
        for name, meaning in names(ast.parse(path.read_text(encoding="utf-8"))):
            places[name][f"{module}: {meaning}" if meaning.startswith("class, ") else meaning] = module
    assert len(places) > 700, "they are found"
    assert {name: sorted(where.values()) for name, where in places.items() if len(where) > 1} == {}


def test_two_meanings_of_one_name_are_seen() -> None:
    of_one, of_other = (dict(names(ast.parse(text))) for text in ("Mark = tuple[int, int]", "class Mark: ..."))
    assert of_one.keys() == of_other.keys()
    assert of_one != of_other
    assert not dict(names(ast.parse("MARK = 1\nmark = 2")))
