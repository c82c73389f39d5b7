"""What is set in a session, before there is one."""

import os
from pathlib import Path

import pytest

from headgate import state_backend
from headgate.errors import InvalidOption
from headgate.needs import NEEDED
from headgate.task import session
from headgate.task.session import FETCH_AGAIN, FILE_SYSTEM, JAR, PLUGIN, PREFERRED, build_session, settings_for

ROCKSDB = state_backend.rocksdb()


def test_everything_that_is_needed_is_set() -> None:
    settings = settings_for("orders", state=ROCKSDB)
    assert settings.items() >= {key: value for key, (value, _) in NEEDED.items()}.items()
    assert settings.items() >= PREFERRED.items()
    assert settings.items() >= ROCKSDB.conf.items()
    assert settings["spark.app.name"] == "orders"
    assert settings["spark.master"] == "local[*]"


def test_the_users_settings_go_in_untouched() -> None:
    conf = {"spark.sql.shuffle.partitions": "7", "spark.executor.memory": "3g", "my.own": "x"}
    assert settings_for("orders", conf=conf, state=ROCKSDB).items() >= conf.items()


@pytest.mark.parametrize("key", PREFERRED)
def test_the_user_wins_over_what_is_only_preferred(key: str) -> None:
    assert settings_for("orders", conf={key: "theirs"}, state=ROCKSDB)[key] == "theirs"


@pytest.mark.parametrize("key", NEEDED)
def test_what_contradicts_a_need_is_refused_by_name(key: str) -> None:
    with pytest.raises(InvalidOption, match=f"^{key}=something else is not allowed"):
        settings_for("orders", conf={key: "something else"}, state=ROCKSDB)


@pytest.mark.parametrize("key", NEEDED)
def test_the_user_may_say_what_is_needed_anyway(key: str) -> None:
    value = NEEDED[key][0]
    assert settings_for("orders", conf={key: value.upper()}, state=ROCKSDB)[key] == value


@pytest.mark.parametrize(
    "backend", [state_backend.hashmap(), state_backend.rocksdb(profile="low_memory")], ids=lambda b: b.name
)
def test_what_the_state_backend_says_is_not_said_again(backend: state_backend.StateBackend) -> None:
    for key in backend.conf:
        with pytest.raises(InvalidOption, match=rf"state_backend=headgate\.state_backend\.{backend.name}\("):
            settings_for("orders", conf={key.lower(): "other"}, state=backend)


def test_options_of_a_running_jvm_are_found_behind_sparks_own() -> None:
    running = {"spark.driver.extraJavaOptions": "-Dspark=1 -Dours=2", "spark.driver.memory": "12g"}
    asked = [
        ("spark.driver.extraJavaOptions", "-Dours=2"),
        ("spark.driver.extraJavaOptions", "ours=2"),
        ("spark.executor.extraJavaOptions", "-Dours=2"),
        ("spark.driver.memory", "12g"),
        ("spark.driver.memory", "2g"),
    ]
    assert [session._is_as_said(key, value, running) for key, value in asked] == [True, False, False, True, False]


def test_rows_of_an_executor_that_died_are_asked_for_every_second_with_sparks_own_patience() -> None:
    settings = settings_for("orders", master="local-cluster[2,1,1024]", state=ROCKSDB)
    wait, times = (settings[key] for key in ("spark.shuffle.io.retryWait", "spark.shuffle.io.maxRetries"))
    assert (wait, int(times) * 1) == ("1s", 3 * 5)
    for key in FETCH_AGAIN:
        theirs = settings_for("orders", master="spark://host:7077", conf={key: "7"}, state=ROCKSDB)
        assert {each: theirs[each] for each in FETCH_AGAIN if each in theirs} == {key: "7"}
    assert not FETCH_AGAIN.keys() & settings_for("orders", master="local[2]", state=ROCKSDB).keys()


@pytest.mark.parametrize("master", ["local[*]", "local", "local[2]", "local[2,4]"])
def test_in_one_process_the_class_path_has_the_file_system(master: str) -> None:
    settings = settings_for("orders", master=master, state=ROCKSDB)
    assert settings["spark.driver.extraClassPath"] == str(JAR)
    assert "spark.jars" not in settings


