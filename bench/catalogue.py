"""All cases, in the order in which they are measured: what matters most comes first."""

from collections.abc import Mapping

from bench.case import Case
from bench.cases.checkpoints import Backpressure, Growth, StateSize
from bench.cases.etl import EtlHashMap, EtlRocks
from bench.cases.kafka import KafkaToKafka
from bench.cases.latency import Idle, LatencySecond, LatencyShort
from bench.cases.overhead import Overhead
from bench.cases.python import Keyed, Windows
from bench.cases.recovery import DriverKilled, ExceptionInCode, ExecutorKilled
from bench.cases.start import Start
from bench.cases.watched import Watched

CASES: Mapping[str, type[Case]] = {
    each.name: each
    for each in (
        EtlRocks,
        EtlHashMap,
        Start,
        ExceptionInCode,
        DriverKilled,
        ExecutorKilled,
        Keyed,
        Windows,
        KafkaToKafka,
        LatencySecond,
        LatencyShort,
        Idle,
        StateSize,
        Overhead,
        Watched,
        Backpressure,
        Growth,
    )
}
