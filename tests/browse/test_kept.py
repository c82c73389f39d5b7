"""Whose state a kept checkpoint has is told from its small files, and its files are laid out without being touched."""

import json
import os
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headgate import layout
from headgate.browse import kept
from headgate.core.evolve import evolve
from headgate.core.ids import CheckpointId, OperatorUid
from headgate.core.records import CompletedCheckpoint
from headgate.errors import BadStorage, ExternalError, InvalidOption
from headgate.snapshot.files import FileFacts
from headgate.store.api import open_store
from headgate.store.jobstore import JobStore
from tests.cli.live import crashed
from tests.edges.stores import Remote

DESCRIBED = "tasks/a/g1/state/{operator}/_metadata/v2/{batch}"


def operator(kind: str, number: int = 0, **properties: Any) -> bytes:
    """What Spark 4.3 writes down of an operator."""
    about = {
        "operatorInfo": {"operatorId": number, "operatorName": kind},
        "stateStoreInfo": [
            {"storeName": "default", "numColsPrefixKey": 0, "numPartitions": 4, "stateSchemaFilePaths": []}
        ],
        "operatorPropertiesJson": json.dumps(properties) if properties else "",
    }
    return b"v2\n" + json.dumps(about).encode()


PROCESSOR: dict[str, Any] = {
    "timeMode": "EventTime",
    "outputMode": "Update",
    "stateVariables": [
        {"stateName": "seen", "stateVariableType": "ValueState", "ttlEnabled": False},
        {"stateName": "$eventTimers_keyToTimestamp", "stateVariableType": "TimerState", "ttlEnabled": False},
    ],
}


def stored(tmp_path: Path, files: dict[str, bytes], *stateful: str) -> JobStore:
    """A job with checkpoint 1, whose task ``a`` has these files."""
    store = JobStore.open(open_store(str(tmp_path / "storage")), "orders")
    for name, data in files.items():
        path = tmp_path / "storage" / "orders" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    for record in crashed().store.values():
        if isinstance(record, CompletedCheckpoint):
            names, uids = tuple(files), tuple(map(OperatorUid, stateful))
            tasks = tuple(
                evolve(each, files=names, stateful=uids) if each.task == "a" else each for each in record.tasks
            )
            record = evolve(record, tasks=tasks)  # noqa: PLW2901 - the same with files
            assert store.create_record(record, {"files": {name: [1, 0] for name in files}}) is None
        else:
            assert store.create_record(record, {}) is None
    return store


def operators(store: JobStore) -> list[Any]:
    return [
        (each.name, each.number, each.kind, each.partitions, each.states)
        for each in kept.operators(store, kept.find(store, 1))
    ]


def test_an_operator_that_is_alone_in_its_task_has_its_uid(tmp_path: Path) -> None:
    store = stored(tmp_path, {DESCRIBED.format(operator=0, batch=0): operator("stateStoreSave")}, "sums")
    assert operators(store) == [("sums", 0, "stateStoreSave", 4, ("all",))]


def test_operators_of_which_nobody_knows_whose_is_which_have_a_place(tmp_path: Path) -> None:
    files = {
        DESCRIBED.format(operator=0, batch=0): operator("stateStoreSave"),
        DESCRIBED.format(operator=1, batch=0): operator("symmetricHashJoin", 1),
    }
    store = stored(tmp_path, files, "sums", "pairs")
    assert [(name, states) for name, *_, states in operators(store)] == [("a/0", ("all",)), ("a/1", ("left", "right"))]


def test_a_processor_has_its_own_states_and_its_timers(tmp_path: Path) -> None:
    files = {
        DESCRIBED.format(operator=0, batch=9): operator("transformWithStateInPySparkExec"),
        DESCRIBED.format(operator=0, batch=10): operator("transformWithStateInPySparkExec", **PROCESSOR),
    }
    [(name, *_, states)] = operators(stored(tmp_path, files, "places"))
    assert (name, states) == ("places", ("seen", "timers")), "the newest counts, and not what Spark keeps for itself"
    timeless = {DESCRIBED.format(operator=0, batch=0): operator("x", **{**PROCESSOR, "timeMode": "NoTime"})}
    [(*_, states)] = operators(stored(tmp_path / "timeless", timeless, "places"))
    assert states == ("seen",)


@pytest.mark.parametrize("data", [b"", b"v2", b"v2\n{}", b"v2\nnull", b"v2\n[", b'v2\n{"operatorInfo": 3}', b"\xff\n"])
def test_a_file_that_says_nothing_is_refused_in_one_line(tmp_path: Path, data: bytes) -> None:
    store = stored(tmp_path, {DESCRIBED.format(operator=0, batch=0): data}, "sums")
    with pytest.raises(BadStorage, match=r"_metadata/v2/0 does not say of which operator it is: look at another"):
        operators(store)


def test_a_checkpoint_that_is_not_kept_is_refused_with_those_that_are(tmp_path: Path) -> None:
    store = stored(tmp_path, {})
    assert kept.newest(store) == 1
    assert kept.operators(store, kept.find(store, 1)) == []
    for number in (0, 7):
        with pytest.raises(InvalidOption, match=f"^checkpoint {number} is not kept: kept are 1$"):
            kept.find(store, number)
    none = JobStore.open(open_store(str(tmp_path / "none")), "first")
    with pytest.raises(InvalidOption, match=r"^job first has no checkpoint yet"):
        kept.newest(none)
    with pytest.raises(InvalidOption, match=r"^checkpoint 1 is not kept: there is none$"):
        kept.find(none, 1)


