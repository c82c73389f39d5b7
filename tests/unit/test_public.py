"""The public names of the package, and what documents and examples use of it.

Changing the list needs a line in the changelog.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import get_origin

import pytest

import headgate

ROOT = Path(__file__).parent.parent.parent
DOCUMENTS = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]
EXAMPLES = sorted((ROOT / "examples").rglob("*.py"))
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
USED = re.compile(r"(?<![\w.])hg\.([a-z_A-Z]\w*)(?:\.([a-z_A-Z]\w*))?")
PUBLIC_MODULES = [name for name in headgate.__all__ if isinstance(getattr(headgate, name), ModuleType)]
OF_THEIR_TIME = {"CHANGELOG.md"}


def sources() -> Iterator[tuple[str, str]]:
    """Every program that a user may read: where it stands, and its text."""
    for path in EXAMPLES:
        yield path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")
    for path in DOCUMENTS:
        for block in BLOCK.findall(path.read_text(encoding="utf-8")):
            yield path.relative_to(ROOT).as_posix(), block


def not_public(source: str) -> list[str]:
    """What a program imports from Headgate, and is not public."""
    found: list[str] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        found += [name for name in names if name.split(".")[0] == "headgate" and not is_public(name.split(".")[1:])]
    return found


def is_public(names: list[str]) -> bool:
    match names:
        case []:
            return True
        case [name]:
            return name in headgate.__all__
        case [module, name]:
            return module in PUBLIC_MODULES and name in getattr(headgate, module).__all__
        case _:
            return False


def test_the_public_names_are_these_and_no_others() -> None:
    assert headgate.__all__ == [
        "AbortScope",
        "BatchProcessor",
        "BatchState",
        "CheckpointId",
        "Checkpointing",
        "Context",
        "ExternalError",
        "FencedOff",
        "Generation",
        "Guarantee",
        "HeadgateError",
        "History",
        "IdempotentSink",
        "Job",
        "JobClient",
        "KeyedBatch",
        "KeyedState",
        "ListColumn",
        "ListState",
        "MapColumn",
        "MapState",
        "Options",
        "Owner",
        "Place",
        "PreparedSink",
        "Processor",
        "Result",
        "SinkContext",
        "Source",
        "StagedFile",
        "Stream",
        "TransactionCommittable",
        "TwoPhaseSink",
        "UserError",
        "ValueColumn",
        "ValueState",
        "Window",
        "WindowBatch",
        "WindowProcessor",
        "Write",
        "WriteAheadBatch",
        "WriteAheadSink",
        "WriteId",
        "__version__",
        "audit",
        "console",
        "delta",
        "files",
        "generator",
        "hbase",
        "iceberg",
        "jdbc",
        "kafka",
        "mariadb",
        "metrics",
        "postgres",
        "restart",
        "search",
        "state_backend",
        "testing",
        "windows",
        "write_partitions",
    ]


def test_every_public_name_is_there_and_is_described() -> None:
    for name in headgate.__all__:
        found = getattr(headgate, name)
        assert name == "__version__" or found.__doc__ or get_origin(found), f"{name}, which is not an alias of a type"


def test_a_name_that_is_not_public_is_refused_as_by_any_module() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        headgate.nothing  # noqa: B018


def test_the_package_ships_its_types() -> None:
    assert (Path(headgate.__file__).parent / "py.typed").is_file()


def test_every_public_module_says_what_is_public_in_it() -> None:
    for name in PUBLIC_MODULES:
        module = getattr(headgate, name)
        for each in module.__all__:
            assert hasattr(module, each), f"{name}.{each}"


def test_what_users_read_imports_public_names_alone() -> None:
    found = list(sources())
    assert len(found) > 10
    assert {where: names for where, source in found if (names := not_public(source))} == {}


def test_what_documents_name_is_there() -> None:
    wrong = []
    for path in (*DOCUMENTS, *EXAMPLES):
        if path.name in OF_THEIR_TIME:
            continue
        for first, second in USED.findall(path.read_text(encoding="utf-8")):
            inside = first in PUBLIC_MODULES and second
            if not is_public([first, second] if inside else [first]):
                wrong.append(f"{path.name}: hg.{first}{'.' * bool(second)}{second}")
    assert wrong == []


@pytest.mark.parametrize(
    "source",
    [
        "from headgate.job.keyed import KeyedState",
        "import headgate.sink.files",
        "from headgate import layout",
        "from headgate.testing.two_phase import write",
        "def later():\n    from headgate.errors import UserError",
    ],
)
def test_the_reading_finds_what_is_not_public(source: str) -> None:
    assert len(not_public(source)) == 1


@pytest.mark.parametrize(
    "source",
    [
        "import headgate as hg",
        "from headgate import kafka",
        "from headgate.testing import TwoPhaseContract",
        "import os",
    ],
)
def test_the_reading_lets_public_names_pass(source: str) -> None:
    assert not_public(source) == []
