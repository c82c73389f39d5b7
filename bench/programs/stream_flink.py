"""Files to files in Flink: SQL, and the file sink whose files are visible with every checkpoint. No Python per row."""

from pathlib import Path

from pyflink.common import Configuration, Encoder
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.file_system import FileSink, RollingPolicy
from pyflink.java_gateway import get_gateway
from pyflink.table import StreamTableEnvironment

from bench.programs.stream import DELAY_MS, FAILS_FOR_MS, told


def main() -> None:
    """Run it until it is killed."""
    it = told()
    conf = Configuration()
    settings = {
        "parallelism.default": "2",
        "state.backend.type": "rocksdb",
        "execution.checkpointing.interval": it["interval"],
        "execution.checkpointing.dir": Path(it["where"], "checkpoints").as_uri(),
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "1000",
        "restart-strategy.fixed-delay.delay": f"{DELAY_MS} ms",
        **it.get("conf", {}),
    }
    if it.get("restore"):
        settings["execution.state-recovery.path"] = it["restore"]
    for name, value in settings.items():
        conf.set_string(name, str(value))
    environment = _environment(conf, it.get("cluster_port"))
    tables = StreamTableEnvironment.create(environment)
    tables.get_config().set_local_timezone("UTC")
    inbox = Path(it["inbox"]).as_uri()
    tables.execute_sql(f"""CREATE TABLE incoming (n BIGINT, `user` STRING, made DOUBLE, p AS PROCTIME()) WITH (
        'connector' = 'filesystem', 'path' = '{inbox}', 'format' = 'json', 'source.monitor-interval' = '10 ms')""")
    columns = "n, `user`, made"
    table = "incoming"
    if (at := it.get("fails_at")) is not None:
        begin, end = round(at * 1000), round(at * 1000) + FAILS_FOR_MS
        fails = f"CURRENT_ROW_TIMESTAMP() BETWEEN TO_TIMESTAMP_LTZ({begin}, 3) AND TO_TIMESTAMP_LTZ({end}, 3)"
        columns = f"n + CAST(CASE WHEN {fails} THEN 'once' ELSE '0' END AS BIGINT) AS n, `user`, made"
    if it.get("stateful"):
        table = "(SELECT *, ROW_NUMBER() OVER (PARTITION BY n ORDER BY p) AS place FROM incoming) WHERE place = 1"
    query = f"SELECT {columns} FROM {table}"  # noqa: S608 - our own
    stream = tables.to_data_stream(tables.sql_query(query))
    sink = (
        FileSink.for_row_format(it["out"], Encoder.simple_string_encoder())
        .with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
        .build()
    )
    stream.sink_to(sink)
    environment.execute("stream")


def _environment(conf: Configuration, port: int | None) -> StreamExecutionEnvironment:
    """A MiniCluster in the JVM of this process, or a cluster that runs already."""
    if port is None:
        return StreamExecutionEnvironment.get_execution_environment(conf)
    gateway = get_gateway()
    java = gateway.jvm.org.apache.flink.streaming.api.environment.StreamExecutionEnvironment
    jars = gateway.new_array(gateway.jvm.String, 0)
    return StreamExecutionEnvironment(java.createRemoteEnvironment("localhost", port, conf._j_configuration, jars))  # noqa: SLF001 - PyFlink has no other way


if __name__ == "__main__":
    main()
