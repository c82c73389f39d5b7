"""Names that were given up for those of the field stay given up: in code, tests and documentation."""

import re
from pathlib import Path

import pytest

import headgate

ROOT = Path(__file__).parent.parent.parent
TABLE = ROOT / "docs" / "decisions" / "0050-the-words-of-the-field.md"
"""Where the old names stand beside the new ones."""
GONE = (
    "AbortAttempts",
    "AbortStrangers",
    "Attempt",
    "AttemptsAborted",
    "Beginning",
    "Brought",
    "Chain",
    "ChainRead",
    "CoreError",
    "DeadRuns",
    "Fence",
    "InOneText",
    "Kind.APPLY",
    "Lanes",
    "Leash",
    "Patience",
    "Portion",
    "ReadChain",
    "SealFailed",
    "SealSink",
    "Sealed",
    "SealedTransaction",
    "SinkSealed",
    "Strangers",
    "StrangersAborted",
    "Void",
    "Wishes",
    "abandoned.covers",
    "after_tasks_finish",
    "alignment_timeout",
    "alignment_timeout_ms",
    "burn",
    "burned",
    "burns",
    "check_standing",
    "checkpoints_after_finish",
    "concurrent_max",
    "core.chain",
    "core.sweeping",
    "doomed",
    "fence",
    "from_handle",
    "headgate.state.rocksdb",
    "hg.console(",
    "hg.files(",
    "hg.generator(",
    "hg.state.",
    "in vain",
    "kafka.fitting",
    "kafka.inquiries",
    "kafka.notes",
    "kafka.shapes",
    "kafka.standing",
    "lag_max",
    "lane",
    "lanes",
    "life",
    "log_directory",
    "mariadb.xa(",
    "max_concurrent",
    "max_rows_per_batch",
    "net=False",
    "net=True",
    "on_lost",
    "portion",
    "postgres.upsert",
    "read_chain",
    "run_job",
    "seal",
    "seal_ms",
    "sealed",
    "seals",
    "sink.contract",
    "sink.idempotent_contract",
    "state: State",
    "stranger",
    "strangers",
    "suspects",
    "sweep",
    "swept",
    "to_handle",
    "tolerable_failures",
    "turn: Turn",
    "voids",
    "way out",
    "ways in and out",
    "ways out",
    "wishes",
)
READ = ("headgate", "tests", "services", "bench", "examples", "docs", "ui/src", "java/src", "deploy", "scripts")
SUFFIXES = {".py", ".md", ".txt", ".world", ".toml", ".ts", ".tsx", ".css", ".java", ".sh", ".json", ".yaml", ".yml"}
OF_THEIR_TIME = ("docs/decisions/", "docs/reports/")
"""Notes say what was decided when, in the words of then."""
FLINKS = ("headgate/serve/", "tests/serve/", "tests/ui/", "ui/src/", "docs/flink-parity.md")
"""Fields of the REST API have Flink's names: there it is ``max_concurrent``."""


def texts() -> list[tuple[str, str]]:
    files = [path for folder in READ for path in (ROOT / folder).rglob("*") if path.suffix in SUFFIXES]
    files += [*ROOT.glob("*.md"), ROOT / "Makefile"]
    named = [(path.relative_to(ROOT).as_posix(), path) for path in files if path != Path(__file__)]
    return [(name, path.read_text(encoding="utf-8")) for name, path in named if not name.startswith(OF_THEIR_TIME)]


def test_no_old_name_is_used_again() -> None:
    words = "|".join(re.escape(word) + (r"(?!\w)" if word[-1].isalnum() else "") for word in GONE)
    old = re.compile(rf"(?<!\w)(?:{words})(?! off)")
    found = [f"{name}: {match.group()}" for name, text in texts() for match in old.finditer(" ".join(text.split()))]
    flinks = [hit for hit in found if hit.startswith(FLINKS) and hit.endswith(": max_concurrent")]
    assert [hit for hit in found if hit not in flinks and not hit.startswith("CHANGELOG.md: ")] == []


@pytest.mark.parametrize(
    "name",
    [
        *("Beginning", "InOneText", "Leash", "Patience", "Portion", "Turn", "Wishes", "lag_max", "retained"),
        *("log_directory", "console", "generator", "upsert", "xa", "apply", "State", "items", "starting"),
        *("max_rows_per_batch", "on_lost", "isolation", "run_job", "idempotent_contract"),
    ],
)
def test_the_table_says_what_an_old_name_became(name: str) -> None:
    assert re.search(rf"^\| [^|]*\b{name}\b[^|]*\| [^|]*`\w+", TABLE.read_text(encoding="utf-8"), re.MULTILINE)


def test_the_table_has_every_public_name() -> None:
    _, table = TABLE.read_text(encoding="utf-8").split("## Fourth part", 1)
    named = set(re.findall(r"`(\w+)`", table))
    assert set(headgate.__all__) <= named, set(headgate.__all__) - named
    assert {"fixed_delay", "rocksdb", "tumbling", "prometheus"} <= named
