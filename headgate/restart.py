"""What a job does after a failure: ``headgate.restart.exponential_delay(initial_backoff="1s")``.

One rule: a strategy is checked when it is made. Arguments have the names of Flink's ``restart-strategy``
options. The core decides by it; see ``headgate.core.restart``.
"""

from headgate.core.restart import ExponentialDelay, FailureRate, FixedDelay, NoRestart
from headgate.errors import InvalidOption
from headgate.values import Duration, count, duration_ms

__all__ = ["exponential_delay", "failure_rate", "fixed_delay", "none"]


def none() -> NoRestart:
    """The first failure ends the job."""
    return NoRestart()


def fixed_delay(*, delay: Duration = "1s", attempts: int | None = None) -> FixedDelay:
    """Wait the same time before each try, and give up after this many. ``attempts`` of None never gives up."""
    return FixedDelay(duration_ms(delay, name="delay"), _attempts(attempts))


def failure_rate(
    *, max_failures_per_interval: int = 1, failure_rate_interval: Duration = "1min", delay: Duration = "1s"
) -> FailureRate:
    """Give up once more than this many failures fall into one interval."""
    return FailureRate(
        failures_max=count(max_failures_per_interval, name="max_failures_per_interval", example=3, least=1),
        interval_ms=duration_ms(failure_rate_interval, name="failure_rate_interval", example="1min", least=1),
        delay_ms=duration_ms(delay, name="delay"),
    )


def exponential_delay(
    *,
    initial_backoff: Duration = "1s",
    max_backoff: Duration = "1min",
    backoff_multiplier: float = 1.5,
    jitter_factor: float = 0.1,
    reset_backoff_threshold: Duration = "1h",
    attempts_before_reset_backoff: int | None = None,
) -> ExponentialDelay:
    """Wait longer each time, up to ``max_backoff``; begin again after ``reset_backoff_threshold`` without a failure.

    ``jitter_factor`` of 0.1 spreads a delay by ten per cent to either side. ``attempts_before_reset_backoff`` is how
    many failures end the job, if they come without such a time between them; None never gives up.
    """
    initial_ms = duration_ms(initial_backoff, name="initial_backoff", example="1s", least=1)
    maximum_ms = duration_ms(max_backoff, name="max_backoff", example="1min", least=1)
    if maximum_ms < initial_ms:
        raise InvalidOption(
            f"max_backoff={max_backoff!r} is below initial_backoff={initial_backoff!r}: raise it, max_backoff='1min'"
        )
    if not _number(backoff_multiplier) or backoff_multiplier <= 1:
        raise InvalidOption(
            f"backoff_multiplier={backoff_multiplier!r} makes no delay longer: write a number above 1, "
            "backoff_multiplier=1.5"
        )
    if not _number(jitter_factor) or not 0 <= jitter_factor < 1:
        raise InvalidOption(
            f"jitter_factor={jitter_factor!r} is not a valid share: write a number from 0 to below 1, jitter_factor=0.1"
        )
    return ExponentialDelay(
        initial_ms=initial_ms,
        maximum_ms=maximum_ms,
        multiplier=backoff_multiplier,
        jitter=jitter_factor,
        reset_after_ms=duration_ms(reset_backoff_threshold, name="reset_backoff_threshold", example="1h", least=1),
        attempts_max=_attempts(attempts_before_reset_backoff, "attempts_before_reset_backoff"),
    )


def _attempts(attempts: int | None, name: str = "attempts") -> int | None:
    return None if attempts is None else count(attempts, name=name, example=3, least=1)


def _number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
