"""Metrics and traces to an OpenTelemetry collector, through the official SDK.

One rule: what is sent is what the table and the traces say; how it is sent is the SDK's. Exports have threads of their
own: a collector that is away or slow holds up nobody, and at the end of a job it is waited for no longer than
``CLOSE_S``.

Imported only where a job asks for it: it needs the extra ``otel``.
"""

import os
import threading
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Status, StatusCode

from headgate import __version__
from headgate.metrics.kinds import COUNTER, Metric
from headgate.metrics.reading import Facts, Sample
from headgate.metrics.settings import OpenTelemetry
from headgate.metrics.spans import Span, Traces
from headgate.metrics.table import every_metric, samples
from headgate.view.history import LineView

SCOPE = "headgate"
CLOSE_S = 5.0
"""How long the end of a job waits for the last export."""
FRESH_S = 1.0
"""Instruments that are asked within this time are answered from the same look at the job."""
UNITS = {"seconds": "s", "bytes": "By", "ratio": "1"}


class Telemetry:
    """What is sent for one job."""

    def __init__(self, job: str, settings: OpenTelemetry, facts: Callable[[], Facts]) -> None:
        """Begin to send. Nothing, if ``OTEL_SDK_DISABLED`` is true or the exporter of a signal is ``none``."""
        self._job = job
        self._facts = facts
        self._lock = threading.Lock()
        self._looked: tuple[float, dict[str, list[Sample]]] | None = None
        self._traces = Traces()
        found = OTELResourceDetector().detect()
        self._resource = Resource({"service.name": SCOPE, "service.version": __version__}).merge(found)
        off = os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
        self._meters: MeterProvider | None = None
        self._tracers: TracerProvider | None = None
        try:
            if settings.metrics and not off and not _none("METRICS"):
                self._meters = self._measure(settings)
            if settings.traces and not off and not _none("TRACES"):
                self._tracers = self._trace(settings)
        except Exception:
            self.close()  # Half of it would report under a warning that nothing is reported.
            raise
        self._tracer = None if self._tracers is None else self._tracers.get_tracer(SCOPE, __version__)

    def take(self, line: LineView) -> None:
        """Take in an event. Whole traces wait in the SDK for its own thread, which is the one that sends."""
        for root in self._traces.take(line):
            if self._tracer is not None:
                self._send(root, None)

    def close(self) -> None:
        """Send the rest, if that is soon done."""
        closing = threading.Thread(target=self._shut_down, name="headgate-telemetry", daemon=True)
        closing.start()
        closing.join(CLOSE_S)

    def _shut_down(self) -> None:
        for provider in (self._tracers, self._meters):
            if provider is not None:
                provider.shutdown()

    # -- traces ------------------------------------------------------------------------------------------------------

    def _trace(self, settings: OpenTelemetry) -> TracerProvider:
        exporter = OTLPSpanExporter(**_where(settings, "traces"))
        provider = TracerProvider(resource=self._resource, shutdown_on_exit=False)
        provider.add_span_processor(BatchSpanProcessor(exporter))
        return provider

    def _send(self, span: Span, parent: trace.Span | None) -> None:
        assert self._tracer is not None
        context = Context() if parent is None else trace.set_span_in_context(parent)
        about = {**span.attributes, **({"headgate.job": self._job} if parent is None else {})}
        made = self._tracer.start_span(span.name, context, attributes=about, start_time=_ns(span.start_ms))
        if span.error is not None:
            made.set_status(Status(StatusCode.ERROR, span.error))
        for child in span.children:
            self._send(child, made)
        made.end(_ns(span.end_ms))

    # -- metrics -----------------------------------------------------------------------------------------------------

    def _measure(self, settings: OpenTelemetry) -> MeterProvider:
        exporter = OTLPMetricExporter(**_where(settings, "metrics"))
        reader = PeriodicExportingMetricReader(exporter, export_interval_millis=settings.interval_ms)
        provider = MeterProvider([reader], self._resource, shutdown_on_exit=False)
        meter = provider.get_meter(SCOPE, __version__)
        for metric in every_metric():
            make = meter.create_observable_counter if metric.kind == COUNTER else meter.create_observable_gauge
            name, unit = otel_name(metric)
            make(name, [partial(self._observe, metric)], unit, metric.help)
        return provider

    def _observe(self, metric: Metric, _: CallbackOptions) -> Iterable[Observation]:
        names = ("job", *metric.labels)
        for sample in self._look().get(metric.name, ()):
            yield Observation(float(sample.value), dict(zip(names, (self._job, *sample.labels), strict=True)))

    def _look(self) -> dict[str, list[Sample]]:
        """All samples, made once for all instruments of an export."""
        with self._lock:
            now_s = time.monotonic()
            if self._looked is None or now_s - self._looked[0] > FRESH_S:
                self._looked = now_s, {metric.name: found for metric, found in samples(self._facts())}
            return self._looked[1]


def otel_name(metric: Metric) -> tuple[str, str]:
    """Name and unit in OpenTelemetry's manner: ``headgate.checkpoint_last_duration`` in ``s``."""
    stem = metric.name.removesuffix("_total")
    unit = next((unit for word, unit in UNITS.items() if stem.endswith(f"_{word}")), "")
    for word, its in UNITS.items():
        stem = stem.removesuffix(f"_{word}") if its == unit and word != "ratio" else stem
    return stem.replace("_", ".", 1), unit


def _where(settings: OpenTelemetry, signal: str) -> dict[str, Any]:
    """What the user has said goes before the environment, which the SDK reads."""
    endpoint = {} if settings.endpoint is None else {"endpoint": f"{settings.endpoint.rstrip('/')}/v1/{signal}"}
    return {**endpoint, **({"headers": dict(settings.headers)} if settings.headers else {})}


def _none(signal: str) -> bool:
    return os.environ.get(f"OTEL_{signal}_EXPORTER", "").strip().lower() == "none"


def _ns(ms: float) -> int:
    return round(ms * 1_000_000)
