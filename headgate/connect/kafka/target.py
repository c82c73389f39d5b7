"""Where a Kafka sink writes to, and how. One rule: it can be pickled, and goes to executors as it is."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from headgate.connect.kafka.names import Names
from headgate.connect.kafka.settings import Option


@dataclass(frozen=True)
class Target:
    """A topic of a cluster."""

    servers: str
    topic: str
    prefix: str
    timeout_ms: int
    """How long the broker lets a transaction stay open."""
    options: Mapping[str, Option] = field(default_factory=dict, repr=False)
    """Of librdkafka. There may be passwords among them."""

    def describe(self) -> str:
        """For people."""
        return f"Kafka topic {self.topic} at {self.servers}"


@dataclass(frozen=True)
class Owned:
    """A target, in the hands of one sink of one job."""

    target: Target
    names: Names


def client_options(target: Target) -> dict[str, str]:
    """The options as the protocol client takes them."""
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in target.options.items()
    }
