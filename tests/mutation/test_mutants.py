"""The mutation proof: the simulator finds every planted bug within 2,000 seeds, or by the seed that found it first."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import headgate
from tests.mutation.mutants import MUTANTS, Mutant

PACKAGE = Path(headgate.__file__).parent
SEEDS: dict[str, int] = json.loads(Path(__file__).with_name("seeds.json").read_text(encoding="utf-8"))
"""The world that has shown each bug before. It is tried first; if it shows it no more, all others are."""
BLIND = "    if broken is not None:"


def plant(mutant: Mutant | None, home: Path) -> Path:
    """A copy of the package with the bug in it and the core's own invariants silenced: the checkers are on trial."""
    copy = home / "headgate"
    shutil.copytree(PACKAGE, copy)  # with what is compiled: only a file that is newer is compiled again
    patches = [(copy / "core" / "invariants.py", BLIND, f"{BLIND[:-1]} and broken == '':")]
    if mutant is not None:
        patches.append((copy / "core" / mutant.file, mutant.old, mutant.new))
    for path, old, new in patches:
        source = path.read_text(encoding="utf-8")
        assert source.count(old) == 1, f"the patch has gone stale: {path.name} has its text {source.count(old)} times"
        path.write_text(source.replace(old, new), encoding="utf-8")
    return home


PROGRAM = """
import json, sys
from headgate.sim import runner
summary = runner.run_seeds(range(*map(int, sys.argv[1:])), 1, stop_at_first=True)
print(json.dumps([verdict.violations[0] for verdict in summary.failing]))
"""
"""The simulator alone: the command would also shrink what it finds, which takes as long as all the rest."""


def run(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python on the package in ``home``."""
    command = [sys.executable, *arguments]
    environment = {"PYTHONPATH": str(home)}
    return subprocess.run(command, cwd=home, env=environment, capture_output=True, text=True, check=False)


def simulate(home: Path, first: int, end: int) -> list[str]:
    """Run the worlds of some seeds until one breaks a promise: what is wrong in it, if there is one."""
    done = run(home, "-c", PROGRAM, str(first), str(end))
    assert done.returncode == 0, done.stderr
    found: list[str] = json.loads(done.stdout)
    return found


def test_there_are_at_least_fifteen_planted_bugs_and_no_two_alike() -> None:
    assert len(MUTANTS) >= 15
    assert len({mutant.name for mutant in MUTANTS}) == len({(m.file, m.old, m.new) for m in MUTANTS}) == len(MUTANTS)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_simulator_finds(mutant: Mutant, tmp_path: Path) -> None:
    home = plant(mutant, tmp_path)
    seed = SEEDS.get(mutant.name, 0)
    assert simulate(home, seed, seed + 1) or simulate(home, 0, 2000)


def test_the_command_says_what_is_wrong_and_ends_with_1(tmp_path: Path) -> None:
    mutant = next(mutant for mutant in MUTANTS if mutant.name in SEEDS)
    seed = SEEDS[mutant.name]
    options = ("--seeds", f"{seed}:{seed + 1}", "--jobs", "1", "--first", "--json")
    done = run(plant(mutant, tmp_path), "-m", "headgate", "sim", *options)
    assert done.returncode == 1, done.stdout + done.stderr
    assert '"violation"' in done.stdout


def test_without_a_planted_bug_the_same_copy_is_clean(tmp_path: Path) -> None:
    assert simulate(plant(None, tmp_path), 0, 40) == []


def test_the_readme_says_how_many_there_are() -> None:
    readme = (PACKAGE.parent / "README.md").read_text(encoding="utf-8")
    assert f"[{len(MUTANTS)} bugs](tests/mutation/mutants.py)" in readme
