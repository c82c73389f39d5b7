"""How a planner's process begins on this machine: it answers Spark first, and imports what it needs then.

Spark starts a process for each planner of a streaming source written in Python, and gives it ten seconds to connect
back; no setting changes that. It imports PySpark, NumPy and PyArrow before it connects, which takes a second of a
processor, and ten where ten others want the same. So this program connects and identifies itself at once, which takes a
few hundredths of a second, and hands the connection to Spark's own program. Everything else is run as it is.

Runs by itself, without ``site`` and before anything is imported: only the standard library here.
"""

import os
import sys

PLANNER = "pyspark.sql.streaming.python_streaming_source_runner"


def main(arguments: list[str]) -> None:
    """Do what ``python ARGUMENTS`` would."""
    port, secret = os.environ.get("PYTHON_WORKER_FACTORY_PORT"), os.environ.get("PYTHON_WORKER_FACTORY_SECRET")
    if arguments[:2] != ["-m", PLANNER] or not port or not secret:
        os.execv(sys.executable, [sys.executable, *arguments])  # noqa: S606 - the same program, without us
    sys.path[0] = os.getcwd()  # noqa: PTH109 - as -m does; what is quick to import matters here
    connection = connect(int(port), secret)

    import site  # noqa: PLC0415 - from here on it may take its time

    site.main()
    import runpy  # noqa: PLC0415 - as above

    from pyspark import worker_util  # noqa: PLC0415 - as above

    buffer = int(os.environ.get("SPARK_BUFFER_SIZE", "65536"))
    vars(worker_util)["local_connect_and_auth"] = lambda *_: (connection.makefile("rwb", buffer), connection)
    sys.argv = [arguments[1], *arguments[2:]]
    runpy.run_module(PLANNER, run_name="__main__", alter_sys=True)


def connect(port: int, secret: str):  # type: ignore[no-untyped-def]  # noqa: ANN201 - its type is not imported yet
    """Connect to Spark's process and say who we are, as ``pyspark.util.local_connect_and_auth`` does."""
    import socket  # noqa: PLC0415 - only a planner needs it

    host = "::1" if os.environ.get("SPARK_PREFER_IPV6", "false").lower() == "true" else "127.0.0.1"
    connection = socket.create_connection((host, port), float(os.environ.get("SPARK_AUTH_SOCKET_TIMEOUT", "15")))
    said = secret.encode()
    connection.sendall(len(said).to_bytes(4, "big") + said)
    answer = b""
    while len(answer) < 6:  # Four bytes of length, and "ok".
        more = connection.recv(6 - len(answer))
        if not more:
            break
        answer += more
    if answer[4:] != b"ok":
        raise ConnectionError("Spark did not know the planner that it had started")
    return connection


if __name__ == "__main__":
    main(sys.argv[1:])
