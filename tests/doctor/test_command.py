"""``headgate doctor --env`` as a user meets it: each illness is produced, found by its name, and told with a remedy."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pyspark
import pytest

from headgate.task import packages
from tests.doctor.looking import Seen, doctor, java_home, program

ROOT = Path(__file__).parents[2]
Look = Callable[..., Seen]
JOB = """
import headgate as hg
job = hg.Job(
    "orders",
    checkpoint=hg.Checkpointing(storage={storage!r}, working_directory={working!r}),
    master={master!r},
    spark_conf={conf!r},
)
job.source("rows", hg.generator.source(rows=1)).sink("out", hg.console.sink())
"""
LOOKED_AT = {
    *("python", "python workers", "java", "headgate", "pyspark", "pandas", "pyarrow", "numpy", "jar"),
    *("confluent-kafka", "psycopg", "pymysql", "deltalake", "pyiceberg", "urllib3"),
    *("jars of spark-sql-kafka-0-10_2.13", "SPARK_REMOTE", "SPARK_HOME", "spark defaults"),
    *("storage", "storage: room", "storage: file system", "storage: flush", "storage: clock"),
    *("temporary files", "temporary files: room", "temporary files: file system"),
    *("open files", "processes", "memory", "cores", "addresses", "unix sockets", "shared memory", "clock"),
}


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str | None]:
    """An environment in which all is well: jars would be fetched."""
    home = tmp_path / "home"
    home.mkdir()
    return {"JAVA_HOME": java_home(tmp_path / "java"), "HOME": str(home)}


@pytest.fixture
def look(env: dict[str, str | None], tmp_path: Path) -> Look:
    def looking(*arguments: str | Path, **ill: str | Path) -> Seen:
        storage = () if arguments else ("--storage", tmp_path / "storage")
        changed = {name: str(value) for name, value in ill.items()}
        return Seen(doctor("--env", "--json", *arguments, *storage, env=env | changed))

    return looking


def test_a_machine_on_which_jobs_run_has_no_problem_and_everything_was_looked_at(look: Look) -> None:
    seen = look()
    assert seen.exit_code == 0, seen.data
    assert seen.data["ok"] is True
    assert seen.by_name.keys() >= LOOKED_AT
    assert seen.data["counts"]["problem"] == 0
    assert sum(seen.data["counts"].values()) == len(seen.by_name)


def test_nothing_is_left_behind(look: Look, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    assert look()["storage"] == "ok"
    assert sorted(tmp_path.rglob("*")) == before


def test_people_get_a_line_for_each_and_one_that_sums_up(env: dict[str, str | None], tmp_path: Path) -> None:
    result = doctor("--env", "--storage", tmp_path, env=env | {"SPARK_REMOTE": "sc://spark"})
    *lines, summary = result.stdout.splitlines()
    assert result.exit_code == 1
    assert len(lines) >= len(LOOKED_AT)
    assert {line.split()[0] for line in lines} <= {"ok", "note", "warning", "problem"}
    [problem] = [line for line in lines if line.startswith("problem")]
    assert " ".join(problem.split()) == "problem SPARK_REMOTE SPARK_REMOTE=sc://spark is for Spark Connect: unset it"
    assert summary.startswith("1 problem, ")
    well = doctor("--env", "--storage", tmp_path, env=env).stdout.splitlines()[-1]
    assert well.startswith("no problem found: ")


@pytest.mark.parametrize(("arguments", "said"), [((), "doctor takes a job, or --env"), (("job.py",), "no such file")])
def test_without_what_to_look_at_it_says_in_one_line_what_it_takes(
    arguments: tuple[str, ...], said: str, env: dict[str, str | None]
) -> None:
    result = doctor(*arguments, env=env)
    assert (result.exit_code, result.stdout) == (2, "")
    assert len(result.stderr.splitlines()) == 1
    assert said in result.stderr


@pytest.mark.parametrize("arguments", [["--storage", "file://elsewhere/data"], ["gone.py"]])
def test_what_cannot_be_meant_is_refused_in_one_line(env: dict[str, str | None], arguments: list[str]) -> None:
    result = doctor("--env", *arguments, env=env)
    assert (result.exit_code, result.stdout) == (2, "")
    assert len(result.stderr.splitlines()) == 1


def test_a_storage_that_is_not_named_or_not_on_this_machine_is_not_checked_and_it_says_so(
    look: Look, env: dict[str, str | None], tmp_path: Path
) -> None:
    assert look("--storage", "hdfs://cluster/jobs")["storage"] == "note"
    unnamed = Seen(doctor("--env", "--json", env=env))
    assert (unnamed["storage"], unnamed.exit_code) == ("note", 0)
    assert "HEADGATE_STORAGE" in unnamed.advice("storage")
    named = Seen(doctor("--env", "--json", env=env | {"HEADGATE_STORAGE": str(tmp_path)}))
    assert named["storage"] == "ok"


def test_a_job_says_its_storage_its_working_directory_and_what_it_wants_of_spark(look: Look, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.touch()
    job = tmp_path / "job.py"
    conf = {"spark.driver.memory": "900t"}
    job.write_text(JOB.format(storage=str(tmp_path / "s"), working=str(blocked / "w"), master=None, conf=conf))
    seen = look(job)
    assert str(tmp_path / "s") in seen.evidence("storage")
    assert seen["working directory"] == "problem"
    assert seen["memory"] == "problem"
    assert "900t (the job's spark_conf)" in seen.evidence("memory")
    assert not [name for name in seen.by_name if name.startswith("jars of")], "it needs none"


# -- Java ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("echo 'openjdk version \"11.0.2\" 2019-01-15' >&2", "11.0.2"),
        ("echo 'java version \"1.8.0_292\"' >&2", "1.8.0_292"),
        ("echo 'no such thing' >&2; exit 3", "exit code 3"),
        ("exit 0", "names no version"),
    ],
)
def test_a_java_that_is_too_old_or_does_not_run_is_a_problem(
    look: Look, tmp_path: Path, script: str, told: str
) -> None:
    seen = look(JAVA_HOME=java_home(tmp_path / "other", script))
    assert (seen["java"], seen.exit_code) == ("problem", 1)
    assert told in seen.evidence("java")
    assert "Java 17 or newer" in seen.advice("java")


def test_java_is_looked_for_where_spark_looks(look: Look, tmp_path: Path) -> None:
    assert look(JAVA_HOME=tmp_path / "nowhere")["java"] == "problem"
    path = f"{tmp_path / 'java' / 'bin'}:{os.environ['PATH']}"
    by_path = look(JAVA_HOME="", PATH=path)
    assert by_path["java"] == "ok"
    assert by_path.evidence("java").endswith(f"{tmp_path / 'java' / 'bin' / 'java'} (by PATH)")


# -- Python and Spark ------------------------------------------------------------------------------------------------


def test_workers_of_another_python_are_told_and_on_a_cluster_warned_of(look: Look, tmp_path: Path) -> None:
    assert look(PYSPARK_PYTHON=sys.executable)["python workers"] == "ok"
    other = program(tmp_path / "python3.9", "echo 3.9.1")
    here = look(PYSPARK_PYTHON=other)
    assert here["python workers"] == "note"
    assert f"PYSPARK_PYTHON={other} (Python 3.9.1)" in here.evidence("python workers")
    job = tmp_path / "job.py"
    job.write_text(JOB.format(storage=str(tmp_path), working=None, master="spark://host:7077", conf={}))
    assert look(job, PYSPARK_PYTHON=other)["python workers"] == "warning"
    assert look(job, PYSPARK_PYTHON=tmp_path / "gone")["python workers"] == "warning"
    conf = {"spark.pyspark.python": str(other)}
    job.write_text(JOB.format(storage=str(tmp_path), working=None, master=None, conf=conf))
    assert look(job)["python workers"] == "problem"


def test_spark_connect_is_a_problem_and_its_token_is_not_shown(look: Look) -> None:
    seen = look(SPARK_REMOTE="sc://host:15002/;token=hush")
    assert seen["SPARK_REMOTE"] == "problem"
    assert "hush" not in str(seen.data)


def test_another_spark_in_spark_home_is_a_problem_and_the_same_one_is_not(look: Look, tmp_path: Path) -> None:
    jars = tmp_path / "spark" / "jars"
    jars.mkdir(parents=True)
    assert look(SPARK_HOME=tmp_path / "spark")["SPARK_HOME"] == "problem"
    (jars / "spark-core_2.13-3.5.1.jar").touch()
    seen = look(SPARK_HOME=tmp_path / "spark")
    assert seen["SPARK_HOME"] == "problem"
    assert "has Spark 3.5.1, and PySpark is" in seen.evidence("SPARK_HOME")
    (jars / "spark-core_2.13-3.5.1.jar").unlink()
    (jars / f"spark-core_2.13-{pyspark.__version__}.jar").touch()
    assert look(SPARK_HOME=tmp_path / "spark")["SPARK_HOME"] == "ok"


@pytest.mark.parametrize(
    ("line", "verdict"),
    [
        ("# spark.speculation true", "ok"),
        ("spark.speculation   false", "ok"),
        ("spark.speculation   true", "warning"),
        ("spark.sql.parquet.outputTimestampType=INT96", "warning"),
        ("spark.remote sc://host", "problem"),
    ],
)
def test_defaults_of_spark_that_contradict_what_is_needed_are_found(
    look: Look, tmp_path: Path, line: str, verdict: str
) -> None:
    (tmp_path / "spark-defaults.conf").write_text(f"{line}\nspark.driver.memory 3g\n")
    seen = look(SPARK_CONF_DIR=tmp_path)
    assert seen["spark defaults"] == verdict
    assert "3g (Spark's file of defaults)" in seen.evidence("memory")


def test_a_pyspark_that_cannot_be_loaded_is_a_problem_and_all_else_is_looked_at(
    tmp_path: Path, env: dict[str, str | None]
) -> None:
    broken = tmp_path / "path" / "pyspark"
    broken.mkdir(parents=True)
    (broken / "__init__.py").write_text("raise ImportError('half installed')\n")
    asked = [sys.executable, "-m", "headgate", "doctor", "--env"]
    changed = {name: value for name, value in env.items() if value is not None}
    environment = {**os.environ, **changed, "PYTHONPATH": f"{broken.parent}:{ROOT}"}
    told = subprocess.run(asked, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert told.returncode == 1, told.stderr
    [line] = [line for line in told.stdout.splitlines() if line.split()[1] == "pyspark"]
    assert line.startswith("problem")
    assert "half installed" in line
    assert [line for line in told.stdout.splitlines() if line.startswith("problem")] == [line]
    assert "open files" in told.stdout


# -- jars ------------------------------------------------------------------------------------------------------------

KAFKA_JARS = "jars of spark-sql-kafka-0-10_2.13"


def test_jars_that_are_not_here_are_fetched_and_it_is_told_from_where(look: Look, tmp_path: Path) -> None:
    seen = look(HEADGATE_JARS=tmp_path / "jars", HEADGATE_MAVEN="https://mirror/maven")
    assert seen[KAFKA_JARS] == "note"
    assert f"from https://mirror/maven to {tmp_path / 'jars'}" in seen.evidence(KAFKA_JARS)
    assert look(HEADGATE_JARS=tmp_path / "jars", HEADGATE_MAVEN="http://mirror/maven")[KAFKA_JARS] == "problem"


def test_a_jar_that_is_not_the_known_one_is_a_problem(look: Look, tmp_path: Path) -> None:
    tampered = next(iter(packages.TRIED.values()))[0]
    group, artifact, version = tampered.split(":")
    (tmp_path / f"{group}_{artifact}-{version}.jar").write_bytes(b"something else")
    seen = look(HEADGATE_JARS=tmp_path)
    assert seen[KAFKA_JARS] == "problem"
    assert "SHA-256" in seen.evidence(KAFKA_JARS)


# -- addresses and temporary files -----------------------------------------------------------------------------------


def test_an_address_that_is_not_of_this_machine_is_a_problem(look: Look) -> None:
    assert look(SPARK_LOCAL_IP="127.0.0.1")["addresses"] == "ok"
    seen = look(SPARK_LOCAL_IP="192.0.2.1")
    assert seen["addresses"] == "problem"
    assert "192.0.2.1" in seen.evidence("addresses")


def test_a_long_path_for_temporary_files_is_told(look: Look, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = tmp_path / ("a" * 100)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    seen = look()
    assert seen["unix sockets"] == "note"
    assert str(long) in seen.evidence("temporary files")
    assert list(long.iterdir()) == []


def test_directories_that_spark_is_given_are_looked_at_too(look: Look, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    seen = look(SPARK_LOCAL_DIRS=tmp_path / "file")
    assert seen["temporary files of Spark"] == "problem"
    assert look(SPARK_LOCAL_DIRS=tmp_path)["temporary files of Spark"] == "ok"
