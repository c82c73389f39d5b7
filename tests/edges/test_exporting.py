"""Savepoints that are written to another place: whole, or not at all, and restorable from there."""

import os
import shutil
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from headgate.core.effects import CopySavepoint, CreateRecord
from headgate.core.ids import CheckpointId
from headgate.core.records import Kind
from headgate.errors import BadStorage, ExternalError, InvalidOption
from headgate.run import savepoints
from headgate.run.exporting import CLAIM, ExportGivenUp, Exports
from headgate.snapshot.files import check, tables_of
from headgate.store.api import Store, open_store
from headgate.store.local import LocalStore
from tests.edges.spark_files import put
from tests.edges.stores import ONE, UP, US, Heard, Remote, completed, open_job, segment

NUMBER = CheckpointId(5)
FILES = ("tasks/up/g1/metadata", "tasks/up/g1/offsets/3")
NEVER = threading.Event()


@pytest.fixture(params=[False, True], ids=["local", "elsewhere"])
def heard(request: pytest.FixtureRequest, tmp_path: Path) -> Heard:
    """A job with savepoint 5, which is copied; in a storage here, or in one that is not on this machine."""
    made = Heard(open_job(tmp_path / "storage", remote=request.param), tmp_path / "work" if request.param else None)
    for name in FILES:
        put(made.root / name)
    segment(made.root, 3, ONE)
    record = completed(NUMBER, files={UP: FILES}, in_flight={ONE: (2, 3)}, kind=Kind.SAVEPOINT)
    made.storage.create_record(CreateRecord(US, replace(record, stop=True)))
    made.storage.copy_savepoint(CopySavepoint(US, NUMBER))
    return made


def exports(heard: Heard, kind: Callable[[Path], Store] = LocalStore) -> Exports:
    return Exports(heard.store.for_looking(), lambda target: kind(Path(target)))


def files(root: Path) -> set[str]:
    return {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}


@pytest.mark.parametrize("kind", [LocalStore, Remote])
def test_a_savepoint_is_whole_where_it_was_written_and_a_job_begins_there(
    heard: Heard, tmp_path: Path, kind: type[LocalStore]
) -> None:
    target = tmp_path / "backup" / "orders"
    export = exports(heard, kind).claim(str(target))
    assert files(target) == {CLAIM}
    export.write(NUMBER, NEVER)
    shutil.rmtree(tmp_path / "storage")  # It needs nothing of where it was taken.
    _, extra = savepoints.read(target)
    assert files(target) == {"manifest.json", *tables_of([extra])}
    assert len(tables_of([extra])) == 4
    source = kind(target)
    assert savepoints.read_from(source)[1] == extra
    into = open_job(tmp_path / "new")
    imported = savepoints.prepare_from(into, source)
    assert isinstance(imported, savepoints.ImportedSavepoint)
    assert imported.read(f"savepoints/7/{FILES[0]}") == (target / FILES[0]).read_bytes()
    number = savepoints.publish(into, imported)
    assert check(tmp_path / "new/job", tables_of([into.read_record(number)[1]])) == []
    assert into.copied() == (number,)


def test_a_savepoint_elsewhere_that_lacks_something_is_refused(heard: Heard, tmp_path: Path) -> None:
    target = tmp_path / "backup"
    exports(heard).claim(str(target)).write(NUMBER, NEVER)
    (target / FILES[1]).write_bytes(b"")
    with pytest.raises(BadStorage, match=r"offsets/3 is gone or cut short"):
        savepoints.read_from(Remote(target))
    (target / "manifest.json").unlink()
    with pytest.raises(BadStorage, match=r"is not a savepoint: it has no manifest\.json"):
        savepoints.read_from(Remote(target))


def used(target: Path) -> str:
    put(target / "photos/cat.jpg")
    return f"target {target} is not empty (photos/cat.jpg): give a directory that is empty or not there yet"


def linked(target: Path) -> str:
    put(target.with_name("elsewhere") / "x")
    target.mkdir()
    (target / "tasks").symlink_to(target.with_name("elsewhere"))
    return f"target {target} is not empty (tasks): give a directory that is empty or not there yet"


