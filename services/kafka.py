"""Kafka brokers: nodes in KRaft mode, each broker and controller in one, from Maven's jars.

One rule: what is small for a test (threads, internal partitions, heap, waits) is set here; how records, transactions
and groups behave stays as Kafka ships it, but for a longer maximum of the transaction timeout.
"""

import base64
import socket
import subprocess
import uuid
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Literal

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from services.jars import java
from services.kafka_fencing import LOG_SETTINGS, FencingController, was_killed
from services.server import HOST, Server, ServiceError, first_line, free_port, wait_until
from services.tls import Certificates

Mechanism = Literal["PLAIN", "SCRAM-SHA-256"]

_FIXED = {
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "INTERNAL",
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "transaction.max.timeout.ms": str(7 * 24 * 60 * 60 * 1000),
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    # Internal topics have few partitions.
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.num.partitions": "1",
    "num.network.threads": "2",
    "num.io.threads": "4",
    "background.threads": "2",
    "log.cleaner.dedupe.buffer.size": str(4 * 1024 * 1024),
}


_ALONE = {
    # A broker that is paused or waits for a processor is not declared gone. A killed one is, by `FencingController`.
    "broker.session.timeout.ms": str(60 * 60 * 1000),
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}


class Brokers(ABC):
    """What a client sees of a cluster, of one node or of many."""

    @property
    @abstractmethod
    def servers(self) -> str:
        """Where clients find the brokers: ``host:port``, with commas between them."""

    @property
    @abstractmethod
    def client(self) -> dict[str, str]:
        """The settings with which a librdkafka client reaches the brokers as the super user."""

    @property
    @abstractmethod
    def replicas(self) -> int:
        """How many brokers hold each partition."""

    def admin(self) -> AdminClient:
        """An administrator's client, as the super user."""
        return AdminClient({**self.client, "log_level": "0", "socket.timeout.ms": "10000"})

    def create_topic(self, name: str, partitions: int = 1, **config: str | int) -> None:
        """Make a topic, and return when each of its partitions has a leader.

        Settings may be written with underscores: ``max_message_bytes=1000``.
        """
        admin = self.admin()
        settings = {key.replace("_", "."): str(value) for key, value in config.items()}
        topic = NewTopic(name, num_partitions=partitions, replication_factor=self.replicas, config=settings)
        admin.create_topics([topic], operation_timeout=60)[name].result(60)
        wait_until(lambda: _leaders(admin, name) == partitions, 60, f"leaders of the topic {name}")

    def delete_topic(self, name: str) -> None:
        """Delete a topic, and return when the brokers know it no more."""
        admin = self.admin()
        admin.delete_topics([name], operation_timeout=60)[name].result(60)
        wait_until(lambda: name not in admin.list_topics(timeout=10).topics, 60, f"the end of the topic {name}")


