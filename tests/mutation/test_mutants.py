"""The mutation proof: the simulator finds every planted bug within 2,000 seeds, or by the seed that found it first."""

import pytest

from tests.mutation.mutants import MUTANTS, Mutant
from tests.mutation.planting import PACKAGE, SEEDS, headgate_with, simulate


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
    done = headgate_with(mutant, "sim", *options)
    assert done.returncode == 1, done.stdout + done.stderr
    assert '"violation"' in done.stdout


def test_without_a_planted_bug_the_same_worlds_are_clean() -> None:
    assert simulate(None, 0, 40) == []


def test_the_readme_says_how_many_there_are() -> None:
    readme = (PACKAGE.parent / "README.md").read_text(encoding="utf-8")
    assert f"[{len(MUTANTS)} bugs](tests/mutation/mutants.py)" in readme
