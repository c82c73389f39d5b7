"""The core stays pure: read from its source, file by file."""

import ast
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import headgate.core

CORE = Path(headgate.core.__file__).parent
FILES = sorted(CORE.rglob("*.py"))
MODULES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in FILES}

ALLOWED = ("collections.abc", "dataclasses", "enum", "functools", "itertools", "typing", "headgate.core")
FORBIDDEN_CALLS = (
    "open",
    "print",
    "input",
    "exec",
    "eval",
    "compile",
    "__import__",
    "breakpoint",
    "id",
    "hash",
    "globals",
    "vars",
)
WITHOUT_RULE = ("__init__", "errors", "evolve", "ids")
LINES_MAX = 400


def imports(tree: ast.Module) -> Iterator[str]:
    """What a module imports, if it is not on the list."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or "" if node.level == 0 else "." * node.level]
        else:
            continue
        yield from (name for name in names if name not in ALLOWED and not name.startswith("headgate.core."))


def calls(tree: ast.Module) -> Iterator[str]:
    """Calls that reach outside, or whose answer differs from process to process."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in FORBIDDEN_CALLS:
            yield node.func.id


def set_orders(tree: ast.Module) -> Iterator[str]:
    """Places where the order of a set, which differs from process to process, could show."""
    for scope in ast.walk(tree):
        if isinstance(scope, (ast.FunctionDef, ast.Module)):
            names = {name: None for node in ast.walk(scope) for name in _bound_to_set(node)}
            for node in ast.walk(scope):
                for iterated in _iterated(node):
                    if _is_set(iterated) or (isinstance(iterated, ast.Name) and iterated.id in names):
                        yield f"line {iterated.lineno}: {ast.unparse(iterated)}"


def _bound_to_set(node: ast.AST) -> list[str]:
    if isinstance(node, (ast.Assign, ast.AnnAssign, ast.NamedExpr)) and node.value is not None and _is_set(node.value):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return [target.id for target in targets if isinstance(target, ast.Name)]
    return []


def _iterated(node: ast.AST) -> list[ast.expr]:
    match node:
        case ast.For(iter=over) | ast.comprehension(iter=over) | ast.Starred(value=over):
            return [over]
        case ast.Call(func=ast.Name(id="list" | "tuple" | "iter" | "next" | "enumerate" | "zip" | "dict"), args=args):
            return args
        case ast.Call(func=ast.Attribute(attr="join" | "extend" | "fromkeys"), args=args):
            return args
        case _:
            return []


def _is_set(node: ast.expr) -> bool:
    match node:
        case ast.Set() | ast.SetComp() | ast.Call(func=ast.Name(id="set" | "frozenset")):
            return True
        case ast.BinOp(left=left, op=ast.BitOr() | ast.BitAnd() | ast.Sub() | ast.BitXor(), right=right):
            return _is_set(left) or _is_set(right)
        case _:
            return False


def permits(tree: ast.Module) -> Iterator[str]:
    """Places that make a permit to commit, under whatever name it was imported."""
    names = ["CommitPermit"]
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            names += [alias.asname for alias in node.names if alias.name == "CommitPermit" and alias.asname]
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else ast.unparse(node.func)
            if called in names:
                yield f"line {node.lineno}"


def test_the_whole_core_is_read() -> None:
    assert {path.stem for path in FILES} >= {"__init__", "job", "state", "checkpoint_log", "invariants"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_module_of_the_core_is_pure(path: Path) -> None:
    tree = MODULES[path]
    assert list(imports(tree)) == [], "imports from outside the core"
    assert list(calls(tree)) == [], "calls that reach outside"
    assert list(set_orders(tree)) == [], "walks over a set, whose order differs from process to process"


@pytest.mark.parametrize("path", [path for path in FILES if path.stem not in WITHOUT_RULE], ids=lambda path: path.stem)
def test_a_module_of_the_core_begins_with_its_rule(path: Path) -> None:
    assert "One rule: " in (ast.get_docstring(MODULES[path]) or "")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_module_of_the_core_has_a_docstring_and_fits_in_the_head(path: Path) -> None:
    assert ast.get_docstring(MODULES[path])
    assert len(path.read_text(encoding="utf-8").splitlines()) < LINES_MAX


def test_a_permit_to_commit_is_made_in_the_checkpoint_log_and_nowhere_else() -> None:
    assert [path.stem for path, tree in MODULES.items() if list(permits(tree))] == ["checkpoint_log"]


@pytest.mark.parametrize(
    ("look", "source"),
    [
        (imports, "import time"),
        (imports, "import os.path"),
        (imports, "from random import random"),
        (imports, "from collections import abc"),
        (imports, "from headgate import sim"),
        (imports, "from headgate.corelike import x"),
        (imports, "from . import checkpoint_log"),
        (imports, "def f():\n    import asyncio"),
        (calls, "open('x')"),
        (calls, "def f():\n    print(1)"),
        (calls, "x = [input()]"),
        (set_orders, "for x in {1, 2}: pass"),
        (set_orders, "[x for x in set(y)]"),
        (set_orders, "{x: 1 for x in {y for y in z}}"),
        (set_orders, "tuple(set(x) | y)"),
        (set_orders, "', '.join(frozenset(x))"),
        (set_orders, "(*{1, 2},)"),
        (set_orders, "def f():\n    known = {1, 2}\n    for x in known: pass"),
        (permits, "CommitPermit(1, 2)"),
        (permits, "records.CommitPermit(1, 2)"),
        (permits, "from headgate.core.records import CommitPermit as P\nP(1, 2)"),
    ],
)
def test_the_reading_sees_what_it_looks_for(look: Callable[[ast.Module], Iterator[str]], source: str) -> None:
    assert list(look(ast.parse(source)))


@pytest.mark.parametrize(
    "source",
    [
        "from collections.abc import Mapping\nfrom headgate.core import commit\nfrom headgate.core.ids import Batch",
        "def f(x):\n    known = {1, 2}\n    return x in known and sorted(set(x)) and {y: None for y in x}",
        "def f(permit: CommitPermit) -> CommitPermit: return permit",
    ],
)
def test_the_reading_lets_pure_code_pass(source: str) -> None:
    tree = ast.parse(source)
    assert not [*imports(tree), *calls(tree), *set_orders(tree), *permits(tree)]
