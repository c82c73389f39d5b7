import re
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from headgate import restart, windows
from headgate.core.restart import ExponentialDelay, FailureRate, FixedDelay, NoRestart
from headgate.core.settings import Mode, Settings
from headgate.errors import InvalidOption
from headgate.job.settings import Checkpointing, History, to_core
from headgate.values import Duration, duration_ms

STORAGE = "file:///data/headgate"


@pytest.mark.parametrize(
    ("written", "milliseconds"),
    [
        ("500ms", 500),
        ("10s", 10_000),
        ("1.5s", 1_500),
        (" 2 min ", 120_000),
        ("1h", 3_600_000),
        ("1d", 86_400_000),
        (10, 10_000),
        (0.25, 250),
        (0, 0),
        (timedelta(minutes=1, milliseconds=5), 60_005),
    ],
)
def test_a_duration_is_written_in_several_ways(written: Duration, milliseconds: int) -> None:
    assert duration_ms(written) == milliseconds


@pytest.mark.parametrize(
    "written", ["", "10", "10 m", "1h30min", "-1s", "ms", True, None, [], float("nan"), float("inf")]
)
def test_what_is_no_duration_is_refused_with_an_example(written: Any) -> None:
    with pytest.raises(InvalidOption, match=rf"^ttl={re.escape(repr(written))} is not a valid duration: .*, ttl='1h'$"):
        duration_ms(written, name="ttl", example="1h")


@pytest.mark.parametrize("written", [-1, timedelta(seconds=-1), "0s"])
def test_a_duration_that_is_too_short_is_refused(written: Duration) -> None:
    with pytest.raises(InvalidOption, match=r"is too short: it must be 1 ms or more, duration='10s'$"):
        duration_ms(written, least=1)


def test_the_defaults_are_flinks_and_a_bound_on_how_far_tasks_run_ahead() -> None:
    assert to_core(Checkpointing(storage=STORAGE)) == Settings(max_batches_ahead=8)


def test_every_setting_reaches_the_core() -> None:
    written = Checkpointing(
        storage=STORAGE,
        interval="1min",
        mode="at-most-once",
        timeout="5min",
        min_pause="2s",
        max_concurrent_checkpoints=2,
        tolerable_failed_checkpoints=3,
        unaligned=True,
        aligned_checkpoint_timeout="30s",
        num_retained=4,
        externalized_checkpoint_retention="retain-on-cancellation",
        checkpoints_after_tasks_finish=False,
        max_batches_ahead=None,
        working_directory="/fast/disk",
    )
    assert to_core(written, NoRestart()) == Settings(
        interval_ms=60_000,
        mode=Mode.AT_MOST_ONCE,
        timeout_ms=300_000,
        min_pause_ms=2_000,
        max_concurrent_checkpoints=2,
        tolerable_failed_checkpoints=3,
        unaligned=True,
        aligned_checkpoint_timeout_ms=30_000,
        num_retained=4,
        retain_on_cancellation=True,
        checkpoints_after_tasks_finish=False,
        max_batches_ahead=None,
        restart=NoRestart(),
    )
    assert written.working_directory == "file:///fast/disk"


def test_without_an_interval_checkpoints_are_taken_when_asked_for() -> None:
    assert to_core(Checkpointing(storage=STORAGE, interval=None)).interval_ms is None


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"storage": ""}, "storage='' is not a valid place: write a URI or a path, storage='file:///data/headgate'"),
        ({"storage": None}, "storage=None is not a valid place"),
        ({"storage": b"/x"}, "is not a valid place: write a URI or a path"),
        ({"working_directory": " "}, "working_directory=' ' is not a valid place"),
        (
            {"interval": "soon"},
            "interval='soon' is not a valid duration: write a number with ms, s, min, h or d, interval='10s'",
        ),
        ({"interval": 0}, "interval=0 is too short: it must be 1 ms or more, interval='10s'"),
        (
            {"mode": "twice"},
            "mode='twice' is not a valid guarantee: choose one of 'exactly-once', 'at-least-once', 'at-most-once'",
        ),
        ({"timeout": "0s"}, "timeout='0s' is too short: it must be 1 ms or more, timeout='10min'"),
        ({"min_pause": -1}, "min_pause=-1 is too short: it must be 0 ms or more, min_pause='1s'"),
        (
            {"max_concurrent_checkpoints": 0},
            "max_concurrent_checkpoints=0 is too few: it must be 1 or more, max_concurrent_checkpoints=1",
        ),
        (
            {"max_concurrent_checkpoints": 1.5},
            "max_concurrent_checkpoints=1.5 is not a valid whole number: write max_concurrent_checkpoints=1",
        ),
        ({"num_retained": True}, "num_retained=True is not a valid whole number: write num_retained=1"),
        ({"tolerable_failed_checkpoints": -1}, "tolerable_failed_checkpoints=-1 is too few: it must be 0 or more"),
        ({"unaligned": "yes"}, "unaligned='yes' is neither on nor off: write unaligned=True or unaligned=False"),
        ({"checkpoints_after_tasks_finish": 1}, "checkpoints_after_tasks_finish=1 is neither on nor off"),
        (
            {"externalized_checkpoint_retention": "RETAIN"},
            "externalized_checkpoint_retention='RETAIN' is unknown: choose 'retain-on-cancellation' or",
        ),
        ({"aligned_checkpoint_timeout": "x"}, "aligned_checkpoint_timeout='x' is not a valid duration"),
        ({"max_batches_ahead": 0}, "max_batches_ahead=0 is too few: it must be 1 or more"),
        (
            {"mode": "at-least-once", "unaligned": True},
            "need exactly-once or at-most-once: at-least-once does not align",
        ),
    ],
)
def test_a_setting_that_cannot_hold_is_refused_by_name(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidOption) as refused:
        Checkpointing(**{"storage": STORAGE, **wrong})
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("uri", ["s3a://bucket/x", "hdfs:///x", "file:/x", "file:///x y"])
def test_a_uri_stays_as_it_is_written(uri: str) -> None:
    assert Checkpointing(storage=uri).storage == uri


