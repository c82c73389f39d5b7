"""Files that are whole or not there, and in which order they reach the disk."""

import errno
import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import headgate
from headgate import durable
from headgate.errors import BadStorage

SOURCES = Path(headgate.__file__).parent


@pytest.fixture
def flushed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, bytes | None]]:
    """What is flushed, and what stands under the name ``a`` at that moment."""
    found: list[tuple[str, bytes | None]] = []
    flush = os.fsync

    def noting(handle: int) -> None:
        state = os.fstat(handle)
        what = "directory" if stat.S_ISDIR(state.st_mode) else f"{state.st_size} bytes"
        found.append((what, (tmp_path / "a").read_bytes() if (tmp_path / "a").exists() else None))
        flush(handle)

    monkeypatch.setattr(os, "fsync", noting)
    return found


def failing(monkeypatch: pytest.MonkeyPatch, name: str, number: int) -> None:
    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, name, fail)


def test_a_file_is_flushed_before_it_has_its_name_and_the_name_after(
    tmp_path: Path, flushed: list[tuple[str, bytes | None]]
) -> None:
    (tmp_path / "a").write_bytes(b"old")
    durable.replace(tmp_path / "a", b"newer")
    assert flushed == [("5 bytes", b"old"), ("directory", b"newer")]
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_without_flush_it_is_only_put_in_place(tmp_path: Path, flushed: list[tuple[str, bytes | None]]) -> None:
    durable.replace(tmp_path / "a", b"new", flush=False)
    assert (tmp_path / "a").read_bytes() == b"new"
    assert flushed == []
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize("flush", [True, False])
def test_what_fails_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flush: bool
) -> None:
    (tmp_path / "a").write_bytes(b"old")
    failing(monkeypatch, "fsync", errno.EIO)
    monkeypatch.setattr(Path, "replace", lambda *_: os.fsync(-1))
    with pytest.raises(OSError, match="Input/output error"):
        durable.replace(tmp_path / "a", b"new", flush=flush)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"a": b"old"}


def test_a_temporary_name_says_whose_it_is(tmp_path: Path) -> None:
    with durable.temporary(tmp_path / "a") as one, durable.temporary(tmp_path / "a") as other:
        assert one.name.startswith(".a-")
        assert one.name != other.name
    with durable.temporary(tmp_path / "a", ".ours-") as named:
        named.touch()
        assert named.name.startswith(".ours-")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_there_is_not_written_over(tmp_path: Path) -> None:
    durable.write(tmp_path / "a", b"first", 0o600)
    with pytest.raises(FileExistsError):
        durable.write(tmp_path / "a", b"second")
    assert (tmp_path / "a").read_bytes() == b"first"
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o600


def test_of_two_who_create_one_file_the_first_succeeds_and_both_flush_its_name(
    tmp_path: Path, flushed: list[tuple[str, bytes | None]]
) -> None:
    for data, created in ((b"first", True), (b"second", False)):
        with durable.temporary(tmp_path / "a") as temp:
            durable.write(temp, data)
            assert durable.publish_if_absent(temp, tmp_path / "a") is created
    assert flushed == [
        ("5 bytes", None),
        ("directory", b"first"),
        ("6 bytes", b"first"),
        ("directory", b"first"),
    ]


def test_a_file_system_without_links_cannot_keep_what_is_created_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "temp").touch()
    failing(monkeypatch, "link", errno.ENOTSUP)
    with pytest.raises(BadStorage, match="it has no hard links"):
        durable.publish_if_absent(tmp_path / "temp", tmp_path / "a")


def test_a_second_name_is_given_or_a_copy_is_needed_or_it_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "source").write_bytes(b"1")
    assert durable.linked(tmp_path / "source", tmp_path / "second")
    assert (tmp_path / "second").samefile(tmp_path / "source")
    with pytest.raises(FileNotFoundError):
        durable.linked(tmp_path / "gone", tmp_path / "third")
    failing(monkeypatch, "link", errno.EXDEV)
    assert not durable.linked(tmp_path / "source", tmp_path / "third")
    assert not (tmp_path / "third").exists()


def test_many_files_are_flushed_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [tmp_path / str(number) for number in range(4)]
    for file in files:
        file.touch()
    together = threading.Barrier(len(files), timeout=60)
    seen: set[str] = set()

    def fsync(handle: int) -> None:
        seen.add(Path(f"/proc/self/fd/{handle}").readlink().name)
        together.wait()  # It breaks unless all are flushed side by side.

    monkeypatch.setattr(os, "fsync", fsync)
    durable.force(files)
    assert seen == {"0", "1", "2", "3"}


def test_directories_are_those_of_the_files_up_to_the_top(tmp_path: Path) -> None:
    files = [tmp_path / "a" / "b" / "1", tmp_path / "a" / "2", tmp_path / "c" / "3"]
    found = {path.relative_to(tmp_path).as_posix() for path in durable.directories(files, top=tmp_path)}
    assert found == {".", "a", "a/b", "c"}
    assert durable.directories([], top=tmp_path) == set()


def users(*words: str) -> set[str]:
    """The sources of Headgate that have one of these words."""

    def has(path: Path) -> bool:
        text = path.read_text(encoding="utf-8")
        return any(word in text for word in words)

    return {path.relative_to(SOURCES).as_posix() for path in SOURCES.rglob("*.py") if has(path)}


@pytest.mark.parametrize(
    ("find", "allowed"),
    [
        # ``checksums`` flushes what it reads.
        (lambda: users("os.fsync", "os.link(", "O_EXCL"), {"durable.py", "checksums.py"}),
        # ``listing`` waits for files, which is no failure; ``testing`` looks at a sink that takes its time; and
        # ``headgate events --follow`` looks again at what another process writes.
        (
            lambda: users("time.sleep", "random.uniform"),
            {"cli/events.py", "retry.py", "source/listing.py", "testing/two_phase.py"},
        ),
    ],
    ids=["durable", "retry"],
)
def test_nobody_does_by_hand_what_one_module_does(find: Callable[[], set[str]], allowed: set[str]) -> None:
    assert find() == allowed
