"""Metrics and traces that a collector gets, over real HTTP and in OTLP."""

import logging
import os
import threading

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from headgate import metrics as hg_metrics
from headgate.metrics import telemetry
from headgate.metrics.kinds import COUNTER
from headgate.metrics.reporting import Metrics
from headgate.metrics.settings import OpenTelemetry
from headgate.metrics.table import every_metric, samples
from headgate.metrics.telemetry import otel_name
from tests.metrics.facts import eventful, facts_of
from tests.metrics.receiver import Receiver, plain
from tests.view.test_job import live


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the machine's own counts."""
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        monkeypatch.delenv(name)


def report(reporter: OpenTelemetry) -> list[tuple[str, str]]:
    """Run through everything that may happen to a job, and end."""
    said: list[tuple[str, str]] = []
    core = eventful()
    made = Metrics("orders", lambda: live(core), [reporter])
    made.open(lambda kind, text: said.append((kind, text)), str)
    for line in core.lines:
        made.take(line)
    made.close()
    return said


def at(span: Span) -> tuple[int, int]:
    return span.start_time_unix_nano // 1_000_000, span.end_time_unix_nano // 1_000_000


def test_every_sample_of_the_table_reaches_the_collector() -> None:
    with Receiver() as receiver:
        assert report(hg_metrics.opentelemetry(endpoint=receiver.endpoint)) == []
        wanted = {}
        for metric, found in samples(facts_of(eventful())):
            for sample in found:
                about = tuple(sorted(zip(metric.labels, sample.labels, strict=True)))
                wanted[otel_name(metric)[0], about] = sample.value
        assert receiver.points == wanted
        for metric in every_metric():
            name, unit = otel_name(metric)
            if name in receiver.units:
                assert (receiver.units[name], receiver.monotonic[name]) == (unit, metric.kind == COUNTER)


def test_a_checkpoint_is_one_trace_whose_phases_are_below_it() -> None:
    with Receiver() as receiver:
        report(hg_metrics.opentelemetry(endpoint=receiver.endpoint))
        spans = receiver.spans
    roots = {span.trace_id: span for span in spans if not span.parent_span_id}
    assert [span.name for span in roots.values()].count("checkpoint") == 2
    assert len(roots) == 4, "two checkpoints and two recoveries, each a trace of its own"
    whole = next(span for span in roots.values() if plain(span).get("headgate.checkpoint.id") == 1)
    assert at(whole) == (1_000, 2_050)
    assert plain(whole)["headgate.job"] == "orders"
    below = [span for span in spans if span.trace_id == whole.trace_id and span.parent_span_id == whole.span_id]
    assert sorted(span.name for span in below) == ["commit", "pre-commit", "publish", "task", "task"]
    task = next(span for span in below if plain(span).get("headgate.task") == "windows")
    phases = [span for span in spans if span.parent_span_id == task.span_id]
    assert [
        (span.name, at(span)) for span in sorted(phases, key=lambda span: (span.start_time_unix_nano, span.name))
    ] == [
        ("alignment", (1_000, 1_000)),
        ("start delay", (1_000, 1_000)),
        ("sync", (1_030, 1_033)),
        ("async", (1_033, 1_040)),
    ]


def test_a_checkpoint_that_failed_is_a_trace_with_an_error_and_a_recovery_has_its_phases() -> None:
    with Receiver() as receiver:
        report(hg_metrics.opentelemetry(endpoint=receiver.endpoint))
        spans = receiver.spans
    failed = next(span for span in spans if plain(span).get("headgate.checkpoint.id") == 2)
    assert failed.status.code == Status.STATUS_CODE_ERROR
    assert "given up" in failed.status.message
    recovery = next(span for span in spans if plain(span).get("headgate.level") == "job")
    below = [span for span in spans if span.parent_span_id == recovery.span_id]
    assert sorted((span.name, at(span)) for span in below) == [
        ("delay", (3_110, 4_110)),
        ("replay", (4_190, 4_220)),
        ("restore", (4_110, 4_190)),
    ]
    assert recovery.status.code != Status.STATUS_CODE_ERROR


def test_the_standard_variables_hold_where_the_job_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with Receiver() as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"{receiver.endpoint}/collector")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-team=streams")
        monkeypatch.setenv("OTEL_SERVICE_NAME", "billing")
        monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test")
        report(hg_metrics.opentelemetry())
        assert set(receiver.paths) == {"/collector/v1/metrics", "/collector/v1/traces"}
        assert all(headers["x-team"] == "streams" for headers in receiver.headers)
        assert {one["service.name"] for one in receiver.resources} == {"billing"}
        assert {one["deployment.environment"] for one in receiver.resources} == {"test"}


def test_what_the_job_says_goes_before_the_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    with Receiver() as receiver:
        reporter = hg_metrics.opentelemetry(endpoint=f"{receiver.endpoint}/", headers={"x-token": "t"}, traces=False)
        assert "'t'" not in repr(reporter)
        report(reporter)
        assert receiver.paths == ["/v1/metrics"]
        assert [headers["x-token"] for headers in receiver.headers] == ["t"]
        assert receiver.resources[0]["service.name"] == "headgate"


@pytest.mark.parametrize(
    ("variable", "value", "paths"),
    [
        ("OTEL_SDK_DISABLED", "true", []),
        ("OTEL_METRICS_EXPORTER", "none", ["/v1/traces"]),
        ("OTEL_TRACES_EXPORTER", "none", ["/v1/metrics"]),
    ],
)
def test_a_signal_that_is_switched_off_is_not_sent(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, paths: list[str]
) -> None:
    monkeypatch.setenv(variable, value)
    with Receiver() as receiver:
        report(hg_metrics.opentelemetry(endpoint=receiver.endpoint))
        assert receiver.paths == paths


def test_metrics_come_again_and_again_while_the_job_runs() -> None:
    core = eventful()
    with Receiver() as receiver:
        made = Metrics(
            "orders", lambda: live(core), [hg_metrics.opentelemetry(endpoint=receiver.endpoint, interval="50ms")]
        )
        made.open(lambda *_: None, str)
        receiver.wait_for(lambda: len(receiver.paths) >= 3)
        assert receiver.paths.count("/v1/metrics") >= 3, "before the end, which sends once more"
        made.close()


def test_a_collector_that_is_away_holds_up_nobody(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(telemetry, "CLOSE_S", 0.2)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "2")
    caplog.set_level(logging.CRITICAL, "opentelemetry")
    assert report(hg_metrics.opentelemetry(endpoint="http://127.0.0.1:9", traces=False)) == []
    [closing] = [thread for thread in threading.enumerate() if thread.name == "headgate-telemetry"]
    assert closing.is_alive(), "it still tries, and the job has ended"
    closing.join(60)


def test_settings_that_cannot_be_are_a_warning_and_the_job_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "1")
    with Receiver() as receiver:
        [(kind, text)] = report(hg_metrics.opentelemetry(endpoint=receiver.endpoint))
    assert kind == "warning"
    assert "max_queue_size" in text
    assert not [each for each in threading.enumerate() if "Otel" in each.name], "and nothing goes on"


def test_no_two_metrics_have_the_same_name_there() -> None:
    names = [otel_name(metric)[0] for metric in every_metric()]
    assert len(set(names)) == len(names)
