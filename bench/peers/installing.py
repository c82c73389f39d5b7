"""What installers share: where things go, how a command is run, and what is said when it fails."""

import hashlib
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "bench"
ENDED_BADLY = 300
"""How much of a command's last words is shown."""


class MissingPeer(Exception):
    """Something to compare with is not there. The message is one line that says what to do."""


def run(what: str, command: Sequence[str], *, environment: Mapping[str, str] | None = None) -> str:
    """Run a command and return what it wrote. `MissingPeer` when it fails."""
    program = shutil.which(command[0]) or command[0]
    around = {**os.environ, **(environment or {})}
    try:
        done = subprocess.run(  # noqa: S603 - commands of installers
            [program, *command[1:]], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, env=around
        )
    except OSError as error:
        raise MissingPeer(f"bench: cannot {what}: {command[0]} is not there ({error.strerror})") from error
    if done.returncode != 0:
        said = " ".join((done.stderr or done.stdout).split())[-ENDED_BADLY:]
        raise MissingPeer(f"bench: cannot {what}: {said}")
    return done.stdout


def is_installed(where: Path, recipe: str) -> bool:
    """Whether ``where`` was made by this recipe, to its end."""
    stamp = where / ".installed"
    return stamp.is_file() and stamp.read_text() == _fingerprint(recipe)


def mark_installed(where: Path, recipe: str) -> None:
    """Write down that it was; the last thing that an installer does."""
    (where / ".installed").write_text(_fingerprint(recipe))


def _fingerprint(recipe: str) -> str:
    return hashlib.sha256(recipe.encode()).hexdigest()
