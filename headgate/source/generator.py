"""A source of rows that are made up, for trying a job out, for load and for proofs.

One rule: row n is a function of n and the generator's own arguments, and of nothing else: not of how the rows are cut
into batches, of time, or of what came before. So every range of offsets can be read again, and every row proves itself:
``seq`` counts the rows of its key without a gap, and ``Generator.counts`` says how many there must be.

Spark makes all the rows: one source counts, and column expressions do the rest. It is one of our jar that can be told
how far to count (``java/src/headgate/source``); without the jar it is Spark's ``rate-micro-batch``.

How ``key`` and ``seq`` come out of n alone. The keys are dealt like cards: every round of m rows holds each of m keys
once, so ``seq`` is the number of the round. The order within a round is ``a * place + c * round`` modulo m: with a and
m coprime a permutation, and another one each round. A skew takes rows out of the deal first: row n is the hot key's
when ``floor(n * skew)`` steps up after it, which also says how many the hot key had before.
"""

import json
import math
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from py4j.java_gateway import JavaPackage
from pyspark.sql import DataFrame, SparkSession, functions as F  # noqa: N812 - as everybody writes it

from headgate.core.sizing import START_ROWS
from headgate.errors import BadStorage, InvalidOption
from headgate.source.api import Source

COUNTING = "headgate.source.Counting"
SHARES = 10_000
"""A skew is counted in this many parts of the whole, so that it is exact in whole numbers."""
TRIGGERS_MS = (200, 250, 500, 1000)
"""With a rate, the first of these that gives a whole number of rows a batch. The last one always does."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def source(
    *,
    rows: int | None = None,
    rows_per_second: int | None = None,
    rows_per_batch: int | None = None,
    keys: int = 100,
    skew: float = 0.0,
    out_of_order: float | str = 0,
    start: datetime | str = "2025-01-01T00:00:00Z",
    event_step_ms: float | None = None,
    partitions: int = 2,
    seed: int = 0,
) -> "Generator":
    """Make rows ``n, key, seq, value, event_time``: the same ones for the same arguments, always.

    ``rows``              end after this many; None: never
    ``rows_per_second``   at most this many a second, in small batches; None: as fast as they are taken
    ``rows_per_batch``    how many a batch, if there is no rate; None: batches size themselves
    ``keys``              how many different keys: ``key-000000``, ``key-000001``, ...
    ``skew``              the share of all rows that go to the first key; 0: every key gets the same
    ``out_of_order``      events are up to this much earlier than their place in the stream says: seconds, or "500ms"
    ``start``             the event time of row 0; without a zone it is UTC
    ``event_step_ms``     event time from one row to the next; by default what the rate gives, or 1 ms
    ``partitions``        how many partitions Spark makes the rows in
    ``seed``              another seed, other values, delays and order of keys
    """
    counts: tuple[tuple[str, object, int], ...] = (
        ("rows", rows, 0),
        ("rows_per_second", rows_per_second, 1),
        ("rows_per_batch", rows_per_batch, 1),
        ("keys", keys, 1),
        ("partitions", partitions, 1),
    )
    for name, value, least in counts:
        if value is None and name in ("rows", "rows_per_second", "rows_per_batch"):
            continue
        if isinstance(value, bool) or not isinstance(value, int):
            raise InvalidOption(f"generator.source: {name} is {value!r}: give a whole number, as in {name}=1000")
        if value < least:
            raise InvalidOption(f"generator.source: {name} is {value}: it must be {least} or more")
    numbers: tuple[tuple[str, object], ...] = (("skew", skew), ("event_step_ms", event_step_ms or 0), ("seed", seed))
    for name, number in numbers:
        if isinstance(number, bool) or not isinstance(number, int | float) or not math.isfinite(number):
            raise InvalidOption(f"generator.source: {name} is {number!r}: give a number, as in {name}=0")
    hot = round(skew * SHARES)
    if hot and not (keys > 1 and SHARES / keys <= hot < SHARES):
        raise InvalidOption(
            f"generator.source: skew={skew} is not possible with {keys} keys: "
            f"give 0, or at least an even share (1 / keys) and less than 1, and 2 keys or more"
        )
    step_ms = event_step_ms if event_step_ms is not None else 1000 / (rows_per_second or 1000)
    if step_ms < 0:
        raise InvalidOption(f"generator.source: event_step_ms is {event_step_ms}: it must be 0 or more")
    return Generator(
        rows=rows,
        rows_per_second=rows_per_second,
        rows_per_batch=rows_per_batch,
        keys=keys,
        hot=hot,
        late_max_us=_microseconds(out_of_order),
        start_us=_since_epoch(start),
        step_us=round(step_ms * 1000),
        partitions=partitions,
        seed=seed,
    )


@dataclass(frozen=True, kw_only=True)
class Generator(Source):
    """What ``source`` returns: its arguments, checked and in whole numbers. ``hot`` is the skew in ``SHARES``."""

    rows: int | None
    rows_per_second: int | None
    rows_per_batch: int | None
    keys: int
    hot: int
    late_max_us: int
    start_us: int
    step_us: int
    partitions: int
    seed: int
    _still: bool = field(default=False, init=False, repr=False, compare=False)
    """Found out by ``load``."""

    @property
    def replayable(self) -> bool:
        """Yes: a row is a function of its number."""
        return True

    @property
    def trigger_ms(self) -> int | None:
        """With a rate, an interval that gives a whole number of rows a batch."""
        rate = self.rows_per_second
        return None if rate is None else next(ms for ms in TRIGGERS_MS if rate * ms % 1000 == 0)

    @property
    def sizes_itself(self) -> bool:
        """Yes, unless the user says how many rows a batch or a second has."""
        return self.rows_per_batch is None and self.rows_per_second is None

    def load(self, spark: SparkSession, trigger_ms: int | None) -> DataFrame:
        """Let Spark count, and compute the columns from the count."""
        # No rows at all are one batch of none, so that somebody is asked whether this is the end.
        end = None if self.rows is None else max(1, self.rows)
        batch = self._batch_rows(trigger_ms)
        if _has_ours(spark):
            counted = self._counted_to(spark, end, batch)
            object.__setattr__(self, "_still", end is not None)
        else:
            counted = self._counted_on(spark, batch)  # A session of the user's that does not have our jar.
        if self.rows is not None:
            counted = counted.where(F.col("n") < self.rows)
        return self._columns(counted)

    def _batch_rows(self, trigger_ms: int | None) -> int:
        """How many rows a batch has, if it is not told otherwise."""
        if self.rows_per_second is None:
            return self.rows_per_batch or START_ROWS
        interval_ms = trigger_ms or self.trigger_ms or TRIGGERS_MS[-1]
        return max(1, self.rows_per_second * interval_ms // 1000)

    def _counted_to(self, spark: SparkSession, end: int | None, batch: int) -> DataFrame:
        """Count to the end, as far at a time as Spark is told, or by the size of a batch if it is told nothing."""
        options = {"start_rows": batch, "partitions": self.partitions} | ({} if end is None else {"end": end})
        return spark.readStream.format(COUNTING).options(**options).load()

    def _counted_on(self, spark: SparkSession, batch: int) -> DataFrame:
        """Count by the same number in every batch, and past the end."""
        return (
            spark.readStream.format("rate-micro-batch")
            .option("rowsPerBatch", batch)
            .option("numPartitions", self.partitions)
            # Spark's own time column would depend on the batching. It is not used, so it stands still.
            .option("advanceMillisPerBatch", 0)
            .load()
            .select(F.col("value").alias("n"))
        )

    @property
    def is_still_at_end(self) -> bool:
        """Only our own stream keeps to a limit: Spark's counts on, and its rows are left out."""
        return self._still

    def rows_between(self, begin: str | None, end: str) -> int:
        """The difference of the numbers."""
        return _number(end) - (0 if begin is None else _number(begin))

    def ended(self, offset: str) -> bool:
        """Whether all ``rows`` are out. ``offset`` is the number of the next row, perhaps past the end."""
        reached = _number(offset)
        return self.rows is not None and reached >= self.rows

    def describe(self) -> str:
        """How much, how fast, over how many keys."""
        amount = "rows without end" if self.rows is None else f"{self.rows} rows"
        speed = ", in batches that size themselves" if self.sizes_itself else ""
        if self.rows_per_second is not None:
            speed = f", {self.rows_per_second} a second"
        skew = f", {self.hot * 100 / SHARES:g} % of them one key's" if self.hot else ""
        return f"generator: {amount}{speed}, {self.keys} keys{skew}"

    def counts(self, rows: int | None = None) -> dict[str, int]:
        """How many of the first ``rows`` rows each key has: what must come out of a job, computed without Spark.

        By default, of all rows of a bounded generator.
        """
        total = self.rows if rows is None else rows
        if total is None:
            raise InvalidOption("generator: it has no end, so say how many rows to count")
        hot = total * self.hot // SHARES
        rounds, rest = divmod(total - hot, self._dealt)
        found = [hot] * (self.keys - self._dealt) + [rounds] * self._dealt
        for place in range(rest):
            found[self._key(place, rounds)] += 1
        return {self._name(key): number for key, number in enumerate(found) if number}

    @property
    def _dealt(self) -> int:
        """How many keys are dealt in rounds: all of them, or all but the hot one."""
        return self.keys - 1 if self.hot else self.keys

    @property
    def _stride(self) -> int:
        """Near the golden section of the keys, so that neighbours in the stream are far apart, and coprime to them."""
        least = max(1, round(self._dealt * 0.618))
        return next(a for a in count(least) if math.gcd(a, self._dealt) == 1)

    @property
    def _turn(self) -> int:
        """By how much the order of the keys turns from one round to the next."""
        return self._dealt // 3 + 1

    def _key(self, place: int, dealt_round: int) -> int:
        """The key at a place of a round. ``_columns`` says the same to Spark."""
        index = (place * self._stride + dealt_round % self._dealt * self._turn + self.seed % self._dealt) % self._dealt
        return index + self.keys - self._dealt

    def _name(self, key: int) -> str:
        return f"key-{key:0{self._width}d}"

    @property
    def _width(self) -> int:
        return max(6, len(str(self.keys - 1)))

    def _columns(self, counted: DataFrame) -> DataFrame:
        """Compute the columns from ``n``."""
        m = self._dealt
        hot_before = f"(n * {self.hot} div {SHARES})"
        is_hot = f"((n + 1) * {self.hot} div {SHARES} > {hot_before})"
        place, dealt_round = f"((n - {hot_before}) % {m})", f"((n - {hot_before}) div {m})"
        index = f"({place} * {self._stride} + {dealt_round} % {m} * {self._turn} + {self.seed % m}) % {m}"
        key = f"if({is_hot}, 0L, {index} + {self.keys - m})"
        late = f"pmod(xxhash64({self.seed}L, n), {self.late_max_us + 1}L)"
        return counted.selectExpr(
            "n",
            f"concat('key-', lpad(cast({key} as string), {self._width}, '0')) as key",
            f"if({is_hot}, {hot_before}, {dealt_round}) as seq",
            # In steps of 1/128: sums are exact, whatever the order in which they are added up.
            f"pmod(xxhash64(n, {self.seed}L), 12800L) / 128d as value",
            f"timestamp_micros({self.start_us}L + n * {self.step_us}L - {late}) as event_time",
        )


