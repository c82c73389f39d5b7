"""How Spark's Python processes begin on this machine: they answer Spark soon, and import each thing once.

Spark puts PySpark in front of the path as an archive of sources, which Python compiles anew in every process: more than
a second of a processor. So the archive is left out where the same PySpark is installed.

A *planner* is a process for each streaming source written in Python, or one that is asked which state a processor has.
Spark gives it ten seconds to connect back, and no setting changes that. It would import PySpark, NumPy and PyArrow
first, which takes ten seconds where ten others want the same. So it connects and identifies itself at once, and hands
the connection to Spark's own program.

A *daemon* forks workers, each of which imports its program after the fork. So the daemon imports it before.

One rule: this only saves time. What runs is Spark's own program, and everything else is run as it is.

Runs by itself, without ``site`` and before anything is imported: only the standard library here.
"""

import os
import sys

PLANNERS = (
    "pyspark.sql.streaming.python_streaming_source_runner",
    "pyspark.sql.streaming.transform_with_state_driver_worker",
)
DAEMON = "pyspark.daemon"


def main(arguments: list[str]) -> None:
    """Do what ``python ARGUMENTS`` would."""
    port, secret = os.environ.get("PYTHON_WORKER_FACTORY_PORT"), os.environ.get("PYTHON_WORKER_FACTORY_SECRET")
    if len(arguments) == 2 and arguments[0] == "-m" and arguments[1] in PLANNERS and port and secret:
        plan(arguments, int(port), secret)
    elif arguments[:2] == ["-m", DAEMON] and len(arguments) == 3:
        serve(arguments)
    else:
        os.execv(sys.executable, [sys.executable, *arguments])  # noqa: S606 - the same program, without us


def plan(arguments: list[str], port: int, secret: str) -> None:
    """Connect, then run the planner's program."""
    connection = connect(port, secret)
    prepare()
    from pyspark import worker_util  # noqa: PLC0415 - from here on it may take its time

    buffer = int(os.environ.get("SPARK_BUFFER_SIZE", "65536"))
    vars(worker_util)["local_connect_and_auth"] = lambda *_: (connection.makefile("rwb", buffer), connection)
    run(arguments)


def serve(arguments: list[str]) -> None:
    """Import what every worker will run, then run the daemon that forks them."""
    prepare()
    from importlib import import_module  # noqa: PLC0415 - as above

    import_module(arguments[2])
    run(arguments)


def run(arguments: list[str]) -> None:
    """``python -m MODULE ...``."""
    import runpy  # noqa: PLC0415 - as above

    sys.argv = arguments[1:]
    runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)


def prepare() -> None:
    """Set the path that ``python -m`` has, but for archives of what is installed."""
    import site  # noqa: PLC0415 - as above

    sys.path[0] = os.getcwd()  # noqa: PTH109 - what is quick to import matters here
    site.main()
    sys.path[:] = without_archives(sys.path)


def without_archives(path: list[str]) -> list[str]:
    """A path without the archives of PySpark and Py4J that belong to a PySpark which is itself on the path."""
    there = {os.path.realpath(entry) for entry in path if entry}

    def is_needless(entry: str) -> bool:
        folder, name = os.path.split(os.path.realpath(entry))
        package = os.path.dirname(os.path.dirname(folder))  # noqa: PTH120 - as above
        home = os.path.dirname(package)  # noqa: PTH120 - as above
        module = name.partition(".")[0].partition("-")[0]
        return (
            name.endswith(".zip")
            and module in ("pyspark", "py4j")
            and os.path.basename(package) == "pyspark"  # noqa: PTH119 - as above
            and home in there
            and os.path.isfile(os.path.join(home, module, "__init__.py"))  # noqa: PTH113, PTH118 - as above
        )

    return [entry for entry in path if not is_needless(entry)]


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
