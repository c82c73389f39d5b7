"""Java servers whose jars Maven has copied into ``build/services/<name>``.

One rule: a server that lives for a few tests starts fast, with a small heap and a simple compiler and collector.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from services.server import ROOT, ServiceError

JARS = ROOT / "build" / "services"


def jars(name: str) -> Path:
    """The folder with the jars of a server. `ServiceError` when they were not fetched."""
    folder = JARS / name
    if not any(folder.glob("*.jar")):
        raise ServiceError(f"the jars of {name} are not in build/services/{name}: run `make services`")
    return folder


def java(name: str, main: str, *arguments: str, heap: str = "512m", options: Sequence[str] = ()) -> list[str]:
    """The command that runs the class `main` with all jars of the server."""
    home = os.environ.get("JAVA_HOME")
    return [
        f"{home}/bin/java" if home else "java",
        f"-Xmx{heap}",
        "-XX:TieredStopAtLevel=1",
        "-XX:+UseSerialGC",
        "-Djava.net.preferIPv4Stack=true",
        *options,
        "-cp",
        f"{jars(name)}/*",
        main,
        *arguments,
    ]
