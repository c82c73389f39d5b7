"""The mutation proof: the simulator finds every planted bug within 2,000 seeds, or by the seed that found it first."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import headgate
from tests.mutation.mutants import MUTANTS, Mutant

PACKAGE = Path(headgate.__file__).resolve().parent
PROGRAM = Path(__file__).with_name("planted.py")
SEEDS: dict[str, int] = json.loads(Path(__file__).with_name("seeds.json").read_text(encoding="utf-8"))
"""The world that has shown each bug before. It is tried first; if it shows it no more, all others are."""
BLIND = "    if broken is not None:"


def patches(mutant: Mutant | None) -> str:
    """The bug, and the core's own invariants silenced: the checkers are on trial."""
    wanted = [(PACKAGE / "core" / "invariants.py", BLIND, f"{BLIND[:-1]} and broken == '':")]
    if mutant is not None:
        wanted.append(((PACKAGE / "core" / mutant.file).resolve(), mutant.old, mutant.new))
    found: dict[str, list[tuple[str, str]]] = {}
    for path, old, new in wanted:
        times = path.read_text(encoding="utf-8").count(old)
        assert times == 1, f"the patch has gone stale: {path.name} has its text {times} times"
        found.setdefault(str(path), []).append((old, new))
    return json.dumps(found)


def run(mutant: Mutant | None, *arguments: str, flags: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """Run Python on the package with the bug in it."""
    command = [sys.executable, *flags, str(PROGRAM), str(PACKAGE.parent), patches(mutant), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def simulate(mutant: Mutant | None, first: int, end: int) -> list[str]:
    """Run the worlds of some seeds until one breaks a promise: what is wrong in it, if there is one."""
    done = run(mutant, "seeds", str(first), str(end), flags=("-I", "-S"))
    assert done.returncode == 0, done.stderr
    found: list[str] = json.loads(done.stdout)
    return found


def test_there_are_at_least_fifteen_planted_bugs_and_no_two_alike() -> None:
    assert len(MUTANTS) >= 15
    assert len({mutant.name for mutant in MUTANTS}) == len({(m.file, m.old, m.new) for m in MUTANTS}) == len(MUTANTS)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_simulator_finds(mutant: Mutant) -> None:
    seed = SEEDS.get(mutant.name, 0)
    assert simulate(mutant, seed, seed + 1) or simulate(mutant, 0, 2000)


def test_the_command_says_what_is_wrong_and_ends_with_1() -> None:
    mutant = next(mutant for mutant in MUTANTS if mutant.name in SEEDS)
    seed = SEEDS[mutant.name]
    options = ("--seeds", f"{seed}:{seed + 1}", "--jobs", "1", "--first", "--json")
    done = run(mutant, "command", "sim", *options)
    assert done.returncode == 1, done.stdout + done.stderr
    assert '"violation"' in done.stdout


def test_without_a_planted_bug_the_same_worlds_are_clean() -> None:
    assert simulate(None, 0, 40) == []


def test_the_readme_says_how_many_there_are() -> None:
    readme = (PACKAGE.parent / "README.md").read_text(encoding="utf-8")
    assert f"[{len(MUTANTS)} bugs](tests/mutation/mutants.py)" in readme
