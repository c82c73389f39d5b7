"""A test that is not heavy starts no JVM and no server (``tests.tiers``)."""

import shutil
import subprocess
import sys

import pytest

from tests import tiers


def test_a_jvm_is_not_started_and_leaves_a_note() -> None:
    java = shutil.which("java")
    assert java is not None
    assert subprocess.run([java, "-version"], capture_output=True, check=False).returncode == 1
    assert tiers.take_note() == "java -version\n"
    assert tiers.take_note() is None


def test_nor_is_one_by_a_process_that_is_started() -> None:
    program = "import subprocess; subprocess.run(['java', '-version'])"
    subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert tiers.take_note() == "java -version\n"


@pytest.mark.parametrize("command", [["/somewhere/bin/postgres"], ["/bin/sh", "-c", "exec mariadbd", "mariadbd"]])
def test_a_server_is_not_started(command: list[str]) -> None:
    with pytest.raises(pytest.fail.Exception, match="is heavy"):
        subprocess.run(command, check=False)


def test_what_uses_spark_or_a_server_is_heavy(request: pytest.FixtureRequest) -> None:
    assert not tiers.is_heavy(request.node, "unit")
    assert tiers.is_heavy(request.node, "spark")
    request.node.fixturenames.append("kafka")
    assert tiers.is_heavy(request.node, "unit")
