"""Kafka as a source, through Spark's own connector.

One rule: where the job stands is the offset in Spark's log, and so in the checkpoint; what stands in a consumer group
is for people who look, and nothing depends on it. Before a query goes on from an offset it is seen that the topic is
the one that it was, and still has everything from there on.

What the source remembers beside the offset: the id and the number of partitions of each topic, and, if it is bounded,
where each partition ended at the first start. It is kept with the checkpoint. What is read of both was written by this
module or by Spark's connector, or is refused.
"""

import json
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Literal

import pyspark
from pyspark.sql import Column, DataFrame, SparkSession, functions as F  # noqa: N812 - as everybody writes it

from headgate.connect.kafka.broker import BrokerClient, Partition
from headgate.connect.kafka.reading.options import Option, checked, for_java, for_librdkafka
from headgate.connect.kafka.security import warn_of_login
from headgate.core.sizing import START_ROWS
from headgate.errors import BadStorage, InvalidOption, UserError
from headgate.source.api import Source
from headgate.values import count

if TYPE_CHECKING:  # The client is asked for where it is used.
    from headgate.connect.kafka.reading.topics import Brokers

CONNECTOR = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"

PLACES = {"earliest": -2, "latest": -1}
"""How Spark writes them among offsets."""

Starting = str | datetime | Mapping[int, int | str] | Mapping[str, Mapping[int, int | str]]

SHOWN_MAX = 3
ANSWER_MS = 30_000
"""Java's client asks a broker that has died until this time is over, although another one leads by then. No shorter
than it waits for a single answer."""
FETCHING = {"max.poll.records": "20000"}
"""With each poll Spark asks the broker where the partition begins and ends. Java's client gives it 500 records at once,
although it has fetched a megabyte; that bound, `max.partition.fetch.bytes`, stays."""
ASKED_TIMES = 6
"""How often, each time with a new client. Together as long as Spark's three times with a minute each."""
logger = logging.getLogger("headgate")


def source(
    servers: str | Sequence[str],
    *,
    topic: str | None = None,
    topics: Sequence[str] | None = None,
    pattern: str | None = None,
    group: str | None = None,
    starting_offsets: Starting = "earliest",
    isolation_level: Literal["read_committed", "read_uncommitted"] = "read_committed",
    max_offsets_per_trigger: int | None = None,
    min_partitions: int | None = None,
    bounded: bool = False,
    headers: bool = False,
    options: Mapping[str, Option] | None = None,
    fail_on_data_loss: bool = True,
    on_new_partitions: Literal["fail", "read"] = "fail",
) -> "KafkaSource":
    """Read topics of Kafka, as rows ``key, value, topic, partition, offset, timestamp, timestampType``.

    Options that Spark's reader has are named as there.

    ``servers``                  ``host:port``, several with commas between them or as a list
    ``topic``                    what to read; or ``topics``, a list; or ``pattern``, an expression that fits whole
                                 names
    ``group``                    a consumer group that is told the offsets of every completed checkpoint, for those who
                                 look
    ``starting_offsets``         where to begin without a checkpoint: ``earliest``, ``latest``, a ``datetime``,
                                 or an offset for each partition: ``{0: 17, 1: "earliest"}``, for several topics
                                 ``{"orders": {0: 17}}``. Partitions that are not named begin at the earliest record
    ``isolation_level``          whether records of transactions that are open or were aborted are left out
    ``max_offsets_per_trigger``  a bound for one micro-batch. Without one, batches size themselves
    ``min_partitions``           let Spark split the topic's partitions into this many pieces at least
    ``bounded``                  end where the topics ended at the first start. A job that fails before its first
                                 checkpoint may find a later end when it starts again. If there is nothing to read, the
                                 end is seen when the next record is written
    ``headers``                  add the column ``headers``
    ``options``                  of the client, as librdkafka names them: ``security.protocol``, ``sasl.mechanism``,
                                 ``sasl.username``, ``sasl.password``, ``ssl.ca.location``, ...; others go to Spark's
                                 reader
    ``fail_on_data_loss``        fail if records after the job's offset are gone, or the topic is another one; False
                                 goes on with what there is, and warns
    ``on_new_partitions``        ``fail`` if a topic has got partitions: the same key may now be in two of them, in no
                                 order; ``read`` them, from their beginning
    """
    chosen = [name for name, given in (("topic", topic), ("topics", topics), ("pattern", pattern)) if given]
    if len(chosen) != 1:
        raise InvalidOption(
            f"kafka: {' and '.join(chosen) or 'no topic'}: give one of topic='orders', topics=[...], pattern='...'"
        )
    if isinstance(topics, str):
        raise InvalidOption(f"kafka: topics={topics!r} is one text: write topic={topics!r}")
    where = servers if isinstance(servers, str) else ",".join(servers)
    if not where.strip():
        raise InvalidOption("kafka: no server is given: write servers='host:9092'")
    for name, value, allowed in (
        ("isolation_level", isolation_level, ("read_committed", "read_uncommitted")),
        ("on_new_partitions", on_new_partitions, ("fail", "read")),
    ):
        if value not in allowed:
            raise InvalidOption(f"kafka: {name}={value!r} is unknown: choose {' or '.join(allowed)}")
    if not isinstance(fail_on_data_loss, bool):
        raise InvalidOption(f"kafka: fail_on_data_loss={fail_on_data_loss!r}: write True or False")
    _refuse_bad_pattern(pattern)
    most, least = max_offsets_per_trigger, min_partitions
    names = (topic,) if topic else tuple(topics or ())
    return KafkaSource(
        servers=where.strip(),
        names=names,
        pattern=pattern,
        group=group,
        starting=starting_at(starting_offsets, names),
        committed=isolation_level == "read_committed",
        max_rows=None if most is None else count(most, name="max_offsets_per_trigger", least=1),
        min_partitions=None if least is None else count(least, name="min_partitions", least=1),
        bounded=bounded,
        headers=headers,
        options=checked(options),
        ignore_lost=not fail_on_data_loss,
        read_new=on_new_partitions == "read",
    )