def _microseconds(duration: float | str) -> int:
    """Read a duration: a number of seconds, or a number with its unit."""
    units = {"ms": 1_000, "s": 1_000_000, "min": 60_000_000, "h": 3_600_000_000}
    found = re.fullmatch(
        r"(\d+(?:\.\d+)?)\s*(ms|s|min|h)", f"{duration}s" if not isinstance(duration, str) else duration
    )
    if found is None:
        raise InvalidOption(
            f"generator.source: out_of_order is {duration!r}: give seconds, or a text such as '500ms' or '2min'"
        )
    return round(float(found[1]) * units[found[2]])


def _since_epoch(moment: datetime | str) -> int:
    """Microseconds since 1970, in whole numbers."""
    try:
        found = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
    except ValueError:
        found = None
    if not isinstance(found, datetime):
        raise InvalidOption(f"generator.source: start is {moment!r}: give a time such as '2025-01-01T00:00:00Z'")
    aware = found if found.tzinfo is not None else found.replace(tzinfo=UTC)
    return (aware - EPOCH) // timedelta(microseconds=1)


def _has_ours(spark: SparkSession) -> bool:
    found: Any = spark._jvm  # noqa: SLF001 - PySpark has no other way
    for part in COUNTING.split("."):
        found = getattr(found, part)
    return not isinstance(found, JavaPackage)


def _number(offset: str) -> int:
    try:
        return int(json.loads(offset)["offset"])
    except (ValueError, KeyError, TypeError):
        raise BadStorage(
            f"the offset {offset} is not one of a generator: if the source was exchanged, give it a new uid"
        ) from None
