"""What is installed: other versions are put before the real ones, as another installation would."""

import zipfile
from pathlib import Path

import pytest

import headgate
from headgate.doctor import asking, software as rules
from headgate.doctor.finding import Finding, Severity
from headgate.doctor.software import Interpreter, within
from headgate.task import java, session
from tests.doctor.looking import java_home


def installed(directory: Path, name: str, version: str, *lines: str) -> None:
    """Say that a distribution is installed here."""
    described = directory / f"{name}-{version}.dist-info"
    described.mkdir(parents=True)
    told = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}", *lines]
    (described / "METADATA").write_text("\n".join(told) + "\n")


def library(name: str) -> Finding:
    [found] = [each for each in asking._libraries() if each.name == name]
    return rules.library(found)


@pytest.fixture
def first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory whose distributions come before all others."""
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_everything_that_is_asked_for_and_installed_is_good() -> None:
    found = [rules.library(each) for each in asking._libraries()]
    assert {"pandas", "pyspark", "confluent-kafka", "py-spy"} <= {each.name for each in found}
    assert [each for each in found if each.verdict is not Severity.OK] == []


def test_a_program_that_does_not_run_is_told_with_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    broken = tmp_path / "py-spy"
    broken.write_text("#!/bin/sh\nexit 3\n")
    broken.chmod(0o755)
    assert library("py-spy").verdict is Severity.WARNING
    assert "py-spy --version ends with exit code 3" in library("py-spy").evidence
    broken.unlink()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "its program is not there" in library("py-spy").evidence


def test_a_pandas_that_pyspark_does_not_take_is_a_problem(first: Path) -> None:
    installed(first, "pandas", "3.0.1")
    found = library("pandas")
    assert found.verdict is Severity.PROBLEM
    assert found.evidence.startswith("3.0.1, not <3")
    assert found.advice == "pip install --upgrade 'headgate'"


def test_a_client_that_is_too_old_is_a_warning_and_names_its_extra(first: Path) -> None:
    installed(first, "pymysql", "0.9")
    found = library("pymysql")
    assert (found.verdict, found.advice) == (Severity.WARNING, "pip install --upgrade 'headgate[mariadb]'")


def test_a_client_that_is_not_installed_is_a_note_and_what_every_job_needs_a_problem(first: Path) -> None:
    needs = ["Requires-Dist: nowhere>=1; extra == 'a'", "Requires-Dist: nowhere>=1; extra == 'b'"]
    installed(first, "headgate", headgate.__version__, *needs, "Requires-Dist: neither>=2")
    found = library("nowhere")
    assert (found.verdict, found.evidence) == (Severity.NOTE, "not installed")
    assert found.advice == "pip install 'headgate[a,b]' if a job uses a or b"
    assert library("neither").verdict is Severity.PROBLEM


def test_a_client_that_cannot_be_loaded_is_told_with_why(first: Path) -> None:
    installed(first, "headgate", headgate.__version__, "Requires-Dist: broken_client; extra == 'broken'")
    installed(first, "broken_client", "1.0")
    (first / "broken_client.py").write_text("raise ImportError('libsomething.so is missing')\n")
    found = library("broken_client")
    assert found.verdict is Severity.WARNING
    assert "libsomething.so is missing" in found.evidence


def test_another_release_that_is_installed_is_warned_of(first: Path) -> None:
    assert rules.release(asking._of_ours("Version"), headgate.__version__).verdict is Severity.OK
    installed(first, "headgate", "0.0.1")
    assert rules.release(asking._of_ours("Version"), headgate.__version__).verdict is Severity.WARNING
    assert rules.release("", headgate.__version__).verdict is Severity.NOTE


def test_a_python_that_is_too_old_is_a_problem() -> None:
    bounds = asking._of_ours("Requires-Python")
    assert rules.python(Interpreter("python3", "3.11.0"), bounds).verdict is Severity.OK
    assert rules.python(Interpreter("python3", "3.10.12"), bounds).verdict is Severity.PROBLEM


@pytest.mark.parametrize(
    ("version", "bounds", "inside"),
    [
        ("2.2", ">=2.2,<3", True),
        ("2.2.0", ">=2.2,<3", True),
        ("3.0.0", "<3,>=2.2", False),
        ("3.0.0rc1", "<3", False),
        ("2.10", ">=2.9", True),
        ("2.1.9", ">=2.2", False),
        ("4.3.0.dev1", ">=4.3,<4.4", True),
        ("1", "", True),
    ],
)
def test_versions_are_compared_by_their_numbers(version: str, bounds: str, inside: bool) -> None:
    assert within(version, bounds) is inside


def test_a_java_that_does_not_answer_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", java_home(tmp_path, "exec sleep 600"))
    found = rules.java(java.find(timeout_s=0.1))
    assert found.verdict is Severity.PROBLEM
    assert "does not answer within 0.1 s" in found.evidence


def own_jar() -> Finding:
    found = asking._own_jar()
    assert found is not None
    return rules.own_jar(found)


def test_the_jar_of_the_package_is_the_one_of_this_release() -> None:
    assert own_jar().verdict is Severity.OK


def test_a_jar_that_is_gone_damaged_or_of_another_release_is_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "headgate" / "task" / "jars" / "headgate-local-fs.jar"
    content = session.JAR.read_bytes()
    monkeypatch.setattr(session, "JAR", place)
    place.parent.mkdir(parents=True)
    assert own_jar().verdict is Severity.PROBLEM
    place.write_bytes(content[: len(content) // 2])
    assert own_jar().verdict is Severity.PROBLEM
    with zipfile.ZipFile(place, "w") as jar:
        jar.writestr("META-INF/MANIFEST.MF", "Manifest-Version: 1.0\n")
    assert "it is of another release" in own_jar().evidence
    place.write_bytes(content)
    assert own_jar().verdict is Severity.OK
    source = tmp_path / "java" / "src" / "Changed.java"
    source.parent.mkdir(parents=True)
    source.write_text("class Changed {}")
    assert own_jar().verdict is Severity.PROBLEM
