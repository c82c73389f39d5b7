"""Every ``*.txt`` in this folder is one test: what the core answers must be what stands there.

``pytest --rewrite`` puts what it answers now in its place. Read the difference before you keep it.
"""

from difflib import unified_diff
from pathlib import Path

import pytest

from tests.scenario.language import World

HERE = Path(__file__).parent
BAR = "----"


@pytest.mark.parametrize("path", sorted(HERE.glob("*.txt")), ids=lambda path: path.stem)
def test_transcript(path: Path, pytestconfig: pytest.Config) -> None:
    before = path.read_text(encoding="utf-8")
    assert before.startswith("#"), "a transcript begins with the rule it shows"
    after = play(before)
    if pytestconfig.getoption("--rewrite"):
        path.write_text(after, encoding="utf-8")
    elif before != after:
        lines = unified_diff(before.splitlines(), after.splitlines(), "expected", "answered", lineterm="")
        pytest.fail("\n".join(lines), pytrace=False)


def play(text: str) -> str:
    """The transcript, with what the core answers now."""
    world = World()
    out: list[str] = []
    commands: list[str] = []
    skipping = False
    for line in text.splitlines():
        if skipping and line:
            continue
        skipping = line == BAR
        out.append(line)
        if skipping:
            said = [word for command in commands for word in world.run(command)]
            out += said or ["ok"]
            commands = []
        elif line and not line.startswith("#"):
            commands.append(line)
    assert not commands, f"a block has no {BAR}: {commands}"
    return "\n".join(out) + "\n"
