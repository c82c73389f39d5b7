"""How Spark's Python processes begin on this machine: they answer Spark soon, and import each thing once.

Spark puts PySpark in front of the path as an archive of sources, which Python compiles anew in every process: more than
a second of a processor. So the archive is left out where the same PySpark is installed.

A *planner* is a process for each streaming source written in Python, or one that is asked which state a processor has.
Spark gives it ten seconds to connect back, and no setting changes that. It would import PySpark, NumPy and PyArrow
first, which takes ten seconds where ten others want the same. So it connects and identifies itself at once, and hands
the connection to Spark's own program.

A *daemon* forks workers, each of which imports its program after the fork. So the daemon imports it before.

Every planner and every daemon would import the same things. So a *fork server* imports them once, beside the start of
Spark, and is asked to fork: the process that Spark started hands over what it was given (arguments, environment, path,
standard streams, the connection) and waits until its fork ends.

One rule: this only saves time. What runs is Spark's own program, and everything else is run as it is. A fork that would
have imported something else, or under another environment, begins anew as a process of its own.

Runs by itself, without ``site`` and before anything is imported: only the standard library here.
"""

import os
import sys

TYPE_CHECKING = False  # Its own module takes longer to import than all that is needed here.
if TYPE_CHECKING:
    from socket import socket as Socket  # noqa: N812 - its module has the same name
    from typing import Any

PLANNERS = (
    "pyspark.sql.streaming.python_streaming_source_runner",
    "pyspark.sql.streaming.transform_with_state_driver_worker",
)
DAEMON = "pyspark.daemon"
PROGRAMS = (
    "pyspark.worker",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.lookup_data_sources",
    "pyspark.sql.worker.plan_data_source_read",
    *PLANNERS,
)
"""What is imported before the first fork, with all that it needs."""
SERVE = "--fork-server"
FORKS = "--forks-of"
CONNECTED = "--connected"
THREADS = "OMP_NUM_THREADS"
ALWAYS = {"PYTHONUNBUFFERED": "YES"}
UNLESS_SET = {"PYTHONHASHSEED": "0", THREADS: "1"}
"""What Spark sets for its workers, and an interpreter or a library reads once, when it begins."""
OF_ONE_PROCESS = ("PYTHON_", "PYTHONPATH", "SPARK_", "PYSPARK_", "HEADGATE_", "JAVA_", "_", "PWD", "OLDPWD", "SHLVL")
"""Beginnings of names in the environment that may differ from one process to the next: they are read when asked for."""
HEADER = 8
"""Bytes that say how long a request is."""


def main(arguments: list[str]) -> None:
    """Do what ``python ARGUMENTS`` would, by a fork server if there is one."""
    if arguments[:1] == [SERVE]:
        serve_forks(arguments[1])
        return
    if arguments[:1] == [CONNECTED]:
        import socket  # noqa: PLC0415 - only a planner needs it

        prepare(sys.path)
        plan(arguments[2:], socket.socket(fileno=int(arguments[1])))
        return
    address = ""
    if arguments[:1] == [FORKS]:
        address, arguments = arguments[1], arguments[2:]
    port, secret = os.environ.get("PYTHON_WORKER_FACTORY_PORT"), os.environ.get("PYTHON_WORKER_FACTORY_SECRET")
    if len(arguments) == 2 and arguments[0] == "-m" and arguments[1] in PLANNERS and port and secret:
        connection = connect(int(port), secret)
        forked(address, arguments, connection)
        prepare(sys.path)
        plan(arguments, connection)
    elif arguments[:2] == ["-m", DAEMON] and len(arguments) == 3:
        forked(address, arguments, None)
        prepare(sys.path)
        serve(arguments)
    else:
        os.execv(sys.executable, [sys.executable, *arguments])  # noqa: S606 - the same program, without us


def plan(arguments: list[str], connection: "Socket") -> None:
    """Run the planner's program on a connection that is there."""
    from pyspark import worker_util  # noqa: PLC0415 - from here on it may take its time

    buffer = int(os.environ.get("SPARK_BUFFER_SIZE", "65536"))
    vars(worker_util)["local_connect_and_auth"] = lambda *_: (connection.makefile("rwb", buffer), connection)
    run(arguments)


