"""Processes that have a planted bug."""

import json
import subprocess
import sys
from pathlib import Path

import headgate
from tests.mutation.mutants import Mutant

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


def headgate_with(mutant: Mutant, *arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run the command ``headgate`` with the bug in it."""
    return _run(mutant, "command", *arguments, cwd=cwd)


def simulate(mutant: Mutant | None, first: int, end: int) -> list[str]:
    """Run the worlds of some seeds until one breaks a promise: what is wrong in it, if there is one."""
    done = _run(mutant, "seeds", str(first), str(end), flags=("-I", "-S"))
    assert done.returncode == 0, done.stderr
    found: list[str] = json.loads(done.stdout)
    return found


def _run(
    mutant: Mutant | None, *arguments: str, flags: tuple[str, ...] = (), cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *flags, str(PROGRAM), str(PACKAGE.parent), patches(mutant), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd)
