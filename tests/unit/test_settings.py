from typing import Any

import pytest

from headgate.core.errors import InvalidSettings
from headgate.core.restart import ExponentialDelay
from headgate.core.settings import Mode, Settings

LEAST = [
    ("interval_ms", 1),
    ("min_pause_ms", 0),
    ("timeout_ms", 1),
    ("max_concurrent_checkpoints", 1),
    ("tolerable_failed_checkpoints", 0),
    ("aligned_checkpoint_timeout_ms", 0),
    ("num_retained", 1),
    ("resend_ms", 1),
    ("commit_retry_ms", 1),
    ("leftovers_ms", 1),
]


def made(**values: Any) -> Settings:
    return Settings(**values)


def test_the_defaults_hold_and_are_exactly_once() -> None:
    settings = Settings()
    assert settings.mode is Mode.EXACTLY_ONCE
    assert settings.restart == ExponentialDelay()


@pytest.mark.parametrize(("name", "least"), LEAST)
def test_a_setting_below_its_least_value_is_refused_by_name(name: str, least: int) -> None:
    assert getattr(made(**{name: least}), name) == least
    with pytest.raises(InvalidSettings, match=f"^{name} is {least - 1}: it must be {least} or more$"):
        made(**{name: least - 1})


def test_the_longest_wait_between_commits_is_at_least_one() -> None:
    with pytest.raises(InvalidSettings, match=r"^commit_retry_max_ms is 0: it must be 1 or more$"):
        Settings(commit_retry_ms=1, commit_retry_max_ms=0)


@pytest.mark.parametrize("name", ["interval_ms", "aligned_checkpoint_timeout_ms"])
def test_a_setting_that_may_be_left_out_may_be_none(name: str) -> None:
    assert getattr(made(**{name: None}), name) is None


def test_the_longest_wait_between_commits_is_not_below_the_first() -> None:
    assert Settings(commit_retry_ms=50, commit_retry_max_ms=50).commit_retry_max_ms == 50
    with pytest.raises(InvalidSettings, match=r"^commit_retry_max_ms is below commit_retry_ms: raise it$"):
        Settings(commit_retry_ms=50, commit_retry_max_ms=49)
    with pytest.raises(InvalidSettings, match=r"^leftovers_max_ms is below leftovers_ms: raise it$"):
        Settings(leftovers_ms=50, leftovers_max_ms=49)


@pytest.mark.parametrize("values", [{"unaligned": True}, {"aligned_checkpoint_timeout_ms": 0}])
def test_only_a_mode_that_aligns_can_do_without_alignment(values: dict[str, Any]) -> None:
    assert made(mode=Mode.EXACTLY_ONCE, **values).mode is Mode.EXACTLY_ONCE
    assert made(mode=Mode.AT_MOST_ONCE, **values).mode is Mode.AT_MOST_ONCE
    with pytest.raises(InvalidSettings, match="at-least-once does not align at all"):
        made(mode=Mode.AT_LEAST_ONCE, **values)


def test_at_least_once_is_fine_by_itself() -> None:
    assert Settings(mode=Mode.AT_LEAST_ONCE).mode is Mode.AT_LEAST_ONCE
