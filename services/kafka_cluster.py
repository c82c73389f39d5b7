"""A cluster of several Kafka brokers.

One rule: it works as long as most of its nodes live. Each node is a `Kafka` that can be killed and started by itself.
"""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from services.kafka import Brokers, Kafka
from services.server import ServiceError, wait_until

_PROPERTIES = {
    # A killed broker is declared gone soon; one that only waits for a processor is not.
    "broker.session.timeout.ms": "10000",
    "broker.heartbeat.interval.ms": "1000",
    "min.insync.replicas": "2",
}


class KafkaCluster(Brokers):
    """Brokers on the loopback. A context manager."""

    def __init__(self, directory: Path | str, nodes: int = 3) -> None:
        self.nodes = [
            Kafka(Path(directory) / f"node-{number}", node=number, properties=_PROPERTIES)
            for number in range(1, nodes + 1)
        ]
        for node in self.nodes:
            node.join(self.nodes)

    @property
    def servers(self) -> str:
        """All brokers, with commas between them."""
        return ",".join(node.servers for node in self.nodes)

    @property
    def client(self) -> dict[str, str]:
        """The settings with which a librdkafka client reaches the brokers."""
        return {"bootstrap.servers": self.servers}

    @property
    def replicas(self) -> int:
        """As many as a node says."""
        return self.nodes[0].replicas

    def start(self) -> Self:
        """Start all that do not run, at once: one alone has no majority. Returns when all are in the cluster."""
        with ThreadPoolExecutor(len(self.nodes)) as threads:
            starts = [threads.submit(node.start) for node in self.nodes]
        for start in starts:
            start.result()
        admin = self.admin()
        wait_until(lambda: _brokers(admin) == len(self.nodes), 120, "all brokers to be in the cluster")
        return self

    def create_topic(self, name: str, partitions: int = 1, **config: str | int) -> None:
        """As of any brokers, and return when every node knows of it: one may be late."""
        super().create_topic(name, partitions, **config)
        for node in self.nodes:
            if node.running:
                wait_until(partial(_knows, node, name), 60, f"{node.servers} to know of the topic {name}")

    def stop(self) -> None:
        """End all nodes. None is left when it returns."""
        with ThreadPoolExecutor(len(self.nodes)) as threads:
            list(threads.map(Kafka.kill, self.nodes))

    def node_at(self, port: int) -> Kafka:
        """The node that answers clients at this port."""
        for node in self.nodes:
            if node.port == port:
                return node
        raise ServiceError(f"no broker is at port {port}")

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _brokers(admin: AdminClient) -> int:
    try:
        return len(admin.list_topics(timeout=10).brokers)
    except KafkaException:
        return 0  # A busy machine: it is asked again.


def _knows(node: Kafka, topic: str) -> bool:
    # A new client asks the only broker that it was told of.
    try:
        return topic in node.admin().list_topics(timeout=10).topics
    except KafkaException:
        return False
