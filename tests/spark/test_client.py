"""A job that is run from Python: to its end, or in a thread of the process, as in a notebook."""

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import headgate as hg
from headgate.profile import sampling
from headgate.run.control import ControlClient, NotRunning
from headgate.store.api import open_store
from headgate.store.jobstore import JobStore
from tests.spark.reading import rows_of

WAIT_S = 300
SAMPLES = 20
"""A second's worth in place of five."""


@pytest.fixture(autouse=True)
def few_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "SAMPLES", SAMPLES)


def build(directory: Path, rows: int | None, fn: Callable[[DataFrame], DataFrame] = lambda frame: frame) -> hg.Job:
    job = hg.Job(
        "client",
        checkpoint=hg.Checkpointing(storage=str(directory / "storage"), interval="500ms", num_retained=3),
        restart=hg.restart.none(),
        spark_conf={"spark.sql.shuffle.partitions": "2"},
    )
    numbers = job.source("numbers", hg.generator.source(rows=rows, rows_per_batch=100, keys=5))
    numbers.transform("all", fn).sink("out", hg.files.sink(directory / "out"))
    return job


def runs(client: hg.JobClient) -> bool:
    return client.is_running


def until(client: hg.JobClient, wanted: Callable[[dict[str, Any]], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not wanted(client.status()):
        assert runs(client), client.status()
        assert time.monotonic() < deadline, client.status()
        time.sleep(0.2)


def flame_graph(client: hg.JobClient, store: JobStore, subject: str) -> dict[str, Any]:
    """The tree of what was sampled, once it is there."""
    found: dict[str, Any] = {}

    def sampled(_: dict[str, Any]) -> bool:
        answer = ControlClient(store).call("GET", f"/flamegraph?subject={subject}")
        assert answer is not None
        assert answer.data["why"] is None
        found.update(answer.data)
        return bool(found["status"] == "COMPLETED")

    until(client, sampled)
    assert found["samples"] == SAMPLES
    tree: dict[str, Any] = found["data"]
    return tree


def names(tree: dict[str, Any]) -> set[str]:
    return {tree["name"]}.union(*map(names, tree["children"]))


def test_a_job_runs_to_its_end_and_says_how_it_was(spark: SparkSession, tmp_path: Path) -> None:
    lines: list[dict[str, Any]] = []
    result = build(tmp_path, rows=500).run(hg.Options(), lines.append, spark)
    assert result.ending == "finished"
    assert str(result).startswith(f"finished at checkpoint {result.checkpoint}: ")
    assert repr(result) == f"<Result: {result}>"
    assert [line["ending"] for line in lines if line["event"] == "ended"] == ["finished"]
    assert len(rows_of(tmp_path / "out")) == 500


def test_a_job_that_is_started_runs_beside_its_program(spark: SparkSession, tmp_path: Path) -> None:
    client = build(tmp_path, rows=None).start(spark=spark)
    assert runs(client)
    assert client.status()["job"] == "client"
    with pytest.raises(TimeoutError, match=r"job client still runs after 0\.1 s"):
        client.wait(timeout=0.1)
    until(client, lambda seen: seen["last_checkpoint"] is not None and seen["tasks"][0]["batch"] >= 2)
    store = JobStore.find(open_store(str(tmp_path / "storage")), "client")
    shown = ControlClient(store).status()
    assert shown is not None, "commands reach it, too"
    assert shown.keys() == client.status().keys()
    pages = {
        path: ControlClient(store).call("GET", path)
        for path in ("/plan", "/config", "/checkpoints", "/vertices", "/state")
    }
    assert {path: None if page is None else page.code for path, page in pages.items()} == dict.fromkeys(pages, 200)
    plan = pages["/plan"]
    assert plan is not None
    assert [(node["sources"], [sink["uid"] for sink in node["sinks"]]) for node in plan.data["plan"]["nodes"]] == [
        (["numbers"], ["out"])
    ]
    in_jvm = flame_graph(client, store, "driver")
    assert any("stream execution thread for" in thread["name"] for thread in in_jvm["children"])
    in_python = flame_graph(client, store, "driver-python")
    assert any("run (headgate/run/loop.py:" in name for name in names(in_python))
    assert repr(client) == "JobClient('client', running)"
    assert "last checkpoint" in client._repr_html_()

    saved = client.savepoint()
    assert (Path(saved.removeprefix("file://")) / "manifest.json").is_file()
    assert runs(client)
    stopped = client.stop(target=tmp_path / "backup")
    assert stopped == f"file://{tmp_path}/backup"
    assert not runs(client)
    assert client.status()["state"] == "stopped"
    assert client.wait().ending == "stopped"
    with pytest.raises(NotRunning, match="job client is not running any more"):
        client.savepoint()
    through = len(rows_of(tmp_path / "out"))
    assert through > 0

    for own in Path(saved.removeprefix("file://")).parent.glob("[0-9]*"):
        shutil.rmtree(own)  # What was written elsewhere stands on its own.
    again = build(tmp_path, rows=None).start(hg.Options(restore_from=stopped, claim=True), spark=spark)
    until(again, lambda _: len(rows_of(tmp_path / "out")) > through)
    assert not (tmp_path / "backup").exists(), "the job has claimed it"
    again.cancel()
    assert again.wait().ending == "cancelled"
    numbers = sorted(row["n"] for row in rows_of(tmp_path / "out"))
    assert numbers == list(range(len(numbers))), "every row once, through stop and start"


def test_what_a_started_job_fails_of_is_shown_and_raised_where_somebody_waits(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    failing = build(tmp_path, rows=500, fn=lambda frame: frame.selectExpr("raise_error('no such luck') as n"))
    client = failing.start(spark=spark)
    client.show(every="200ms")
    assert "no such luck" in capsys.readouterr().out
    with pytest.raises(hg.HeadgateError, match="no such luck"):
        client.wait(WAIT_S)
    assert client.status()["state"] == "failed"
    assert "no such luck" in str(client._result)
    store = JobStore.find(open_store(str(tmp_path / "storage")), "client")
    [trace] = [line["trace"] for line in store.read_history() if line["event"] == "task-failed"]
    assert trace.startswith("Traceback (most recent call last):")
    assert (store.read_description() or {})["checkpointing"]["interval_ms"] == 500


def test_a_job_that_cannot_begin_says_so_where_somebody_waits(spark: SparkSession, tmp_path: Path) -> None:
    client = build(tmp_path, rows=500).start(hg.Options(restore_from="12"), spark=spark)
    with pytest.raises(hg.UserError, match="checkpoint 12 is not in the storage"):
        client.wait(WAIT_S)
    assert client.status()["state"] == "crashed"
    with pytest.raises(hg.UserError, match="not running any more"):
        client.cancel()
