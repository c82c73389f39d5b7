"""Gathers the facts about what is installed. One rule: it judges nothing, and starts no JVM but ``java -version``."""

import contextlib
import hashlib
import importlib
import os
import re
import shutil
import subprocess
import sys
import zipfile
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Iterator, Mapping
from importlib import metadata
from pathlib import Path

import headgate
from headgate.doctor.software import ConnectorJars, Defaults, Interpreter, Library, OwnJar, Software
from headgate.errors import HeadgateError
from headgate.task import heap, java, packages

TIMEOUT_S = 30.0
MODULES = {
    "confluent-kafka": "confluent_kafka",
    "opentelemetry-exporter-otlp-proto-http": "opentelemetry.exporter.otlp.proto.http",
    "opentelemetry-sdk": "opentelemetry.sdk",
    "prometheus-client": "prometheus_client",
    "protobuf": "google.protobuf",
}
"""The names under which they are imported, where those are not their own."""
PROGRAMS = ("py-spy",)
"""These have no module: what counts is that the program runs."""
RUN_S = 30.0
_REQUIREMENT = re.compile(r"([\w.-]+)(?:\[[^\]]*\])?\s*([^;]*)(?:;.*?extra\s*==\s*['\"]([\w-]+)['\"])?")


def software(conf: Mapping[str, str], master: str | None, wanted: Iterable[str] | None) -> Software:
    """All of it. ``conf`` and ``master`` are what a job says; ``wanted`` the packages that it needs, if it is known."""
    version = _version("pyspark")
    workers_by, workers = _workers(conf)
    home = os.environ.get("SPARK_HOME")
    return Software(
        python=Interpreter(sys.executable, ".".join(map(str, sys.version_info[:3]))),
        python_bounds=_of_ours("Requires-Python"),
        workers=workers,
        workers_by=workers_by,
        on_this_machine=(master or conf.get("spark.master") or "local[*]").startswith("local"),
        java=java.find(TIMEOUT_S),
        release=_of_ours("Version"),
        loaded=headgate.__version__,
        libraries=tuple(_libraries()),
        own_jar=_own_jar(),
        connectors=tuple(_connectors(wanted, version)),
        spark_version=version,
        spark_home=(home, _spark_in(Path(home))) if home else None,
        spark_remote=os.environ.get("SPARK_REMOTE"),
        defaults=defaults(),
    )


def defaults() -> Defaults | None:
    """The file of defaults that Spark would read."""
    home = os.environ.get("SPARK_HOME")
    directory = os.environ.get("SPARK_CONF_DIR") or (str(Path(home) / "conf") if home else None)
    if directory is None:
        return None
    path = Path(directory) / "spark-defaults.conf"
    return Defaults(str(path), heap.read_defaults(path)) if path.exists() else None


# -- Python ----------------------------------------------------------------------------------------------------------


