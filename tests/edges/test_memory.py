"""What a source remembers beside its offset, in the directory of its task's query."""

from pathlib import Path

from headgate import layout
from headgate.core.ids import Batch


def test_what_was_remembered_last_counts_and_what_was_before_stays(tmp_path: Path) -> None:
    assert layout.remembered(tmp_path, "orders") is None
    for text in ("one", "two", "zwölf"):
        layout.remember(tmp_path, "orders", text)
    assert layout.remembered(tmp_path, "orders") == "zwölf"
    kept = sorted(path.read_text(encoding="utf-8") for path in (tmp_path / "sources" / "headgate").iterdir())
    assert kept == ["one", "two", "zwölf"]


def test_sources_remember_apart_whatever_they_are_called(tmp_path: Path) -> None:
    names = ("a", "a.1", "a.", "../a", "ä/b", "a%2E")
    for name in names:
        layout.remember(tmp_path, name, f"of {name}")
    assert [layout.remembered(tmp_path, name) for name in names] == [f"of {name}" for name in names]


def test_a_checkpoint_has_what_was_remembered_by_then(tmp_path: Path) -> None:
    layout.remember(tmp_path, "orders", "one")
    before = [name for name in layout.files_of(tmp_path, Batch(0)) if name.startswith("sources/")]
    layout.remember(tmp_path, "orders", "two")
    assert before == ["sources/headgate/orders.1"]
