"""The Spark session of a job, and what Headgate needs set in it.

One rule: what a user says about Spark holds. What contradicts Headgate's guarantees is refused by its name and never
overridden; what only costs speed is left as the user wants it.

``settings_for`` decides and touches nothing; ``build_session`` carries it out. Spark's driver is a process of its own
that lives and dies with this one: it ends when its standard input does.
"""

import atexit
import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType

import pyspark
from py4j.protocol import Py4JError
from pyspark import SparkContext, worker_util
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headgate.errors import ExternalError, InvalidOption, UserError
from headgate.needs import NEEDED, refuse_contradiction
from headgate.state_backend import StateBackend
from headgate.task import archive, heap, java, launch, packages as jars, partitions, quick

JAR = Path(__file__).with_name("jars") / "headgate-local-fs.jar"
"""Hadoop's local file system without a process for each file, and ``PLUGIN``. Built from ``java/src``."""

QUICK = Path(__file__).with_name("quick.py")
SOCKET_PATH_MAX = 100
"""Longer names of a Unix socket are refused by some systems: there nobody is asked to fork."""
_MASTER = re.compile(r"local(\[.+\])?|local-cluster\[.+\]|spark://.+|yarn|k8s://.+")
_HADOOP = "spark.hadoop."
_JVM_OPTIONS = ".extraJavaOptions"
_CLASS_PATHS = ("spark.jars", "spark.jars.packages", "spark.driver.extraClassPath")
"""Where users say which jars there are."""

FILE_SYSTEM: Mapping[str, str] = MappingProxyType(
    {
        f"{_HADOOP}fs.file.impl": "headgate.fs.PlainLocalFileSystem",
        f"{_HADOOP}fs.AbstractFileSystem.file.impl": "headgate.fs.PlainLocalFs",
    }
)

PLUGIN = "headgate.state.BoundedStateMemory"
"""Keeps the memory of executors from growing with every snapshot of state, beside plugins of the user's."""

PREFERRED: Mapping[str, str] = MappingProxyType(
    {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        # Python's processes are given longer to say who they are: on a busy machine 15 s run out.
        "spark.python.authenticate.socketTimeout": "120s",
        # What a write leaves counts once Headgate has written it down: no second rename, and no mark that it is done.
        f"{_HADOOP}mapreduce.fileoutputcommitter.algorithm.version": "2",
        f"{_HADOOP}mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
        # A manifest has checksums of its own, and Spark's double the number of state files.
        "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
        **FILE_SYSTEM,
    }
)
"""What Headgate sets where the user says nothing."""

FETCH_AGAIN: Mapping[str, str] = MappingProxyType(
    {"spark.shuffle.io.retryWait": "1s", "spark.shuffle.io.maxRetries": "15"}
)
"""When rows cannot be fetched from another executor, Spark waits 5 s before it looks whether that one is alive, three
times. The same patience in smaller steps: a batch goes on 4 s sooner where an executor has died. One without the other
would be another patience, so a user who says one of them has said both."""

LOOPBACK = "127.0.0.1"
ADDRESSES = ("spark.driver.host", "spark.driver.bindAddress")
ADDRESS_VARIABLES = ("SPARK_LOCAL_IP", "SPARK_LOCAL_HOSTNAME")
"""Where users say at which addresses Spark's processes listen. Who says nothing gets, on one machine, the loopback one:
whoever reaches Spark's ports without ``spark.authenticate`` can run code in its processes."""


