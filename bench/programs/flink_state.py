"""Jobs of Flink that run until enough checkpoints were seen: with much state, and with a slow operator."""

import json
import socket
import time
import urllib.request
from collections.abc import Mapping
from typing import Any

from pyflink.common import Configuration, Types
from pyflink.datastream import DataStream, StreamExecutionEnvironment
from pyflink.table import StreamTableEnvironment

from bench.programs.serving import Request

FINISHED_S = 600.0
LOOK_S = 0.25


class Rest:
    """What the MiniCluster of a job says."""

    def __init__(self) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.settings = {
            "rest.port": str(self.port),
            "rest.bind-port": str(self.port),
            "web.checkpoints.history": "1000",
        }

    def ask(self, path: str) -> Any:
        """An answer."""
        with urllib.request.urlopen(f"http://localhost:{self.port}{path}", timeout=10) as answer:
            return json.load(answer)

    def durations(self, job: str, since_ms: float) -> list[float]:
        """How long checkpoints took, in ms, that were completed after a moment."""
        history = self.ask(f"/jobs/{job}/checkpoints")["history"]
        done = [each for each in history if each["status"] == "COMPLETED"]
        return [float(each["end_to_end_duration"]) for each in done if each["latest_ack_timestamp"] >= since_ms]


def settings_of(request: Request) -> Mapping[str, str]:
    """What the contender sets, and a directory for checkpoints: in memory Flink takes no state of more than 5 MB."""
    return {**request["conf"], "execution.checkpointing.dir": f"file://{request['where']}/checkpoints"}


def _tables(request: Request, rest: Rest) -> StreamTableEnvironment:
    conf = Configuration()
    for name, value in {**settings_of(request), **rest.settings}.items():
        conf.set_string(name, str(value))
    return StreamTableEnvironment.create(StreamExecutionEnvironment.get_execution_environment(conf))


def state(request: Request) -> Mapping[str, Any]:
    """A first source fills the state and ends; a second changes 1,000 keys a second."""
    rest = Rest()
    tables = _tables(request, rest)
    tables.execute_sql(f"""CREATE TABLE filling (n BIGINT) WITH ('connector' = 'datagen',
        'rows-per-second' = '1000000000', 'fields.n.kind' = 'sequence', 'fields.n.start' = '0',
        'fields.n.end' = '{request["keys"] - 1}')""")
    tables.execute_sql("""CREATE TABLE changing (k BIGINT, n BIGINT) WITH ('connector' = 'datagen',
        'rows-per-second' = '1000', 'fields.k.min' = '0', 'fields.k.max' = '999')""")
    tables.execute_sql("CREATE TABLE nowhere (`key` STRING, n BIGINT) WITH ('connector' = 'blackhole')")
    result = tables.execute_sql("""INSERT INTO nowhere SELECT k, MAX(n) FROM (
        SELECT CONCAT('key-', CAST(n AS STRING)) AS k, n FROM filling UNION ALL
        SELECT CONCAT('key-', CAST(k AS STRING)) AS k, n FROM changing) GROUP BY k""")
    client = result.get_job_client()
    job = str(client.get_job_id())
    try:
        begun = time.monotonic()
        _wait_filled(rest, job)
        since_ms = time.time() * 1000
        time.sleep(request["seconds"])
        return {"durations_ms": rest.durations(job, since_ms), "filled_s": time.monotonic() - begun}
    finally:
        client.cancel().result()


def _wait_filled(rest: Rest, job: str) -> None:
    deadline = time.monotonic() + FINISHED_S
    while time.monotonic() < deadline:
        vertices = rest.ask(f"/jobs/{job}")["vertices"]
        if any("filling" in each["name"] and each["status"] == "FINISHED" for each in vertices):
            return
        time.sleep(LOOK_S)
    raise RuntimeError(f"the state was not filled in {FINISHED_S:g} s")


def tasks(request: Request) -> Mapping[str, Any]:
    """Many pipelines side by side, each with a source of 100 rows a second, state and a sink."""
    rest = Rest()
    tables = _tables(request, rest)
    tables.execute_sql("CREATE TABLE nowhere (`key` BIGINT, n BIGINT) WITH ('connector' = 'blackhole')")
    every = tables.create_statement_set()
    for number in range(request["tasks"]):
        tables.execute_sql(f"""CREATE TABLE rows_{number} (k BIGINT, n BIGINT) WITH ('connector' = 'datagen',
            'rows-per-second' = '100', 'fields.k.min' = '0', 'fields.k.max' = '99')""")
        query = f"INSERT INTO nowhere SELECT k, MAX(n) FROM rows_{number} GROUP BY k"  # noqa: S608 - our own
        every.add_insert_sql(query)
    client = every.execute().get_job_client()
    try:
        time.sleep(request["settle_s"])
        since_ms = time.time() * 1000
        time.sleep(request["seconds"])
        return {"durations_ms": rest.durations(str(client.get_job_id()), since_ms)}
    finally:
        client.cancel().result()


def _slow(row: Any) -> Any:
    time.sleep(0.0004)
    return row[0]


def backpressure(request: Request) -> Mapping[str, Any]:
    """The last operator takes 0.4 s for 1,000 rows, and its input is as long as it may be."""
    rest = Rest()
    unaligned = {
        "execution.checkpointing.unaligned.enabled": str(request["unaligned"]).lower(),
        "execution.checkpointing.interval": "500 ms",
        "python.fn-execution.bundle.size": "1000",
    }
    tables = _tables({**request, "conf": {**request["conf"], **unaligned}}, rest)
    tables.execute_sql("""CREATE TABLE numbers (n BIGINT) WITH ('connector' = 'datagen',
        'rows-per-second' = '1000000000', 'fields.n.kind' = 'sequence', 'fields.n.start' = '0',
        'fields.n.end' = '1000000000')""")
    tables.execute_sql("CREATE TABLE nowhere (n BIGINT) WITH ('connector' = 'blackhole')")
    stream: DataStream = tables.to_data_stream(tables.sql_query("SELECT n FROM numbers"))
    slowly = stream.rebalance().map(_slow, output_type=Types.LONG())
    result = tables.from_data_stream(slowly).execute_insert("nowhere")
    client = result.get_job_client()
    job = str(client.get_job_id())
    try:
        time.sleep(request["settle_s"])
        since_ms = time.time() * 1000
        time.sleep(request["seconds"])
        return {"durations_ms": rest.durations(job, since_ms)}
    finally:
        client.cancel().result()