def serve(arguments: list[str]) -> None:
    """Import what every worker will run, then run the daemon that forks them."""
    from importlib import import_module  # noqa: PLC0415 - as above

    import_module(arguments[2])
    run(arguments)


def run(arguments: list[str]) -> None:
    """``python -m MODULE ...``."""
    import runpy  # noqa: PLC0415 - as above

    sys.argv = arguments[1:]
    runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)


def prepare(path: list[str]) -> None:
    """Set the path that ``python -m`` makes of one without ``site``, but for archives of what is installed."""
    import site  # noqa: PLC0415 - as above

    sys.path[:] = [os.getcwd(), *path[1:]]  # noqa: PTH109 - what is quick to import matters here
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


def connect(port: int, secret: str) -> "Socket":
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


# -- the process that Spark started ------------------------------------------------------------------------------------


def forked(address: str, arguments: list[str], connection: "Socket | None") -> None:
    """Have a fork do it, and end as it does. Returns if there is nobody to fork."""
    import json  # noqa: PLC0415 - as above
    import socket  # noqa: PLC0415 - as above

    if not address:
        return
    request = {"arguments": arguments, "environment": dict(os.environ), "directory": os.getcwd(), "path": sys.path}  # noqa: PTH109
    message = json.dumps(request).encode()
    streams = [0, 1, 2] + ([] if connection is None else [connection.fileno()])
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link:
        try:
            link.connect(address)
            socket.send_fds(link, [len(message).to_bytes(HEADER, "big")], streams)
            link.sendall(message)
            taken = link.recv(1)
        except OSError:
            return
        if not taken:
            return
        for each in streams:  # Whoever reads from the fork must see it end, while we are still here.
            os.close(each)
        try:
            status = link.recv(1)
        except OSError:
            status = b""
        os._exit(status[0] if status else 1)


# -- the fork server ---------------------------------------------------------------------------------------------------


def serve_forks(address: str) -> None:
    """Import once, then fork for whoever asks, until our standard input ends."""
    import signal  # noqa: PLC0415 - as above
    import socket  # noqa: PLC0415 - as above

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that has the job, as with Spark's.
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listening.bind(address)
    listening.listen(128)  # From here on whoever asks waits for the imports.
    before = dict(os.environ)
    os.environ["JE_ARROW_MALLOC_CONF"] = "background_thread:false"  # No thread may be there when we fork.
    prepare(list(sys.path))
    ForkServer(listening, before, imported()).run()


class ForkServer:
    """Forks for the processes that Spark starts. Each has a *link* to us, which ends when either of the two does."""

    def __init__(self, listening: "Socket", before: dict[str, str], known: dict[str, str]) -> None:
        """``before`` is the environment in which everything was imported, ``known`` from where."""
        import select  # noqa: PLC0415 - as above

        self._listening, self._before, self._known = listening, before, known
        self._poller, self._readable = select.poll(), select.POLLIN
        self._links: dict[int, tuple[int, Socket]] = {}
        """By the descriptor of a fork: its number, and its link."""
        self._forks: dict[int, int] = {}
        """By the descriptor of a link: the fork's number."""

    def run(self) -> None:
        """Serve. One thing at a time: what was ready a moment ago may be closed, and its number another's."""
        for each in (0, self._listening.fileno()):
            self._poller.register(each, self._readable)
        while True:
            ready = self._poller.poll()[0][0]
            if ready == 0:
                return
            if ready == self._listening.fileno():
                self._accept()
            elif ready in self._links:
                self._ended(ready)
            else:
                self._left(ready)

    def _accept(self) -> None:
        link, _ = self._listening.accept()
        request = received(link)
        if request is None:
            link.close()
            return
        fork = os.fork()
        if fork == 0:
            self._listening.close()
            for handle, (_, other) in self._links.items():
                os.close(handle)
                other.close()
            link.close()
            become(request, self._before, self._known)
            sys.exit()
        for each in request["streams"]:
            os.close(each)
        handle = os.pidfd_open(fork)
        self._links[handle], self._forks[link.fileno()] = (fork, link), fork
        for each in (handle, link.fileno()):
            self._poller.register(each, self._readable)
        send(link, b"1")  # If the link has ended, that is seen next.

    def _ended(self, handle: int) -> None:
        """A fork has ended: so does the process that Spark knows, in the same way."""
        fork, link = self._links.pop(handle)
        self._poller.unregister(handle)
        os.close(handle)
        status = os.waitstatus_to_exitcode(os.waitpid(fork, 0)[1])
        if self._forks.pop(link.fileno(), None) is not None:
            self._poller.unregister(link)
        send(link, bytes([status if status >= 0 else 128 - status]))
        link.close()

    def _left(self, link: int) -> None:
        """Spark has ended the process that it knows: so ends the one that works for it."""
        import signal  # noqa: PLC0415 - as above

        self._poller.unregister(link)
        os.kill(self._forks.pop(link), signal.SIGTERM)