class Kafka(Server, Brokers):
    """A broker on the loopback, alone unless it joins others before its first start.

    Args:
        directory: its data, settings and log.
        port: the port for clients; a free one when not given.
        node: its number among those that it joins.
        sasl: the mechanism with which clients must say who they are; none when not given.
        user: the super user. `client` uses it.
        password: the super user's password.
        users: further users with their passwords, without any right when there is an authorizer.
        tls: whether clients must use TLS. `certificates` says which authority signed the broker's certificate.
        authorizer: whether rights are checked. All but the super user then need an ACL for whatever they do.
        properties: broker settings that win over those made here.

    """

    name = "kafka"
    stop_seconds: ClassVar[float] = 30.0

    def __init__(
        self,
        directory: Path | str,
        *,
        port: int | None = None,
        node: int = 1,
        sasl: Mechanism | None = None,
        user: str = "admin",
        password: str = "admin-secret",  # noqa: S107 - a broker that lives for one test
        users: Mapping[str, str] | None = None,
        tls: bool = False,
        authorizer: bool = False,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(directory, port=port)
        if authorizer and sasl is None:
            raise ServiceError("kafka cannot check rights of clients without names: give sasl, too")
        self.sasl = sasl
        self.user = user
        self.password = password
        self.users = {user: password, **(users or {})}
        self.authorizer = authorizer
        self.certificates = Certificates(self.directory / "tls") if tls else None
        self._data = self.directory / "data"
        self._properties = dict(properties or {})
        self._node = node
        self._cluster = _new_cluster_id()
        self._voters = [self]
        self._internal_port = free_port()
        self._controller_port = free_port()

    def join(self, others: "Sequence[Kafka]") -> None:
        """Be one node of a cluster; the first of the others, who may be this one, names it."""
        self._cluster = others[0]._cluster  # noqa: SLF001 - one of us
        self._voters = list(others)

    @property
    def servers(self) -> str:
        """Where clients find the broker: ``host:port``."""
        return f"{HOST}:{self.port}"

    @property
    def client(self) -> dict[str, str]:
        """The settings with which a librdkafka client reaches the broker as the super user."""
        return self.client_of(self.user)

    @property
    def replicas(self) -> int:
        """One, or three where there are as many nodes."""
        return min(3, len(self._voters))

    def client_of(self, user: str) -> dict[str, str]:
        """The settings with which a librdkafka client reaches the broker as this user."""
        settings = {"bootstrap.servers": self.servers}
        if self._protocol != "PLAINTEXT":
            settings["security.protocol"] = self._protocol
        if self.sasl is not None:
            settings |= {
                "sasl.mechanism": self.sasl,
                "sasl.username": user,
                "sasl.password": self.users[user],
            }
        if self.certificates is not None:
            settings["ssl.ca.location"] = str(self.certificates.authority)
        return settings

    def ports(self) -> tuple[int, ...]:
        """For clients, for the broker itself, and for the controller."""
        return self.port, self._internal_port, self._controller_port

    def prepare(self) -> None:
        """Write the settings, and format the log directory the first time."""
        if self.certificates is not None:
            self.certificates.make()
        settings = self.directory / "server.properties"
        settings.write_text("".join(f"{key}={value}\n" for key, value in self._settings().items()))
        if self._alone and was_killed(self._data):
            with FencingController(self.directory, self._data, self._controller_port) as controller:
                controller.kill()
        if not (self._data / "meta.properties").exists():
            self._format(settings)

    def command(self) -> list[str]:
        """The broker."""
        return java(self.name, "kafka.Kafka", str(self.directory / "server.properties"), options=self._options)

    def ready(self) -> bool:
        """Whether it gives metadata to the super user, and every partition has a leader."""
        try:
            socket.create_connection((HOST, self.port), timeout=5).close()
            metadata = self.admin().list_topics(timeout=5)
        except (OSError, KafkaException):
            return False
        return bool(metadata.brokers) and all(
            partition.leader >= 0 for topic in metadata.topics.values() for partition in topic.partitions.values()
        )

    def _format(self, settings: Path) -> None:
        arguments = ["format", "--cluster-id", self._cluster, "--config", str(settings)]
        if self.sasl == "SCRAM-SHA-256":
            for user, password in self.users.items():
                arguments += ["--add-scram", f"SCRAM-SHA-256=[name={user},password={password}]"]
        done = subprocess.run(
            java(self.name, "kafka.tools.StorageTool", *arguments, heap="256m", options=self._options),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise ServiceError(f"kafka cannot format {self.directory}: {first_line(done.stderr or done.stdout)}")

    @property
    def _options(self) -> tuple[str, ...]:
        # Native code is unpacked among the server's own files, because a killed server cannot delete it.
        return LOG_SETTINGS, f"-Djava.io.tmpdir={self.directory}"

    @property
    def _alone(self) -> bool:
        return len(self._voters) == 1

    @property
    def _protocol(self) -> str:
        secure = "SSL" if self.certificates is not None else "PLAINTEXT"
        return secure if self.sasl is None else f"SASL_{secure}"

    def _settings(self) -> dict[str, str]:
        client, internal, controller = (f"{HOST}:{port}" for port in self.ports())
        settings = {
            **_FIXED,
            **(_ALONE if self._alone else {}),
            "node.id": str(self._node),
            "listeners": f"CLIENT://{client},INTERNAL://{internal},CONTROLLER://{controller}",
            "advertised.listeners": f"CLIENT://{client},INTERNAL://{internal}",
            "listener.security.protocol.map": f"CLIENT:{self._protocol},INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "controller.quorum.voters": ",".join(
                f"{each._node}@{HOST}:{each._controller_port}"  # noqa: SLF001 - one of us
                for each in self._voters
            ),
            "log.dirs": str(self._data),
        }
        if self.certificates is not None:
            settings |= {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(self.certificates.key_and_certificate),
            }
        if self.sasl is not None:
            settings["sasl.enabled.mechanisms"] = self.sasl
            settings[f"listener.name.client.{self.sasl.lower()}.sasl.jaas.config"] = self._jaas(self.sasl)
        if self.authorizer:
            settings |= {
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                # The broker speaks to itself without a name, through listeners that clients do not use.
                "super.users": f"User:ANONYMOUS;User:{self.user}",
            }
        return settings | self._properties

    def _jaas(self, mechanism: Mechanism) -> str:
        package = "org.apache.kafka.common.security"
        if mechanism == "SCRAM-SHA-256":
            return f"{package}.scram.ScramLoginModule required;"
        users = " ".join(f'user_{user}="{password}"' for user, password in self.users.items())
        return f"{package}.plain.PlainLoginModule required {users};"


def _new_cluster_id() -> str:
    # A dash at the front would be read as an option.
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "_")


def _leaders(admin: AdminClient, topic: str) -> int:
    """How many partitions of the topic have a leader."""
    found = admin.list_topics(topic, timeout=10).topics[topic]
    return sum(partition.leader >= 0 for partition in found.partitions.values())