def settings_for(
    job_name: str,
    *,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    state: StateBackend,
    beside: Sequence[Path] = (),
    machine: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, str]:
    """All settings of a session: the user's, what Headgate needs, and what it prefers where the user says nothing.

    ``beside`` has the jars that all of Spark's processes need beside our own, ``machine`` what else is preferred where
    a whole job runs in one process here.
    """
    conf = conf or {}
    chosen = _master(master, conf)
    needed = {key: value for key, (value, _) in NEEDED.items()}
    refuse_contradiction(conf, state.name, state.conf)
    preferred = {**PREFERRED, **(machine if heap.in_one_process(chosen) else {})}
    settings = {"spark.app.name": job_name, **preferred, **conf, **needed, **state.conf, "spark.master": chosen}
    if _on_this_machine(chosen) and not _addressed(conf):
        settings.update(dict.fromkeys(ADDRESSES, LOOPBACK))
    settings["spark.plugins"] = ",".join(filter(None, [conf.get("spark.plugins"), PLUGIN]))
    # The driver needs the file system before it loads jars. Executors elsewhere are sent it.
    settings["spark.driver.extraClassPath"] = _joined(conf.get("spark.driver.extraClassPath"), beside, os.pathsep)
    if not heap.in_one_process(chosen):
        if not any(key in conf for key in FETCH_AGAIN):
            settings.update(FETCH_AGAIN)
        settings["spark.jars"] = _joined(conf.get("spark.jars"), beside, ",")
    return settings


def build_session(
    job_name: str,
    *,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    existing: SparkSession | None = None,
    state: StateBackend,
    packages: Iterable[str] = (),
) -> SparkSession:
    """A session for a job: the user's own if there is one, with what can still be set in it, else a new one.

    ``packages`` has the Maven coordinates of what the job's sources and sinks need. A user who names a jar of the same
    package gets that one.
    """
    if remote := os.environ.get("SPARK_REMOTE"):
        raise InvalidOption(f"SPARK_REMOTE={remote} is for Spark Connect, which Headgate cannot use: unset it")
    existing = existing or _active()
    if existing is not None:
        _refuse_without(existing, packages)
        return _adopt(existing, job_name, master, conf or {}, state)
    said = " ".join((conf or {}).get(key, "") for key in _CLASS_PATHS)
    beside = jars.resolve(package for package in packages if jars.artifact(package) not in said)
    machine = {} if launch.runs_already() else heap.here(conf or {})
    settings = settings_for(job_name, master=master, conf=conf, state=state, beside=beside, machine=machine)
    chosen = settings["spark.master"]
    _set_environment(chosen, settings.get("spark.pyspark.python"))
    if _misses_jar():
        settings = {key: value for key, value in settings.items() if FILE_SYSTEM.get(key) != value}
        settings["spark.plugins"] = (conf or {}).get("spark.plugins", "")
    _bring_along(beside)
    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    try:
        address = LOOPBACK if _on_this_machine(chosen) and not _addressed(conf or {}) else None
        with _own_signals(), _listening_at(address), _workers_by_quick_program(chosen):
            made = launch.started(settings, builder.getOrCreate)
    except PySparkException as error:
        if "JAVA_GATEWAY_EXITED" in str(error) and java.find().is_supported:
            raise ExternalError(ENDED_AT_START) from error
        raise UserError(f"Spark did not start: {_first_line(error)} See that Java 17 or newer is on PATH") from error
    except (Py4JError, OSError, AttributeError, TypeError) as error:  # Py4J raises the last two when nobody answers.
        if _is_dead():
            raise ExternalError(ENDED_AT_START) from error
        if not isinstance(error, Py4JError):
            raise
        raise ExternalError(f"Spark did not start on {chosen}: {_first_line(error)}") from error
    made.sparkContext.pythonExec = os.environ["PYSPARK_PYTHON"]
    partitions.choose(made, conf or {})
    return made


