"""Jobs of Flink, in a process of PyFlink with a MiniCluster of its own for each job. SQL runs without any Python."""

from collections.abc import Mapping
from typing import Any

from pyflink.common import Configuration, Types, WatermarkStrategy
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.number_seq import NumberSequenceSource
from pyflink.table import EnvironmentSettings, Schema, StreamTableEnvironment, TableEnvironment

from bench.programs import flink_state, orders, readings
from bench.programs.flink_state import settings_of
from bench.programs.serving import Request, serve


def configuration(settings: Mapping[str, str]) -> Configuration:
    """These settings, beside Flink's defaults."""
    conf = Configuration()
    for name, value in settings.items():
        conf.set_string(name, str(value))
    return conf


def table_environment(settings: Mapping[str, str]) -> TableEnvironment:
    """An environment for a streaming job."""
    told = EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(configuration(settings)).build()
    made = TableEnvironment.create(told)
    made.get_config().set_local_timezone("UTC")
    return made


def numbers(name: str, columns: str, rows: int) -> str:
    """A table that counts to ``rows``, as fast as it can."""
    return f"""CREATE TABLE {name} (n BIGINT, {columns}) WITH (
        'connector' = 'datagen', 'rows-per-second' = '1000000000',
        'fields.n.kind' = 'sequence', 'fields.n.start' = '0', 'fields.n.end' = '{rows - 1}')"""


def json_files(name: str, columns: str, path: str) -> str:
    """A table of files."""
    return f"""CREATE TABLE {name} ({columns})
        WITH ('connector' = 'filesystem', 'path' = 'file://{path}', 'format' = 'json')"""


def counted(request: Request, schema: Schema) -> StreamTableEnvironment:
    """A table ``orders`` that counts, from Flink's own sequence: the connector ``datagen`` asks a limiter of its rate
    for each row, and takes more time than all that comes after it.
    """
    environment = StreamExecutionEnvironment.get_execution_environment(configuration(settings_of(request)))
    tables = StreamTableEnvironment.create(environment)
    tables.get_config().set_local_timezone("UTC")
    sequence = NumberSequenceSource(0, request["rows"] - 1)
    stream = environment.from_source(sequence, WatermarkStrategy.no_watermarks(), "orders", Types.LONG())
    tables.create_temporary_view("orders", stream, schema)
    return tables


def etl(request: Request) -> Mapping[str, Any]:
    """Orders to sums of windows, to files."""
    made = Schema.new_builder().column("f0", "BIGINT").column_by_expression("n", "f0")
    for column, expression in orders.FLINK_COLUMNS.items():
        made = made.column_by_expression(column, expression)
    tables = counted(request, made.watermark("at", orders.FLINK_WATERMARK).build())
    tables.execute_sql(json_files("sums", orders.FLINK_OUTPUT, request["out"]))
    tables.execute_sql(f"INSERT INTO sums {orders.FLINK_WINDOWS}").wait()
    return {}


def kafka(request: Request) -> Mapping[str, Any]:
    """Orders from Kafka to sums of windows, to Kafka, exactly once."""
    tables = table_environment({**settings_of(request), "pipeline.jars": f"file://{request['jar']}"})
    servers = f"'connector' = 'kafka', 'properties.bootstrap.servers' = '{request['servers']}'"
    tables.execute_sql(f"""CREATE TABLE orders (`user` STRING, amount DOUBLE, at_ms BIGINT,
            `at` AS TO_TIMESTAMP_LTZ(at_ms, 3), WATERMARK FOR `at` AS `at` - INTERVAL '60' SECOND)
        WITH ({servers}, 'topic' = '{request["topic"]}', 'scan.startup.mode' = 'earliest-offset',
            'scan.bounded.mode' = 'latest-offset', 'format' = 'json')""")
    tables.execute_sql(f"""CREATE TABLE sums ({orders.FLINK_OUTPUT})
        WITH ({servers}, 'topic' = '{request["out"]}', 'format' = 'json', 'key.format' = 'raw', 'key.fields' = 'user',
            'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = '{request["out"]}',
            'properties.transaction.timeout.ms' = '600000')""")
    tables.execute_sql(f"INSERT INTO sums {orders.FLINK_WINDOWS.replace('usr', '`user`')}").wait()
    return {}


def _python(request: Request, name: str, columns: str) -> Mapping[str, Any]:
    from bench.programs import flink_python  # noqa: PLC0415 - jobs of SQL need none of it

    environment = StreamExecutionEnvironment.get_execution_environment(configuration(settings_of(request)))
    tables = StreamTableEnvironment.create(environment)
    tables.get_config().set_local_timezone("UTC")
    tables.execute_sql(numbers("readings", readings.FLINK, request["rows"]))
    tables.execute_sql(json_files("found", columns, request["out"]))
    tables.from_data_stream(getattr(flink_python, name)(tables)).execute_insert("found").wait()
    return {}


def keyed(request: Request) -> Mapping[str, Any]:
    """Jumps of sensors."""
    return _python(request, "jumps", "sensor STRING, n BIGINT, `value` DOUBLE, `before` DOUBLE")


def windows(request: Request) -> Mapping[str, Any]:
    """Medians of windows."""
    return _python(request, "medians", "sensor STRING, begin_ms BIGINT, rows_in BIGINT, `median` DOUBLE")


if __name__ == "__main__":
    serve(
        {
            "backpressure": flink_state.backpressure,
            "etl": etl,
            "kafka": kafka,
            "keyed": keyed,
            "state": flink_state.state,
            "tasks": flink_state.tasks,
            "windows": windows,
        }
    )
