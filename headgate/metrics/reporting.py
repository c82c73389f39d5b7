"""The metrics of a job that runs here, and whoever is told them.

One rule: metrics are made when somebody asks. A job whose metrics nobody reads pays for counting its events.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from headgate.metrics.reading import Facts
from headgate.metrics.settings import OpenTelemetry, Prometheus, Reporter
from headgate.metrics.totals import EventTotals

if TYPE_CHECKING:
    from headgate.metrics.telemetry import Telemetry


class Metrics:
    """The metrics of one job."""

    def __init__(self, job: str, status: Callable[[], Mapping[str, Any]], reporters: Iterable[Reporter] = ()) -> None:
        """``status`` is asked for when metrics are, from any thread. Nothing is reported yet."""
        self._job = job
        self._status = status
        self._reporters = tuple(reporters)
        self._told = EventTotals()
        self._telemetry: list[Telemetry] = []

    def take(self, line: Mapping[str, Any]) -> None:
        """Take in an event of the job."""
        self._told.take(line)
        for each in self._telemetry:
            each.take(line)

    def exposition(self, accept: str) -> tuple[str, bytes]:
        """Content type and body for a scraper that sends this ``Accept`` header. From any thread."""
        from headgate.metrics import exposition  # noqa: PLC0415 - only jobs that are scraped need the client

        return exposition.exposition(exposition.registry_of(self._job, self._facts), accept)

    def open(self, tell: Callable[[str, str], None], serve: Callable[[int], str]) -> None:
        """Begin to report as the job wants it. ``tell`` takes the kind of a line (notice, warning) and its text.

        ``serve`` has the metrics served at a port, and says where: ``headgate.serve`` does it.
        A job runs without its metrics rather than not at all.
        """
        for reporter in self._reporters:
            try:
                match reporter:
                    case Prometheus(port=port):
                        tell("notice", f"metrics are served at {serve(port)}")
                    case OpenTelemetry():
                        from headgate.metrics.telemetry import Telemetry  # noqa: PLC0415 - it needs an extra

                        self._telemetry.append(Telemetry(self._job, reporter, self._facts))
            except Exception as error:  # noqa: BLE001 - others' code, and settings in others' variables
                said = error.strerror if isinstance(error, OSError) else str(error)
                tell("warning", f"metrics are not reported, as {reporter} would have it: {said}")

    def close(self) -> None:
        """Report no more."""
        for each in self._telemetry:
            each.close()
        self._telemetry = []

    def _facts(self) -> Facts:
        return Facts(self._status(), self._told)
