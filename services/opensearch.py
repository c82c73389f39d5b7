"""An OpenSearch node, of classes from Maven's repository alone.

One rule: what it has acknowledged is on the disk, as OpenSearch does it by default, so a kill loses nothing of it.

The distribution's archive is not needed. A node finds its modules in folders, so the one for HTTP gets a folder here.
The native library of JNA is kept from it: without that the node does not ask whether it runs as root, and it needs it
for nothing else here.
"""

import http.client
import json
import shutil
from pathlib import Path
from typing import ClassVar

from services.jars import jars, java
from services.server import HOST, Server, ServiceError, free_port

VERSION = "2.19.1"
_MODULE = "netty"  # what the names of the jars of the HTTP module have in them

_DESCRIPTOR = f"""\
name=transport-netty4
description=HTTP and transport by Netty
version={VERSION}
opensearch.version={VERSION}
java.version=11
classname=org.opensearch.transport.Netty4Plugin
extended.plugins=
has.native.controller=false
"""

_POLICY = """\
grant {
  permission java.lang.RuntimePermission "*";
  permission java.lang.reflect.ReflectPermission "suppressAccessChecks";
  permission java.net.SocketPermission "*", "accept,connect,listen,resolve";
  permission java.util.PropertyPermission "*", "read,write";
};
"""

_LOGGING = """\
status = error
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = [%d{ISO8601}][%-5p][%-25c{1.}] %m%n
rootLogger.level = info
rootLogger.appenderRef.console.ref = console
"""


class OpenSearch(Server):
    """A node that is a cluster of its own. It asks nobody for a password."""

    name: ClassVar[str] = "opensearch"

    def __init__(self, directory: Path | str, *, port: int | None = None) -> None:
        super().__init__(directory, port=port)
        self.transport_port = free_port()

    @property
    def url(self) -> str:
        """Where it answers HTTP."""
        return f"http://{HOST}:{self.port}"

    def ports(self) -> tuple[int, ...]:
        """HTTP, and what nodes would talk to each other."""
        return (self.port, self.transport_port)

    def prepare(self) -> None:
        """Write the configuration, and put the module for HTTP in its folder."""
        settings = {
            "cluster.name": "headgate",
            "node.name": "node",
            "network.host": HOST,
            "http.port": self.port,
            "transport.port": self.transport_port,
            "discovery.type": "single-node",
            "path.data": str(self.directory / "data"),
            "path.logs": str(self.directory / "logs"),
            # A disk that is nearly full, which says nothing about a test, would make indices read-only.
            "cluster.routing.allocation.disk.threshold_enabled": False,
            "bootstrap.system_call_filter": False,
        }
        configuration = self._home / "config"
        configuration.mkdir(parents=True, exist_ok=True)
        lines = [f"{name}: {json.dumps(value)}\n" for name, value in settings.items()]
        (configuration / "opensearch.yml").write_text("".join(lines))
        (configuration / "log4j2.properties").write_text(_LOGGING)
        module = self._home / "modules" / "transport-netty4"
        module.mkdir(parents=True, exist_ok=True)
        for jar in _jars(of_module=True):
            if not (module / jar.name).exists():
                shutil.copy(jar, module / jar.name)
        (module / "plugin-descriptor.properties").write_text(_DESCRIPTOR)
        (module / "plugin-security.policy").write_text(_POLICY)
        (self._home / "plugins").mkdir(exist_ok=True)

    def command(self) -> list[str]:
        """The node in the foreground. What is in the module's folder may not be on the class path too."""
        command = java(
            self.name,
            "org.opensearch.bootstrap.OpenSearch",
            heap="384m",
            options=[
                "-Djava.security.manager=allow",
                "-Djna.nosys=true",
                "-Djna.noclasspath=true",
                f"-Djna.boot.library.path={self.directory / 'nowhere'}",
                f"-Djava.io.tmpdir={self._home}",
                f"-Dopensearch.path.home={self._home}",
                f"-Dopensearch.path.conf={self._home / 'config'}",
                "-Dopensearch.distribution.type=tar",
                "-Dlog4j2.disable.jmx=true",
                "-Dlog4j.shutdownHookEnabled=false",
            ],
        )
        command[command.index("-cp") + 1] = ":".join(str(jar) for jar in _jars(of_module=False))
        return command

    def ready(self) -> bool:
        """Whether every index can be written."""
        try:
            status, answer = self.request("GET", "/_cluster/health?timeout=0s")
        except (OSError, http.client.HTTPException):
            return False
        # The copies of a shard that a single node cannot have leave it yellow.
        return status == 200 and json.loads(answer)["status"] in {"yellow", "green"}

    def request(self, method: str, path: str, body: object = None) -> tuple[int, bytes]:
        """Ask the node, as anybody else would: the status and the body of its answer."""
        connection = http.client.HTTPConnection(HOST, self.port, timeout=30)
        try:
            text = None if body is None else json.dumps(body)
            connection.request(method, path, text, {"Content-Type": "application/json"})
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def create_index(self, name: str, mappings: object = None) -> None:
        """Make an index with one shard."""
        settings = {"number_of_shards": 1, "number_of_replicas": 0}
        status, answer = self.request("PUT", f"/{name}", {"settings": settings, "mappings": mappings or {}})
        if status != 200:
            raise ServiceError(f"cannot make index {name}: {answer.decode()}")

    def documents(self, index: str) -> dict[str, dict[str, object]]:
        """All documents of an index (10,000 at most), by id."""
        self.request("POST", f"/{index}/_refresh")
        status, answer = self.request("GET", f"/{index}/_search?size=10000")
        if status != 200:
            raise ServiceError(f"cannot read index {index}: {answer.decode()}")
        return {hit["_id"]: hit["_source"] for hit in json.loads(answer)["hits"]["hits"]}

    @property
    def _home(self) -> Path:
        return self.directory / "home"


def _jars(*, of_module: bool) -> list[Path]:
    return [jar for jar in sorted(jars("opensearch").glob("*.jar")) if (_MODULE in jar.name) == of_module]
