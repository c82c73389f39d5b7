"""Three tiers: a test that needs a JVM or a server is ``heavy``, all others run soon (``make test-fast``), and one that
takes long and is a variant of another which runs always is marked ``long`` (``make prove PROOFS=long``).

One rule: a test that is not heavy starts neither. It is given a ``java`` that only leaves a note, which fails the test,
and it cannot start the program of a server. So a test that is in the wrong tier says so in every run.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import pytest
from hypothesis import settings

FOLDERS = {"kills", "spark", "examples", "services", "ui"}
"""All tests in these folders are heavy."""
FIXTURES = {"spark", "kafka", "postgres", "mariadb", "opensearch", "hbase", "guarded"}
"""Tests that use one of these are heavy. Any other test that is must say so: ``@pytest.mark.heavy``.

So do a few that start neither, and take longer than five seconds."""
SERVERS = {"postgres", "initdb", "mariadbd", "mariadb-install-db"}

EXAMPLES = {"headgate": 150, "quick": 25}
"""How many examples Hypothesis draws, by its profile. ``make test-fast`` takes the quick one."""

_guarded = False


def examples(number: int) -> settings:
    """How many in a whole run, and as many fewer in a quick one as of all others."""
    return settings(max_examples=number * settings().max_examples // EXAMPLES["headgate"])


def is_heavy(item: pytest.Item, folder: str) -> bool:
    return folder in FOLDERS or not FIXTURES.isdisjoint(getattr(item, "fixturenames", ()))


@contextmanager
def no_jvm_and_no_server() -> Iterator[None]:
    """Within this no JVM starts, neither here nor in a process that is started here, and no server starts here."""
    global _guarded  # noqa: PLW0603 - an audit hook stays for good, and is told here when it is on guard
    home = _without_java()
    found = {name: os.environ.get(name) for name in ("JAVA_HOME", "PATH")}
    os.environ |= {"JAVA_HOME": str(home), "PATH": f"{home / 'bin'}:{found['PATH']}"}
    _guarded = True
    try:
        yield
    finally:
        _guarded = False
        for name, value in found.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value


def take_note() -> str | None:
    """With what a JVM was to be started since the last question, if one was."""
    note = _without_java() / "note"
    if not note.exists():
        return None
    text = note.read_text(errors="replace")
    note.unlink()
    return text


@cache
def _without_java() -> Path:
    """The home of a Java that only leaves a note."""
    home = Path(mkdtemp(prefix="headgate-no-java-"))
    java = home / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f'#!/bin/sh\necho "java $*" >>{home}/note\necho "this test may start no JVM" >&2\nexit 1\n')
    java.chmod(0o755)
    sys.addaudithook(_audit)
    return home


def _audit(event: str, arguments: tuple[object, ...]) -> None:
    if _guarded and event == "subprocess.Popen" and isinstance(command := arguments[1], list | tuple):
        started = SERVERS.intersection(Path(os.fsdecode(part)).name for part in command)
        if started:
            pytest.fail(f"a test that starts a server ({', '.join(started)}) is heavy: mark it so (tests/tiers.py)")
