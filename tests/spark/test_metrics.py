"""What the metrics of a whole job say, on real Spark: they must be what has happened to it."""

import threading
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from pyspark.sql import SparkSession

import headgate as hg
from headgate.metrics import telemetry
from headgate.metrics.settings import reporters
from tests.metrics.receiver import Receiver, plain
from tests.spark.reading import verdict
from tests.spark.shapes import build

ROWS = 3_000
OPENMETRICS = "application/openmetrics-text;version=1.0.0"


class Scraper:
    """Scrapes a job when it tells of a checkpoint, as a Prometheus would now and then."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []
        self.seen: list[dict[tuple[str, frozenset[tuple[str, str]]], float]] = []
        self._url = ""
        self._scraped = threading.Event()

    def __call__(self, line: dict[str, Any]) -> None:
        self.lines.append(line)
        if line["event"] == "notice" and line["text"].startswith("metrics are served at "):
            self._url = line["text"].rpartition(" ")[2]
        if line["event"] == "restored" and self._url:
            with urlopen(Request(self._url, headers={"Accept": OPENMETRICS}), timeout=60) as answer:  # noqa: S310 - our own
                assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
                families = list(text_string_to_metric_families(answer.read().decode()))  # type: ignore[no-untyped-call]
            self.seen.append({(s.name, frozenset(s.labels.items())): s.value for f in families for s in f.samples})

    def count(self, event: str, **fields: str) -> int:
        return sum(
            line["event"] == event and all(line[name] == value for name, value in fields.items()) for line in self.lines
        )


def test_the_metrics_of_a_job_that_failed_once_say_what_happened(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(telemetry, "CLOSE_S", 120.0)  # A machine that is busy has time to send the rest.
    heard = Scraper()
    job = build("fork", str(tmp_path), rows=ROWS, batches=6, fail_at=ROWS // 2, interval="500ms")
    with Receiver() as receiver:
        job.metrics = reporters([hg.metrics.prometheus(port=0), hg.metrics.opentelemetry(endpoint=receiver.endpoint)])
        result = job.run(None, heard, spark)
    assert (result.ending, verdict("fork", tmp_path, ROWS)) == ("finished", {})

    def value(name: str, **attributes: str) -> float:
        found = receiver.value(f"headgate.{name}", **attributes)
        assert found is not None, f"{name} {attributes}"
        return found

    # What was sent last, when the job had ended, is what the events say.
    for level in ("task", "job"):
        assert value("job_restarts", level=level) == heard.count("restart", level=level)
    assert value("job_restarts", level="task") >= 1
    assert value("task_failures", task="rows", **{"class": "external"}) >= 1
    for outcome in ("completed", "failed"):
        counted = sum(value("checkpoints", kind=kind, outcome=outcome) for kind in ("checkpoint", "savepoint"))
        assert counted == heard.count(f"checkpoint-{outcome}")
    assert value("checkpoints", kind="checkpoint", outcome="completed") >= 1
    durations = sum(line["duration_ms"] for line in heard.lines if line["event"] == "checkpoint-completed")
    assert value("checkpoint_duration") * 1000 == durations
    assert value("job_state", state="finished") == 1

    # Every row went over both channels, and every reader read each of them; the source may have read some again.
    once = heard.count("restart", level="job") == 0 and heard.count("restart", task="rows") == heard.count("restart")
    assert value("task_rows_in", task="rows") >= ROWS
    for task in ("windows", "firsts"):
        rows = value("task_rows_in", task=task)
        assert rows == ROWS if once else rows >= ROWS
        assert value("source_rows", task=task, source=f"{task}.0") == rows
        assert 0 < value("task_bytes_in", task=task) <= value("task_bytes_out", task="rows")
    assert value("task_rows_out", task="rows") == sum(
        value("task_rows_in", task=each) for each in ("windows", "firsts")
    )
    assert value("task_batches", task="windows") > 0
    assert 0 <= value("task_busy_ratio", task="rows") <= 1

    # The state of both operators was measured by Spark and by their snapshots.
    for task in ("windows", "firsts"):
        assert value("state_rows", task=task, operator="0") >= 0
        sizes = [value("state_partition", task=task, operator="0", partition=str(number)) for number in range(2)]
        assert sum(sizes) == value("state", task=task, operator="0") > 0
        assert value("rocksdb_puts", task=task, operator="0") > 0

    # The history has kept how tasks did, and who was where.
    last = next(line for line in reversed(heard.lines) if line["event"] == "checkpoint-completed")
    kept = last["tasks"]["windows"]["figures"]
    assert 0 < kept["rows_in"] <= value("task_rows_in", task="windows")
    assert {"batch_ms", "busy_ratio", "watermark_ms", "state_rows", "state_bytes"} <= set(kept)

    # Each sink has committed what it pre-committed, and owes nothing.
    for sink in ("plain", "in-windows", "once"):
        commits = value("sink_commits", sink=sink)
        assert commits == value("sink_pre_commits", sink=sink) > 0
        for owed in ("pre_committed", "due"):
            assert value(f"sink_committables_{owed}", sink=sink) == 0

    # One trace for each checkpoint that was committed everywhere or given up, one for each recovery.
    roots = [span for span in receiver.spans if not span.parent_span_id]
    traced = [plain(span)["headgate.checkpoint.id"] for span in roots if span.name in ("checkpoint", "savepoint")]
    assert len(set(traced)) == len(traced) == heard.count("checkpoint-triggered")
    assert sum(span.name == "recovery" for span in roots) == heard.count("restart")
    phases = {span.name for span in receiver.spans}
    assert {"task", "start delay", "alignment", "sync", "async", "pre-commit", "publish", "commit"} <= phases
    assert {"delay", "restore", "replay"} <= phases

    # A Prometheus that looked after the restart has seen it, too.
    assert heard.seen, "it was scraped"
    restarts = heard.seen[-1]["headgate_job_restarts_total", frozenset({("job", "job"), ("level", "task")})]
    assert restarts == value("job_restarts", level="task")
