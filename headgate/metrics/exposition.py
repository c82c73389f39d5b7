"""Metrics as Prometheus reads them.

One rule: text and escaping, formats and their negotiation are prometheus-client's. Nothing is kept between two scrapes:
the samples are made when somebody asks.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric as Family
from prometheus_client.exposition import choose_encoder
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from headgate.metrics.kinds import COUNTER, Metric
from headgate.metrics.reading import Facts, Sample
from headgate.metrics.table import STATE_OF_JOB, samples
from headgate.metrics.totals import EventTotals


class JobCollector(Collector):
    """The metrics of one job."""

    def __init__(self, job: str, facts: Callable[[], Facts]) -> None:
        """``facts`` are asked for when metrics are."""
        self._job = job
        self._facts = facts

    def collect(self) -> Iterator[Family]:
        """Every metric that has samples now."""
        for metric, found in samples(self._facts()):
            yield _family(self._job, metric, found)

    def describe(self) -> Iterable[Family]:
        """Nothing: what there is depends on the job."""
        return ()


class _Together(Collector):
    """What several jobs say. All samples of a metric stand together, as the form wants it."""

    def __init__(self, given: Iterable[Iterable[Family]]) -> None:
        self._families: dict[str, Family] = {}
        for family in (family for families in given for family in families):
            known = self._families.setdefault(family.name, family)
            if known is not family:
                known.samples += family.samples

    def collect(self) -> Iterator[Family]:
        return iter(self._families.values())

    def describe(self) -> Iterable[Family]:
        return ()


def read(job: str, told: str) -> list[Family]:
    """What the process of a job says, under the name by which the job is known here."""
    found = list(text_string_to_metric_families(told))
    for family in found:
        family.samples = [each._replace(labels={**each.labels, "job": job}) for each in family.samples]
    return found


def state_alone(job: str, status: Mapping[str, Any]) -> list[Family]:
    """Of a job that no process runs. Nothing else is measured of it."""
    return [_family(job, STATE_OF_JOB, list(STATE_OF_JOB.read(Facts(status, EventTotals()))))]


def together(given: Iterable[Iterable[Family]], accept: str) -> tuple[str, bytes]:
    """As ``exposition``, of several jobs."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Together(given))
    return exposition(registry, accept)


def _family(job: str, metric: Metric, found: Sequence[Sample]) -> Family:
    kind = CounterMetricFamily if metric.kind == COUNTER else GaugeMetricFamily
    family = kind(metric.name.removesuffix("_total"), metric.help, labels=("job", *metric.labels))
    for sample in found:
        family.add_metric((job, *sample.labels), sample.value)
    return family


def registry_of(job: str, facts: Callable[[], Facts]) -> CollectorRegistry:
    """A registry of the job's own: nothing else that is in the process is in it."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(JobCollector(job, facts))
    return registry


def exposition(registry: CollectorRegistry, accept: str) -> tuple[str, bytes]:
    """Content type and body for a scraper that sends this ``Accept`` header: OpenMetrics if it asks for it."""
    encode, content_type = choose_encoder(accept)
    return content_type, encode(registry)
