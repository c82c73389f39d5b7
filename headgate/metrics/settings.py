"""Where a user wants the metrics of a job. One rule: what is wrong is said where it is written."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from urllib.parse import urlsplit

from headgate.errors import InvalidOption
from headgate.values import Duration, count, duration_ms

PORT_MAX = 65_535


@dataclass(frozen=True)
class Prometheus:
    """Metrics are served on this machine alone, for a Prometheus to scrape."""

    port: int


@dataclass(frozen=True)
class OpenTelemetry:
    """Metrics and traces are sent to a collector, over OTLP and HTTP."""

    endpoint: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    interval_ms: int | None = None
    metrics: bool = True
    traces: bool = True


Reporter = Prometheus | OpenTelemetry


def prometheus(*, port: int) -> Prometheus:
    """Serve the metrics of the job at ``http://127.0.0.1:<port>/metrics`` while it runs. 0: a port that is free.

    The address is told as a ``notice``. It is for this machine alone, and asks nobody who they are.
    """
    count(port, name="port", example=9404)
    if port > PORT_MAX:
        raise InvalidOption(
            f"port={port} is not a valid port: it must be {PORT_MAX} or less, port=9404, or 0 for a free one"
        )
    return Prometheus(port)


def opentelemetry(
    *,
    endpoint: str | None = None,
    headers: Mapping[str, str] | None = None,
    interval: Duration | None = None,
    metrics: bool = True,
    traces: bool = True,
) -> OpenTelemetry:
    """Send metrics, and a trace for each checkpoint and each recovery, to an OpenTelemetry collector.

    ``endpoint``  where it listens for OTLP over HTTP, as ``http://localhost:4318``; None: as
                  ``OTEL_EXPORTER_OTLP_ENDPOINT`` says, and else there
    ``headers``   sent with every request, such as a token
    ``interval``  from one export of metrics to the next; None: as ``OTEL_METRIC_EXPORT_INTERVAL`` says, and else a
                  minute

    All other ``OTEL_`` variables that the SDK knows hold, too. Needs the extra: ``pip install 'headgate[otel]'``.
    """
    if endpoint is not None:
        parts = urlsplit(str(endpoint))
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise InvalidOption(
                f"endpoint={endpoint!r} is not the address of a collector: give 'http://localhost:4318'"
            )
    interval_ms = None if interval is None else duration_ms(interval, name="interval", example="60s", least=1)
    if find_spec("opentelemetry") is None or find_spec("opentelemetry.sdk") is None:
        raise InvalidOption("metrics.opentelemetry(...) needs OpenTelemetry's SDK: pip install 'headgate[otel]'")
    return OpenTelemetry(endpoint, dict(headers or {}), interval_ms, metrics, traces)


def reporters(given: object) -> tuple[Reporter, ...]:
    """What a job was given: one, several or none. ``TypeError`` if it is something else."""
    several = () if given is None else given if isinstance(given, Sequence) else (given,)
    found = tuple(each for each in several if isinstance(each, Reporter))
    if len(found) != len(several):
        raise TypeError
    return found