@contextlib.contextmanager
def session_for(
    job_name: str,
    *,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    existing: SparkSession | None = None,
    state: StateBackend,
    packages: Iterable[str] = (),
) -> Iterator[SparkSession]:
    """A session for as long as a job runs. One that the process had before is the user's: it stays, as it was."""
    _forget_dead()
    theirs = existing or _active()
    packages = tuple(packages)
    if theirs is None:
        made = build_session(job_name, master=master, conf=conf, state=state, packages=packages)
        try:
            with _quick_python(made.sparkContext), archive.made_beside(launch.last()):
                yield made
        finally:
            with contextlib.suppress(Exception):  # It may be dead, which is why we are here.
                made.stop()
    else:
        with _unchanged(theirs):
            made = build_session(job_name, master=master, conf=conf, existing=theirs, state=state, packages=packages)
            with _quick_python(made.sparkContext):
                yield made


def _active() -> SparkSession | None:
    """The session that this process has, if it has one."""
    there = SparkContext._active_spark_context  # noqa: SLF001 - nothing else tells
    return None if there is None else SparkSession.builder.getOrCreate()


# -- a session that the user made ------------------------------------------------------------------------------------


@contextlib.contextmanager
def _unchanged(session: SparkSession) -> Iterator[None]:
    """Whatever is set in a session in between is undone."""
    if type(session).__module__.startswith("pyspark.sql.connect") or session.sparkContext._jsc is None:  # noqa: SLF001
        yield  # It is about to be refused.
        return
    before, python = dict(session.conf.getAll), session.sparkContext.pythonExec
    try:
        yield
    finally:
        with contextlib.suppress(Exception):  # It may be dead by now.
            session.sparkContext.pythonExec = python
            for key, value in dict(session.conf.getAll).items():
                if key not in before:
                    session.conf.unset(key)
                elif before[key] != value:
                    session.conf.set(key, before[key])


def _adopt(
    session: SparkSession, job_name: str, master: str | None, conf: Mapping[str, str], state: StateBackend
) -> SparkSession:
    """Set what can be set while it runs. What cannot is refused, unless it only costs speed."""
    if type(session).__module__.startswith("pyspark.sql.connect"):
        raise InvalidOption("the Spark session is a Spark Connect one, which Headgate cannot use: pass a classic one")
    context = session.sparkContext
    if context._jsc is None:  # noqa: SLF001 - there is no public way to ask
        raise InvalidOption("the Spark session is stopped: pass one that runs, or none")
    running = dict(context.getConf().getAll())
    its_master = running["spark.master"]
    settings = settings_for(job_name, conf={**conf, "spark.master": its_master}, state=state)
    if running.get("spark.speculation", "false") != "false":
        raise InvalidOption(f"the Spark session has spark.speculation=true: {NEEDED['spark.speculation'][1]}")
    for key, value in {**conf, **state.conf, "spark.master": master or its_master}.items():
        if not key.startswith((_HADOOP, "spark.sql.")) and not _is_as_said(key, value, running):
            raise InvalidOption(f"{key}={value} cannot be set in a session that runs: set it where the session is made")
    for key, value in settings.items():
        said = key in PREFERRED and key not in conf and session.conf.get(key, None) is not None
        if key.startswith((_HADOOP, "spark.sql.")) and key not in FILE_SYSTEM and not said:
            session.conf.set(key.removeprefix(_HADOOP), value)
    if any(running.get(key) != value for key, value in FILE_SYSTEM.items()):
        warnings.warn(
            "the Spark session uses Hadoop's own local file system, which starts processes for every file: for faster"
            f" batches make it with {' and '.join(f'{key}={value}' for key, value in FILE_SYSTEM.items())}"
            f" and {JAR} on spark.driver.extraClassPath",
            stacklevel=3,
        )
    partitions.choose(session, conf)
    if _on_this_machine(its_master) and shutil.which(context.pythonExec) != sys.executable:
        context.pythonExec = sys.executable
    return session


def _is_as_said(key: str, value: str, running: Mapping[str, str]) -> bool:
    """Whether a session runs with what is said. Spark puts options of its own before those of a user for a JVM."""
    there = running.get(key)
    return there == value or (key.endswith(_JVM_OPTIONS) and there is not None and there.endswith(f" {value}"))


