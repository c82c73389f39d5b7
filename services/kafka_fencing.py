"""Has a killed broker fenced before it starts again.

One rule: a broker that was killed starts as a follower of what stands in the metadata, never as the leader it once was.

A node that is broker and controller in one starts with the old metadata, in which it still leads its partitions. Its
transaction coordinator then takes up decided transactions before the broker accepts connections, and when the
controller at last declares the old broker gone, the coordinator takes the partitions without a leader for deleted
ones, skips their markers, and calls the transactions complete: readers of committed records wait for ever. On
three nodes that was not seen: a killed broker is back after its old self was declared gone. So here a controller
alone declares that first.
"""

import re
from pathlib import Path

from services.jars import java
from services.server import HOST, ROOT, Server

# A broker's registration starts fenced; a change has 1 if it is fenced, -1 if it is unfenced, 0 for neither.
_FENCED = re.compile(r"(?:RegisterBrokerRecord|BrokerRegistrationChangeRecord)\(.*?\bfenced=(true|1|-1)\b")
_ACTIVE = "Performing controller activation"
LOG_SETTINGS = f"-Dlog4j2.configurationFile={ROOT}/services/log4j2.properties"


def was_killed(data: Path) -> bool:
    """Whether a broker has used this log directory and did not end in good order."""
    return (data / "meta.properties").exists() and not (data / ".kafka_cleanshutdown").exists()


class FencingController(Server):
    """The controller of a killed node, alone. It is ready when the metadata say that the broker is gone."""

    name = "kafka-controller"

    def __init__(self, directory: Path, data: Path, port: int) -> None:
        super().__init__(directory, port=port)
        self._data = data
        self._size = -1

    def prepare(self) -> None:
        """Write its settings, and forget the log of an earlier time."""
        self.log.unlink(missing_ok=True)
        self._size = -1
        self._settings.write_text(
            "process.roles=controller\n"
            "node.id=1\n"
            f"listeners=CONTROLLER://{HOST}:{self.port}\n"
            "controller.listener.names=CONTROLLER\n"
            "listener.security.protocol.map=CONTROLLER:PLAINTEXT\n"
            f"controller.quorum.voters=1@{HOST}:{self.port}\n"
            f"log.dirs={self._data}\n"
            "broker.session.timeout.ms=200\n"
            "broker.heartbeat.interval.ms=100\n"
            "metadata.max.idle.interval.ms=100\n"
        )

    def command(self) -> list[str]:
        """The node without the broker."""
        options = (LOG_SETTINGS, "-Dservices.log.level=INFO")
        return java("kafka", "kafka.Kafka", str(self._settings), heap="256m", options=options)

    def ready(self) -> bool:
        """Whether the broker is fenced, and that stands in the metadata log.

        The record of an idle controller follows every 100 ms. Records keep their order, so one that came after the
        controller spoke of the fencing says that the record of it is in the file.
        """
        text = self.log.read_text(errors="replace")
        states = _FENCED.findall(text)
        if _ACTIVE not in text or states[-1:] == ["-1"]:
            return False
        size = sum(file.stat().st_size for file in self._data.glob("__cluster_metadata-0/*.log"))
        if self._size < 0:
            self._size = size
        return size > self._size

    @property
    def _settings(self) -> Path:
        return self.directory / "controller.properties"