def send(link: "Socket", said: bytes) -> None:
    """Say something to whoever may be gone."""
    import contextlib  # noqa: PLC0415 - as above

    with contextlib.suppress(OSError):
        link.sendall(said)


def received(link: "Socket") -> "dict[str, Any] | None":
    """A request with the streams that came with it. None if it did not come whole."""
    import json  # noqa: PLC0415 - as above
    import socket  # noqa: PLC0415 - as above

    link.settimeout(5.0)
    streams: list[int] = []
    try:
        head, streams, _, _ = socket.recv_fds(link, HEADER, 4)
        while len(head) < HEADER and (more := link.recv(HEADER - len(head))):
            head += more
        size, message = int.from_bytes(head, "big"), b""
        while len(message) < size and (more := link.recv(size - len(message))):
            message += more
        request = json.loads(message)
    except (OSError, ValueError):
        for each in streams:
            os.close(each)
        return None
    link.settimeout(None)
    return {**request, "streams": streams}


def imported() -> dict[str, str]:
    """Import what planners, daemons and workers do. Returns from where each package came."""
    import gc  # noqa: PLC0415 - as above
    from importlib import import_module  # noqa: PLC0415 - as above

    for name in (*PROGRAMS, DAEMON, "numpy", "pyarrow"):
        import_module(name)
    for name in (DAEMON, *PLANNERS):  # They are run, and so must not be there as modules.
        del sys.modules[name]
    from numpy import random  # noqa: PLC0415 - as above

    os.register_at_fork(after_in_child=random.seed)  # Or all forks would draw the same numbers.
    gc.collect()
    gc.freeze()
    packages = {name.partition(".")[0] for name in sys.modules}
    return {name: origin(name) for name in sorted(packages) if name not in sys.stdlib_module_names}


def origin(name: str) -> str:
    """The file from which a package would be imported now."""
    for finder in sys.meta_path:
        found = finder.find_spec(name, None)
        if found is not None:
            return os.path.realpath(found.origin or "")
    return ""


def become(request: "dict[str, Any]", before: dict[str, str], known: dict[str, str]) -> None:
    """In the fork: be the process that Spark started, or begin anew where the imports would not be the same."""
    import socket  # noqa: PLC0415 - as above

    arguments, streams = request["arguments"], request["streams"]
    for number, each in enumerate(streams[:3]):
        os.dup2(each, number)
        os.close(each)
    os.chdir(request["directory"])
    os.environ.clear()
    os.environ.update(request["environment"])
    prepare(request["path"])
    same = fits(before, request["environment"]) and all(origin(name) == where for name, where in known.items())
    if len(streams) == 4:  # A planner, and it has its connection.
        connection = socket.socket(fileno=streams[3])
        connection.settimeout(None)
        if same:
            plan(arguments, connection)
        else:
            os.set_inheritable(streams[3], True)
            os.execv(sys.executable, [sys.executable, "-S", __file__, CONNECTED, str(streams[3]), *arguments])  # noqa: S606
    elif same:
        serve(arguments)
    else:
        os.execv(sys.executable, [sys.executable, "-S", __file__, *arguments])  # noqa: S606


def fits(before: dict[str, str], now: dict[str, str]) -> bool:
    """Whether a process with one environment imports what one with the other does."""
    differ = {name for name in before.keys() | now.keys() if before.get(name) != now.get(name)}
    if THREADS not in now:  # Spark sets it for workers only. Whoever is not told computes nothing that has threads.
        differ.discard(THREADS)
    return all(name.startswith(OF_ONE_PROCESS) for name in differ)


if __name__ == "__main__":
    main(sys.argv[1:])
