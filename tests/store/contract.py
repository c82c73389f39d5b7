"""What every store must do. A test module makes a class of it by saying how its store is made."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Barrier
from typing import ClassVar

import pytest

from headgate.errors import BadStorage, InvalidOption
from headgate.store.api import Missing, Store
from tests.store.writer import number_of

DEADLINE_S = 180


def paths(store: Store, prefix: str = "", depth: int | None = None) -> list[str]:
    return sorted(entry.path for entry in store.list(prefix, depth=depth))


class StoreContract:
    KILLS: ClassVar[int]
    WRITER_ARGUMENTS: ClassVar[tuple[str, ...]] = ()

    @pytest.fixture
    def store(self) -> Store:
        """An empty store."""
        raise NotImplementedError

    # -- put and read ----------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("data", [b"", b"\x00\xff\n\r\x80", b"ab" * (1 << 20)], ids=["empty", "binary", "2 MB"])
    def test_what_is_put_is_read(self, store: Store, data: bytes) -> None:
        store.put("a/b/c", data)
        assert store.read("a/b/c") == data

    def test_a_put_replaces_a_longer_value(self, store: Store) -> None:
        store.put("a", b"a long value")
        store.put("a", b"short")
        assert store.read("a") == b"short"

    @pytest.mark.parametrize("path", ["x y", "ünï/cödé", "a%20b", "c#d?e=f&g", "-", "~", "a.b.json", ".hidden", "_x"])
    def test_a_name_may_have_any_letters(self, store: Store, path: str) -> None:
        store.put(path, b"1")
        assert store.read(path) == b"1"
        assert paths(store) == [path]

    def test_a_read_of_nothing_says_where(self, store: Store) -> None:
        with pytest.raises(Missing, match=r"there is nothing at .*a/b$"):
            store.read("a/b")

    def test_a_folder_is_no_value(self, store: Store) -> None:
        store.put("a/b", b"1")
        with pytest.raises(Missing):
            store.read("a")

    def test_there_is_nothing_below_a_value(self, store: Store) -> None:
        store.put("a", b"1")
        with pytest.raises(Missing):
            store.read("a/b")

    @pytest.mark.parametrize("path", ["", "/", "/a", "a/", "a//b", "..", "a/../b", "./a", "a\0b", ".headgate-tmp-1"])
    def test_a_path_that_leads_astray_is_refused_by_every_verb(self, store: Store, path: str, tmp_path: Path) -> None:
        file = tmp_path / "file"
        file.write_bytes(b"1")
        for act in (
            lambda: store.read(path),
            lambda: store.put(path, b""),
            lambda: store.create_if_absent(path, b""),
            lambda: store.delete(path),
            lambda: list(store.list(path or "/")),
            lambda: store.copy_in(file, path),
            lambda: store.copy_out(path, file),
        ):
            with pytest.raises(InvalidOption, match="not a path in a storage"):
                act()
        assert paths(store) == []

    # -- create ----------------------------------------------------------------------------------------------------

    def test_a_create_on_a_free_path_makes_the_value(self, store: Store) -> None:
        assert store.create_if_absent("a/b", b"first")
        assert store.read("a/b") == b"first"

    def test_a_create_on_a_taken_path_changes_nothing(self, store: Store) -> None:
        store.put("a/b", b"first")
        assert not store.create_if_absent("a/b", b"second")
        assert store.read("a/b") == b"first"
        assert paths(store) == ["a/b"]

    def test_what_was_deleted_can_be_created_again(self, store: Store) -> None:
        store.create_if_absent("a", b"first")
        store.delete("a")
        assert store.create_if_absent("a", b"second")
        assert store.read("a") == b"second"

    def test_of_many_that_create_at_once_one_wins(self, store: Store) -> None:
        crowd, rounds = 6, 20
        start = Barrier(crowd)

        def compete(me: int) -> list[bool]:
            won = []
            for number in range(rounds):
                start.wait(DEADLINE_S)
                won.append(store.create_if_absent(f"race/{number}", b"%d" % me * 500))
            return won

        with ThreadPoolExecutor(crowd) as pool:
            results = list(pool.map(compete, range(crowd)))
        for number in range(rounds):
            winners = [me for me in range(crowd) if results[me][number]]
            assert len(winners) == 1, f"round {number}: {winners} won"
            assert store.read(f"race/{number}") == b"%d" % winners[0] * 500

    # -- list ------------------------------------------------------------------------------------------------------

    def test_a_list_shows_every_value_with_its_size(self, store: Store) -> None:
        store.put("a", b"1")
        store.put("b/c", b"22")
        store.put("b/d/e", b"")
        assert sorted((entry.path, entry.size) for entry in store.list()) == [("a", 1), ("b/c", 2), ("b/d/e", 0)]

    def test_a_list_shows_what_is_below_a_folder_and_not_its_neighbours(self, store: Store) -> None:
        for path in ("checkpoint-log/1", "checkpoint-log/x/2", "chain2/3", "cha", "x/checkpoint-log/4"):
            store.put(path, b"")
        assert paths(store, "checkpoint-log") == ["checkpoint-log/1", "checkpoint-log/x/2"]
        assert paths(store, "checkpoint-log/x") == ["checkpoint-log/x/2"]

    def test_a_list_goes_as_deep_as_it_is_told(self, store: Store) -> None:
        for path in ("a", "b/c", "b/d/e", "b/d/f/g"):
            store.put(path, b"")
        assert paths(store, depth=1) == ["a"]
        assert paths(store, depth=2) == ["a", "b/c"]
        assert paths(store, "b", depth=2) == ["b/c", "b/d/e"]

    def test_a_list_of_nothing_is_empty(self, store: Store) -> None:
        assert paths(store) == []
        store.put("a", b"1")
        assert paths(store, "nowhere") == []
        assert paths(store, "a") == []
        assert paths(store, "a", depth=1) == []
        assert paths(store, "a/b") == []

    # -- delete ----------------------------------------------------------------------------------------------------

    def test_a_delete_takes_what_it_names_and_nothing_else(self, store: Store) -> None:
        for path in ("a", "b/c", "b/d", "e/f"):
            store.put(path, b"")
        store.delete("a", "b/c", "e/f")
        assert paths(store) == ["b/d"]

    def test_a_delete_of_nothing_is_no_error(self, store: Store) -> None:
        store.put("a", b"1")
        store.delete("a")
        store.delete("a", "never/was", "a/b")
        store.delete()
        assert paths(store) == []

    def test_a_delete_does_not_take_a_folder(self, store: Store) -> None:
        store.put("a/b", b"1")
        store.delete("a")
        assert paths(store) == ["a/b"]

    # -- whole files -----------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("link", [False, True])
    def test_a_file_goes_in_and_comes_out(self, store: Store, tmp_path: Path, link: bool) -> None:
        source, target = tmp_path / "source", tmp_path / "new" / "target"
        source.write_bytes(b"\x00\xff" * 100_000)
        store.copy_in(source, "files/a", link=link)
        store.copy_in(source, "files/a", link=link)
        store.copy_out("files/a", target, link=link)
        store.copy_out("files/a", target, link=link)
        assert store.read("files/a") == target.read_bytes() == source.read_bytes()
        assert paths(store) == ["files/a"]
        assert [file.name for file in target.parent.iterdir()] == ["target"]

    @pytest.mark.parametrize("link", [False, True])
    def test_a_copy_replaces_what_is_there(self, store: Store, tmp_path: Path, link: bool) -> None:
        source = tmp_path / "source"
        source.write_bytes(b"new")
        store.put("a", b"older")
        store.copy_in(source, "a", link=link)
        assert store.read("a") == b"new"
        other = tmp_path / "other"
        other.write_bytes(b"older")
        store.copy_out("a", other, link=link)
        assert other.read_bytes() == b"new"

    def test_a_put_does_not_reach_through_a_link(self, store: Store, tmp_path: Path) -> None:
        source = tmp_path / "source"
        source.write_bytes(b"kept")
        store.copy_in(source, "a", link=True)
        store.put("a", b"other")
        assert source.read_bytes() == b"kept"

    def test_a_file_that_is_not_there_cannot_be_copied(self, store: Store, tmp_path: Path) -> None:
        with pytest.raises(Missing, match="nowhere"):
            store.copy_in(tmp_path / "nowhere", "a")
        store.put("folder/a", b"")
        for path in ("nowhere", "folder"):
            with pytest.raises(Missing, match=path):
                store.copy_out(path, tmp_path / "target")
        assert paths(store) == ["folder/a"]
        assert list(tmp_path.iterdir()) == []

    # -- crashes ---------------------------------------------------------------------------------------------------

    def test_a_writer_that_is_killed_leaves_only_whole_values(self, store: Store) -> None:
        reached = 0
        for _ in range(self.KILLS):
            with killed_writer(store.uri, reached, self.WRITER_ARGUMENTS) as writer:
                wait_for(store, reached + 10, writer)
            reached = number_of(store.read("one"))
            made = [int(path.removeprefix("made/")) for path in paths(store, "made")]
            assert sorted(made) in (list(range(reached)), list(range(reached + 1)))
            for number in made[-30:]:
                assert number_of(store.read(f"made/{number}")) == number
            assert paths(store) == sorted(["one", *(f"made/{number}" for number in made)])


class FolderContract(StoreContract):
    """For stores where a path cannot be both a value and a folder."""

    def test_a_value_where_a_folder_should_be_is_a_bad_storage(self, store: Store, tmp_path: Path) -> None:
        store.put("a", b"1")
        file = tmp_path / "file"
        file.write_bytes(b"2")
        for act in (
            lambda: store.put("a/b", b"2"),
            lambda: store.create_if_absent("a/b/c", b"2"),
            lambda: store.copy_in(file, "a/b"),
        ):
            with pytest.raises(BadStorage, match=r"/a/b.* cannot be used"):
                act()
        assert store.read("a") == b"1"

    def test_a_folder_where_a_value_should_be_is_a_bad_storage(self, store: Store) -> None:
        store.put("a/b", b"1")
        with pytest.raises(BadStorage, match="/a cannot be used"):
            store.put("a", b"2")
        assert paths(store) == ["a/b"]


@contextmanager
def killed_writer(uri: str, first: int, arguments: tuple[str, ...]) -> Iterator["subprocess.Popen[bytes]"]:
    """A process that writes until it is killed, with all that it has started."""
    command = [sys.executable, "-m", "tests.store.writer", uri, str(first), *arguments]
    with subprocess.Popen(command, start_new_session=True, stderr=subprocess.DEVNULL) as writer:
        try:
            yield writer
        finally:
            os.killpg(writer.pid, signal.SIGKILL)


def wait_for(store: Store, number: int, writer: "subprocess.Popen[bytes]") -> None:
    """Wait until the writer has come to a value."""
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        assert writer.poll() is None, f"the writer ended with {writer.returncode}"
        try:
            if number_of(store.read("one")) >= number:
                return
        except Missing:
            pass
        time.sleep(0.003)
    pytest.fail(f"value {number} was not written in {DEADLINE_S} s")
