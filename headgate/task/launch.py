"""How Spark's driver process is started: as Spark's own scripts do it, without what comes out the same every time.

PySpark starts two shells, a Python and a JVM only to learn how the JVM that it wants is called, and that one then loads
ten thousand classes from three hundred jars. Both are the same at the next start: so the command is remembered, and the
classes are kept in an archive that a JVM maps (``archive``).

One rule: this only saves time. What was learned is found by everything that it depends on: settings, environment, Java,
jars and the files in which Spark looks for more. Whoever asks for something unusual, and whose process does not come up
like this, gets Spark's own way.
"""

import contextlib
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyspark
from pyspark import SparkContext
from pyspark.find_spark_home import _find_spark_home
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from headgate.durable import replace
from headgate.task import archive
from headgate.task.logs import logger

VARIABLE = "HEADGATE_STARTS"
"""The directory in which starts are remembered, or ``off``."""
FORM = 1
"""Another one is another form of what is remembered."""
KEPT = 64
"""This many starts are remembered: those that were used last."""
ARCHIVES_KEPT = 4
"""At most this many of them have an archive, of some 200 MB."""
FORGOTTEN_AFTER_S = 24 * 3600.0
"""Nobody writes a list of classes for this long."""
LOOK_S = 0.01
MAIN = "org.apache.spark.deploy.SparkSubmit"
OPTIONS_VARIABLE = "SPARK_SUBMIT_OPTS"
TOLD_VARIABLE = "_PYSPARK_DRIVER_CONN_INFO_PATH"
"""Where Spark's process writes how it is reached."""

_PROC = Path("/proc")
_ASKED = "pyspark-shell"
_UNUSUAL = (
    "SPARK_TESTING",
    "SPARK_PREPEND_CLASSES",
    "SPARK_REMOTE",
    "SPARK_CONNECT_MODE_ENABLED",
    "SPARK_DIST_CLASSPATH",
)
_OF_THE_START = re.compile(r"(SPARK|PYSPARK|JAVA|JDK|_JAVA|HADOOP|YARN|LD|DYLD)_|JAVA_TOOL_OPTIONS|PYTHONHASHSEED")
"""What in the environment can change the command."""
_NOT_OF_THE_START = re.compile(r"spark\.(app\.name$|sql\.|hadoop\.)")
"""What is set in Spark and cannot."""
_OF_THE_SHELL = {"_", "SHLVL", "PWD", "OLDPWD", "SPARK_BEELINE_OPTS", OPTIONS_VARIABLE, TOLD_VARIABLE}
_PLAIN = re.compile(r"[\w./@+-]+")
"""What neither a shell nor a JVM takes for more than one name."""
_OURS = re.compile(r"\.?([0-9a-f]{32})\.(json|jsa|lock|[0-9]+\.classes|[0-9]+\.new|json-[0-9a-f]{32})")


