"""How a user tunes a job. One rule: every value is checked where it is written, and the message shows a good one."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from headgate.access import MODES
from headgate.core.errors import InvalidSettings
from headgate.core.restart import ExponentialDelay, Strategy
from headgate.core.settings import Mode, Settings
from headgate.errors import InvalidOption
from headgate.values import Duration, count, duration_ms

SCHEMES = ("file", "hdfs", "s3a", "viewfs")
HISTORY_LEAST_BYTES = 64 << 10
RETAIN, DELETE = "retain-on-cancellation", "delete-on-cancellation"
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


@dataclass(frozen=True, kw_only=True)
class Checkpointing:
    """When and how the whole job is checkpointed, and where the checkpoints are kept.

    The names and their meaning are Flink's. Durations are written ``"10s"``, or as a number of seconds.
    """

    storage: str | os.PathLike[str]
    """Where checkpoints live: a path, or a URI (``file``, ``hdfs``, ``s3a``).

    It must be given: a job that is started again must find its checkpoints.
    """
    interval: Duration | None = "10s"
    """From the start of one checkpoint to the start of the next. None: only when asked for, and one at the end."""
    mode: str = "exactly-once"
    """``exactly-once``, ``at-least-once`` (no waiting for barriers) or ``at-most-once`` (a failed batch is skipped)."""
    timeout: Duration = "10min"
    """A checkpoint that takes longer is given up."""
    min_pause: Duration = 0
    """Least time from the end of one checkpoint to the start of the next. Above 0, one is under way at a time."""
    max_concurrent_checkpoints: int = 1
    """How many checkpoints may be under way at once."""
    tolerable_failed_checkpoints: int = 0
    """How many failed checkpoints in a row are borne; one more fails the job."""
    unaligned: bool = False
    """Barriers overtake data, so that a checkpoint does not wait behind a backlog."""
    aligned_checkpoint_timeout: Duration | None = None
    """An aligned checkpoint that takes longer goes on unaligned. None: it stays aligned."""
    num_retained: int = 1
    """How many completed checkpoints are kept."""
    externalized_checkpoint_retention: str = "delete-on-cancellation"
    """What becomes of the checkpoints of a job that is cancelled: or ``retain-on-cancellation``."""
    checkpoints_after_tasks_finish: bool = True
    """Go on with checkpoints when some tasks have come to the end of their data."""
    max_batches_ahead: int | None = 8
    """A task runs at most this many batches ahead of its slowest reader. None: as far as it likes."""
    working_directory: str | os.PathLike[str] | None = None
    """Where queries keep their own files. None: inside ``storage``, so that a checkpoint copies nothing."""
    access: str = "owner"
    """Who may look into directories that Headgate makes: ``owner`` (mode 0700), or whoever the ``umask`` allows, for
    clusters whose executors run as another user. Directories that are there keep their permissions."""

    def __post_init__(self) -> None:
        """Refuse what is not valid, and make local paths absolute: a restart may come from another folder."""
        object.__setattr__(self, "storage", _uri(self.storage, "storage"))
        if self.working_directory is not None:
            object.__setattr__(self, "working_directory", _uri(self.working_directory, "working_directory"))
        if self.access not in MODES:
            raise InvalidOption(f"access={self.access!r} is unknown: choose one of {', '.join(map(repr, MODES))}")
        to_core(self)


@dataclass(frozen=True, kw_only=True)
class History:
    """How much is kept of what happened to a job. What is beyond either bound goes, the oldest first.

    It explains and decides nothing: a job runs as well with the least of it. As Flink's ``web.checkpoints.history``,
    but kept in the storage, where it outlives the process.
    """

    max_checkpoints: int = 100_000
    """Of how many checkpoints it tells: 11 days of one in ten seconds."""
    max_bytes: int = 256 << 20
    """How much room it takes in the storage. About a kilobyte and a half for a checkpoint of three tasks."""

    def __post_init__(self) -> None:
        """Refuse what is not valid."""
        count(self.max_checkpoints, name="max_checkpoints", example=100_000, least=1)
        count(self.max_bytes, name="max_bytes", example=256 << 20, least=HISTORY_LEAST_BYTES)


def to_core(checkpointing: Checkpointing, restart: Strategy | None = None) -> Settings:
    """The same as the core's settings. Without a restart strategy, delays grow exponentially."""
    c = checkpointing
    modes = {mode.value: mode for mode in Mode}
    if c.mode not in modes:
        raise InvalidOption(f"mode={c.mode!r} is not a valid guarantee: choose one of {', '.join(map(repr, modes))}")
    if c.externalized_checkpoint_retention not in (RETAIN, DELETE):
        raise InvalidOption(
            f"externalized_checkpoint_retention={c.externalized_checkpoint_retention!r} is unknown: "
            f"choose {RETAIN!r} or {DELETE!r}"
        )
    align = c.aligned_checkpoint_timeout
    try:
        return Settings(
            mode=modes[c.mode],
            interval_ms=None if c.interval is None else duration_ms(c.interval, name="interval", least=1),
            min_pause_ms=duration_ms(c.min_pause, name="min_pause", example="1s"),
            timeout_ms=duration_ms(c.timeout, name="timeout", example="10min", least=1),
            max_concurrent_checkpoints=count(c.max_concurrent_checkpoints, name="max_concurrent_checkpoints", least=1),
            tolerable_failed_checkpoints=count(c.tolerable_failed_checkpoints, name="tolerable_failed_checkpoints"),
            unaligned=_flag(c.unaligned, "unaligned"),
            aligned_checkpoint_timeout_ms=None
            if align is None
            else duration_ms(align, name="aligned_checkpoint_timeout", example="30s"),
            max_batches_ahead=None
            if c.max_batches_ahead is None
            else count(c.max_batches_ahead, name="max_batches_ahead", least=1),
            num_retained=count(c.num_retained, name="num_retained", least=1),
            retain_on_cancellation=c.externalized_checkpoint_retention == RETAIN,
            checkpoints_after_tasks_finish=_flag(c.checkpoints_after_tasks_finish, "checkpoints_after_tasks_finish"),
            restart=restart or ExponentialDelay(),
        )
    except InvalidSettings as error:
        raise InvalidOption(str(error)) from error


def check_scheme(uri: str, conf: Mapping[str, str]) -> None:
    """Refuse a storage for which Spark has no file system, unless the user's settings name one."""
    scheme = uri.partition(":")[0].lower() if _SCHEME.match(uri) else "file"
    if scheme in SCHEMES or f"spark.hadoop.fs.{scheme}.impl" in conf:
        return
    instead = "write s3a:// in its place" if scheme in {"s3", "s3n"} else "use a local path, hdfs:// or s3a://"
    raise InvalidOption(
        f"storage={uri!r}: Spark has no file system for {scheme!r}: {instead}, or name its class in spark_conf as "
        f"spark.hadoop.fs.{scheme}.impl (it must be able to create a file only if there is none)"
    )


def _flag(value: object, name: str) -> bool:
    if not isinstance(value, bool):
        raise InvalidOption(f"{name}={value!r} is neither on nor off: write {name}=True or {name}=False")
    return value


def _uri(value: object, name: str) -> str:
    value = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(value, str) or not value.strip():
        raise InvalidOption(
            f"{name}={value!r} is not a valid place: write a URI or a path, {name}='file:///data/headgate'"
        )
    return value if _SCHEME.match(value) else f"file://{Path(value).expanduser().absolute()}"
