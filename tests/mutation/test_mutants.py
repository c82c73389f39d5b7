"""The mutation proof: the simulator finds every planted bug within 2,000 seeds."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import headgate
from tests.mutation.mutants import MUTANTS, Mutant

PACKAGE = Path(headgate.__file__).parent
FOUND = 1
SEEDS: dict[str, int] = json.loads(Path(__file__).with_name("seeds.json").read_text(encoding="utf-8"))
"""The world that has shown each bug before. It is tried first; if it shows it no more, all others are."""
BLIND = "    if broken is not None:"


def plant(mutant: Mutant | None, home: Path) -> Path:
    """A copy of the package with the bug in it and the core's own invariants silenced: the checkers are on trial."""
    copy = home / "headgate"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    patches = [(copy / "core" / "invariants.py", BLIND, f"{BLIND[:-1]} and broken == '':")]
    if mutant is not None:
        patches.append((copy / "core" / mutant.file, mutant.old, mutant.new))
    for path, old, new in patches:
        source = path.read_text(encoding="utf-8")
        assert source.count(old) == 1, f"the patch has gone stale: {path.name} has its text {source.count(old)} times"
        path.write_text(source.replace(old, new), encoding="utf-8")
    return home


def simulate(home: Path, seeds: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run ``headgate sim`` on the package in ``home``."""
    return subprocess.run(
        [sys.executable, "-m", "headgate", "sim", "--seeds", seeds, "--jobs", "1", *options],
        cwd=home,
        env={"PYTHONPATH": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_there_are_at_least_fifteen_planted_bugs_and_no_two_alike() -> None:
    assert len(MUTANTS) >= 15
    assert len({mutant.name for mutant in MUTANTS}) == len({(m.file, m.old, m.new) for m in MUTANTS}) == len(MUTANTS)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_simulator_finds(mutant: Mutant, tmp_path: Path) -> None:
    home = plant(mutant, tmp_path)
    seed = SEEDS.get(mutant.name, 0)
    result = simulate(home, f"{seed}:{seed + 1}", "--first", "--json")
    if result.returncode != FOUND:
        result = simulate(home, "0:2000", "--first", "--json")
    assert result.returncode == FOUND, result.stdout + result.stderr
    assert '"violation"' in result.stdout


def test_without_a_planted_bug_the_same_copy_is_clean(tmp_path: Path) -> None:
    result = simulate(plant(None, tmp_path), "0:40", "--json")
    assert result.returncode == 0, result.stdout + result.stderr
    assert '"violations": 0' in result.stdout


def test_the_readme_says_how_many_there_are() -> None:
    readme = (PACKAGE.parent / "README.md").read_text(encoding="utf-8")
    assert f"[{len(MUTANTS)} bugs](tests/mutation/mutants.py)" in readme