@dataclass(frozen=True)
class Start:
    """A start of Spark's process, and what is remembered of those before it that were the same."""

    directory: Path
    key: str
    jars: str
    """Tells one set of Spark's jars from another."""
    home: str
    settings: Mapping[str, str]
    archived: bool
    """Whether it may start from an archive of classes."""

    @property
    def record(self) -> Path:
        """What the command was."""
        return self.directory / f"{self.key}.json"

    @property
    def archive(self) -> Path:
        """The classes, if somebody has made it."""
        return self.directory / f"{self.key}.jsa"

    @property
    def classes(self) -> Path:
        """The names of the classes that the process has loaded."""
        return self.directory / f"{self.key}.{os.getpid()}.classes"

    def run(self) -> bool:
        """Start the process as it was started before, and tell PySpark of it. False if that is not known, or fails."""
        known = self._known()
        if known is None:
            return False
        java, *options = known["command"]
        command = [java, *self._options(), *options, *self._arguments()]
        process = _connected(command, known["environment"])
        if process is None:
            logger.warning("Spark's process did not start as it did before: Spark's own way is taken")
            self.forget()
            return False
        with contextlib.suppress(OSError):
            os.utime(self.record)
        return True

    @contextlib.contextmanager
    def learning(self) -> Iterator[None]:
        """Let Spark start its process in its own way, and remember how that was."""
        before, options = dict(os.environ), " ".join(self._options())
        if options:
            os.environ[OPTIONS_VARIABLE] = " ".join(filter(None, [before.get(OPTIONS_VARIABLE), options]))
        try:
            yield
        finally:
            if options:
                del os.environ[OPTIONS_VARIABLE]
                os.environ.update({key: value for key, value in before.items() if key == OPTIONS_VARIABLE})
        process = getattr(SparkContext._gateway, "proc", None)  # noqa: SLF001 - nothing else has it
        if process is not None:
            with contextlib.suppress(OSError, ValueError):
                self._remember(process.pid, before)

    def forget(self) -> None:
        """The next start is Spark's own."""
        for path in (self.record, self.archive):
            with contextlib.suppress(OSError):
                path.unlink()

    def command(self) -> list[str] | None:
        """The JVM and its options, as they are remembered."""
        known = self._known()
        return None if known is None else list(known["command"])

    def _options(self) -> list[str]:
        """The process starts from the archive, or says what would have to be in it."""
        if not self.archived:
            return []
        return archive.using(self.archive) if archive.exists(self.archive) else archive.listing(self.classes)

    def _arguments(self) -> list[str]:
        return [part for key, value in self.settings.items() for part in ("--conf", f"{key}={value}")] + [_ASKED]

    def _known(self) -> dict[str, Any] | None:
        try:
            known = json.loads(self.record.read_bytes())
            return known if known["form"] == FORM and Path(known["command"][0]).is_file() else None
        except (OSError, ValueError, KeyError, TypeError, IndexError):
            return None

    def _remember(self, pid: int, before: Mapping[str, str]) -> None:
        command = _strings(_PROC / str(pid) / "cmdline")
        if MAIN not in command or not command[0].endswith("java"):
            return  # Something else stands between.
        ours = set(self._options())
        command = [part for part in command[: command.index(MAIN) + 1] if part not in ours]
        now = dict(part.split("=", 1) for part in _strings(_PROC / str(pid) / "environ") if "=" in part)
        added = {key: value for key, value in now.items() if key not in _OF_THE_SHELL and before.get(key) != value}
        record = {"form": FORM, "home": self.home, "jars": self.jars, "command": command, "environment": added}
        replace(self.record, json.dumps(record, indent=1).encode(), flush=False)
        self._forget_old()

    def _forget_old(self) -> None:
        """Keep what was used last. What was made with other jars of the same Spark is of no use to anybody."""
        records: dict[str, float] = {}
        for path in self.directory.glob("*.json"):
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                known = json.loads(path.read_bytes())
                if Path(known["home"]).is_dir() and (known["home"] != self.home or known["jars"] == self.jars):
                    records[path.stem] = path.stat().st_mtime
        newest = [self.key, *sorted(records.keys() - {self.key}, key=lambda key: -records[key])]
        archives = [key for key in newest if key == self.key or (self.directory / f"{key}.jsa").exists()]
        for path in self.directory.iterdir():
            named = _OURS.fullmatch(path.name)
            kept = archives[:ARCHIVES_KEPT] if path.suffix == ".jsa" else newest[:KEPT]
            with contextlib.suppress(OSError):
                if named and (named[1] not in kept or _is_left_over(path, named[2])):
                    path.unlink()


def started(settings: Mapping[str, str], make: Callable[[], SparkSession]) -> SparkSession:
    """What PySpark makes of the settings, in a process that is started first unless there is one."""
    if runs_already():
        return make()
    start = of(settings)
    _last[:] = [start]
    if start is None or start.run():
        return make()
    with start.learning():
        return make()


def runs_already() -> bool:
    """Whether there is a process, from an earlier session or ``spark-submit``: it stays as it was started."""
    return SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ  # noqa: SLF001 - nothing else tells


def last() -> Start | None:
    """How the process was started that this one has. None if in Spark's own way alone."""
    return next(iter(_last), None)


_last: list[Start | None] = []


