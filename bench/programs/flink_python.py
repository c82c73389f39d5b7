"""Functions of PyFlink: jumps of sensors with keyed state, and medians of windows."""

from collections.abc import Iterable, Iterator
from typing import Any

from pyflink.common import Row, Time, Types
from pyflink.datastream import DataStream, KeyedProcessFunction, ProcessWindowFunction, RuntimeContext
from pyflink.datastream.state import ValueStateDescriptor
from pyflink.datastream.window import TumblingEventTimeWindows
from pyflink.table import StreamTableEnvironment

from bench.programs import readings
from bench.programs.readings import JUMP

OUTPUT_JUMPS = Types.ROW_NAMED(
    ["sensor", "n", "value", "before"], [Types.STRING(), Types.LONG(), Types.DOUBLE(), Types.DOUBLE()]
)
OUTPUT_MEDIANS = Types.ROW_NAMED(
    ["sensor", "begin_ms", "rows_in", "median"], [Types.STRING(), Types.LONG(), Types.LONG(), Types.DOUBLE()]
)


class Jumps(KeyedProcessFunction):  # type: ignore[misc, unused-ignore]
    """A jump between two readings of a sensor."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """One value for each sensor."""
        self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.DOUBLE()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Row]:  # noqa: ARG002 - PyFlink's
        """One reading."""
        last = self.last.value()
        if last is not None and abs(value[2] - last) > JUMP:
            yield Row(value[1], value[0], value[2], last)
        self.last.update(value[2])


class Medians(ProcessWindowFunction):  # type: ignore[misc, unused-ignore]
    """The median of each window."""

    def process(self, key: str, context: Any, elements: Iterable[Any]) -> Iterator[Row]:
        """All rows of a window."""
        values = sorted(each[2] for each in elements)
        middle = len(values) // 2
        median = values[middle] if len(values) % 2 else (values[middle - 1] + values[middle]) / 2
        yield Row(key, context.window().start, len(values), median)


def jumps(tables: StreamTableEnvironment) -> DataStream:
    """From readings to jumps."""
    keyed = _readings(tables, "n, sensor, `value`").key_by(lambda row: row[1], key_type=Types.STRING())
    return keyed.process(Jumps(), output_type=OUTPUT_JUMPS)


def medians(tables: StreamTableEnvironment) -> DataStream:
    """From readings to medians."""
    keyed = _readings(tables, "n, sensor, `value`, `at`").key_by(lambda row: row[1], key_type=Types.STRING())
    windows = keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(readings.WINDOW_MS)))
    return windows.process(Medians(), output_type=OUTPUT_MEDIANS)


def _readings(tables: StreamTableEnvironment, columns: str) -> DataStream:
    return tables.to_data_stream(tables.sql_query(f"SELECT {columns} FROM readings"))  # noqa: S608 - our own