def a_file(target: Path) -> str:
    target.write_text("x", encoding="utf-8")
    return f"target {target} cannot be used: not a directory; give a directory to write to"


def beside(target: Path) -> str:
    target.mkdir()
    (target / CLAIM).write_text("x", encoding="utf-8")
    return f"target {target}: another savepoint is being written there; give another directory"


@pytest.mark.parametrize("spoil", [used, linked, a_file, beside])
def test_a_place_that_is_in_use_is_refused_and_left_as_it_is(
    heard: Heard, tmp_path: Path, spoil: Callable[[Path], str]
) -> None:
    target = tmp_path / "backup"
    said = spoil(target)
    before = files(tmp_path)
    with pytest.raises(InvalidOption) as refused:
        exports(heard).claim(str(target))
    assert str(refused.value).startswith(said)
    assert files(tmp_path) == before


def test_a_place_that_cannot_be_written_to_is_refused(heard: Heard, tmp_path: Path) -> None:
    class ReadOnly(LocalStore):
        def _write(self, *_: object) -> None:
            raise PermissionError(13, "Permission denied")

    with pytest.raises(InvalidOption, match=r"backup: .* cannot be used: permission denied; give this user the right"):
        exports(heard, ReadOnly).claim(str(tmp_path / "backup"))


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("backup", "target backup: give an absolute path, or a URI"),
        ("file://far-away/x", "storage file://far-away/x is on far-away, another machine"),
        ("s3a://bucket/x", "storage s3a://bucket/x is reached through Spark, and there is no session"),
    ],
)
def test_a_place_that_is_none_is_refused(heard: Heard, target: str, said: str) -> None:
    with pytest.raises(InvalidOption, match=said):
        Exports(heard.store, open_store).claim(target)


def test_a_place_in_the_jobs_own_storage_is_refused(heard: Heard, tmp_path: Path) -> None:
    kind = LocalStore if heard.store.local_root is not None else Remote
    with pytest.raises(InvalidOption, match="is in the job's own storage"):
        exports(heard, kind).claim(str(tmp_path / "storage/job/mine"))
    exports(heard, kind).claim(f"{tmp_path}/storage/job-2/")


class Full(LocalStore):
    """A place without room for the last files."""

    def copy_in(self, local: Path, path: str, *, link: bool = False) -> None:
        if path.endswith(".parquet"):
            raise ExternalError("no space left")
        super().copy_in(local, path, link=link)


class Shut(LocalStore):
    """A place in which the manifest lands, and nobody hears so."""

    def put(self, path: str, data: bytes, *, secret: bool = False) -> None:
        super().put(path, data, secret=secret)
        raise ExternalError("no answer")


@pytest.mark.parametrize("kind", [Full, Shut])
def test_what_could_not_be_finished_leaves_nothing_and_can_be_tried_again(
    heard: Heard, tmp_path: Path, kind: type[LocalStore]
) -> None:
    target = tmp_path / "backup"
    with pytest.raises(ExternalError):
        exports(heard, kind).claim(str(target)).write(NUMBER, NEVER)
    assert files(target) == set()
    exports(heard).claim(str(target)).write(NUMBER, NEVER)
    savepoints.read(target)


def test_a_process_that_ends_leaves_nothing_half(heard: Heard, tmp_path: Path) -> None:
    ended = threading.Event()
    ended.set()
    with pytest.raises(ExportGivenUp):
        exports(heard).claim(str(tmp_path / "backup")).write(NUMBER, ended)
    assert files(tmp_path / "backup") == set()
    assert "manifest.json" in files(tmp_path / "storage/job/savepoints/5"), "the savepoint is where it was"


def test_what_a_killed_process_left_unfinished_there_is_not_in_the_way(heard: Heard, tmp_path: Path) -> None:
    target = tmp_path / "backup"
    (target / "tasks/up").mkdir(parents=True)
    (target / ".headgate-tmp-1").write_text("x", encoding="utf-8")
    exports(heard).claim(str(target)).write(NUMBER, NEVER)
    savepoints.read(target)
    assert os.listdir(target / "tasks/up") == ["g1"]  # noqa: PTH208 - names