# -- Python workers --------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _quick_python(context: SparkContext) -> Iterator[None]:
    """Let Spark's Python processes on this machine begin as ``quick`` says."""
    python = context.pythonExec
    program = _quick_program()
    if program is None or not _on_this_machine(str(context.master)) or shutil.which(python) != sys.executable:
        yield
        return
    context.pythonExec = program
    try:
        yield
    finally:
        context.pythonExec = python


@contextlib.contextmanager
def _workers_by_quick_program(master: str) -> Iterator[None]:
    """Have a JVM that starts meanwhile begin its own Python processes in the same way: no setting says how."""
    program = _quick_program()
    if program is None or not _on_this_machine(master) or os.environ["PYSPARK_PYTHON"] != sys.executable:
        yield
        return
    os.environ["PYSPARK_PYTHON"] = program
    try:
        yield
    finally:
        os.environ["PYSPARK_PYTHON"] = sys.executable


@cache
def _quick_program() -> str | None:
    """A program to start in place of this interpreter. One for this process: Spark shares workers by that name."""
    if not hasattr(worker_util, "local_connect_and_auth"):
        return None
    directory = tempfile.mkdtemp(prefix="headgate-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    program, address = Path(directory) / "python", Path(directory) / "forks"
    python = [sys.executable, "-S", str(QUICK)]
    program.write_text(f'#!/bin/sh\nexec {shlex.join([*python, quick.FORKS, str(address)])} "$@"\n')
    program.chmod(0o700)
    if not os.access(program, os.X_OK):  # Where programs may not be run.
        return None
    if hasattr(os, "pidfd_open") and len(os.fsencode(address)) <= SOCKET_PATH_MAX:
        _start_forks([*python, quick.SERVE, str(address)])
    return str(program)


def _start_forks(command: list[str]) -> None:
    """Start a fork server, which lives as long as this process: it ends when its standard input does."""
    around = {**quick.UNLESS_SET, **os.environ, **quick.ALWAYS}
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, env=around)  # noqa: S603 - ours

    def end() -> None:
        if server.stdin is not None:
            server.stdin.close()
        server.wait()

    atexit.register(end)


# -- jars ------------------------------------------------------------------------------------------------------------


def _refuse_without(session: SparkSession, packages: Iterable[str]) -> None:
    """A session that runs has its jars, or it has not: one that only some processes have helps nobody."""
    if type(session).__module__.startswith("pyspark.sql.connect") or session.sparkContext._jsc is None:  # noqa: SLF001
        return  # Refused for better reasons.
    conf = session.sparkContext.getConf()
    there = " ".join([*(conf.get(key, "") or "" for key in _CLASS_PATHS), *_class_path()])
    missing = [package for package in packages if jars.artifact(package) not in there]
    if missing:
        raise InvalidOption(
            f"the Spark session has no {', '.join(jars.artifact(package) for package in missing)}: make it with "
            f"spark.jars.packages={','.join(missing)}, or let Headgate make the session, which fetches what fits"
        )


def _bring_along(beside: Sequence[Path]) -> None:
    """Spark's driver process may run already, from an earlier session: it takes more jars, as Spark's own start does.

    Executors are sent them with each new session.
    """
    jvm = SparkContext._jvm  # noqa: SLF001 - nothing else has the class loader
    if jvm is None:
        return
    there = " ".join(_class_path())
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    for jar in beside:
        if jar.name not in there:
            try:
                loader.addURL(jvm.java.io.File(str(jar)).toURI().toURL())
            except Py4JError as error:
                raise InvalidOption(
                    f"Spark's driver process runs already and has no {jar.name}: start this job in a process of its own"
                ) from error


def _class_path() -> list[str]:
    """Where Spark's driver process looks for classes, beside what PySpark brings."""
    jvm = SparkContext._jvm  # noqa: SLF001 - as above
    if jvm is None:
        return []
    found = [str(jvm.java.lang.System.getProperty("java.class.path"))]
    with contextlib.suppress(Py4JError):  # It has another kind of class loader.
        found += [str(url.toString()) for url in jvm.java.lang.Thread.currentThread().getContextClassLoader().getURLs()]
    return found


