"""A collector: it takes OTLP over HTTP, as any does, and remembers what it was sent."""

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span

PATIENT_S = 60.0
Point = tuple[str, tuple[tuple[str, str], ...]]
"""A metric's name, and its attributes but for the job."""


class Receiver:
    """Listens on the loopback. ``status`` is what it answers to all."""

    def __init__(self, status: int = 200) -> None:
        self.status = status
        self.spans: list[Span] = []
        self.points: dict[Point, float] = {}
        self.units: dict[str, str] = {}
        self.monotonic: dict[str, bool] = {}
        self.resources: list[dict[str, str]] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self._changed = threading.Condition()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def wait_for(self, wanted: Callable[[], bool]) -> None:
        with self._changed:
            assert self._changed.wait_for(wanted, PATIENT_S), "nothing of the kind was sent"

    def value(self, name: str, **attributes: str) -> float | None:
        return self.points.get((name, tuple(sorted(attributes.items()))))

    def _take(self, path: str, headers: dict[str, str], body: bytes) -> bytes:
        with self._changed:
            self.paths.append(path)
            self.headers.append(headers)
            answer: Any
            if path.endswith("/v1/traces"):
                answer = ExportTraceServiceResponse()
                for traced in ExportTraceServiceRequest.FromString(body).resource_spans:
                    self.resources.append(_attributes(traced.resource))
                    self.spans += [span for scope in traced.scope_spans for span in scope.spans]
            else:
                answer = ExportMetricsServiceResponse()
                for measured in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                    self.resources.append(_attributes(measured.resource))
                    for scope in measured.scope_metrics:
                        for metric in scope.metrics:
                            self._metric(metric)
            self._changed.notify_all()
        return bytes(answer.SerializeToString())

    def _metric(self, metric: Any) -> None:
        counted = metric.WhichOneof("data") == "sum"
        self.units[metric.name] = metric.unit
        self.monotonic[metric.name] = counted and metric.sum.is_monotonic
        for point in (metric.sum if counted else metric.gauge).data_points:
            about = _attributes(point)
            about.pop("job")
            value = point.as_int if point.WhichOneof("value") == "as_int" else point.as_double
            self.points[metric.name, tuple(sorted(about.items()))] = value

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                answer = receiver._take(self.path, dict(self.headers.items()), body)
                self.send_response(receiver.status)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: object) -> None:
                """Quiet."""

        return Handler


def _attributes(of: Any) -> dict[str, str]:
    return {each.key: each.value.string_value for each in of.attributes}


def plain(span: Span) -> dict[str, Any]:
    """The attributes of a span as they were given."""
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in span.attributes}
