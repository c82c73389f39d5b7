"""What a Prometheus reads, with the parsers of its own client."""

import pytest
from prometheus_client import Metric as Family
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from headgate.metrics.reporting import Metrics
from headgate.metrics.table import samples
from tests.metrics.facts import eventful, facts_of
from tests.view.test_job import live

OPENMETRICS = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"


@pytest.fixture(scope="module")
def metrics() -> Metrics:
    core = eventful()
    made = Metrics("orders", lambda: live(core))
    for line in core.lines:
        made.take(line)
    return made


def parsed(metrics: Metrics, accept: str) -> tuple[str, list[Family]]:
    content_type, body = metrics.exposition(accept)
    text = body.decode("utf-8")
    if "openmetrics" in content_type:
        return content_type, list(openmetrics.text_string_to_metric_families(text))  # type: ignore[no-untyped-call]
    return content_type, list(text_string_to_metric_families(text))


@pytest.mark.parametrize("accept", ["", "text/plain", "*/*", OPENMETRICS])
def test_every_sample_of_the_table_is_there_with_its_labels(metrics: Metrics, accept: str) -> None:
    _, families = parsed(metrics, accept)
    shown = {(one.name, frozenset(one.labels.items())): one.value for family in families for one in family.samples}
    wanted = {}
    for metric, found in samples(facts_of(eventful())):
        for sample in found:
            labels = {"job": "orders", **dict(zip(metric.labels, sample.labels, strict=True))}
            wanted[metric.name, frozenset(labels.items())] = sample.value
    assert shown == wanted


def test_the_format_is_what_the_scraper_asks_for(metrics: Metrics) -> None:
    content_type, body = metrics.exposition(OPENMETRICS)
    assert content_type.startswith("application/openmetrics-text")
    assert body.endswith(b"# EOF\n")
    content_type, body = metrics.exposition("text/plain")
    assert content_type.startswith("text/plain; version=0.0.4")
    assert b"# EOF" not in body


def test_names_of_a_job_are_escaped() -> None:
    core = eventful()
    status = live(core)
    status["sinks"][0]["sink"] = 'a"b\\c\nd'
    _, families = parsed(Metrics("orders", lambda: status), "text/plain")
    labels = {one.labels["sink"] for family in families for one in family.samples if "sink" in one.labels}
    assert labels == {'a"b\\c\nd'}


def test_two_scrapes_of_a_job_at_rest_are_alike(metrics: Metrics) -> None:
    assert metrics.exposition("text/plain") == metrics.exposition("text/plain")
