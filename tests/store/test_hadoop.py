"""The same contract through Hadoop: on ``file:``, and on any storage that ``HEADGATE_TEST_STORAGE`` names.

Spark's own ``PYSPARK_SUBMIT_ARGS`` gives the jars and the settings that such a storage needs.
"""

import os
import shutil
import sys
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession

from headgate.core.ids import CheckpointId, Generation, SinkId
from headgate.errors import BadStorage, ExternalError, InvalidOption
from headgate.run import savepoints
from headgate.run.exporting import Exports
from headgate.run.staged import StagedFiles
from headgate.sink.api import StagedFile
from headgate.store.api import TEMPORARY, open_store
from headgate.store.hadoop import HadoopStore
from headgate.store.history import HistoryBounds
from headgate.store.jobstore import JobStore, jobs
from tests.cli.live import copied
from tests.helpers import ALICE, BOB, aborted_entry, completed, line
from tests.store.contract import FolderContract, StoreContract, paths
from tests.store.writer import session

REMOTE = os.environ.get("HEADGATE_TEST_STORAGE")


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    made = session()
    yield made
    made.stop()


@pytest.fixture
def store(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> HadoopStore:
    return HadoopStore(spark, f"file://{tmp_path_factory.mktemp('store')}/made when needed/")


class TestHadoopsLocalFileSystem(FolderContract):
    KILLS = 1
    WRITER_ARGUMENTS = ("spark",)

    @pytest.fixture
    def store(self, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> HadoopStore:
        return HadoopStore(spark, f"file://{tmp_path_factory.mktemp('store')}/made when needed/")


if REMOTE is not None:

    class TestAnotherStorage(StoreContract):
        KILLS = 1
        WRITER_ARGUMENTS = ("spark",)

        @pytest.fixture
        def store(self, spark: SparkSession) -> HadoopStore:
            return HadoopStore(spark, f"{REMOTE}/{uuid4().hex}")


# -- where ---------------------------------------------------------------------------------------------------------


def test_a_uri_of_another_scheme_is_opened_through_spark(spark: SparkSession) -> None:
    store = open_store("hdfs://localhost:1/data", spark)
    assert isinstance(store, HadoopStore)
    assert (store.uri, store.local_root) == ("hdfs://localhost:1/data", None)


def test_a_file_uri_stays_on_this_machine(spark: SparkSession, tmp_path: Path) -> None:
    assert open_store(f"file://{tmp_path}", spark).local_root == tmp_path


def test_a_scheme_that_nobody_knows_is_refused_with_what_it_needs(spark: SparkSession) -> None:
    with pytest.raises(InvalidOption, match=r"no file system for 'foo'; put its jar .* spark\.hadoop\.fs\.foo\.impl"):
        open_store("foo://bucket/x", spark)


@pytest.mark.skipif(REMOTE is not None, reason="the jars of another storage are there")
def test_a_known_scheme_without_its_jar_is_refused_with_the_jar(spark: SparkSession) -> None:
    with pytest.raises(InvalidOption, match=r"'s3a'; add org\.apache\.hadoop:hadoop-aws:\d.* to spark\.jars\.packages"):
        open_store("s3a://bucket/x", spark)


def test_a_file_system_without_an_atomic_create_is_refused(spark: SparkSession) -> None:
    with pytest.raises(InvalidOption, match="'webhdfs' cannot create a file only if there is none"):
        open_store("webhdfs://localhost:1/x", spark)


def test_a_storage_that_does_not_answer_is_an_external_error_in_one_line(spark: SparkSession, tmp_path: Path) -> None:
    store = open_store("hdfs://localhost:1/data", spark)
    for act in (
        lambda: store.read("a"),
        lambda: store.put("a", b""),
        lambda: store.create_if_absent("a", b""),
        lambda: paths(store),
        lambda: store.delete("a"),
        lambda: store.copy_out("a", tmp_path / "a"),
    ):
        with pytest.raises(ExternalError, match=r"could not be reached: .*Connection refused") as raised:
            act()
        assert "\n" not in str(raised.value)


def test_a_host_that_is_not_known_is_an_external_error(spark: SparkSession) -> None:
    with pytest.raises(ExternalError, match=r"could not be reached: .*UnknownHostException"):
        open_store("hdfs://nowhere.invalid:8020/x", spark).read("a")


# -- what only this one does ---------------------------------------------------------------------------------------


def test_unfinished_files_do_not_show_and_none_are_left(store: HadoopStore, tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(b"1")
    store.put("a/b", b"1")
    store.create_if_absent("a/c", b"1")
    assert not store.create_if_absent("a/c", b"2")
    store.copy_in(tmp_path / "source", "a/d")
    folder = Path(store.uri.removeprefix("file://"), "a")
    assert sorted(file.name for file in folder.iterdir()) == ["b", "c", "d"]
    (folder / f"{TEMPORARY}0123").write_bytes(b"half")
    assert paths(store) == ["a/b", "a/c", "a/d"]


def test_a_target_that_may_not_be_written_is_a_bad_storage(store: HadoopStore, tmp_path: Path) -> None:
    store.put("a", b"1")
    (tmp_path / "file").write_bytes(b"mine")
    with pytest.raises(BadStorage, match="file/target cannot be used"):
        store.copy_out("a", tmp_path / "file" / "target")


def test_a_job_lives_in_it(store: HadoopStore) -> None:
    job = JobStore.open(store, "orders")
    record, extra = completed(line("a", "b"), 1, 5), {"files": {"a/5": [1, 2]}}
    assert job.create_record(record, extra) is None
    assert job.create_record(aborted_entry(2, leader=ALICE), {}) is None
    assert job.create_record(aborted_entry(2, leader=BOB), {}) == aborted_entry(2, leader=ALICE)
    job.set_hold(record.id, held=True)
    job.put_control({"port": 1})
    again = JobStore.open(store, "orders")
    assert list(again.read_records()) == [(record, extra), (aborted_entry(2), {})]
    assert (again.held(), again.copied(), again.read_control()) == ((1,), (), {"port": 1})
    assert jobs(store) == ["orders"]
    assert again.local_root is None
    control = store._fs.getFileStatus(store._at("orders/control.json"))
    assert control.getPermission().toString() == "rw-------"


def test_its_history_is_in_objects_and_bounded(store: HadoopStore) -> None:
    job = JobStore.open(store, "orders")
    assert job.read_history() == []
    job.bound_history(HistoryBounds(max_segments=3, segment_bytes=150))
    kept: list[int] = []
    for number in range(12):
        job.append_history([{"n": number}, {"n": number}])
        kept = [event["n"] for event in job.read_history()]
        assert kept == [n for n in range(kept[0], number + 1) for _ in range(2)]
        assert min(number + 1, 5) <= len(kept) // 2 <= 12
    assert kept[0] > 0
    other = JobStore.open(store, "orders")
    other.append_history([{"n": "other"}])
    assert other.read_history()[-1] == {"n": "other"}
    assert job.read_history() == other.read_history()


def test_what_sinks_stage_is_carried_there_and_back(store: HadoopStore, tmp_path: Path) -> None:
    work, sink, generation = tmp_path / "work", SinkId("out"), Generation(7)
    job = JobStore.open(store, "job")
    data = {f"_headgate/job.out/g7/b{batch}-r1/day=1/part.parquet": os.urandom(100 + batch) for batch in range(70)}
    files = [StagedFile(path, len(rows), zlib.crc32(rows)) for path, rows in data.items()]
    for path, rows in data.items():
        (work / "staged/out" / path).parent.mkdir(parents=True)
        (work / "staged/out" / path).write_bytes(rows)
    StagedFiles(job, work).keep(sink, generation, files)
    shutil.rmtree(work)
    successor = StagedFiles(job, work)
    successor.bring(sink, generation, files, thorough=True)
    assert {path: (work / "staged/out" / path).read_bytes() for path in data} == data
    successor.drop(sink, generation, files[1:])
    assert [entry.size for entry in job.list("staged")] == [100]
    successor.clear(sink, generation)
    assert len(list(job.list("staged"))) == 1
    successor.clear(sink, Generation(8))
    assert list(job.list("staged")) == []


# -- savepoints ------------------------------------------------------------------------------------------------------


def test_a_savepoint_is_written_to_a_storage_behind_hadoop_and_a_job_begins_there(
    store: HadoopStore, tmp_path: Path
) -> None:
    """From a storage here to one that only Spark reaches, and back."""
    own = JobStore.open(open_store(str(tmp_path / "first")), "orders")
    made = copied(own, 5)
    exports = Exports(own, lambda _: store)
    exports.claim(store.uri).write(CheckpointId(5), threading.Event())
    assert sorted(paths(store)) == sorted(made)
    assert {name: store.read(name) for name in made} == made
    with pytest.raises(InvalidOption, match="is not empty"):
        exports.claim(store.uri)
    into = JobStore.open(open_store(str(tmp_path / "second")), "orders")
    brought = savepoints.prepare_from(into, store)
    assert isinstance(brought, savepoints.ImportedSavepoint)
    number = savepoints.publish(into, brought)
    assert into.read(f"savepoints/{number}/tasks/up/g1/metadata") == made["tasks/up/g1/metadata"]
    store.delete("tasks/up/g1/metadata")
    with pytest.raises(BadStorage, match="is gone or cut short"):
        savepoints.prepare_from(into, store)
