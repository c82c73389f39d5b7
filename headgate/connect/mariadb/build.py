"""What users call.

One rule: all that can be judged without the server is judged here, before anything runs.
"""

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Literal, get_args

from headgate.connect.mariadb.address import Address
from headgate.errors import InvalidOption
from headgate.sink.api import TwoPhaseSink
from headgate.values import count

MariaDBMode = Literal["staged", "xa"]


def sink(
    host: str = "localhost",
    port: int = 3306,
    user: str = "",
    password: str = "",
    database: str = "",
    *,
    table: str,
    mode: MariaDBMode = "staged",
    key: Sequence[str] | None = None,
    parallelism: int | None = None,
    ssl_ca: str | None = None,
    ssl_cert: str | None = None,
    ssl_key: str | None = None,
    ssl_verify_identity: bool = True,
) -> TwoPhaseSink:
    """Write to a table, exactly once.

    ``table``: an InnoDB table of ``database`` that is there already, with a column for each column of the rows. Names
    are compared without regard to case. Columns that the rows do not have get their default.
    ``mode``: ``staged``: rows wait in files, and are loaded after their checkpoint is complete. ``xa``: rows are loaded
    by each batch into prepared XA transactions, which are committed after the checkpoint.
    ``ssl_ca``: a file with the authority that signed the server's certificate: TLS is used, and the certificate is
    checked, with the host's name unless ``ssl_verify_identity=False``. ``ssl_cert``, ``ssl_key``: files for a client
    that shows a certificate of its own.

    Staged: the server's outage only delays a commit, however long it is.
    ``key``: the columns of a primary key or unique index. A row then takes the place of an earlier one with its key.
    Without it rows are added, and a row that the table refuses stops the job.
    ``parallelism``: this many transactions are applied side by side by each commit, 2 by default. What one commit
    applies becomes visible partition by partition. Rows of one key stay in one partition.

    XA: needs MariaDB 10.5 or MySQL 8.0, where a prepared transaction outlives its connection and the server. A
    prepared transaction keeps its locks until its checkpoint is complete, so rows are only added. What one commit shows
    becomes visible transaction by transaction.

    Commits are noted in the table ``headgate_applied``, with XA also in ``headgate_commits``, which are made when they
    are not there. Timestamps are written as UTC.
    """
    _need_client()
    from headgate.connect.mariadb.staged import MariaDBSink  # noqa: PLC0415 - only with the client
    from headgate.connect.mariadb.twophase import XASink  # noqa: PLC0415 - as above

    if mode not in get_args(MariaDBMode):
        raise InvalidOption(f"mariadb.sink: mode={mode!r} is unknown: choose {' or '.join(get_args(MariaDBMode))}")
    address = _address(host, port, user, password, database, ssl_ca, ssl_cert, ssl_key, ssl_verify_identity)
    if mode == "staged":
        number = 2 if parallelism is None else count(parallelism, name="parallelism", example=2, least=1)
        return MariaDBSink(address, _table(table), _key(key), number)
    for name, value in (("key", key), ("parallelism", parallelism)):
        if value is not None:
            raise InvalidOption(f"mariadb.sink: {name}={value!r} is for mode='staged', not for mode='xa': leave it out")
    return XASink(address, _table(table))


def _need_client() -> None:
    if find_spec("pymysql") is None:
        raise InvalidOption("mariadb needs pymysql: pip install 'headgate[mariadb]'")


def _address(  # one argument for each option of the user's function
    host: object,
    port: object,
    user: object,
    password: object,
    database: object,
    ssl_ca: str | None,
    ssl_cert: str | None,
    ssl_key: str | None,
    ssl_verify_identity: bool,  # noqa: FBT001 - as above
) -> Address:
    given = (("host", host, "db.example.org"), ("user", user, "etl"), ("database", database, "shop"))
    names = [_name(name, value, example) for name, value, example in given]
    if not isinstance(password, str):
        raise InvalidOption("mariadb.sink: the password is not a text: write password='...'")
    number = count(port, name="port", example=3306, least=1)
    if number > 65_535:
        raise InvalidOption(f"mariadb.sink: port={port} is too high: write port=3306")
    if ssl_key is not None and ssl_cert is None:
        raise InvalidOption("mariadb.sink: ssl_key goes with ssl_cert: give both, or none")
    if ssl_cert is not None and ssl_ca is None:
        raise InvalidOption("mariadb.sink: ssl_cert goes with ssl_ca: say which authority the server has")
    return Address(names[0], number, names[1], password, names[2], ssl_ca, ssl_cert, ssl_key, ssl_verify_identity)


def _name(option: str, value: object, example: str) -> str:
    if not isinstance(value, str) or not value:
        raise InvalidOption(f"mariadb.sink: {option}={value!r} is not a valid name: write {option}={example!r}")
    return value


def _table(table: object) -> str:
    name = _name("table", table, "orders")
    if len(name) > 64:
        raise InvalidOption(f"mariadb.sink: table={table!r} is too long for a name: MariaDB has up to 64 characters")
    return name


def _key(key: object) -> tuple[str, ...]:
    if key is None:
        return ()
    names = [] if isinstance(key, str) or not isinstance(key, Sequence) else [*key]
    if not names or not all(isinstance(name, str) and name for name in names):
        raise InvalidOption(f"mariadb.sink: key={key!r} is not a list of columns: write key=['id'], or leave it out")
    if len({name.casefold() for name in names}) != len(names):
        raise InvalidOption(f"mariadb.sink: key={key!r} names a column twice: write each once")
    return tuple(names)
