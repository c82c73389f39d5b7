"""Rules over what is installed: Python, Java, Spark, jars and clients.

One rule: what every job needs is a problem if it is missing; what only some sources and sinks need is a note.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from headgate.doctor.finding import Finding, Severity
from headgate.errors import InvalidOption
from headgate.needs import refuse_contradiction
from headgate.task.java import HOME_VARIABLE, LEAST, FoundJava

_CLAUSE = re.compile(r"(>=|<=|==|!=|~=|<|>)\s*([\w.*+!-]+)")
_CONNECT = ("spark.remote", "spark.api.mode")


@dataclass(frozen=True)
class Interpreter:
    """A Python: this one, or another that Spark's workers would run."""

    program: str
    version: str | None
    """None if it cannot be run."""


@dataclass(frozen=True)
class Library:
    """A distribution that the package asks for: for every job, or for the extras that are named."""

    name: str
    bounds: str
    extras: tuple[str, ...] = ()
    version: str | None = None
    wrong: str | None = None
    """Why it cannot be loaded, although it is installed."""
    more: str = ""
    """What else there is to say of it."""


@dataclass(frozen=True)
class OwnJar:
    """The jar that comes with the package. ``wrong`` says in which way it is not the one that belongs to it."""

    path: str
    shown_by: str = ""
    wrong: str | None = None


@dataclass(frozen=True)
class ConnectorJars:
    """The jars of a connector: those that are here, or where they will come from."""

    package: str
    jars: tuple[str, ...] = ()
    remote: str = ""
    cache: str = ""
    wrong: str | None = None


@dataclass(frozen=True)
class Defaults:
    """Settings that Spark takes from a file, unless a job says otherwise."""

    path: str
    conf: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Software:
    """All that there is to know of what is installed."""

    python: Interpreter
    python_bounds: str
    workers: Interpreter | None
    """What ``PYSPARK_PYTHON`` or ``spark.pyspark.python`` names, if it is another one."""
    workers_by: str
    on_this_machine: bool
    """Whether Spark's workers run here: the user named no cluster."""
    java: FoundJava
    release: str
    """Of Headgate. Empty if it is not installed as a package, so that nothing is known of what it asks for."""
    loaded: str
    """The release that this code is."""
    libraries: Sequence[Library]
    own_jar: OwnJar | None
    connectors: Sequence[ConnectorJars]
    spark_version: str | None
    spark_home: tuple[str, str | None] | None
    """What ``SPARK_HOME`` names, and the version of the Spark there."""
    spark_remote: str | None
    defaults: Defaults | None


def findings(facts: Software) -> Iterator[Finding]:
    """All that the facts show."""
    yield python(facts.python, facts.python_bounds)
    yield workers(facts)
    yield java(facts.java)
    yield release(facts.release, facts.loaded)
    yield from (library(each) for each in facts.libraries)
    if facts.own_jar is not None:
        yield own_jar(facts.own_jar)
    yield from (connector(each) for each in facts.connectors)
    yield spark_remote(facts.spark_remote)
    yield spark_home(facts.spark_home, facts.spark_version)
    yield defaults(facts.defaults)


def python(found: Interpreter, bounds: str) -> Finding:
    """This interpreter."""
    evidence = f"{found.version}, {found.program}"
    if not within(found.version or "", bounds):
        return Finding(
            "python", Severity.PROBLEM, evidence, f"Headgate needs Python {bounds}: install it in such a one"
        )
    return Finding("python", Severity.OK, evidence)


def workers(facts: Software) -> Finding:
    """The interpreter of Spark's Python workers: it must have the same minor version, or Spark refuses to work."""
    name, here, other = "python workers", facts.python, facts.workers
    if other is None:
        return Finding(name, Severity.OK, f"Spark's workers run {here.program}, as this command does")
    evidence = f"{facts.workers_by}={other.program} ({f'Python {other.version}' if other.version else 'cannot be run'})"
    if facts.on_this_machine and facts.workers_by == "PYSPARK_PYTHON":
        advice = f"on this machine Headgate has workers run {here.program} all the same; unset it"
        return Finding(name, Severity.NOTE, evidence, advice)
    if other.version is None or _minor(other.version) != _minor(here.version or ""):
        level = Severity.PROBLEM if facts.on_this_machine else Severity.WARNING
        advice = f"name a Python {_minor(here.version or '')} with the same packages: Spark refuses workers of another"
        return Finding(name, level, evidence, advice)
    advice = "see that it has the packages of this one, in the same versions"
    return Finding(name, Severity.NOTE, evidence, advice)


def java(found: FoundJava) -> Finding:
    """The Java that Spark runs on."""
    advice = f"install Java {LEAST} or newer, and let {HOME_VARIABLE} or PATH lead to it"
    evidence = f"{found.version or 'no version'}, {found.program} (by {found.chosen_by})"
    if found.wrong is not None and found.version is None:
        evidence = f"{found.program} (by {found.chosen_by}): {found.wrong}"
    if not found.is_supported:
        return Finding("java", Severity.PROBLEM, evidence, advice)
    return Finding("java", Severity.OK, evidence)


def release(version: str, loaded: str) -> Finding:
    """Headgate itself."""
    if not version:
        evidence = "not installed as a package: what it asks for is not known here"
        return Finding("headgate", Severity.NOTE, evidence, "install it with pip to have versions checked")
    if version != loaded:
        evidence = f"{loaded} is loaded, and {version} is installed: what is asked for below is that one's"
        return Finding("headgate", Severity.WARNING, evidence, "install it again")
    return Finding("headgate", Severity.OK, version)