def of(settings: Mapping[str, str]) -> Start | None:
    """The start of a process with these settings. None if nothing is to be remembered of it."""
    directory = _directory()
    environment = os.environ
    if directory is None or not (_PROC / "self" / "cmdline").exists():
        return None
    home = Path(_find_spark_home())
    conf = Path(environment.get("SPARK_CONF_DIR") or home / "conf")
    unusual = any(name in environment for name in _UNUSUAL) or (conf / "spark-env.sh").exists()
    java = shutil.which(f"{environment['JAVA_HOME']}/bin/java" if environment.get("JAVA_HOME") else "java")
    if unusual or java is None or environment.get("PYSPARK_SUBMIT_ARGS", _ASKED).strip() != _ASKED:
        return None
    said = {key: value for key, value in settings.items() if not _NOT_OF_THE_START.match(key)}
    around = {key: value for key, value in environment.items() if _OF_THE_START.match(key)}
    around.pop("PYSPARK_PYTHON", None)  # It says how workers are started, and changes with every process.
    defaults, class_path = conf / "spark-defaults.conf", settings.get("spark.driver.extraClassPath", "")
    try:
        jars = _digest([_facts(each) for each in sorted((home / "jars").iterdir())])
        others = [_facts(Path(each)) for each in class_path.split(os.pathsep) if each]
        known = defaults.read_text(encoding="utf-8") if defaults.exists() else None
    except OSError:
        return None
    real = Path(java).resolve()
    inputs = [FORM, pyspark.__version__, str(home), jars, others, java, _facts(real), str(conf), known, said, around]
    texts = [*settings.values(), *around.values(), known or ""]
    plain = _PLAIN.fullmatch(str(directory)) is not None
    archived = plain and archive.possible(real) and not any(archive.is_spoken_of(text) for text in texts)
    return Start(directory, _digest(inputs), jars, str(home), dict(settings), archived)


def _directory() -> Path | None:
    """Where starts are remembered: ours alone, since what is found there is run."""
    said = os.environ.get(VARIABLE)
    if said == "off":
        return None
    try:
        caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        directory = Path(said or Path(caches) / "headgate" / "starts").absolute()
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        facts = directory.stat()
    except (OSError, RuntimeError):  # There is no home, or no room in it.
        return None
    mine = facts.st_uid == os.geteuid() and not facts.st_mode & 0o022 and os.access(directory, os.W_OK)
    return directory if mine else None


def _connected(command: list[str], environment: Mapping[str, str]) -> "subprocess.Popen[bytes] | None":
    """Start Spark's process, and have PySpark connect to it. None if it ends before."""
    with tempfile.TemporaryDirectory(prefix="headgate-") as directory:
        told = Path(directory) / "told"
        around = {**os.environ, **environment, "SPARK_CONNECT_MODE": "0", TOLD_VARIABLE: str(told)}
        try:
            process = subprocess.Popen(command, stdin=subprocess.PIPE, env=around, preexec_fn=_ignore_interrupts)  # noqa: S603, PLW1509 - as PySpark does
        except OSError:
            return None
        try:
            while not told.exists():
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(LOOK_S)
                    _close(process)
                    return None
            content = told.read_bytes()
            reached = {"PYSPARK_GATEWAY_PORT": str(int.from_bytes(content[:4], "big"))}
            reached["PYSPARK_GATEWAY_SECRET"] = content[8:].decode()
            os.environ.update(reached)
            try:
                gateway = launch_gateway()  # type: ignore[no-untyped-call]
            finally:
                for name in reached:
                    del os.environ[name]
            gateway.proc = process
            SparkContext._ensure_initialized(gateway=gateway)  # noqa: SLF001 - PySpark's own way to hand it one
        except BaseException:
            process.kill()
            _close(process)
            raise
    return process


def _close(process: "subprocess.Popen[bytes]") -> None:
    if process.stdin is not None:
        process.stdin.close()
    process.wait()


def _ignore_interrupts() -> None:
    """Ctrl-C is for the process that has the job; Spark's ends with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _is_left_over(path: Path, kind: str) -> bool:
    return kind.endswith("classes") and time.time() - path.stat().st_mtime > FORGOTTEN_AFTER_S


def _strings(path: Path) -> list[str]:
    return path.read_bytes().decode("utf-8", "surrogateescape").split("\0")


def _facts(path: Path) -> tuple[str, int, int]:
    facts = path.stat()
    return str(path), facts.st_size, facts.st_mtime_ns


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:32]
