"""The heap and the collector of Spark's process: what is set where nobody says anything."""

from pathlib import Path

import pytest

from headgate import machine, state_backend
from headgate.task import heap
from headgate.task.heap import COLLECTOR, HEAP, PARALLEL, read_defaults, unsaid
from headgate.task.session import settings_for

GB = 1 << 30


def test_a_quarter_of_the_memory_is_taken_and_four_gigabytes_at_most() -> None:
    found = {each: unsaid({}, {}, {}, each * GB).get(HEAP) for each in (2, 4, 6, 8, 24)}
    assert found == {2: None, 4: None, 6: "1536m", 8: "2048m", 24: "4096m"}
    assert HEAP not in unsaid({}, {}, {}, None)
    assert unsaid({}, {}, {}, None) == {COLLECTOR: PARALLEL}


@pytest.mark.parametrize(
    ("conf", "defaults", "environment", "kept"),
    [
        ({HEAP: "2g"}, {}, {}, {COLLECTOR}),
        ({}, {HEAP: "2g"}, {}, {COLLECTOR}),
        ({}, {}, {"SPARK_DRIVER_MEMORY": "2g"}, {COLLECTOR}),
        ({}, {}, {"PYSPARK_SUBMIT_ARGS": "--driver-memory 2g pyspark-shell"}, {COLLECTOR}),
        ({}, {}, {"JAVA_TOOL_OPTIONS": "-Xmx2g"}, {COLLECTOR}),
        ({}, {}, {"SPARK_SUBMIT_OPTS": "-XX:+UseSerialGC"}, {HEAP}),
        ({"spark.driver.extraJavaOptions": "-XX:+UseZGC"}, {}, {}, {HEAP}),
        ({"spark.driver.extraJavaOptions": "-XX:MaxGCPauseMillis=20"}, {}, {}, {HEAP}),
        ({}, {}, {"JAVA_TOOL_OPTIONS": "-XX:G1HeapRegionSize=4m"}, {HEAP}),
        ({}, {COLLECTOR: "-Dname=value"}, {}, {HEAP}),
        ({}, {"spark.driver.extraJavaOptions": "-Dname=value"}, {}, {HEAP, COLLECTOR}),
        ({}, {}, {"PYSPARK_SUBMIT_ARGS": "--driver-java-options -Da=b pyspark-shell"}, {HEAP}),
    ],
)
def test_what_anybody_says_of_either_holds(
    conf: dict[str, str], defaults: dict[str, str], environment: dict[str, str], kept: set[str]
) -> None:
    assert unsaid(conf, defaults, environment, 8 * GB).keys() == kept


def test_only_a_job_in_one_process_gets_them_and_what_the_user_says_comes_first() -> None:
    ours, rocksdb = {HEAP: "3g", COLLECTOR: PARALLEL}, state_backend.rocksdb()
    alone = settings_for("orders", master="local[2]", conf={HEAP: "2g"}, state=rocksdb, machine=ours)
    assert (alone[HEAP], alone[COLLECTOR]) == ("2g", PARALLEL)
    for master in ("local-cluster[2,1,1024]", "spark://host:7077"):
        assert not ours.keys() & settings_for("orders", master=master, state=rocksdb, machine=ours).keys()


def test_the_file_of_defaults_is_read_as_spark_reads_it(tmp_path: Path) -> None:
    file = tmp_path / "spark-defaults.conf"
    file.write_text("# spark.driver.cores 7\n spark.driver.memory   3g \nspark.a=b\nspark.c: d e\n\n")
    assert read_defaults(file) == {HEAP: "3g", "spark.a": "b", "spark.c": "d e"}
    assert read_defaults(tmp_path / "none") == {}


def test_it_is_found_out_on_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in (*heap._VARIABLES, *heap._HEAP_VARIABLES):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    memory, _ = machine.memory()
    assert memory is not None
    assert heap.here({}) == unsaid({}, {}, {}, memory)
    (tmp_path / "spark-defaults.conf").write_text(f"{HEAP} 3g\n{COLLECTOR} -Da=b\n")
    assert heap.here({}) == {}
