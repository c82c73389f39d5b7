"""The way to a database through the JVM that Spark runs in.

One rule: no row passes here, only orders and their short answers.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from py4j.java_gateway import is_instance_of
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from headgate.errors import ExternalError, HeadgateError, InvalidOption, UserError
from headgate.redact import shown

LOGIN_SECONDS = 6
"""How long the database may take to let us in."""

LOCK_WAIT = 1205
"""What MariaDB and MySQL answer, without a state of the standard, when a lock was not to be had in time."""

_own: list[Any] = []
"""The gateway that was started here, for a process without Spark that only commits."""


@dataclass(frozen=True)
class Access:
    """How to reach a database. All checked by ``build``."""

    url: str = field(repr=False)
    driver: str
    user: str | None
    password: str | None = field(repr=False)
    properties: Mapping[str, str] = field(repr=False)
    packages: tuple[str, ...]

    def __str__(self) -> str:
        """For messages: without what may be secret."""
        return shown(self.url)

    def options(self) -> dict[str, str]:
        """What a driver is given to let us in."""
        who = {"user": self.user, "password": self.password}
        return {**self.properties, **{name: value for name, value in who.items() if value is not None}}

    def spark_options(self) -> dict[str, str]:
        """The same for Spark's writer."""
        url = self.url
        if url.startswith("jdbc:mariadb:"):
            # Spark knows how MySQL writes names and types, and takes MariaDB for a database that it does not know.
            url = f"jdbc:mysql:{url.removeprefix('jdbc:mariadb:')}{'&' if '?' in url else '?'}permitMysqlScheme"
        return {**self.options(), "url": url, "driver": self.driver}


def gateway(packages: tuple[str, ...]) -> Any:
    """The gateway to Spark's JVM. In a process that has none, one is started, with the packages."""
    if SparkContext._gateway is not None:  # noqa: SLF001 - nothing else has it
        return SparkContext._gateway  # noqa: SLF001 - as above
    if not _own:
        conf = SparkConf(loadDefaults=False)
        if packages:
            conf.set("spark.jars.packages", ",".join(packages))
        _own.append(launch_gateway(conf))  # type: ignore[no-untyped-call]
    return _own[0]


def let_go() -> None:
    """End the JVM that was started here, if there is one."""
    while _own:
        started = _own.pop()
        started.shutdown()
        started.proc.stdin.close()  # at which it ends
        started.proc.wait()


@contextmanager
def speaking(what: str, access: Access) -> Iterator[None]:
    """Raise what the driver or the database says as an error of ours."""
    try:
        yield
    except Py4JJavaError as error:
        raise explained(what, access, error) from error
    except Py4JError as error:
        raise ExternalError(f"{what}: Spark's process does not answer: {_line(error)}") from error


def explained(what: str, access: Access, error: Py4JJavaError) -> HeadgateError:
    """The error as one of ours, by the state that the SQL standard gives it."""
    problem = sql_problem(error)
    if problem is None:
        return ExternalError(f"{what}: {access}: {_line(error.java_exception.toString())}")
    code, words = state(error), _line(problem.getMessage())
    if code.startswith(("28", "3D")):
        return InvalidOption(f"{what}: {access}: {words}: check user, password and database")
    if code.startswith("08") or code in ("57P01", "57P02", "57P03", "70100"):
        return ExternalError(f"{what}: {access}: {words}: see that the database runs")
    if code.startswith(("22", "23")):
        return UserError(f"{what}: the table refuses a row: {words}: change the table or the rows")
    if code.startswith(("0A", "2B", "42", "44")):
        return InvalidOption(f"{what}: {access}: {words} ({code})")
    return ExternalError(f"{what}: {access}: {words} ({code}): see that the database runs and is not overloaded")


def is_worth_another_try(error: Exception) -> bool:
    """Whether the database gave up a transaction for the sake of another."""
    if not isinstance(error, Py4JJavaError):
        return False
    problem = sql_problem(error)
    return state(error).startswith("40") or (problem is not None and problem.getErrorCode() == LOCK_WAIT)


def state(error: Py4JJavaError) -> str:
    """The state that the SQL standard gives an error; empty if it has none."""
    problem = sql_problem(error)
    return "" if problem is None else str(problem.getSQLState() or "")


def sql_problem(error: Py4JJavaError) -> Any:
    """The ``SQLException`` in an error, however deep; None if there is none."""
    through = gateway(())
    cause = error.java_exception
    while cause is not None:
        if is_instance_of(through, cause, "java.sql.SQLException"):
            return cause
        cause = cause.getCause()
    return None


def connect(who: str, access: Access) -> Any:
    """A ``java.sql.Connection``, by the driver that Spark's processes have."""
    jvm = gateway(access.packages).jvm
    try:
        kind = jvm.java.lang.Class.forName(access.driver, True, _loader(jvm))
    except Py4JJavaError as error:
        raise InvalidOption(
            f"{who}: Spark has no class {access.driver}: name the driver's package, or add its jar to spark.jars"
        ) from error
    given = jvm.java.util.Properties()
    for name, value in access.options().items():
        given.setProperty(name, value)
    manager = jvm.java.sql.DriverManager
    before = manager.getLoginTimeout()
    manager.setLoginTimeout(LOGIN_SECONDS)
    try:
        connection = kind.newInstance().connect(access.url, given)
    finally:
        manager.setLoginTimeout(before)
    if connection is None:
        raise InvalidOption(f"{who}: {access.driver} does not take {access}: give the driver of this database")
    return connection


def _loader(jvm: Any) -> Any:
    """The class loader that has Spark's jars, also those that were added later."""
    session = SparkSession.getActiveSession() or SparkSession._instantiatedSession  # noqa: SLF001 - for any thread
    if session is not None:
        return session._jsparkSession.sharedState().jarClassLoader()  # noqa: SLF001 - nothing else has it
    return jvm.java.lang.Thread.currentThread().getContextClassLoader()


def _line(words: object) -> str:
    return " ".join(str(words).split())