def _workers(conf: Mapping[str, str]) -> tuple[str, Interpreter | None]:
    """The interpreter that the user names for Spark's workers, if it is not this one."""
    by = "spark.pyspark.python" if "spark.pyspark.python" in conf else "PYSPARK_PYTHON"
    named = conf.get(by) or os.environ.get(by)
    if not named or shutil.which(named) == sys.executable:
        return by, None
    asking = "import sys; print('.'.join(map(str, sys.version_info[:3])))"
    try:
        told = subprocess.run(  # noqa: S603 - the user's own Python
            [named, "-c", asking], capture_output=True, text=True, timeout=TIMEOUT_S, check=True
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        told = ""
    return by, Interpreter(named, told or None)


def _libraries() -> Iterator[Library]:
    """What the package asks for, as its own description says: for every job first."""
    found: dict[str, tuple[str, list[str]]] = {}
    try:
        asked = metadata.requires("headgate") or []
    except metadata.PackageNotFoundError:
        asked = ["pyspark"]
    for each in asked:
        parts = _REQUIREMENT.match(each)
        if parts is not None:
            name, bounds, extra = parts.groups()
            found.setdefault(name, (bounds.strip(), []))[1].extend([extra] if extra else [])
    for name, (bounds, extras) in sorted(found.items(), key=lambda each: (bool(each[1][1]), each[0])):
        version = _version(name)
        wrong, more = _loaded(name) if version is not None else (None, "")
        yield Library(name, bounds, tuple(extras), version, wrong, more)


def _loaded(name: str) -> tuple[str | None, str]:
    """Why it cannot be imported, or run, and what only it can say."""
    if name in PROGRAMS:
        return _runs(name), ""
    try:
        module = importlib.import_module(MODULES.get(name, name))
        if name in ("pandas", "pyarrow", "numpy"):
            _accepted_by_pyspark(name)
        more = f"librdkafka {module.libversion()[0]}" if name == "confluent-kafka" else ""
    except Exception as error:  # noqa: BLE001 - whatever a library does when it is loaded is what is told
        return f"{type(error).__name__}: {error}", ""
    return None, more


def _runs(name: str) -> str | None:
    """Why a program that a distribution brings does not run."""
    beside = Path(sys.executable).with_name(name)
    program = str(beside) if beside.exists() else shutil.which(name)
    if program is None:
        return "its program is not there"
    try:
        done = subprocess.run([program, "--version"], capture_output=True, timeout=RUN_S, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return None if done.returncode == 0 else f"{program} --version ends with exit code {done.returncode}"


def _accepted_by_pyspark(name: str) -> None:
    """Raise what PySpark would, if it is there: if it is not, that is told of PySpark itself."""
    with contextlib.suppress(ImportError):
        utils = importlib.import_module("pyspark.sql.pandas.utils")
        try:
            getattr(utils, f"require_minimum_{name}_version")()
        except ImportError as error:
            raise ValueError(str(error)) from error


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _of_ours(field: str) -> str:
    try:
        return metadata.metadata("headgate")[field] or ""
    except metadata.PackageNotFoundError:
        return ""


# -- jars ------------------------------------------------------------------------------------------------------------


def _own_jar() -> OwnJar | None:
    """The jar of the package. None if there is no PySpark that could use it."""
    try:
        from headgate.task import session  # noqa: PLC0415 - it needs PySpark, which may be what is missing
    except ImportError:
        return None
    path, needed = session.JAR, (*session.FILE_SYSTEM.values(), session.PLUGIN)
    try:
        with zipfile.ZipFile(path) as archive:
            there = archive.namelist()
            manifest = archive.read("META-INF/MANIFEST.MF").decode().replace("\r\n ", "").replace("\n ", "")
    except (OSError, zipfile.BadZipFile, KeyError) as error:
        return OwnJar(str(path), wrong=f"cannot be read ({getattr(error, 'strerror', None) or error})")
    missing = [name for name in needed if f"{name.replace('.', '/')}.class" not in there]
    if missing:
        return OwnJar(str(path), wrong=f"has no {', '.join(missing)}: it is of another release")
    return _compared(path, manifest)


def _compared(path: Path, manifest: str) -> OwnJar:
    """Is it the one that was installed, or that the sources beside it give?"""
    recorded = [each for each in _files() if each.name == path.name and each.hash is not None]
    sources = path.parents[3] / "java" / "src"
    if recorded and recorded[0].hash is not None:
        digest = urlsafe_b64encode(hashlib.sha256(path.read_bytes()).digest()).rstrip(b"=").decode()
        same, shown_by = digest == recorded[0].hash.value, "as it was installed"
    elif sources.is_dir():
        content = b"".join(each.read_bytes() for each in sorted(sources.rglob("*.java")))
        same, shown_by = hashlib.sha256(content).hexdigest() in manifest, "built from the sources beside it"
    else:
        same, shown_by = True, "it has the classes that this release needs"
    return OwnJar(str(path), shown_by, None if same else f"is not {shown_by}: it is of another release")


def _files() -> list[metadata.PackagePath]:
    try:
        return metadata.files("headgate") or []
    except metadata.PackageNotFoundError:
        return []


def _connectors(wanted: Iterable[str] | None, spark_version: str | None) -> Iterator[ConnectorJars]:
    """What a job needs, or, if there is none, what the source for Kafka does."""
    if wanted is None:
        wanted = (f"{packages.KAFKA}:{spark_version}",) if spark_version is not None else ()
    repository = packages.Repository.usual()
    for package in dict.fromkeys(wanted):
        try:
            here = packages.on_this_machine(package, repository)
            if here is None:
                packages.refuse_plain(repository.remote)
        except (HeadgateError, OSError) as error:
            yield ConnectorJars(package, wrong=str(error))
        else:
            names = tuple(path.name for path in (here or {}).values())
            yield ConnectorJars(package, names, repository.remote, str(repository.cache))


def _spark_in(home: Path) -> str | None:
    """The version of the Spark in a directory, by the name of its jar."""
    found = (re.fullmatch(r"spark-core_[\d.]+-(.+)\.jar", each.name) for each in home.glob("jars/spark-core_*.jar"))
    return next((each[1] for each in found if each is not None), None)
