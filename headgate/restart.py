"""What a job does after a failure: ``headgate.restart.exponential_delay(initial="1s", maximum="1min")``.

One rule: a strategy is checked when it is made. The core decides by it; see ``headgate.core.restart``.
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


def failure_rate(*, failures: int = 1, interval: Duration = "1min", delay: Duration = "1s") -> FailureRate:
    """Give up once more than ``failures`` fall into one ``interval``."""
    return FailureRate(
        failures_max=count(failures, name="failures", example=3, least=1),
        interval_ms=duration_ms(interval, name="interval", example="1min", least=1),
        delay_ms=duration_ms(delay, name="delay"),
    )


def exponential_delay(
    *,
    initial: Duration = "1s",
    maximum: Duration = "1min",
    multiplier: float = 1.5,
    jitter: float = 0.1,
    reset_after: Duration = "1h",
    attempts: int | None = None,
) -> ExponentialDelay:
    """Wait longer each time, up to ``maximum``, and begin again after ``reset_after`` without a failure.

    ``jitter`` of 0.1 spreads a delay by ten per cent to either side. ``attempts`` of None never gives up.
    """
    initial_ms = duration_ms(initial, name="initial", example="1s", least=1)
    maximum_ms = duration_ms(maximum, name="maximum", example="1min", least=1)
    if maximum_ms < initial_ms:
        raise InvalidOption(f"maximum={maximum!r} is below initial={initial!r}: raise it, maximum='1min'")
    if not _number(multiplier) or multiplier <= 1:
        raise InvalidOption(f"multiplier={multiplier!r} makes no delay longer: write a number above 1, multiplier=1.5")
    if not _number(jitter) or not 0 <= jitter < 1:
        raise InvalidOption(f"jitter={jitter!r} is not a valid share: write a number from 0 to below 1, jitter=0.1")
    return ExponentialDelay(
        initial_ms=initial_ms,
        maximum_ms=maximum_ms,
        multiplier=multiplier,
        jitter=jitter,
        reset_after_ms=duration_ms(reset_after, name="reset_after", example="1h", least=1),
        attempts_max=_attempts(attempts),
    )


def _attempts(attempts: int | None) -> int | None:
    return None if attempts is None else count(attempts, name="attempts", example=3, least=1)


def _number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