# -- Spark's process -------------------------------------------------------------------------------------------------

ENDED_AT_START = (
    "Spark's driver process ended while it started: it was killed, or there is too little memory; what it printed says "
    "more. Nothing was changed: run the job again"
)


def _forget_dead() -> None:
    """Let PySpark start a new process if the one it had has died. It would go on talking to that one."""
    if _is_dead():
        for name in ("_gateway", "_jvm", "_active_spark_context"):
            setattr(SparkContext, name, None)
        SparkSession._instantiatedSession = None  # noqa: SLF001 - PySpark does the same when a session is stopped


def _is_dead() -> bool:
    process = getattr(SparkContext._gateway, "proc", None)  # noqa: SLF001 - nothing else tells
    return process is not None and process.poll() is not None


@contextlib.contextmanager
def _own_signals() -> Iterator[None]:
    """Keep what this process does on Ctrl-C: Spark sets a handler of its own when it starts."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if before is not None:
            signal.signal(signal.SIGINT, before)


# -- helpers ---------------------------------------------------------------------------------------------------------


def _master(master: str | None, conf: Mapping[str, str]) -> str:
    named = conf.get("spark.master")
    if master is not None and named is not None and master != named:
        raise InvalidOption(f"master={master!r} and spark.master={named} differ: leave one out")
    chosen = master or named or "local[*]"
    if chosen.startswith("sc://"):
        raise InvalidOption(f"master={chosen!r} is Spark Connect, which Headgate cannot use: name the cluster itself")
    if not _MASTER.fullmatch(chosen):
        raise InvalidOption(
            f"master={chosen!r} is not a valid master of Spark: write 'local[*]', 'local-cluster[2,1,1024]' or 'spark://host:7077'"
        )
    return chosen


def _set_environment(master: str, python: str | None) -> None:
    """Python workers run this interpreter, where the user does not know better about machines elsewhere."""
    if python is not None:
        os.environ["PYSPARK_PYTHON"] = python
    elif _on_this_machine(master):
        os.environ["PYSPARK_PYTHON"] = sys.executable
    else:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if master.startswith("local-cluster"):
        os.environ.setdefault("SPARK_HOME", str(Path(pyspark.__file__).parent))


def _addressed(conf: Mapping[str, str]) -> bool:
    """Whether the user has said where Spark listens."""
    return any(key in conf for key in ADDRESSES) or any(name in os.environ for name in ADDRESS_VARIABLES)


@contextlib.contextmanager
def _listening_at(address: str | None) -> Iterator[None]:
    """Have a JVM that starts meanwhile take this address for what no setting says: Spark's pages, and the master and
    the workers of a cluster on one machine. Processes that start later are not told.
    """
    if address is None:
        yield
        return
    os.environ["SPARK_LOCAL_IP"] = address
    try:
        yield
    finally:
        del os.environ["SPARK_LOCAL_IP"]


def _misses_jar() -> bool:
    """Whether Spark's driver process runs already, from an earlier session or ``spark-submit``, without our jar."""
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        SparkContext._ensure_initialized()  # noqa: SLF001 - it runs already: this only connects to it
    jvm = SparkContext._jvm  # noqa: SLF001 - nothing else tells
    if jvm is None:
        return False
    try:
        for name in (FILE_SYSTEM[f"{_HADOOP}fs.file.impl"], PLUGIN):
            jvm.java.lang.Class.forName(name)
    except Py4JError:
        return True
    return False


def _on_this_machine(master: str) -> bool:
    return master.startswith("local")


def _joined(given: str | None, beside: Sequence[Path], separator: str) -> str:
    return separator.join([*([given] if given else []), str(JAR), *(str(jar) for jar in beside)])


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