def test_an_operator_is_found_in_another_checkpoint_by_its_name_or_refused(tmp_path: Path) -> None:
    store = stored(tmp_path, {DESCRIBED.format(operator=3, batch=0): operator("stateStoreSave", 3)}, "sums")
    checkpoint = kept.find(store, 1)
    [sums] = kept.operators(store, checkpoint)
    assert kept.same(store, checkpoint, replace(sums, number=0)) == sums
    with pytest.raises(InvalidOption, match=r"^checkpoint 1 has no state of operator pairs; it has: sums$"):
        kept.same(store, checkpoint, replace(sums, name="pairs"))


def test_files_are_laid_out_as_spark_has_them_and_stay_as_they_are(tmp_path: Path) -> None:
    described = DESCRIBED.format(operator=1, batch=0)
    schema = '"file:/old/place/state/1/_stateSchema/default/0_x"'
    files = {
        "tasks/a/g1/metadata": b"{}",
        "tasks/a/g1/offsets/0": b"v1\n{}\n0",
        described: operator("x", 1).replace(b"[]", f"[{schema}]".encode()),
        "tasks/a/g1/state/1/0/1_x.changelog": b"changes",
        "tasks/a/g1/state/10/0/1_x.changelog": b"another operator's",
    }
    store = stored(tmp_path, files, "sums")
    checkpoint = kept.find(store, 1)
    [sums] = kept.operators(store, checkpoint)
    with kept.materialized(store, checkpoint, sums, None) as query:
        there = {path.relative_to(query).as_posix() for path in query.rglob("*") if path.is_file()}
        assert there == {"metadata", "offsets/0", "state/1/_metadata/v2/0", "state/1/0/1_x.changelog"}
        assert (query / "state/1/0/1_x.changelog").read_bytes() == b"changes"
        assert f"file:{query}/state/1/_stateSchema/default/0_x" in (query / "state/1/_metadata/v2/0").read_text()
        place = query
    assert not place.exists()
    root = tmp_path / "storage" / "orders"
    assert {name: (root / name).read_bytes() for name in files} == files


def test_state_of_a_storage_elsewhere_is_copied_up_to_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sizes are those of the manifest, so that nothing is copied for nothing."""
    described = DESCRIBED.format(operator=1, batch=0)
    stored(tmp_path, {"tasks/a/g1/metadata": b"{}", described: operator("x", 1)}, "sums")
    store, copied = JobStore(Remote(tmp_path / "storage"), "orders"), list[str]()

    def copy_out(_: Remote, path: str, target: Path, *, link: bool = False) -> None:
        assert not link
        copied.append(path)
        target.touch()

    monkeypatch.setattr(Remote, "copy_out", copy_out)
    monkeypatch.setattr(layout, "relocate", lambda _: None)
    checkpoint = kept.find(store, 1)
    [sums] = kept.operators(store, checkpoint)
    large = replace(checkpoint, table={name: FileFacts(600 << 20, 0) for name in checkpoint.table})
    words = (
        r"operator sums in checkpoint 1 has 1200 MB of files in file://\S+/orders, and to be read they are copied: at "
        r"most 1024 MB of them are; make room, and set HEADGATE_STATE_COPY_MB"
    )
    with pytest.raises(InvalidOption, match=words), kept.materialized(store, large, sums, tmp_path / "here"):
        pass
    assert (copied, (tmp_path / "here").exists()) == ([], False)
    monkeypatch.setenv("HEADGATE_STATE_COPY_MB", "1200")
    with kept.materialized(store, large, sums, tmp_path / "here"):
        assert len(copied) == 2


def test_no_file_is_copied_when_time_is_up(tmp_path: Path) -> None:
    described = DESCRIBED.format(operator=1, batch=0)
    stored(tmp_path, {"tasks/a/g1/metadata": b"{}", described: operator("x", 1)}, "sums")
    store, asked = JobStore(Remote(tmp_path / "storage"), "orders"), list[int]()
    checkpoint = kept.find(store, 1)
    [sums] = kept.operators(store, checkpoint)

    def go_on() -> None:
        asked.append(len(list((tmp_path / "here").rglob("metadata"))))
        if len(asked) == 2:
            raise ExternalError("late")

    with (
        pytest.raises(ExternalError, match="late"),
        kept.materialized(store, checkpoint, sums, tmp_path / "here", go_on),
    ):
        pass
    assert asked == [0, 1]
    assert list((tmp_path / "here").iterdir()) == [], "what was copied is gone"


def test_what_killed_processes_have_left_is_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = subprocess.Popen(["true"])  # noqa: S607 - any will do
    ended.wait()
    for own, names in (("job", ["1-x", f"{ended.pid}-y"]), ("tmp", [f"{os.getpid()}-x", f"{ended.pid}-y", "old"])):
        for name in names:
            (tmp_path / own / f"headgate-state-{name}" / "state").mkdir(parents=True)
        (tmp_path / own / "else").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    kept.clean(tmp_path / "job")
    kept.clean(None)
    assert [path.name for path in (tmp_path / "job").iterdir()] == ["else"], "it is the job's alone"
    there = {path.name for path in (tmp_path / "tmp").iterdir()}
    assert there == {"else", f"headgate-state-{os.getpid()}-x", "headgate-state-old"}, "others may be at it"
    kept.clean(tmp_path / "nowhere")


def test_which_files_describe_an_operator_is_told_by_their_names() -> None:
    assert layout.describes_operator("state/3/_metadata/v2/12") == 3
    assert layout.describes_operator("state/0/_metadata/metadata") == 0
    for name in ("state/0/_metadata/v2/.12.crc", "state/0/0/_metadata/schema", "offsets/3", "state/x/_metadata/v2/1"):
        assert layout.describes_operator(name) is None
    assert CheckpointId(1) == 1
