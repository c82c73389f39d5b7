"""The table of metrics: what every row must be, and what it reads."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from headgate.metrics.kinds import COUNTER, Metric
from headgate.metrics.reading import Facts
from headgate.metrics.table import LEFT_OUT, METRICS, SERIES_MAX, every_metric, samples
from headgate.metrics.totals import EventTotals
from tests.metrics.facts import eventful, events_of, facts_of
from tests.view.test_figures import GRAPH
from tests.view.test_job import live
from tests.view.watched import watched

DOCUMENT = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text(encoding="utf-8")
UNITS = ("_seconds", "_bytes", "_ratio")
Values = Mapping[tuple[str, ...], float]


def read(facts: Facts) -> dict[str, dict[tuple[str, ...], float]]:
    return {metric.name: {each.labels: each.value for each in found} for metric, found in samples(facts)}


@pytest.fixture(scope="module")
def seen() -> dict[str, dict[tuple[str, ...], float]]:
    return read(facts_of(eventful()))


@pytest.mark.parametrize("metric", list(every_metric()), ids=lambda metric: metric.name)
def test_a_metric_has_a_name_of_prometheus_form_and_says_what_it_is(metric: Metric) -> None:
    assert re.fullmatch(r"headgate_[a-z0-9]+(_[a-z0-9]+)*", metric.name)
    assert metric.name.endswith("_total") == (metric.kind == COUNTER)
    assert not re.search(r"_(ms|millis|milliseconds|kb|mb)(_|$)", metric.name)
    assert metric.help[0].isupper() or metric.help[0].isdigit()
    assert not metric.help.endswith(".")
    assert "job" not in metric.labels
    assert len(set(metric.labels)) == len(metric.labels)


def test_no_two_metrics_have_the_same_name() -> None:
    names = [metric.name for metric in every_metric()]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("metric", list(every_metric()), ids=lambda metric: metric.name)
def test_the_document_has_a_row_for_every_metric_with_its_labels_and_its_twin(metric: Metric) -> None:
    [row] = [line for line in DOCUMENT.splitlines() if line.startswith(f"| `{metric.name}` |")]
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[1] == ", ".join(f"`{label}`" for label in metric.labels)
    assert re.findall(r"`([^`]+)`", cells[2]) == [twin for twin in metric.flink.split(", ") if twin]
    assert cells[3] == metric.help


def test_the_document_has_no_metric_that_is_not_there() -> None:
    named = set(re.findall(r"`(headgate_[a-z0-9_]+)`", DOCUMENT))
    assert named == {metric.name for metric in every_metric()}


def test_everything_that_happens_to_a_job_has_a_sample(seen: Mapping[str, Values]) -> None:
    """But for what only Kafka, a task that is too large, or a user who gives something up would bring."""
    missing = {metric.name for metric in METRICS} - set(seen)
    assert missing == {"headgate_source_lag_records", "headgate_source_skew_ratio"}


def test_counts_are_what_the_events_say(seen: Mapping[str, Values]) -> None:
    core = eventful()
    assert seen["headgate_checkpoints_total"] == {
        ("checkpoint", "completed"): len(events_of(core, "checkpoint-completed")),
        ("checkpoint", "failed"): len(events_of(core, "checkpoint-failed")),
        ("savepoint", "completed"): 0,
        ("savepoint", "failed"): 0,
    }
    assert seen["headgate_checkpoints_total"]["checkpoint", "completed"] == 1
    assert seen["headgate_job_restarts_total"] == {("task",): 1, ("job",): 1}
    assert seen["headgate_job_restores_total"] == {("start",): 0, ("task",): 1, ("job",): 1}
    assert seen["headgate_task_failures_total"]["windows", "external"] == 1
    assert seen["headgate_task_failures_total"]["rows", "internal"] == 1
    assert sum(seen["headgate_task_failures_total"].values()) == 2
    assert seen["headgate_checkpoint_commit_retries_total"] == {(): 1}


def test_times_are_in_seconds_and_sizes_in_bytes(seen: Mapping[str, Values]) -> None:
    assert seen["headgate_checkpoint_last_duration_seconds"] == {(): 0.05}
    assert seen["headgate_checkpoint_duration_seconds_total"] == {(): 0.05}
    phases = seen["headgate_checkpoint_last_phase_seconds"]
    assert (phases["pre_commit",], phases["publish",]) == (0.012, 0.01)
    assert phases["commit",] == 0, "of the commit that the second generation did again"
    assert seen["headgate_checkpoint_last_full_size_bytes"] == {(): 900}
    assert seen["headgate_checkpoint_last_size_bytes"] == {(): 400}
    assert seen["headgate_task_checkpoint_phase_seconds"]["windows", "sync"] == 0.003
    assert seen["headgate_task_checkpoint_bytes"]["windows", "new"] == 400
    assert seen["headgate_job_restore_last_seconds"] == {("task",): 0.06, ("job",): 0.08}
    assert seen["headgate_task_batch_last_seconds"] == {("rows",): 3.828, ("windows",): 1.099}
    assert seen["headgate_task_wait_seconds_total"]["rows",] == 0.25
    assert seen["headgate_sink_pre_commit_seconds_total"] == {("out",): 0.012}
    assert seen["headgate_rocksdb_load_seconds_total"]["windows", "0"] > 0


def test_times_in_states_add_up_to_the_life_of_the_process(seen: Mapping[str, Values]) -> None:
    core = eventful()
    spent = seen["headgate_job_state_time_seconds_total"]
    assert set(spent) == {("starting",), ("running",), ("restarting",)}
    assert sum(spent.values()) == pytest.approx(core.now_ms / 1000)
    current = seen["headgate_job_state_current_seconds"]
    assert {state: seconds for state, seconds in current.items() if seconds} == {("running",): 0.61}
    assert seen["headgate_job_downtime_seconds"] == {(): 0}
    assert seen["headgate_job_restored_timestamp_seconds"] == {(): (core.now_ms - 610) / 1000}


def test_rows_state_and_sinks_are_those_of_the_status(seen: Mapping[str, Values]) -> None:
    assert seen["headgate_task_rows_in_total"] == {("rows",): 600, ("windows",): 1200}
    assert seen["headgate_task_rows_out_total"] == {("rows",): 1200}
    assert seen["headgate_task_bytes_in_total"] == {("windows",): 5_000}
    assert seen["headgate_state_rows"] == {("windows", "0"): 20}
    assert seen["headgate_state_bytes"] == {("windows", "0"): 400}
    assert seen["headgate_state_partition_bytes"] == {("windows", "0", "0"): 300, ("windows", "0", "1"): 100}
    assert seen["headgate_sink_commits_total"] == {("out",): 2}
    assert seen["headgate_sink_recovered_commits_total"] == {("out",): 1}
    assert seen["headgate_sink_pre_commits_total"] == {("out",): 1}
    assert seen["headgate_sink_commit_failures_total"] == {("out",): 1}
    assert seen["headgate_sink_pre_commit_failures_total"] == {("out",): 1}
    assert seen["headgate_job_state"]["running",] == 1
    assert sum(seen["headgate_job_state"].values()) == 1
    assert set(seen["headgate_source_rows_total"]) == {("rows", "orders"), ("windows", "windows.0")}


def test_what_nobody_has_measured_has_no_sample() -> None:
    """A job whose tasks are up, and to which nothing has happened: no figure of a batch, of state, of a checkpoint."""
    fresh = read(facts_of(watched(GRAPH)))
    for name in fresh:
        assert not name.startswith(
            ("headgate_state_", "headgate_rocksdb_", "headgate_source_", "headgate_task_batch_p")
        )
        assert not name.startswith(("headgate_checkpoint_last_", "headgate_task_checkpoint_", "headgate_task_water"))
    assert "headgate_task_rows_out_total" not in fresh
    assert set(fresh["headgate_checkpoints_total"].values()) == {0}, "but for counts, which begin at 0"


def test_no_metric_is_a_constant(seen: Mapping[str, Values]) -> None:
    """Whatever has a value in the job to which all has happened follows from something that can be otherwise."""
    core = eventful()
    facts = facts_of(core)
    status: dict[str, Any] = {
        **facts.status,
        "state": "restarting",
        "uptime_ms": None,
        "downtime_ms": None,
        "states": {},
        "generation": None,
        "last_checkpoint": None,
        "pending": [1, 2, 3],
        "stalled": ["x"],
        "tasks": [],
        "sinks": [],
    }
    others = read(Facts(status, EventTotals()))
    same = [name for name, values in seen.items() if others.get(name) == values]
    assert same == [LEFT_OUT.name]


def test_samples_have_a_bound_whatever_the_job_is() -> None:
    core = eventful()
    facts = facts_of(core)
    task = facts.status["tasks"][1]
    operator = {**task["state_operators"][0], "partition_bytes": list(range(64))}
    tasks = [{**task, "task": f"t{number}", "state_operators": [operator] * 16} for number in range(300)]
    sinks = [{**facts.status["sinks"][0], "sink": f"s{number}"} for number in range(2_000)]
    status = {**live(core), "tasks": tasks, "sinks": sinks}
    found = dict(samples(Facts(status, facts.told)))
    assert max(map(len, found.values())) == SERIES_MAX
    partitions = sum(len(each) for metric, each in found.items() if metric.name == "headgate_state_partition_bytes")
    assert partitions == SERIES_MAX
    [left_out] = found[LEFT_OUT]
    assert left_out.value > 300 * 16 * 64


def test_a_job_within_the_bound_has_nothing_left_out(seen: Mapping[str, Values]) -> None:
    assert seen[LEFT_OUT.name] == {(): 0}