@dataclass(frozen=True)
class Memory:
    """What the source remembers beside the offset."""

    topics: Mapping[str, tuple[str, int]]
    """The id and the number of partitions of each."""
    ends: Mapping[str, Mapping[int, int]] | None
    """Where each partition ends, if the source is bounded."""

    @staticmethod
    def of(text: str) -> "Memory":
        """Read what ``text`` wrote."""
        try:
            found = json.loads(text)
            if found["version"] != 1:
                raise BadStorage(f"kafka: the source's memory has version {found['version']}: use a newer Headgate")
            ends = found.get("ends")
            return Memory(
                {name: (str(each["id"]), int(each["partitions"])) for name, each in found["topics"].items()},
                None if ends is None else {name: _numbered(each) for name, each in ends.items()},
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise BadStorage(f"kafka: the source's memory is damaged ({error}): restore another checkpoint") from error

    @property
    def text(self) -> str:
        """As it is kept."""
        found: dict[str, object] = {
            "version": 1,
            "topics": {name: {"id": each, "partitions": n} for name, (each, n) in sorted(self.topics.items())},
        }
        if self.ends is not None:
            found["ends"] = {name: {str(p): end for p, end in each.items()} for name, each in sorted(self.ends.items())}
        return json.dumps(found)


@dataclass
class KafkaSource(Source):
    """Topics of Kafka. Made by ``source``."""

    servers: str
    names: tuple[str, ...]
    pattern: str | None
    group: str | None
    starting: str | datetime | Mapping[str, Mapping[int, int]]
    committed: bool
    max_rows: int | None
    min_partitions: int | None
    bounded: bool
    headers: bool
    options: Mapping[str, str] = field(repr=False)
    ignore_lost: bool
    read_new: bool
    _memory: Memory | None = field(default=None, init=False, repr=False)
    """What ``check`` has found. It is made anew before every query."""

    @property
    def replayable(self) -> bool:
        """Offsets stay what they are."""
        return True

    @property
    def sizes_itself(self) -> bool:
        """Yes, unless the user says how many offsets a batch may have."""
        return self.max_rows is None

    @property
    def packages(self) -> tuple[str, ...]:
        """Spark's connector."""
        return (CONNECTOR,)

    def describe(self) -> str:
        """Topics and servers, and whether there is an end."""
        what = f"topics like {self.pattern}" if self.pattern else f"topic {', '.join(self.names)}"
        limit = (
            ", in batches that size themselves" if self.sizes_itself else f", at most {self.max_rows} offsets a batch"
        )
        return f"Kafka {what} at {self.servers}{limit}{', to its present end' if self.bounded else ''}"

    def open(self) -> None:
        """See that the brokers answer and have the topics."""
        for_java(self.options)
        warn_of_login(f"Kafka at {self.servers}", self.servers, self.options)
        brokers = self._brokers()
        found = brokers.topics(self.names)
        if missing := [name for name in self.names if name not in found]:
            raise UserError(f"Kafka at {self.servers} has no topic {', '.join(missing)}: create it first")
        if self.pattern and not brokers.matching(self.pattern):
            raise UserError(f"Kafka at {self.servers} has no topic like {self.pattern}: create one first")

    def check(self, offset: str | None, remembered: str | None) -> str:
        """See that the topics are those that they were, and still have everything from ``offset`` on."""
        offsets = {} if offset is None else offsets_of(offset)
        before = None if remembered is None else Memory.of(remembered)
        known = {} if before is None else before.topics
        brokers = self._brokers()
        wanted = set(brokers.matching(self.pattern)) if self.pattern else set(self.names)
        found = brokers.topics(wanted | set(known) | set(offsets))
        lost: list[str] = []
        for name in sorted({*known, *offsets}):
            if name not in wanted and name in found:
                lost.append(f"topic {name} was read before, and is not named any more")
            elif name not in found:
                lost.append(f"topic {name} is gone")
            elif name in known and known[name][0] != found[name].id:
                lost.append(f"topic {name} was deleted and made anew")
        there = {name: topic for name, topic in found.items() if name in wanted}
        if missing := sorted(wanted.difference(there, known, offsets)):
            raise UserError(f"Kafka at {self.servers} has no topic {', '.join(missing)}: create it first")
        grown = {name: (n, there[name].partitions) for name, (_, n) in known.items() if name in there}
        for name in offsets:
            if name in there and name not in grown:
                grown[name] = (len(offsets[name]), there[name].partitions)
        if not lost and offset is not None:
            begins, ends = brokers.earliest(there), brokers.ends(there, committed=False)
            lost += gaps(offsets, begins, ends)
        self._answer_lost(lost)
        self._answer_grown({name: pair for name, pair in grown.items() if pair[1] > pair[0]}, lost)
        ends_at = None if before is None else before.ends
        if self.bounded and (ends_at is None or lost):
            ends_at = by_topic(brokers.ends(there, committed=self.committed))
        self._memory = Memory({name: (topic.id, topic.partitions) for name, topic in there.items()}, ends_at)
        return self._memory.text

    def load(self, spark: SparkSession, trigger_ms: int | None) -> DataFrame:  # noqa: ARG002 - it reads what is there
        """Spark's own stream, held to what ``check`` has found."""
        reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", self.servers)
        for name, value in {**FETCHING, **self._timeouts, **for_java(self.options)}.items():
            reader = reader.option(f"kafka.{name}", value)
        settings: dict[str, str | int | None] = {
            "kafka.isolation.level": "read_committed" if self.committed else "read_uncommitted",
            "failOnDataLoss": str(not self.ignore_lost).lower(),
            "includeHeaders": str(self.headers).lower(),
            "maxOffsetsPerTrigger": self.max_rows or START_ROWS,
            "minPartitions": self.min_partitions,
            "groupIdPrefix": f"{self.group}-reader" if self.group else None,
            "fetchOffset.numRetries": ASKED_TIMES,
            **self._begin(),
        }
        if self.pattern:
            settings["subscribePattern"] = self.pattern
        else:
            settings["subscribe"] = ",".join(self.names)
        for name, setting in settings.items():
            reader = reader if setting is None else reader.option(name, setting)
        return self._held(reader.load())

    @property
    def _timeouts(self) -> dict[str, str]:
        """How long Spark waits for an answer, unless the user says how long."""
        spoken_of = {"default.api.timeout.ms", "request.timeout.ms"} & set(self.options)
        return {} if spoken_of else {"default.api.timeout.ms": str(ANSWER_MS)}

    @property
    def is_still_at_end(self) -> bool:
        """Yes: Spark's connector keeps to a limit, whatever else has come into the topics."""
        return True

    def rows_between(self, begin: str | None, end: str) -> int | None:
        """How many offsets, some of which may have no row. The first batch begins wherever the topics do."""
        if begin is None:
            return None
        before, after = offsets_of(begin), offsets_of(end)
        return sum(at - before.get(name, {}).get(p, at) for name, each in after.items() for p, at in each.items())

    def ended(self, offset: str) -> bool:
        """Whether every partition is read to where it ended when the source was first started."""
        if not self.bounded or self._memory is None or self._memory.ends is None:
            return False
        offsets = offsets_of(offset)
        ends = self._memory.ends
        return all(offsets.get(name, {}).get(p, 0) >= end for name, each in ends.items() for p, end in each.items())

    def notify_completed(self, offset: str) -> None:
        """Tell the consumer group, if there is one, how far the job has come."""
        if self.group is None:
            return
        offsets = {Partition(name, p): at for name, each in offsets_of(offset).items() for p, at in each.items()}
        # Not through librdkafka: when a connection breaks under such a request, it takes the whole process down.
        with BrokerClient(self.servers, for_librdkafka(self.options)) as client:
            client.commit_offsets(self.group, offsets)

    # -- helpers -------------------------------------------------------------------------------------------------------

    def _brokers(self) -> "Brokers":
        from headgate.connect.kafka.reading.topics import Brokers  # noqa: PLC0415 - the client is asked for where it is used

        return Brokers(self.servers, for_librdkafka(self.options))

    def _answer_lost(self, lost: list[str]) -> None:
        if not lost:
            return
        more = f"; and {len(lost) - SHOWN_MAX} more" if len(lost) > SHOWN_MAX else ""
        text = f"Kafka at {self.servers}: {'; '.join(lost[:SHOWN_MAX])}{more}"
        if not self.ignore_lost:
            raise UserError(f"{text}: begin anew, or say fail_on_data_loss=False to go on with what there is")
        logger.warning("%s: going on with what there is", text)

    def _answer_grown(self, grown: Mapping[str, tuple[int, int]], lost: list[str]) -> None:
        if not grown or self.bounded or lost:  # What comes after the end does not matter; another topic is another one.
            return
        text = "; ".join(f"topic {name} had {before} partitions and has {now}" for name, (before, now) in grown.items())
        if not self.read_new:
            raise UserError(
                f"Kafka at {self.servers}: {text}: say on_new_partitions='read' to read them from their beginning"
            )
        logger.warning("Kafka at %s: %s: all of them are read", self.servers, text)

    def _begin(self) -> dict[str, str | int | None]:
        """Where Spark begins if it has no offset."""
        match self.starting:
            case str():
                return {"startingOffsets": self.starting}
            case datetime():
                return {
                    "startingTimestamp": round(self.starting.timestamp() * 1000),
                    "startingOffsetsByTimestampStrategy": "latest",
                }
            case _:
                known = {} if self._memory is None else self._memory.topics
                offsets = {
                    name: {str(p): self.starting.get(name, {}).get(p, PLACES["earliest"]) for p in range(n)}
                    for name, (_, n) in known.items()
                }
                given = {name: {str(p): at for p, at in each.items()} for name, each in self.starting.items()}
                return {"startingOffsets": json.dumps(offsets or given)}

    def _held(self, frame: DataFrame) -> DataFrame:
        """Leave out what comes after the end of a bounded source, and let a batch with a new partition fail."""
        if self._memory is None:
            return frame
        if self._memory.ends is not None:
            only = self.names[0] if len(self.names) == 1 else None
            return frame.where(before_end(self._memory.ends, only))
        if self.read_new:
            return frame
        fits = F.lit(True)
        for name, (_, n) in self._memory.topics.items():
            inside = F.col("partition") < n
            fits = inside if len(self.names) == 1 else fits & ((F.col("topic") != name) | inside)
        message = F.concat(
            F.lit(f"Kafka at {self.servers}: topic "),
            F.col("topic"),
            F.lit(" has a new partition, "),
            F.col("partition"),
            F.lit(": say on_new_partitions='read' to read such partitions from their beginning"),
        )
        return frame.where(F.when(fits, F.lit(True)).otherwise(F.raise_error(message).cast("boolean")))


def gaps(
    offsets: Mapping[str, Mapping[int, int]],
    begins: Mapping[tuple[str, int], int],
    ends: Mapping[tuple[str, int], int],
) -> list[str]:
    """What is between where the job stands and what the partitions have."""
    lost = []
    for name, each in offsets.items():
        for p, at in sorted(each.items()):
            if (name, p) not in begins:
                lost.append(f"partition {name}-{p} is gone")
            elif begins[name, p] > at:
                lost.append(f"the job stands at {at} of {name}-{p}, which now begins at {begins[name, p]}")
            elif ends[name, p] < at:
                lost.append(f"the job stands at {at} of {name}-{p}, which now ends at {ends[name, p]}")
    return lost


def offsets_of(text: str) -> dict[str, dict[int, int]]:
    """An entry of Spark's offset log, as its connector for Kafka writes it."""
    try:
        return {str(name): _numbered(each) for name, each in json.loads(text).items()}
    except (ValueError, AttributeError, TypeError) as error:
        raise BadStorage(
            f"{text[:80]!r} is not an offset in topics of Kafka: give a changed source a new uid"
        ) from error


def _numbered(each: Mapping[str, int]) -> dict[int, int]:
    return {int(p): int(at) for p, at in each.items()}


def by_topic(positions: Mapping[tuple[str, int], int]) -> dict[str, dict[int, int]]:
    """The same, topic by topic."""
    found: dict[str, dict[int, int]] = {}
    for (name, p), at in sorted(positions.items()):
        found.setdefault(name, {})[p] = at
    return found


def starting_at(given: Starting, names: tuple[str, ...]) -> str | datetime | dict[str, dict[int, int]]:
    """Where to begin, as the user writes it, if it can hold."""
    example = "write starting_offsets='earliest', 'latest', a datetime with a time zone, or {0: 17}"
    match given:
        case "earliest" | "latest":
            return str(given)
        case datetime() if given.tzinfo is not None:
            return given
        case Mapping() if given:
            nested = all(isinstance(each, Mapping) for each in given.values())
            if not nested and len(names) != 1:
                raise InvalidOption(
                    f"kafka: starting_offsets={given!r}: name the topics, starting_offsets={{'orders': {{0: 17}}}}"
                )
            named = given if nested else {names[0]: given}
            if unknown := [name for name in named if names and name not in names]:
                raise InvalidOption(f"kafka: starting_offsets names topic {unknown[0]}, which is not read")
            try:
                return {str(name): {int(p): _place(at) for p, at in each.items()} for name, each in named.items()}  # type: ignore[union-attr]
            except (ValueError, TypeError) as error:
                raise InvalidOption(f"kafka: starting_offsets={given!r}: {example}") from error
        case _:
            raise InvalidOption(f"kafka: starting_offsets={given!r}: {example}")


def _place(at: object) -> int:
    if isinstance(at, str):
        return PLACES[at] if at in PLACES else int(at)
    if isinstance(at, bool) or not isinstance(at, int) or at < 0:
        raise ValueError(at)
    return at


def before_end(ends: Mapping[str, Mapping[int, int]], only: str | None) -> Column:
    """Whether a record is before the end of its partition. A partition without one is after it.

    ``only``: the one topic that is read, if no other can come. It is asked of every record, so it looks into an array.
    """
    before = F.lit(False)
    for name, each in ends.items():
        by_partition = F.array(*(F.lit(each.get(p, 0)).cast("bigint") for p in range(max(each, default=-1) + 1)))
        end = F.try_element_at(by_partition, F.col("partition") + 1)
        inside = F.coalesce(F.col("offset") < end, F.lit(False))
        before = inside if name == only else F.when(F.col("topic") == name, inside).otherwise(before)
    return before


def _refuse_bad_pattern(pattern: str | None) -> None:
    try:
        re.compile(pattern or "")
    except re.error as error:
        raise InvalidOption(f"kafka: pattern={pattern!r} is not a valid expression: {error}") from error
