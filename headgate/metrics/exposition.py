"""Metrics as Prometheus reads them.

One rule: text and escaping, formats and their negotiation are prometheus-client's. Nothing is kept between two scrapes:
the samples are made when somebody asks.
"""

from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric as Family
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from headgate.metrics.kinds import COUNTER
from headgate.metrics.reading import Facts
from headgate.metrics.table import samples


class JobCollector(Collector):
    """The metrics of one job."""

    def __init__(self, job: str, facts: Callable[[], Facts]) -> None:
        """``facts`` are asked for when metrics are."""
        self._job = job
        self._facts = facts

    def collect(self) -> Iterator[Family]:
        """Every metric that has samples now."""
        for metric, found in samples(self._facts()):
            kind = CounterMetricFamily if metric.kind == COUNTER else GaugeMetricFamily
            family = kind(metric.name.removesuffix("_total"), metric.help, labels=("job", *metric.labels))
            for sample in found:
                family.add_metric((self._job, *sample.labels), sample.value)
            yield family

    def describe(self) -> Iterable[Family]:
        """Nothing: what there is depends on the job."""
        return ()


def registry_of(job: str, facts: Callable[[], Facts]) -> CollectorRegistry:
    """A registry of the job's own: nothing else that is in the process is in it."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(JobCollector(job, facts))
    return registry


def exposition(registry: CollectorRegistry, accept: str) -> tuple[str, bytes]:
    """Content type and body for a scraper that sends this ``Accept`` header: OpenMetrics if it asks for it."""
    encode, content_type = choose_encoder(accept)
    return content_type, encode(registry)
