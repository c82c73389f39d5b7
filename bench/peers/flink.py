"""Flink: PyFlink from PyPI in an environment of its own, whose jars are all of Flink, and the Kafka connector by Maven.

One rule: it is Flink as its users get it. Nothing of it is changed on the disk.
"""

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from bench.peers.installing import BUILD, MissingPeer, is_installed, mark_installed, run

VERSION = "2.3.0"
KAFKA_CONNECTOR = ("org.apache.flink", "flink-sql-connector-kafka", "5.0.0-2.2")
REQUIREMENTS = Path(__file__).with_name("flink-requirements.txt")
PYTHON = "3.11"
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"


@dataclass(frozen=True)
class Flink:
    """Where it is."""

    home: Path

    @property
    def python(self) -> Path:
        """The interpreter that has PyFlink."""
        return self.home / "bin" / "python"

    @property
    def distribution(self) -> Path:
        """The directory that Flink's own scripts call FLINK_HOME."""
        return self.home / "lib" / f"python{PYTHON}" / "site-packages" / "pyflink"

    @property
    def connector(self) -> Path:
        """The jar of the Kafka connector."""
        _, artifact, version = KAFKA_CONNECTOR
        return self.home / "jars" / f"{artifact}-{version}.jar"


def find() -> Flink:
    """Where it is. `MissingPeer` when it is not installed."""
    flink = Flink(BUILD / "flink")
    if not is_installed(flink.home, _recipe()):
        raise MissingPeer("bench: Flink is not installed: run `python -m bench --install`")
    return flink


def install() -> Flink:
    """Install what is missing, and return where it is."""
    flink = Flink(BUILD / "flink")
    if is_installed(flink.home, _recipe()):
        return flink
    flink.home.parent.mkdir(parents=True, exist_ok=True)
    uv = str(Path(sys.executable).with_name("uv"))
    venv = [uv, "--quiet", "venv", "--clear", "--no-python-downloads", "--python", PYTHON, str(flink.home)]
    run(f"make an environment for PyFlink with Python {PYTHON}", venv)
    pip = [uv, "--quiet", "pip", "install", "--python", str(flink.python), "--require-hashes", "-r", str(REQUIREMENTS)]
    run(f"install PyFlink {VERSION} from PyPI", pip, environment=_patient())
    artifact = f"-Dartifact={':'.join(KAFKA_CONNECTOR)}"
    target = f"-DoutputDirectory={flink.connector.parent}"
    run("fetch Flink's Kafka connector by Maven", ["mvn", "-q", "-B", COPY, artifact, target])
    if not flink.connector.is_file() or not (flink.distribution / "lib").is_dir():
        raise MissingPeer(f"bench: Flink {VERSION} came without {flink.distribution / 'lib'} or {flink.connector}")
    mark_installed(flink.home, _recipe())
    return flink


def versions(flink: Flink) -> dict[str, str]:
    """What is compared with."""
    dist = next((flink.distribution / "lib").glob("flink-dist-*.jar")).stem.removeprefix("flink-dist-")
    python = run("ask PyFlink's Python for its version", [str(flink.python), "--version"]).split()[-1]
    return {"Flink": dist, "Flink's Python": python, "Flink's Kafka connector": KAFKA_CONNECTOR[2]}


def _recipe() -> str:
    return "\n".join([VERSION, *KAFKA_CONNECTOR, REQUIREMENTS.read_text(encoding="utf-8")])


def _patient() -> dict[str, str]:
    return {"UV_HTTP_TIMEOUT": os.environ.get("UV_HTTP_TIMEOUT", "600")}
