"""Where the metrics of a job go, and what is refused."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import headgate as hg
from headgate.errors import InvalidJob, InvalidOption
from headgate.metrics.reporting import Metrics
from headgate.metrics.settings import PORT_MAX, OpenTelemetry, Prometheus, reporters
from headgate.run.start import Running
from tests.metrics.facts import eventful
from tests.view.test_job import live


def opened(serve: Callable[[int], str]) -> tuple[str, str]:
    core = eventful()
    said: list[tuple[str, str]] = []
    made = Metrics("orders", lambda: live(core), [hg.metrics.prometheus(port=9404)])
    made.open(lambda kind, text: said.append((kind, text)), serve)
    made.close()
    [one] = said
    return one


def test_it_is_said_where_metrics_are_served() -> None:
    said = opened(lambda port: f"http://127.0.0.1:{port}/metrics")
    assert said == ("notice", "metrics are served at http://127.0.0.1:9404/metrics")


def test_a_port_that_is_taken_costs_a_warning_and_not_the_job() -> None:
    def taken(_: int) -> str:
        raise OSError(98, "Address already in use")

    kind, text = opened(taken)
    assert kind == "warning"
    assert "port=9404" in text
    assert "Address already in use" in text


def job(**settings: Any) -> hg.Job:
    return hg.Job("orders", checkpoint=hg.Checkpointing(storage="/nowhere"), **settings)


def test_a_job_takes_one_reporter_several_or_none() -> None:
    one, two = hg.metrics.prometheus(port=9404), hg.metrics.opentelemetry(traces=False)
    assert job().metrics == ()
    assert job(metrics=one).metrics == (one,)
    assert job(metrics=[one, two]).metrics == (one, two)
    assert (type(one), type(two)) == (Prometheus, OpenTelemetry)


@pytest.mark.parametrize("wrong", ["prometheus", 9404, [9404], hg.metrics.prometheus, {"port": 1}])
def test_what_is_no_reporter_is_refused_where_it_is_written(wrong: object) -> None:
    with pytest.raises(InvalidJob, match=r"^test_reporting\.py:\d+: metrics=.*headgate\.metrics\.prometheus"):
        job(metrics=wrong)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"port": "9404"}, "port='9404' is not a valid whole number"),
        ({"port": -1}, "too few"),
        ({"port": PORT_MAX + 1}, "is not a valid port: it must be 65535 or less"),
    ],
)
def test_a_port_that_is_none_is_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidOption, match=said):
        hg.metrics.prometheus(**settings)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"endpoint": "localhost:4318"}, "is not the address of a collector"),
        ({"endpoint": ""}, "is not the address of a collector"),
        ({"interval": "often"}, "interval='often' is not a valid duration"),
        ({"interval": 0}, "too short"),
    ],
)
def test_settings_of_a_collector_that_cannot_be_are_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidOption, match=said):
        hg.metrics.opentelemetry(**settings)


def test_without_the_sdk_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headgate.metrics.settings.find_spec", lambda _: None)
    with pytest.raises(InvalidOption, match=r"pip install 'headgate\[otel\]'"):
        hg.metrics.opentelemetry()


def test_reporters_are_told_apart_from_all_else() -> None:
    assert reporters(None) == ()
    with pytest.raises(TypeError):
        reporters("both")


def test_that_an_event_is_miscounted_ends_no_job_and_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        def take(self, line: Any) -> None:
            raise KeyError(line["event"])

    running: Any = SimpleNamespace(metrics=Broken(), _miscounted=False)
    for _ in range(3):
        Running._count(running, {"event": "restart"})
    assert [one.getMessage() for one in caplog.records] == [
        "metrics have missed an event, and may from now on be wrong"
    ]