@pytest.mark.parametrize("master", ["local-cluster[2,1,1024]", "spark://host:7077"])
def test_executors_are_sent_the_file_system(master: str) -> None:
    settings = settings_for("orders", master=master, state=ROCKSDB)
    assert settings["spark.jars"] == settings["spark.driver.extraClassPath"] == str(JAR)


def test_the_users_jars_stay() -> None:
    conf = {"spark.jars": "a.jar,b.jar", "spark.driver.extraClassPath": "c.jar"}
    settings = settings_for("orders", master="spark://host:7077", conf=conf, state=ROCKSDB)
    assert settings["spark.jars"] == f"a.jar,b.jar,{JAR}"
    assert settings["spark.driver.extraClassPath"] == f"c.jar{os.pathsep}{JAR}"


def test_the_master_may_stand_in_the_conf() -> None:
    assert settings_for("orders", conf={"spark.master": "local[3]"}, state=ROCKSDB)["spark.master"] == "local[3]"


def test_two_masters_are_refused() -> None:
    with pytest.raises(InvalidOption, match=r"'local' and spark.master=local\[3\] differ"):
        settings_for("orders", master="local", conf={"spark.master": "local[3]"}, state=ROCKSDB)


@pytest.mark.parametrize("master", ["locl[2]", "local-cluster", "localhost:7077", "spark://", "http://host"])
def test_a_master_that_is_none_is_refused(master: str) -> None:
    with pytest.raises(InvalidOption, match="is not a valid master of Spark"):
        settings_for("orders", master=master, state=ROCKSDB)


@pytest.mark.parametrize(
    ("master", "conf"),
    [("sc://host", {}), (None, {"spark.remote": "sc://host"}), (None, {"spark.api.mode": "connect"})],
)
def test_spark_connect_is_refused_by_name(master: str | None, conf: dict[str, str]) -> None:
    with pytest.raises(InvalidOption, match="Spark Connect, which Headgate cannot use"):
        settings_for("orders", master=master, conf=conf, state=ROCKSDB)


def test_spark_connect_in_the_environment_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_REMOTE", "sc://host")
    with pytest.raises(InvalidOption, match="SPARK_REMOTE=sc://host is for Spark Connect"):
        build_session("orders", state=ROCKSDB)


def test_the_jar_has_the_classes_that_are_set() -> None:
    source = Path(__file__).parents[2] / "java" / "src"
    assert JAR.is_file()
    for name in FILE_SYSTEM.values():
        assert (source / name.replace(".", "/")).with_suffix(".java").is_file()


def test_the_users_plugins_stay() -> None:
    assert settings_for("job", conf={}, state=ROCKSDB)["spark.plugins"] == PLUGIN
    assert settings_for("job", conf={"spark.plugins": "a.B"}, state=ROCKSDB)["spark.plugins"] == f"a.B,{PLUGIN}"


# -- where Spark listens -----------------------------------------------------------------------------------------------

ADDRESSES = dict.fromkeys(("spark.driver.host", "spark.driver.bindAddress"), "127.0.0.1")


def addresses(master: str, **conf: str) -> dict[str, str]:
    found = settings_for("job", master=master, conf=conf, state=state_backend.rocksdb())
    return {key: found[key] for key in ADDRESSES if key in found}


@pytest.mark.parametrize("master", ["local", "local[2]", "local-cluster[1,1,1024]"])
def test_on_one_machine_spark_listens_there_alone(master: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SPARK_LOCAL_IP", "SPARK_LOCAL_HOSTNAME"):
        monkeypatch.delenv(name, raising=False)
    assert addresses(master) == ADDRESSES
    assert addresses(master, **{"spark.driver.host": "10.0.0.1"}) == {"spark.driver.host": "10.0.0.1"}
    monkeypatch.setenv("SPARK_LOCAL_IP", "10.0.0.1")
    assert addresses(master) == {}


@pytest.mark.parametrize("master", ["spark://host:7077", "yarn", "k8s://host"])
def test_on_a_cluster_spark_listens_where_it_will(master: str) -> None:
    assert addresses(master) == {}
