"""``headgate sim`` and ``headgate story`` as a user meets them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headgate.cli import app
from headgate.sim import crash
from tests.mutation.mutants import MUTANTS
from tests.mutation.planting import SEEDS, headgate_with

PROTOCOL = Path(__file__).parents[2] / "docs" / "protocol.md"


def headgate(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run the command line in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "headgate", *arguments], capture_output=True, text=True, check=False, cwd=cwd
    )


def test_sim_prints_its_figures_as_json_and_exits_0() -> None:
    result = headgate("sim", "--seeds", "0:12", "--json")
    assert result.returncode == 0, result.stderr
    figures = json.loads(result.stdout)
    assert list(figures) == ["seeds", "violations", "events", "events_per_s", "crashes", "completed_checkpoints"]
    assert (figures["seeds"], figures["violations"]) == (12, 0)
    assert figures["events"] > 4_000
    assert figures["events_per_s"] > 0


def test_sim_says_in_words_what_it_found() -> None:
    result = headgate("sim", "--seeds", "0:4", "--jobs", "1")
    assert result.returncode == 0
    assert result.stdout.startswith("4 worlds, 0 with a violation; ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--seeds", "5"), "--seeds 5: give FIRST:END"),
        (("--seeds", "9:3"), "--seeds 9:3"),
        (("--seeds", "a:b"), "--seeds a:b"),
        (("--replay", "nowhere.world"), "nowhere.world cannot be read"),
        (("--save", "nowhere"), "there is no such directory"),
        (("--jobs", "0"), "--jobs"),
        (("--frobnicate",), "--frobnicate"),
    ],
)
def test_a_wrong_option_gets_one_clear_line_and_exit_code_2(arguments: tuple[str, ...], message: str) -> None:
    result = CliRunner().invoke(app, ["sim", *arguments])
    assert result.exit_code == 2
    assert message in result.stderr
    assert isinstance(result.exception, SystemExit)


@pytest.mark.heavy
def test_a_failing_world_is_shown_shrunk_saved_and_can_be_played_again(tmp_path: Path) -> None:
    mutant = next(mutant for mutant in MUTANTS if mutant.name.startswith("a failed commit is given up"))
    (tmp_path / "kept").mkdir()
    seeds = f"{SEEDS[mutant.name]}:{SEEDS[mutant.name] + 400}"
    options = ("--seeds", seeds, "--jobs", "1", "--first", "--save", "kept")
    result = headgate_with(mutant, "sim", *options, cwd=tmp_path)
    assert result.returncode == 1
    assert "play it again: headgate sim --replay kept/seed_" in result.stdout
    saved = next((tmp_path / "kept").glob("*.world"))
    assert saved.read_text(encoding="utf-8").count("\nfault ") <= 2
    again = headgate_with(mutant, "sim", "--replay", str(saved))
    assert again.returncode == 1
    assert "VIOLATION" in again.stdout
    healthy = headgate("sim", "--replay", str(saved), "--json")
    assert healthy.returncode == 0
    assert json.loads(healthy.stdout)["violations"] == []


@pytest.mark.heavy
def test_crash_everywhere_loses_and_doubles_nothing_and_the_protocol_page_shows_it() -> None:
    table = crash.everywhere()
    assert table.violations == []
    assert all(row.cuts > 0 and row.lost == row.doubled == 0 for row in table.rows.values())
    assert set(table.rows) == set(crash.MEANING), "an order without a line, or a line without an order"
    assert table.as_markdown() in PROTOCOL.read_text(encoding="utf-8"), (
        "docs/protocol.md is stale: replace its table with the output of 'headgate sim --crash-everywhere'"
    )


def test_the_story_counts_at_the_sinks_and_exits_0() -> None:
    result = headgate("story")
    assert result.returncode == 0
    for sink in ("summaries", "alerts"):
        assert f"{sink}: exactly once: 60 in, 60 out, 0 lost, 0 duplicated" in result.stdout
    assert "L1  deposed" in result.stdout


def test_a_real_loss_makes_the_story_exit_1() -> None:
    mutant = next(mutant for mutant in MUTANTS if mutant.name.startswith("the job returns to the checkpoint before"))
    result = headgate_with(mutant, "story")
    assert result.returncode == 1, result.stdout


def test_every_command_explains_itself_with_an_example_and_exit_codes() -> None:
    for command in ("sim", "story"):
        text = CliRunner().invoke(app, [command, "--help"]).stdout
        assert "Example: headgate" in text
        assert "Exit codes:" in text
    assert headgate("--version").stdout.startswith("headgate 0.")
