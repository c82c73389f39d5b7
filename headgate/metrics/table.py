"""Every metric: its name, what it says, its twin in Flink, and how it is read.

One rule: a metric is read from the status of the job and from its events, which others see too, and what those do not
know has no sample: a value that was not measured is never exported as 0 or as a constant. Pure.

Names, units and suffixes are Prometheus': seconds and bytes, ``_total`` for what only grows. Every sample has the label
``job`` besides those that are named here. Labels are names of parts of the job, numbers of operators and
partitions, and words of a fixed list; how many samples a metric has is bounded whatever the job is
(``SERIES_MAX``).
"""

from collections.abc import Iterator
from itertools import chain, islice

from headgate.metrics.kinds import GAUGE, Metric
from headgate.metrics.of_job import CHECKPOINTS, JOB, SINKS
from headgate.metrics.of_tasks import STATE, STORE, TASKS
from headgate.metrics.reading import Facts, Sample

SERIES_MAX = 1_000
"""How many samples a metric has at most. The rest is left out, and counted."""
LEFT_OUT = Metric(
    "headgate_metrics_left_out",
    GAUGE,
    "Samples that are left out, since a metric has too many",
    (),
    "",
    lambda _: iter(()),
)
STATE_OF_JOB = next(metric for metric in JOB if metric.name == "headgate_job_state")
METRICS = (*JOB, *CHECKPOINTS, *TASKS, *STATE, *STORE, *SINKS)


def samples(facts: Facts) -> Iterator[tuple[Metric, list[Sample]]]:
    """Every metric that has samples now, and last how many were left out."""
    left_out = 0
    for metric in METRICS:
        reading = metric.read(facts)
        found = list(islice(reading, SERIES_MAX))
        left_out += sum(1 for _ in reading)
        if found:
            yield metric, found
    yield LEFT_OUT, [Sample((), left_out)]


def every_metric() -> Iterator[Metric]:
    """The table, with what says how much is left out."""
    return chain(METRICS, (LEFT_OUT,))
