"""HBase in one process, on the local file system, with its REST gateway in another.

One rule: what it has acknowledged is written to a file, so a kill of all its processes loses nothing of it.

Hadoop's plain class for local files says of itself that it flushes when HBase's log asks it to. The one with checksums,
which is the default, does not say so; in a trial it lost nothing either.
"""

import base64
import http.client
import json
import os
import shlex
import signal
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import ClassVar, Self
from urllib.parse import quote
from xml.sax.saxutils import escape

from services.jars import java
from services.server import HOST, Server, ServiceError, free_port, wait_until

_LOGGING = """\
log4j.rootLogger=INFO,console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d %p [%t] %c{2}: %m%n
"""

# HBase looks into classes that Java keeps closed.
_OPEN = [
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-opens=java.base/java.lang.reflect=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-exports=java.base/jdk.internal.misc=ALL-UNNAMED",
]


class HBase(Server):
    """Master, region server and ZooKeeper in one JVM, and the gateway that `url` leads to."""

    name: ClassVar[str] = "hbase"
    # It ends in good order within half a minute, and comes up from its log as well.
    stop_signal: ClassVar[signal.Signals] = signal.SIGKILL

    def __init__(self, directory: Path | str, *, port: int | None = None) -> None:
        super().__init__(directory, port=port)
        self._inner_ports = tuple(free_port() for _ in range(3))

    @property
    def url(self) -> str:
        """Where the REST gateway answers."""
        return f"http://{HOST}:{self.port}"

    def ports(self) -> tuple[int, ...]:
        """The gateway, ZooKeeper, master and region server."""
        return (self.port, *self._inner_ports)

    def start(self) -> Self:
        """Start both processes, and wait until HBase answers through the gateway."""
        if not self.running:
            self.kill()
            # A gateway that was killed holds its port until the last of its threads has ended.
            wait_until(lambda: all(_is_free(port) for port in self.ports()), what="the ports of hbase to be free")
        return super().start()

    def prepare(self) -> None:
        """Write the configuration."""
        zookeeper, master, region_server = self._inner_ports
        settings = {
            "hbase.rootdir": f"file://{self.directory}/data",
            "hbase.tmp.dir": str(self.directory / "temporary"),
            "hbase.cluster.distributed": "false",
            "hbase.zookeeper.quorum": HOST,
            "hbase.zookeeper.property.dataDir": f"{self.directory}/zookeeper",
            "hbase.zookeeper.property.clientPort": zookeeper,
            "hbase.zookeeper.property.clientPortAddress": HOST,
            "hbase.master.hostname": HOST,
            "hbase.master.ipc.address": HOST,
            "hbase.master.port": master,
            "hbase.master.info.port": -1,
            "hbase.unsafe.regionserver.hostname": HOST,
            "hbase.regionserver.ipc.address": HOST,
            "hbase.regionserver.port": region_server,
            "hbase.regionserver.info.port": -1,
            "hbase.rest.host": HOST,
            "hbase.rest.port": self.port,
            "hbase.rest.info.port": -1,
            # There is one region server and no other to wait for.
            "hbase.master.wait.on.regionservers.maxtostart": 1,
            "hbase.regionserver.msginterval": 500,
            "fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
            "hbase.unsafe.stream.capability.enforce": "false",
        }
        self._configuration.mkdir(parents=True, exist_ok=True)
        properties = [
            f"<property><name>{name}</name><value>{escape(str(value))}</value></property>\n"
            for name, value in settings.items()
        ]
        text = f"<configuration>\n{''.join(properties)}</configuration>\n"
        (self._configuration / "hbase-site.xml").write_text(text)
        (self._configuration / "log4j.properties").write_text(_LOGGING)

    def command(self) -> list[str]:
        """The gateway as a child of HBase itself, so that both are killed together."""
        gateway = self._java("org.apache.hadoop.hbase.rest.RESTServer", "128m")
        main = self._java("org.apache.hadoop.hbase.master.HMaster", "512m")
        return ["/bin/sh", "-c", f"{shlex.join(gateway)} & exec {shlex.join(main)}"]

    def ready(self) -> bool:
        """Whether the gateway reaches a region server, and every region is open."""
        try:
            status, answer = self.request("GET", "/status/cluster", timeout=5)
            if status != 200 or not json.loads(answer).get("LiveNodes"):
                return False
            status, answer = self.request("GET", "/", timeout=5)
            return status == 200 and all(self._is_open(each["name"]) for each in json.loads(answer).get("table", ()))
        except (OSError, http.client.HTTPException):
            return False

    def _is_open(self, table: str) -> bool:
        """Whether a row of a table can be read: then its region is open. One that is not there is 404."""
        return self.request("GET", f"/{quote(table)}/0", timeout=5)[0] in (200, 404)

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        timeout: float = 120,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, bytes]:
        """Ask the gateway, as anybody else would: the status and the body of its answer."""
        connection = http.client.HTTPConnection(HOST, self.port, timeout=timeout)
        try:
            kinds = {"Accept": "application/json", "Content-Type": "application/json", **(headers or {})}
            connection.request(method, path, None if body is None else json.dumps(body), kinds)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def create_table(self, name: str, *families: str, versions: int = 1) -> None:
        """Make a table with these column families, of which each keeps this many versions of a cell."""
        columns = [{"name": family, "VERSIONS": str(versions)} for family in families]
        status, answer = self.request("PUT", f"/{quote(name)}/schema", {"name": name, "ColumnSchema": columns})
        if status != 201:
            raise ServiceError(f"cannot make table {name}: {answer.decode()}")

    def cells(self, table: str) -> Iterator[tuple[bytes, str, int, bytes]]:
        """All cells of a table, all versions: row, column, timestamp, value."""
        status, answer = self.request("GET", f"/{quote(table)}/*?maxversions=100")
        if status == 404:  # an empty table
            return
        if status != 200:
            raise ServiceError(f"cannot read table {table}: {answer.decode()}")
        for row in json.loads(answer)["Row"]:
            for cell in row["Cell"]:
                column = base64.b64decode(cell["column"]).decode()
                yield base64.b64decode(row["key"]), column, cell["timestamp"], base64.b64decode(cell["$"])

    def rows(self, table: str) -> dict[bytes, dict[str, bytes]]:
        """The newest values of all rows of a table."""
        found: dict[bytes, dict[str, tuple[int, bytes]]] = {}
        for key, column, timestamp, value in self.cells(table):
            row = found.setdefault(key, {})
            if column not in row or timestamp > row[column][0]:
                row[column] = (timestamp, value)
        return {key: {column: value for column, (_, value) in row.items()} for key, row in found.items()}

    @property
    def _configuration(self) -> Path:
        return self.directory / "conf"

    def _java(self, main: str, heap: str) -> list[str]:
        command = java(self.name, main, "start", heap=heap, options=_OPEN)
        at = command.index("-cp") + 1
        command[at] = f"{self._configuration}{os.pathsep}{command[at]}"
        return command


def _is_free(port: int) -> bool:
    try:
        socket.create_server((HOST, port)).close()
    except OSError:
        return False
    return True
