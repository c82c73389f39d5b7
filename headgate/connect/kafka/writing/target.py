"""Where a Kafka sink writes to, and how. One rule: it can be pickled, and goes to executors as it is."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from headgate.connect.kafka.producer.settings import Option
from headgate.connect.kafka.writing.names import Names

BATCH_SIZE = "batch.size"


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
    takes: int | None = None
    """How many bytes the topic takes at once, if that is known."""

    @property
    def producer_options(self) -> Mapping[str, Option]:
        """The options, with batches no larger than the topic takes: librdkafka would send them and be refused."""
        return self.options if self.takes is None else {BATCH_SIZE: self.takes, **self.options}

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