def test_a_path_is_made_absolute_so_that_a_restart_from_elsewhere_finds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    written = Checkpointing(storage="state", working_directory="~/work")
    monkeypatch.chdir("/")
    assert written.storage == f"file://{tmp_path}/state"
    assert written.working_directory == f"file://{Path.home()}/work"
    assert replace(written, num_retained=2).storage == written.storage
    assert Checkpointing(storage=tmp_path / "state", working_directory=Path("~/work")) == written


def test_restart_strategies_take_durations_as_they_are_written() -> None:
    assert restart.none() == NoRestart()
    assert restart.fixed_delay(delay="2s", attempts=3) == FixedDelay(2_000, 3)
    assert restart.failure_rate(max_failures_per_interval=3, failure_rate_interval="5min", delay="10s") == FailureRate(
        3, 300_000, 10_000
    )
    assert restart.exponential_delay() == ExponentialDelay()
    assert restart.exponential_delay(
        initial_backoff="2s",
        max_backoff="2min",
        backoff_multiplier=2,
        jitter_factor=0,
        reset_backoff_threshold="10min",
        attempts_before_reset_backoff=7,
    ) == ExponentialDelay(2_000, 120_000, 2, 0, 600_000, 7)


@pytest.mark.parametrize(
    ("strategy", "wrong", "message"),
    [
        ("fixed_delay", {"delay": "x"}, "delay='x' is not a valid duration"),
        ("exponential_delay", {"attempts_before_reset_backoff": 0}, "attempts_before_reset_backoff=0 is too few"),
        ("fixed_delay", {"attempts": 0}, "attempts=0 is too few: it must be 1 or more, attempts=3"),
        ("failure_rate", {"max_failures_per_interval": "3"}, "write max_failures_per_interval=3"),
        ("failure_rate", {"failure_rate_interval": 0}, "failure_rate_interval=0 is too short"),
        ("exponential_delay", {"initial_backoff": 0}, "initial_backoff=0 is too short"),
        ("exponential_delay", {"initial_backoff": "2min"}, "max_backoff='1min' is below initial_backoff='2min': raise"),
        (
            "exponential_delay",
            {"backoff_multiplier": 1},
            "backoff_multiplier=1 makes no delay longer: write a number",
        ),
        ("exponential_delay", {"backoff_multiplier": "2"}, "backoff_multiplier='2' makes no delay longer"),
        (
            "exponential_delay",
            {"jitter_factor": 1},
            "jitter_factor=1 is not a valid share: write a number from 0 to below 1, jitter_factor=0.1",
        ),
        ("exponential_delay", {"jitter_factor": True}, "jitter_factor=True is not a valid share"),
        ("exponential_delay", {"reset_backoff_threshold": "0s"}, "reset_backoff_threshold='0s' is too short"),
    ],
)
def test_a_restart_strategy_that_cannot_hold_is_refused(strategy: str, wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidOption) as refused:
        getattr(restart, strategy)(**wrong)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"max_checkpoints": 0}, "max_checkpoints=0 is too few: it must be 1 or more, max_checkpoints=100000"),
        ({"max_bytes": 1000}, "max_bytes=1000 is too few: it must be 65536 or more"),
        ({"max_bytes": "1GB"}, "max_bytes='1GB' is not a valid whole number: write max_bytes=268435456"),
    ],
)
def test_a_history_with_bad_bounds_is_refused(values: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidOption, match=re.escape(said)):
        History(**values)


def test_windows_take_durations_as_they_are_written() -> None:
    assert windows.tumbling("at", "10min") == windows.WindowAssigner("at", 600_000, 600_000)
    assert windows.tumbling("at", 10, offset="25s") == windows.WindowAssigner("at", 10_000, 10_000, 5_000)
    assert windows.sliding("at", "1h", "10min") == windows.WindowAssigner("at", 3_600_000, 600_000)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: windows.tumbling("at", "10 minutes"), "size='10 minutes' is not a valid duration: .*, size='10min'"),
        (lambda: windows.tumbling("at", 0), "size=0 is too short"),
        (
            lambda: windows.tumbling(cast("Any", 600), "10min"),
            "time=600 is not the name of a column: name the one of event time, time=",
        ),
        (lambda: windows.sliding("at", "10min", "1h"), "slide='1h' is longer than size='10min': rows between two"),
    ],
)
def test_a_window_that_can_be_none_is_refused(make: Callable[[], object], says: str) -> None:
    with pytest.raises(InvalidOption, match=says):
        make()
