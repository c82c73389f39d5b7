"""Rows that Kafka would refuse, found while Spark stages them.

One rule: what is staged is published some day, and until then nothing behind it is. So a row that no broker ever takes
ends the job before it is staged, in one line.

What is seen: the size, the number of the partition, and the time. With compression a broker may take rows that are
larger than its limit: then only the client's own limit counts.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import Column, DataFrame, functions as F  # noqa: N812 - as everybody writes it

from headgate.connect.kafka.producer.rows import EARLIEST_MS, HEADERS, KEY, PARTITION, TIMESTAMP, TOPIC, VALUE
from headgate.connect.kafka.producer.settings import MESSAGE_MAX, MESSAGE_MAX_BYTES
from headgate.connect.kafka.writing.target import Target
from headgate.errors import UserError

FRAME_BYTES = 100
"""At most this much is added to a row when it is sent alone."""
HEADER_BYTES = 10
"""At most this much is added to a header."""
COMPRESSION = ("compression.type", "compression.codec")

_MARK = "headgate refuses a row"
_SAID = re.compile(rf"{_MARK} <([^>]*)>")


def validated(dataframe: DataFrame, target: Target, partitions: int | None) -> DataFrame:
    """The same rows. Whoever computes them fails at the first that does not fit."""
    here = TOPIC not in dataframe.columns
    limit = _limit(target, known=here)
    size = _size(dataframe)
    fits = F.when(
        size > limit - FRAME_BYTES,
        _refuse(
            F.concat(
                F.lit("a row of "),
                size.cast("string"),
                F.lit(f" bytes is too large: {limit} are taken, with {FRAME_BYTES} for what Kafka adds: raise "),
                F.lit("max.message.bytes of the topic and the option message.max.bytes, or send smaller rows"),
            )
        ),
    )
    if PARTITION in dataframe.columns:
        number = F.col(PARTITION)
        outside = number < 0 if partitions is None or not here else (number < 0) | (number >= partitions)
        advice = F.lit(" is not there: give the number of a partition of the topic, or null")
        fits = fits.when(outside, _refuse(F.concat(F.lit("partition "), number.cast("string"), advice)))
    if TIMESTAMP in dataframe.columns:
        moment = F.col(TIMESTAMP)
        early = F.unix_millis(moment.cast("timestamp")) < EARLIEST_MS
        advice = F.lit(" is not after 1970, and brokers take none such: give a later time, or null")
        fits = fits.when(early, _refuse(F.concat(F.lit("timestamp "), moment.cast("string"), advice)))
    return dataframe.where(fits.otherwise(F.lit(True)))


@contextmanager
def refused(who: str) -> Iterator[None]:
    """Say in one line what Spark says in many when a row does not fit."""
    try:
        yield
    except Exception as error:
        found = _SAID.search(str(error))
        if found is None:
            raise
        raise UserError(f"{who}: {found[1]}") from error


def _limit(target: Target, *, known: bool) -> int:
    """How large a row may be with all that is added to it. ``known``: rows go to the target's own topic."""
    own = int(target.options.get(MESSAGE_MAX, MESSAGE_MAX_BYTES))
    packed = any(str(target.options.get(name, "none")) != "none" for name in COMPRESSION)
    return own if target.takes is None or packed or not known else min(own, target.takes)


def _size(dataframe: DataFrame) -> Column:
    size = _bytes(F.col(VALUE))
    if KEY in dataframe.columns:
        size = size + _bytes(F.col(KEY))
    if HEADERS in dataframe.columns:
        each = F.transform(HEADERS, lambda one: _bytes(one["key"]) + _bytes(one["value"]) + F.lit(HEADER_BYTES))
        size = size + F.coalesce(F.aggregate(each, F.lit(0), lambda sofar, one: sofar + one), F.lit(0))
    return size


def _bytes(column: Column) -> Column:
    return F.coalesce(F.octet_length(column), F.lit(0))


def _refuse(text: Column) -> Column:
    return F.raise_error(F.concat(F.lit(f"{_MARK} <"), text, F.lit(">"))).cast("boolean")
