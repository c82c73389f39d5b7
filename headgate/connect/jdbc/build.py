"""What users call.

One rule: all that can be judged without the database is judged here, before anything runs.
"""

import re
from collections.abc import Mapping, Sequence

from headgate.connect.jdbc.jvm import Access
from headgate.connect.jdbc.twophase import JdbcSink
from headgate.errors import InvalidOption
from headgate.sink.api import TwoPhaseSink

DRIVERS = {
    "db2": "com.ibm.db2.jcc.DB2Driver",
    "h2": "org.h2.Driver",
    "mariadb": "org.mariadb.jdbc.Driver",
    "mysql": "com.mysql.cj.jdbc.Driver",
    "oracle": "oracle.jdbc.OracleDriver",
    "postgresql": "org.postgresql.Driver",
    "sqlserver": "com.microsoft.sqlserver.jdbc.SQLServerDriver",
}
"""The drivers of well-known databases, by what follows ``jdbc:`` in their URLs."""
OWNED = {
    *("url", "dbtable", "query", "driver", "user", "password", "truncate", "createtableoptions"),
    *("createtablecolumntypes", "numpartitions", "partitioncolumn", "lowerbound", "upperbound"),
}
_COORDINATES = re.compile(r"[\w.-]+:[\w.-]+:[\w.-]+")


def sink(
    url: str,
    *,
    table: str,
    user: str | None = None,
    password: str | None = None,
    driver: str | None = None,
    packages: Sequence[str] = (),
    properties: Mapping[str, str] | None = None,
) -> TwoPhaseSink:
    """Write to a table of any database with a JDBC driver and transactions, exactly once.

    ``url``: as the driver takes it, ``jdbc:postgresql://host/database``.
    ``table``: the table, with its schema if need be, written as in SQL. It is there already, with a column for each
    column of the rows; names are compared without regard to case.
    ``driver``: the driver's class. It may be left out for well-known databases.
    ``packages``: Maven coordinates of the driver, ``("org.postgresql:postgresql:42.7.8",)``, which Spark's processes
    then get. Not needed where the driver is among Spark's jars.
    ``properties``: what the driver takes beside user and password, and options of Spark's JDBC writer (``batchsize``).

    Rows wait in tables ``hg_...`` of the user's own schema, one for each batch, with the target's types (where the
    database has no ``CREATE TABLE ... AS SELECT``, with those that Spark has for it). The user needs the right to make
    and drop tables. Commits are noted in the table ``headgate_jdbc``. Times are converted as the driver does it. A row
    that breaks a constraint of the target stops the job when its checkpoint is committed.
    """
    kind = re.match(r"jdbc:(\w+):", _text(url))
    if kind is None:
        raise InvalidOption("jdbc.sink: the url is not a valid JDBC URL: write url='jdbc:postgresql://host/database'")
    if not _text(table).strip():
        raise InvalidOption(f"jdbc.sink: table={table!r} is not a valid name of a table: write table='orders'")
    chosen = driver or DRIVERS.get(kind[1])
    if not chosen:
        raise InvalidOption(f"jdbc.sink: nobody knows the driver of jdbc:{kind[1]}: write driver='its.class.Name'")
    if isinstance(packages, str) or not all(_COORDINATES.fullmatch(package) for package in packages):
        raise InvalidOption(
            f"jdbc.sink: packages={packages!r} are not Maven coordinates: write ('org.postgresql:postgresql:42.7.8',)"
        )
    given = {str(name): str(value) for name, value in (properties or {}).items()}
    for name in given:
        if name.lower() in OWNED:
            raise InvalidOption(f"jdbc.sink: property {name!r} is set by Headgate: leave it out, or use the option")
    return JdbcSink(Access(url, chosen, user, password, given, tuple(packages)), table.strip())


def _text(value: object) -> str:
    """What was given, if it is a text."""
    return value if isinstance(value, str) else ""
