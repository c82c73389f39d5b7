"""Metrics and traces of a job, for Prometheus and OpenTelemetry.

One rule: nothing is measured here. Everything is read from the status of the job and from its events, by one table
(``table``), so that whoever scrapes sees what ``headgate status`` and ``headgate events`` show.

``settings``     where a user wants them: ``prometheus(...)``, ``opentelemetry(...)``
``told``         what events add up to
``reading``      how a metric is read from those and from the status
``kinds``        what a metric is
``of_job``, ``of_tasks``, ``table``
                 every metric, with its twin in Flink
``exposition``   the text that Prometheus scrapes, of one job or of several, through its own client
``spans``        events into traces of checkpoints and recoveries
``telemetry``    both to an OpenTelemetry collector, through its own SDK
``reporting``    what a job that runs has of all that

Not here: history and percentiles (``headgate.run.past``), and dashboards (``deploy``).
"""

from headgate.metrics.settings import OpenTelemetry, Prometheus, opentelemetry, prometheus

__all__ = ["OpenTelemetry", "Prometheus", "opentelemetry", "prometheus"]
