"""The jar in the repository is what its sources give."""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from headgate.task.session import FILE_SYSTEM, JAR

ROOT = Path(__file__).parents[2]


def entries(jar: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(jar) as archive:
        return {name: archive.read(name) for name in archive.namelist() if name.endswith(".class")}


def test_the_jar_holds_the_classes_that_are_set() -> None:
    assert entries(JAR).keys() >= {f"{name.replace('.', '/')}.class" for name in FILE_SYSTEM.values()}


def test_the_sources_give_the_same_classes(tmp_path: Path) -> None:
    javac = shutil.which("javac")
    if javac is None:
        pytest.skip("no Java compiler")
    with zipfile.ZipFile(JAR) as archive:
        built_with = re.search(rb"Built-With: javac (\d+)", archive.read("META-INF/MANIFEST.MF"))
    have = subprocess.run([javac, "-version"], capture_output=True, text=True, check=True).stdout.split()[1]
    if built_with is None or built_with[1].decode() != have.split(".")[0]:
        pytest.skip(f"built with another compiler than {have}")
    again = tmp_path / "again.jar"
    environment = {**os.environ, "PYTHON": sys.executable}
    subprocess.run(["/bin/sh", ROOT / "scripts" / "build_jar.sh", again], env=environment, check=True)
    assert entries(again) == entries(JAR)
