"""Settings of Spark on which Headgate's guarantees rest.

One rule: what contradicts them is refused by its name, where the job is written and again where a session is made; it
is never overridden.
"""

from collections.abc import Mapping
from types import MappingProxyType

from headgate.errors import InvalidOption

NEEDED: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "spark.sql.streaming.minBatchesToRetain": (
            str(2**31 - 1),
            "Headgate itself deletes what no checkpoint needs any more",
        ),
        "spark.sql.streaming.offsetLog.formatVersion": ("1", "Headgate reads Spark's offset log"),
        "spark.sql.parquet.outputTimestampType": (
            "TIMESTAMP_MICROS",
            "channels carry timestamps in Parquet, whole and of any year",
        ),
        "spark.speculation": ("false", "two attempts at one output would both be written"),
    }
)
"""What must be so, and why. A user may say the same, and nothing else."""


def refuse_contradiction(conf: Mapping[str, str], backend: str = "", fixed: Mapping[str, str] | None = None) -> None:
    """Refuse what is not valid. ``fixed`` is what the state backend of that name sets beside what is always needed."""
    # Spark does not mind the case of the settings of its state store.
    wanted = {key: value for key, (value, _) in NEEDED.items()} | dict(fixed or {})
    by_name = {key.casefold(): (key, value) for key, value in wanted.items()}
    for given, value in conf.items():
        if given == "spark.remote" or (given, value) == ("spark.api.mode", "connect"):
            raise InvalidOption(f"{given}={value} is for Spark Connect, which Headgate cannot use: leave it out")
        key, must = by_name.get(given.casefold(), (given, value))
        if value.casefold() != must.casefold():
            why = (
                NEEDED[key][1] if key in NEEDED else f"it is set by state_backend=headgate.state_backend.{backend}(...)"
            )
            raise InvalidOption(f"{given}={value} is not allowed, it must be {must}: {why}; leave it out")
