"""How a job is tuned. One rule: settings are checked once, here, and hold from then on."""

from dataclasses import dataclass, field
from enum import Enum

from headgate.core.errors import InvalidSettings
from headgate.core.restart import ExponentialDelay, Strategy


class Mode(Enum):
    """How often a record's effect may show in state and sinks after failures."""

    EXACTLY_ONCE = "exactly-once"
    AT_LEAST_ONCE = "at-least-once"
    AT_MOST_ONCE = "at-most-once"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Checkpointing and restarts, with the names and the meaning that Flink gave them."""

    mode: Mode = Mode.EXACTLY_ONCE
    interval_ms: int | None = 10_000
    """Time from the start of one periodic checkpoint to the next. None: only when asked for, and one at the end."""
    min_pause_ms: int = 0
    """Least time from the end of one checkpoint to the start of the next; above 0, one is under way at a time."""
    timeout_ms: int = 600_000
    """A checkpoint that is not ready for publication after this long is given up."""
    max_concurrent_checkpoints: int = 1
    """How many checkpoints may be under way at once."""
    tolerable_failed_checkpoints: int = 0
    """How many failed checkpoints in a row are borne; one more fails the job."""
    unaligned: bool = False
    """Barriers overtake data: snapshots are taken at once, with the data in flight."""
    aligned_checkpoint_timeout_ms: int | None = None
    """An aligned checkpoint that is not aligned everywhere after this long goes on unaligned."""
    max_batches_ahead: int | None = None
    """A task runs at most this many batches ahead of its slowest reader, and then waits. None: as far as it likes."""
    num_retained: int = 1
    """How many completed checkpoints are kept. Savepoints and held ones do not count."""
    retain_on_cancellation: bool = False
    """Keep the checkpoints when the job is cancelled."""
    checkpoints_after_tasks_finish: bool = True
    """Go on with checkpoints after some tasks have finished."""
    restart: Strategy = field(default_factory=ExponentialDelay)
    resend_ms: int = 5_000
    """Orders that nobody has answered are given again this often; tasks are asked where they stand."""
    commit_retry_ms: int = 100
    """Wait before a failed commit is tried again. Doubles up to ``commit_retry_max_ms``."""
    commit_retry_max_ms: int = 10_000
    leftovers_ms: int = 1_000
    """Wait before sinks look again for what dead generations and runs left. Doubles up to ``leftovers_max_ms``."""
    leftovers_max_ms: int = 60_000

    def __post_init__(self) -> None:
        """Refuse what is not valid, naming the setting."""
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if value is not None and value < least:
                raise InvalidSettings(f"{name} is {value}: it must be {least} or more")
        if self.commit_retry_max_ms < self.commit_retry_ms:
            raise InvalidSettings("commit_retry_max_ms is below commit_retry_ms: raise it")
        if self.leftovers_max_ms < self.leftovers_ms:
            raise InvalidSettings("leftovers_max_ms is below leftovers_ms: raise it")
        if self.mode is Mode.AT_LEAST_ONCE and (self.unaligned or self.aligned_checkpoint_timeout_ms is not None):
            raise InvalidSettings(
                "unaligned checkpoints and the alignment timeout need exactly-once or at-most-once: "
                "at-least-once does not align at all"
            )


_LEAST = {
    "interval_ms": 1,
    "min_pause_ms": 0,
    "timeout_ms": 1,
    "max_concurrent_checkpoints": 1,
    "tolerable_failed_checkpoints": 0,
    "aligned_checkpoint_timeout_ms": 0,
    "max_batches_ahead": 1,
    "num_retained": 1,
    "resend_ms": 1,
    "commit_retry_ms": 1,
    "commit_retry_max_ms": 1,
    "leftovers_ms": 1,
    "leftovers_max_ms": 1,
}
