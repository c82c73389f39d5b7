"""CONTRIBUTING.md says of each package which tests guard it, and of each folder of tests what it holds."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| `(headgate/\w+)` \|(.*)\|$", re.MULTILINE)
GUARDS = {package: re.findall(r"`([^`]+)`", tests) for package, tests in ROW.findall(TEXT) if "`tests/" in tests}
FOLDERS = re.search(r"^\| Tests \|.*?\n\n", TEXT, re.MULTILINE | re.DOTALL)


def packages(place: Path) -> set[str]:
    return {found.parent.name for found in place.glob("*/*.py") if found.name.startswith(("__init__", "test_"))}


def test_every_package_has_its_guards() -> None:
    assert set(GUARDS) == {f"headgate/{name}" for name in packages(ROOT / "headgate")}


def test_every_guard_is_there() -> None:
    named = {path for paths in GUARDS.values() for path in paths}
    assert {path for path in named if not (ROOT / path).exists()} == set()


def test_every_folder_of_tests_is_described() -> None:
    assert FOLDERS is not None
    described = set(re.findall(r"`(\w+)`", "\n".join(row.split("|")[1] for row in FOLDERS[0].splitlines() if row)))
    assert described == packages(ROOT / "tests")
