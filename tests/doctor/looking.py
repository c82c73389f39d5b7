"""The whole command, on a machine that is made ill in one respect."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from headgate.cli import app

UNSET = (
    *("SPARK_REMOTE", "SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_PYTHON", "SPARK_LOCAL_IP", "SPARK_LOCAL_DIRS"),
    *("HEADGATE_STORAGE", "HEADGATE_JARS", "HEADGATE_MAVEN", "HEADGATE_MAVEN_INSECURE", "SPARK_DRIVER_MEMORY"),
)
"""What a developer may have set, and must not show."""
VERSION_17 = "echo 'openjdk version \"17.0.15\" 2025-04-15' >&2"


def program(path: Path, script: str) -> Path:
    """A program that does this."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def java_home(directory: Path, script: str = VERSION_17) -> str:
    """The home of a Java that only says its version: no JVM is started."""
    return str(program(directory / "bin" / "java", script).parents[1])


def doctor(*arguments: str | Path, env: Mapping[str, str | None]) -> Result:
    unset: dict[str, str | None] = dict.fromkeys(UNSET)
    return CliRunner().invoke(app, ["doctor", *map(str, arguments)], env=unset | dict(env))


class Seen:
    """What the command found, by name, and how it ended."""

    def __init__(self, result: Result) -> None:
        assert result.exit_code in (0, 1), result.output
        self.exit_code = result.exit_code
        self.data: dict[str, Any] = json.loads(result.stdout)
        self.by_name: dict[str, dict[str, str]] = {each["name"]: each for each in self.data["findings"]}
        assert len(self.by_name) == len(self.data["findings"]), "one line for each"

    def __getitem__(self, name: str) -> str:
        """The verdict."""
        return self.by_name[name]["verdict"]

    def evidence(self, name: str) -> str:
        return self.by_name[name]["evidence"]

    def advice(self, name: str) -> str:
        return self.by_name[name]["advice"]
