"""Comparisons of Headgate's own parts, which have no peer: they print, and are in no report."""

from collections.abc import Callable, Mapping

from bench import core, growth, history, hop, publish, sinks
from bench.spark import make_session

ALONE: Mapping[str, Callable[[], None]] = {
    "core": core.core,
    "growth": growth.growth,
    "history": history.history,
    "publish": publish.publish,
}
ON_SPARK = {"hop": hop.channel_hop, "postgres": sinks.postgres, "commit": sinks.commits}
PARTS: Mapping[str, Callable[..., None]] = {**ALONE, **ON_SPARK}


def run(name: str) -> None:
    """One of them."""
    if name in ALONE:
        ALONE[name]()
        return
    spark = make_session(sinks.PACKAGES)
    ON_SPARK[name](spark)
    spark.stop()
