"""What Spark would refuse of a checkpoint's state is found before anything is written."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from headgate import layout
from headgate.core.effects import CopySavepoint, CreateRecord
from headgate.core.graph import Graph, Operator, Task
from headgate.core.ids import Batch, CheckpointId, OperatorUid, TaskId
from headgate.core.records import CompletedCheckpoint, Kind, Restore, TaskSnapshot
from headgate.errors import BadStorage, InvalidJob
from headgate.run import preflight, savepoints
from headgate.run.preflight import RestorePlan
from headgate.store.jobstore import JobStore
from tests.edges.spark_files import put
from tests.edges.stores import FIRST, UP, US, Heard, open_job

ROCKS = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
HASHES = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
OFFSETS = "tasks/up/g1/offsets/3"
ALLOW = Restore(again=True, allow_non_restored=True)


def graph(*stateful: str, stateless: tuple[str, ...] = ("clean",)) -> Graph:
    operators = [Operator(OperatorUid(uid)) for uid in stateless]
    operators += [Operator(OperatorUid(uid), stateful=True) for uid in stateful]
    return Graph((Task(UP, tuple(operators), has_source=True),))


def completed(number: int, offsets: str, *, batch: int, kind: Kind = Kind.CHECKPOINT) -> CompletedCheckpoint:
    """A checkpoint of the one task, which has two operators with state."""
    uids = tuple(OperatorUid(uid) for uid in ("clean", "count", "distinct"))
    snapshot = TaskSnapshot(UP, uids, uids[1:], 1, FIRST, Batch(batch), (), finished=False, files=(offsets,))
    return CompletedCheckpoint(CheckpointId(number), FIRST, US, kind, (snapshot,), (), ())


@pytest.fixture
def heard(tmp_path: Path) -> Heard:
    """A job whose one task keeps state in two operators, with savepoint 5."""
    made = Heard(open_job(tmp_path / "storage"))
    put(made.root / OFFSETS, f"v1\n{json.dumps({'conf': {layout.PROVIDER: ROCKS}})}\n-")
    made.storage.create_record(CreateRecord(US, completed(5, OFFSETS, batch=3, kind=Kind.SAVEPOINT)))
    made.storage.copy_savepoint(CopySavepoint(US, CheckpointId(5)))
    return made


def refused(store: JobStore, now: Graph, restore_plan: RestorePlan, backend: str = ROCKS) -> str:
    before = {entry.path for entry in store.list()}
    with pytest.raises(InvalidJob) as error:
        preflight.settle(store, now, restore_plan, backend)
    assert {entry.path for entry in store.list()} == before, "nothing is written"
    return str(error.value)


def test_a_job_that_fits_begins(heard: Heard) -> None:
    restore = Restore(again=True)
    assert preflight.settle(heard.store, graph("count", "distinct"), RestorePlan(restore), ROCKS) == restore
    renamed = Restore(again=True, renamed=((OperatorUid("count"), OperatorUid("total")),))
    assert preflight.settle(heard.store, graph("total", "distinct"), RestorePlan(renamed), ROCKS) == renamed


@pytest.mark.parametrize(
    ("now", "said"),
    [
        (("count",), "task up have changed (distinct gone)"),
        ((), "task up have changed (count, distinct gone)"),
        (("count", "distinct", "join"), "task up have changed (join new)"),
        (("count", "join"), "task up have changed (distinct gone; join new)"),
    ],
)
def test_a_part_of_a_querys_state_cannot_be_left_out(heard: Heard, now: tuple[str, ...], said: str) -> None:
    why = refused(heard.store, graph(*now), RestorePlan(ALLOW))
    assert why.startswith("job job: checkpoint 5 does not fit: the operators with state of ")
    assert said in why
    assert "give every operator of the task a new uid" in why


def test_a_task_with_new_uids_begins_empty(heard: Heard) -> None:
    now = graph("count2", stateless=("clean2",))
    assert preflight.settle(heard.store, now, RestorePlan(ALLOW), ROCKS) == ALLOW


def test_another_state_backend_is_refused(heard: Heard) -> None:
    why = refused(heard.store, graph("count", "distinct"), RestorePlan(Restore(again=True)), HASHES)
    assert "task up is in RocksDBStateStoreProvider, and the job now wants HDFSBackedStateStoreProvider" in why


@pytest.mark.parametrize(("now", "backend"), [(("count",), ROCKS), (("count", "distinct"), HASHES)])
def test_a_savepoint_from_elsewhere_is_looked_at_before_it_is_brought_in(
    heard: Heard, tmp_path: Path, now: tuple[str, ...], backend: str
) -> None:
    kept = Path(shutil.copytree(heard.root / "savepoints/5", tmp_path / "kept"))
    store = open_job(tmp_path / "new")
    imported = savepoints.prepare(store, kept)
    assert isinstance(imported, savepoints.ImportedSavepoint)
    refused(store, graph(*now), RestorePlan(ALLOW, imported), backend)
    assert (
        preflight.settle(store, graph("count", "distinct"), RestorePlan(ALLOW, imported), ROCKS).checkpoint is not None
    )


def test_what_fits_otherwise_is_asked_about_and_can_read_the_checkpoint(heard: Heard) -> None:
    asked: list[str] = []

    def schemas(task: TaskId, before: TaskSnapshot, read: Callable[[str], bytes]) -> str | None:
        asked.append(task)
        return read(before.files[0]).decode().splitlines()[0]

    def settled(now: Graph, restore: Restore) -> str:
        with pytest.raises(InvalidJob) as error:
            preflight.settle(heard.store, now, RestorePlan(restore), ROCKS, schemas)
        return str(error.value)

    assert settled(graph("count", "distinct"), Restore(again=True)) == "job job: checkpoint 5 does not fit: v1"
    assert asked == [UP]
    settled(graph("count"), ALLOW)
    assert asked == [UP]
    preflight.settle(heard.store, graph("count2", stateless=("clean2",)), RestorePlan(ALLOW), ROCKS, schemas)
    assert asked == [UP], "what begins empty has nothing to fit"


def test_a_leader_that_goes_on_meanwhile_is_followed_to_its_newest_checkpoint(heard: Heard) -> None:
    """Whoever is about to be replaced completes checkpoints, and deletes the files of those before."""
    newer = "tasks/up/g1/offsets/4"
    looked_at: list[int] = []

    def schemas(_: TaskId, snapshot: TaskSnapshot, read: Callable[[str], bytes]) -> None:
        looked_at.append(snapshot.batch)
        if len(looked_at) == 1:
            put(heard.root / newer, (heard.root / OFFSETS).read_text())
            heard.storage.create_record(CreateRecord(US, completed(6, newer, batch=4)))
            (heard.root / OFFSETS).unlink()
        read(snapshot.files[0])

    restore = Restore(again=True)
    assert preflight.settle(heard.store, graph("count", "distinct"), RestorePlan(restore), ROCKS, schemas) == restore
    assert looked_at == [3, 4]


def test_a_file_that_is_gone_while_nobody_goes_on_is_named(heard: Heard) -> None:
    (heard.root / OFFSETS).unlink()
    with pytest.raises(BadStorage, match=r"job \w+: checkpoint 5 names a file that is not there: .*offsets/3"):
        preflight.settle(heard.store, graph("count", "distinct"), RestorePlan(Restore(again=True)), ROCKS)
