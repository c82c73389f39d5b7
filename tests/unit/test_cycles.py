"""No module of the core knows another that knows it: read from the source, imports inside functions included.

What a module imports for the type checker alone is no knowledge that code could use, and does not count.
"""

import ast
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import headgate.core

CORE = Path(headgate.core.__file__).parent
SOURCES = {path.stem: path.read_text(encoding="utf-8") for path in sorted(CORE.glob("*.py"))}
PACKAGE = "headgate.core"


def statements(node: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """Every import that can run, wherever it stands."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child
        elif isinstance(child, ast.If) and ast.unparse(child.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            for other in child.orelse:
                yield from statements(ast.Module([other], []))
        else:
            yield from statements(child)


def known(source: str, modules: Mapping[str, str]) -> Iterator[str]:
    """The modules of the core that a source imports. ``__init__`` stands for a name of the package itself."""
    for statement in statements(ast.parse(source)):
        if isinstance(statement, ast.Import):
            names = [alias.name for alias in statement.names]
        else:
            assert statement.level <= 1, "the core has no packages inside"
            within = f"{PACKAGE}." if statement.level else ""
            origin = (within + (statement.module or "")).rstrip(".")
            names = [f"{origin}.{alias.name}" for alias in statement.names]
        for name in names:
            if name == PACKAGE or name.startswith(f"{PACKAGE}."):
                first = name.removeprefix(PACKAGE).removeprefix(".").partition(".")[0]
                yield first if first in modules else "__init__"


def cycle(modules: Mapping[str, str]) -> list[str]:
    """Modules that know each other in a ring, the first named again at the end; none if there is no such ring."""
    graph = {name: dict.fromkeys(known(source, modules)) for name, source in modules.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        ring: list[str] = error.args[1]
        return ring
    return []


def test_no_import_of_the_core_leads_back() -> None:
    assert cycle(SOURCES) == []


def test_the_whole_core_is_read() -> None:
    assert {"__init__", "job", "state", "closing", "leadership", "sinks", "garbage"} <= set(SOURCES)
    assert "closing" in known(SOURCES["job"], SOURCES)
    assert "state" in known(SOURCES["closing"], SOURCES)


@pytest.mark.parametrize(
    "source",
    [
        "from headgate.core import b",
        "from headgate.core.b import f",
        "from headgate.core import step",
        "import headgate.core.b",
        "import headgate.core.b as other",
        "from . import b",
        "from .b import f",
        "def f():\n    from headgate.core import b",
        "class A:\n    def f(self):\n        if self:\n            import headgate.core.b",
        "try:\n    from headgate.core.b import f\nexcept ImportError:\n    pass",
        "if TYPE_CHECKING:\n    pass\nelse:\n    from headgate.core import b",
    ],
)
def test_a_ring_is_found_however_the_import_is_written(source: str) -> None:
    ring = cycle({"__init__": "from headgate.core.b import step", "a": source, "b": "from headgate.core import a"})
    assert {"a", "b"} <= set(ring)


@pytest.mark.parametrize(
    "source",
    [
        "if TYPE_CHECKING:\n    from headgate.core import b",
        "if typing.TYPE_CHECKING:\n    from headgate.core.b import f",
        "from dataclasses import dataclass",
        "from headgate.corelike import b",
        "from headgate.core import c",
    ],
)
def test_what_leads_nowhere_is_left_alone(source: str) -> None:
    assert cycle({"a": source, "b": "from headgate.core import a", "c": ""}) == []
