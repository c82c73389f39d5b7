"""What is written down of a job for those who look at it later."""

from headgate import state_backend
from headgate.core.restart import ExponentialDelay, NoRestart
from headgate.core.settings import Settings
from headgate.run import describing
from headgate.run.describing import trace_of


def raised(words: str) -> BaseException:
    def fail() -> None:
        raise OSError(words)

    try:
        fail()
    except OSError as error:
        return error
    raise AssertionError


def test_a_trace_says_where_and_no_secrets() -> None:
    trace = trace_of(raised("no way to jdbc:postgresql://anna:hunter2@db/shop with password=hunter2"))
    assert trace.startswith("Traceback (most recent call last):")
    assert "in fail" in trace
    assert "hunter2" not in trace


def test_of_a_long_trace_the_first_and_the_last_lines_are_kept() -> None:
    trace = trace_of(raised("\n".join(f"line {number}" for number in range(10_000)))).splitlines()
    assert len(trace) == describing.TRACE_LINES_MAX + 1
    assert trace[0] == "Traceback (most recent call last):"
    assert trace[-1] == "line 9999"
    assert any("lines are left out" in line for line in trace)


def test_of_a_long_line_the_beginning_is_kept() -> None:
    trace = trace_of(raised("x" * 1_000_000 + " password=hunter2"))
    assert len(trace) < 10 * describing.LINE_CHARACTERS_MAX
    assert trace.endswith("xxx ...")
    assert "hunter2" not in trace


def test_settings_of_spark_are_shown_without_secrets() -> None:
    assert describing._shown("spark.sql.shuffle.partitions", 4) == "4"
    assert describing._shown("spark.hadoop.fs.s3a.secret.key", "hunter2") == "***"
    assert "hunter2" not in describing._shown("spark.url", "https://anna:hunter2@host/")


def test_the_address_of_sparks_ui_is_told_if_it_is_one() -> None:
    assert describing._address("http://driver.example.org:4040") == "http://driver.example.org:4040"
    assert describing._address(None) is None
    assert describing._address("javascript:alert(1)") is None


def test_how_often_changes_become_a_snapshot_is_told_where_there_are_changes() -> None:
    assert describing._materialization_ms(state_backend.rocksdb(maintenance_interval="90s").conf) == 90_000
    assert describing._materialization_ms(state_backend.rocksdb(incremental=False).conf) is None
    assert describing._materialization_ms({}) is None


def test_a_restart_strategy_is_told_in_a_line() -> None:
    assert describing._strategy(Settings(restart=NoRestart())) == "no-restart"
    told = describing._strategy(Settings(restart=ExponentialDelay(initial_ms=7)))
    assert told.startswith("exponential-delay: initial_ms=7, maximum_ms=60000, ")
