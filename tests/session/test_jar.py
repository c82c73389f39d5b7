"""The jar in the repository is what its sources give."""

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from headgate.task.session import FILE_SYSTEM, JAR, PLUGIN

ROOT = Path(__file__).parents[2]


def entries(jar: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(jar) as archive:
        return {name: archive.read(name) for name in archive.namelist() if name.endswith(".class")}


def test_the_jar_holds_the_classes_that_are_set() -> None:
    named = (*FILE_SYSTEM.values(), PLUGIN)
    assert entries(JAR).keys() >= {f"{name.replace('.', '/')}.class" for name in named}


@pytest.mark.heavy
def test_the_jar_is_built_from_these_sources(tmp_path: Path) -> None:
    with zipfile.ZipFile(JAR) as archive:
        manifest = archive.read("META-INF/MANIFEST.MF").decode().replace("\r\n ", "").splitlines()
    said = dict(line.split(": ", 1) for line in manifest if ": " in line)
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sorted((ROOT / "java" / "src").rglob("*.java"))))
    assert said["Sources-Sha256"] == digest.hexdigest(), "run scripts/build_jar.sh"
    javac = shutil.which("javac")
    if javac is not None and _major(javac) == said["Built-With"].split()[1].split(".")[0]:
        again = tmp_path / "again.jar"
        environment = {**os.environ, "PYTHON": sys.executable}
        subprocess.run(["/bin/sh", ROOT / "scripts" / "build_jar.sh", again], env=environment, check=True)
        assert entries(again) == entries(JAR)


def _major(javac: str) -> str:
    said = subprocess.run([javac, "-version"], capture_output=True, text=True, check=True).stdout
    return said.split()[1].split(".")[0]
