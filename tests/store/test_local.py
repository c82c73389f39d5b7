import os
import pickle
import resource
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from headgate.errors import BadStorage, ExternalError, InvalidOption
from headgate.store.api import TEMPORARY, Missing, open_store
from headgate.store.local import LocalStore
from tests.store.contract import FolderContract, paths

NOBODY = 65534


class TestLocalStore(FolderContract):
    KILLS = 5

    @pytest.fixture
    def store(self, tmp_path_factory: pytest.TempPathFactory) -> LocalStore:
        return LocalStore(tmp_path_factory.mktemp("store") / "made" / "when needed")


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "store")


# -- where ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("uri", ["{0}/s", "file://{0}/s", "file:{0}/s", "FILE://{0}/s", "file://localhost{0}/s", "s"])
def test_a_path_and_a_file_uri_are_folders_of_this_machine(
    uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = open_store(uri.format(tmp_path))
    assert isinstance(store, LocalStore)
    assert store.local_root == tmp_path / "s"
    assert store.uri == f"file://{tmp_path}/s"
    assert not store.local_root.exists()


@pytest.mark.parametrize(
    ("uri", "why"),
    [
        ("", "names no place"),
        ("file:", "names no place"),
        ("file://server/x", "is on server, another machine"),
        ("hdfs://namenode/x", "through Spark, and there is no session"),
        ("s3a:x", "through Spark, and there is no session"),
    ],
)
def test_a_uri_that_cannot_be_opened_is_refused(uri: str, why: str) -> None:
    with pytest.raises(InvalidOption, match=why):
        open_store(uri)


def test_a_missing_value_survives_pickling() -> None:
    copy = pickle.loads(pickle.dumps(Missing("file:///a/b")))  # noqa: S301 - our own bytes
    assert type(copy) is Missing
    assert str(copy) == "there is nothing at file:///a/b"


# -- files ---------------------------------------------------------------------------------------------------------


def test_a_link_is_made_where_it_is_asked_for(store: LocalStore, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"1")
    store.copy_in(source, "linked", link=True)
    store.copy_in(source, "copied")
    store.copy_out("linked", tmp_path / "out", link=True)
    assert (store.local_root / "linked").samefile(source)
    assert (tmp_path / "out").samefile(source)
    assert not (store.local_root / "copied").samefile(source)


def test_a_link_to_another_file_system_becomes_a_copy(store: LocalStore) -> None:
    elsewhere = Path("/dev/shm")  # noqa: S108 - a file system of its own
    if elsewhere.stat().st_dev == store.local_root.parent.stat().st_dev:
        pytest.skip("there is only one file system")
    source = elsewhere / f"{TEMPORARY}{os.getpid()}"
    source.write_bytes(b"1")
    try:
        store.copy_in(source, "a", link=True)
    finally:
        source.unlink()
    assert store.read("a") == b"1"


def test_unfinished_files_do_not_show(store: LocalStore) -> None:
    store.put("a/b", b"1")
    (store.local_root / "a" / f"{TEMPORARY}0123").write_bytes(b"half")
    assert paths(store) == ["a/b"]


def test_links_are_not_followed(store: LocalStore, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "file").write_bytes(b"1")
    store.put("a", b"1")
    (store.local_root / "folder").symlink_to(tmp_path / "elsewhere")
    (store.local_root / "file").symlink_to(tmp_path / "elsewhere" / "file")
    assert paths(store) == ["a"]


def test_nothing_unfinished_is_left_when_all_goes_well(store: LocalStore, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"1")
    for _ in range(2):
        store.put("a", b"1")
        store.create_if_absent("b", b"1")
        store.copy_in(source, "c", link=True)
        store.copy_in(source, "d")
        store.copy_out("c", tmp_path / "e", link=True)
    assert sorted(file.name for file in tmp_path.rglob("*") if file.is_file()) == ["a", "b", "c", "d", "e", "source"]


# -- who may look ----------------------------------------------------------------------------------------------------


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.mark.usefixtures("usual_umask")
def test_folders_are_made_for_their_owner_alone(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "above" / "store")
    store.put("a/b", b"1")
    made = {path.relative_to(tmp_path).as_posix(): mode_of(path) for path in tmp_path.rglob("*") if path.is_dir()}
    assert made == {"above": 0o755, "above/store": 0o700, "above/store/a": 0o700}


@pytest.mark.usefixtures("usual_umask")
def test_a_folder_that_is_there_keeps_its_permissions(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir(0o755)
    LocalStore(tmp_path / "store").put("a/b", b"1")
    assert (mode_of(tmp_path / "store"), mode_of(tmp_path / "store" / "a")) == (0o755, 0o700)


@pytest.mark.usefixtures("usual_umask")
def test_who_says_so_gets_what_the_umask_says(tmp_path: Path) -> None:
    open_store(str(tmp_path / "store"), directory_mode=0o777).put("a/b", b"1")
    assert (mode_of(tmp_path / "store"), mode_of(tmp_path / "store" / "a")) == (0o755, 0o755)


@pytest.mark.usefixtures("usual_umask")
def test_a_secret_is_for_its_owner_also_where_a_value_was_that_all_could_read(store: LocalStore) -> None:
    store.put("a", b"1")
    assert mode_of(store.local_root / "a") == 0o644
    store.put("a", b"2", secret=True)
    assert mode_of(store.local_root / "a") == 0o600


# -- two processes -------------------------------------------------------------------------------------------------

RACER = """
import sys
from pathlib import Path
from headgate.store.local import LocalStore
store, me = LocalStore(Path(sys.argv[1])), sys.argv[2].encode()
print("ready", flush=True)
for number in sys.stdin:
    print(store.create_if_absent(f"race/{int(number)}", me * 500), flush=True)
"""


def test_of_processes_that_create_at_once_one_wins(store: LocalStore) -> None:
    with ExitStack() as stack:
        racers = {
            name: stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", RACER, str(store.local_root), name],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
            for name in ("a", "b", "c")
        }

        def hear() -> dict[str, str]:
            return {name: racer.stdout.readline().strip() for name, racer in racers.items() if racer.stdout}

        assert hear() == dict.fromkeys(racers, "ready")
        for number in range(100):
            for racer in racers.values():
                assert racer.stdin is not None
                racer.stdin.write(f"{number}\n")
                racer.stdin.flush()
            winners = [name for name, won in hear().items() if won == "True"]
            assert len(winners) == 1, f"round {number}: {winners} won"
            assert store.read(f"race/{number}") == winners[0].encode() * 500


# -- failures of the disk ------------------------------------------------------------------------------------------


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """As if the disk were full: a file cannot grow further."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_is_an_external_error_and_leaves_the_old_value(store: LocalStore) -> None:
    store.put("a", b"old")
    for act in (lambda: store.put("a", b"new" * 10_000), lambda: store.create_if_absent("b", b"new" * 10_000)):
        with files_of_at_most(1000), pytest.raises(ExternalError, match=r"/[ab] could not be written: .*; make room"):
            act()
    assert store.read("a") == b"old"
    assert [file.name for file in store.local_root.iterdir()] == ["a"]


@contextmanager
def without_rights(folder: Path) -> Iterator[None]:
    """Without the right to enter a folder. Root has every right, and becomes somebody else for as long."""
    before = folder.stat().st_mode
    user = os.geteuid()
    folder.chmod(0o700 if user == 0 else 0)
    os.seteuid(NOBODY if user == 0 else user)
    try:
        yield
    finally:
        os.seteuid(user)
        folder.chmod(before)


def test_a_place_that_may_not_be_used_is_a_bad_storage(store: LocalStore, tmp_path: Path) -> None:
    store.put("a/b", b"1")
    for act in (
        lambda: store.read("a/b"),
        lambda: store.put("a/b", b"2"),
        lambda: store.create_if_absent("c", b"2"),
        lambda: store.delete("a/b"),
        lambda: paths(store),
        lambda: store.copy_out("a/b", tmp_path / "out"),
    ):
        with (
            without_rights(tmp_path),
            pytest.raises(BadStorage, match=r"cannot be used: permission denied; give this user"),
        ):
            act()
    assert store.read("a/b") == b"1"


def test_a_storage_that_is_a_file_is_a_bad_storage(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"mine")
    store = LocalStore(tmp_path / "file")
    assert paths(store) == []
    with pytest.raises(BadStorage, match="file/a cannot be used: a file is where a folder should be"):
        store.put("a", b"1")
    assert (tmp_path / "file").read_bytes() == b"mine"


def test_an_error_of_the_disk_itself_is_an_external_error() -> None:
    with pytest.raises(ExternalError, match="/proc/self/mem could not be reached: input/output error"):
        LocalStore(Path("/proc/self")).read("mem")


# -- what reaches the disk, and when -------------------------------------------------------------------------------


def note_flushes(monkeypatch: pytest.MonkeyPatch, note: Callable[[os.stat_result], None]) -> None:
    """See what is flushed; it is flushed all the same."""
    flush = os.fsync

    def noting(handle: int) -> None:
        note(os.fstat(handle))
        flush(handle)

    monkeypatch.setattr(os, "fsync", noting)


@pytest.mark.parametrize("verb", ["put", "create_if_absent", "copy_in", "copy_in link"])
def test_data_is_flushed_before_it_has_its_name_and_the_name_after(
    store: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"12345")
    store.put("other", b"")
    target = store.local_root / "a"
    flushed: list[tuple[str, str]] = []

    def note(state: os.stat_result) -> None:
        what = "folder" if stat.S_ISDIR(state.st_mode) else f"{state.st_size} bytes"
        flushed.append((what, "named" if target.exists() else "not yet"))

    note_flushes(monkeypatch, note)
    match verb:
        case "put":
            store.put("a", b"12345")
        case "create_if_absent":
            store.create_if_absent("a", b"12345")
        case _:
            store.copy_in(source, "a", link=verb.endswith("link"))
    assert flushed == [("5 bytes", "not yet"), ("folder", "named")]


def test_who_finds_a_path_taken_flushes_the_name_too(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put("a/b", b"1")
    flushed: list[int] = []
    note_flushes(monkeypatch, lambda state: flushed.append(state.st_ino))
    assert not store.create_if_absent("a/b", b"2")
    assert flushed[-1] == (store.local_root / "a").stat().st_ino


def test_new_folders_are_flushed_into_their_own(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed: list[int] = []
    note_flushes(monkeypatch, lambda state: flushed.append(state.st_ino))
    store.put("a/b/c", b"1")
    root = store.local_root
    for folder in (root.parent, root, root / "a", root / "a" / "b"):
        assert folder.stat().st_ino in flushed