def library(found: Library) -> Finding:
    """A distribution, and whether its version is one that was meant."""
    wanted = f"headgate[{','.join(found.extras)}]" if found.extras else "headgate"
    bad = Severity.WARNING if found.extras else Severity.PROBLEM
    if found.version is None:
        level = Severity.NOTE if found.extras else Severity.PROBLEM
        return Finding(found.name, level, "not installed", f"pip install '{wanted}'{_for(found.extras)}")
    evidence = ", ".join(filter(None, (found.version, found.more)))
    if not within(found.version, found.bounds):
        return Finding(found.name, bad, f"{evidence}, not {found.bounds}", f"pip install --upgrade '{wanted}'")
    if found.wrong is not None:
        advice = f"pip install --force-reinstall {found.name}"
        return Finding(found.name, bad, f"{evidence}, cannot be loaded: {found.wrong}", advice)
    return Finding(found.name, Severity.OK, evidence)


def own_jar(found: OwnJar) -> Finding:
    """The jar of the package, without which Spark's processes know neither our file system nor our plugin."""
    if found.wrong is not None:
        return Finding("jar", Severity.PROBLEM, f"{found.path} {found.wrong}", "install Headgate again")
    return Finding("jar", Severity.OK, f"{found.path} ({found.shown_by})")


def connector(found: ConnectorJars) -> Finding:
    """The jars that Spark needs for a source or a sink."""
    name = f"jars of {found.package.split(':')[1]}"
    if found.wrong is not None:
        return Finding(
            name, Severity.PROBLEM, found.wrong, "without them Spark does not start for a job that needs them"
        )
    if found.jars:
        return Finding(name, Severity.OK, f"on this machine: {', '.join(found.jars)}")
    evidence = f"not on this machine: a job that needs them fetches them once from {found.remote} to {found.cache}"
    advice = "if there is no network, set HEADGATE_MAVEN to a mirror, or HEADGATE_JARS to a directory that has them"
    return Finding(name, Severity.NOTE, evidence, advice)


def spark_remote(value: str | None) -> Finding:
    """Spark Connect has no driver beside which Headgate could stand."""
    if value:
        return Finding("SPARK_REMOTE", Severity.PROBLEM, f"SPARK_REMOTE={value} is for Spark Connect", "unset it")
    return Finding("SPARK_REMOTE", Severity.OK, "not set")


def spark_home(found: tuple[str, str | None] | None, version: str | None) -> Finding:
    """Spark's jars are those in ``SPARK_HOME`` if it is set, and not those of this PySpark."""
    if found is None:
        return Finding("SPARK_HOME", Severity.OK, "not set: Spark is the one that PySpark brings")
    path, theirs = found
    evidence = f"SPARK_HOME={path} has Spark {theirs}" if theirs else f"SPARK_HOME={path} has no Spark"
    if theirs != version:
        advice = "unset it, so that Spark is the one that PySpark brings"
        return Finding("SPARK_HOME", Severity.PROBLEM, f"{evidence}, and PySpark is {version}", advice)
    return Finding("SPARK_HOME", Severity.OK, evidence)


def defaults(found: Defaults | None) -> Finding:
    """A file of settings for all jobs. What Headgate needs it sets over them; a session of the user's has them."""
    if found is None:
        return Finding("spark defaults", Severity.OK, "no file of defaults")
    wrong = [(key, why) for key, value in found.conf.items() if (why := _contradiction(key, value)) is not None]
    if not wrong:
        return Finding("spark defaults", Severity.OK, f"{found.path}: nothing in it contradicts what Headgate needs")
    evidence = f"{found.path}: {'; '.join(why for _, why in wrong)}"
    if any(key in _CONNECT for key, _ in wrong):
        return Finding("spark defaults", Severity.PROBLEM, evidence, "take it out of that file")
    advice = "take it out of that file: Headgate sets what it needs over it, or refuses a session of yours that has it"
    return Finding("spark defaults", Severity.WARNING, evidence, advice)


def within(version: str, bounds: str) -> bool:
    """Whether a version is in bounds as the package states them: ``>=2.2,<3``. Only its numbers are compared."""
    tests = {
        ">=": lambda a, b: a >= b,
        "<=": lambda a, b: a <= b,
        "<": lambda a, b: a < b,
        ">": lambda a, b: a > b,
        "==": lambda a, b: a == b,
        "!=": lambda a, b: a != b,
    }
    for sign, bound in _CLAUSE.findall(bounds):
        ours, theirs = numbers(version), numbers(bound)
        length = max(len(ours), len(theirs))
        padded = [each + (0,) * (length - len(each)) for each in (ours, theirs)]
        if sign in tests and not tests[sign](*padded):
            return False
    return True


def numbers(version: str) -> tuple[int, ...]:
    """The numbers that a version begins with."""
    found = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(part) for part in found[0].split(".")) if found else ()


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _for(extras: tuple[str, ...]) -> str:
    return f" if a job uses {' or '.join(extras)}" if extras else ""


def _contradiction(key: str, value: str) -> str | None:
    try:
        refuse_contradiction({key: value})
    except InvalidOption as error:
        return str(error)
    return None
