"""What the server or the connection answers, as errors that say who must act.

One rule: one line, in the server's own words, and never a password.
"""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager

import pymysql
from pymysql.constants import ER

from headgate.errors import ExternalError, InvalidOption, UserError

LOCK_WAIT, DEADLOCK = 1205, 1213
UNKNOWN_XID = 1397

_DENIED = {ER.ACCESS_DENIED_ERROR, 1698, 1251, ER.HOST_NOT_PRIVILEGED}
_FORBIDDEN = {
    ER.DBACCESS_DENIED_ERROR,
    ER.TABLEACCESS_DENIED_ERROR,
    ER.COLUMNACCESS_DENIED_ERROR,
    ER.SPECIFIC_ACCESS_DENIED_ERROR,
    1370,
}
_ABSENT = {ER.BAD_DB_ERROR, ER.NO_SUCH_TABLE, ER.BAD_FIELD_ERROR}
_VALUE = {1261, 1262, 1264, 1265, 1292, 1364, 1366, 1406, 1062, 1048, 1452, 1451, 3819, 4025, 1153, 1300, 1411}
"""Values that a column, a key or a check does not take; 1153 is a row that is too long for one statement."""


class Refused(pymysql.Error):
    """A warning of the server: a row was changed on its way into the table, or left out."""


def code(error: BaseException) -> int:
    """The server's number of an error; 0 if it has none."""
    return int(error.args[0]) if error.args and isinstance(error.args[0], int) else 0


def is_worth_another_try(error: Exception) -> bool:
    """Whether the server gave up a transaction for the sake of another."""
    return isinstance(error, pymysql.Error) and code(error) in (LOCK_WAIT, DEADLOCK)


@contextmanager
def speaking(what: str, server: object) -> Iterator[None]:
    """Raise what goes wrong on the way to the server, or there, as an error of ours."""
    try:
        yield
    except pymysql.Error as error:
        raise explained(what, server, error) from error
    except (FileNotFoundError, PermissionError, ssl.SSLError) as error:
        raise InvalidOption(f"{what}: cannot use the files of certificates for {server}: {_line(error)}") from error
    except OSError as error:
        raise ExternalError(f"{what}: {server} does not answer: {_line(error)}: see that it runs") from error
    except RuntimeError as error:  # a way of logging in that the client cannot do
        raise InvalidOption(f"{what}: cannot log in to {server}: {_line(error)}") from error


def explained(what: str, server: object, error: pymysql.Error) -> UserError | ExternalError:
    """The error as one of ours."""
    words = _line(error.args[1] if len(error.args) > 1 else error)
    number = code(error)
    if number in _DENIED:
        return InvalidOption(f"{what}: {server}: {words}: check user and password")
    if "certificate verify failed" in words:
        return InvalidOption(f"{what}: {server} is not who it should be: {words}: check host and ssl_ca")
    if number in _FORBIDDEN:
        return InvalidOption(f"{what}: {server}: {words}: grant it to the user")
    if number in _ABSENT:
        return InvalidOption(f"{what}: {server}: {words}: create it, or give another name")
    if isinstance(error, Refused | pymysql.DataError | pymysql.IntegrityError) or number in _VALUE:
        return UserError(f"{what}: the table refuses a row: {words} ({number}): change the table or the rows")
    if isinstance(error, pymysql.ProgrammingError | pymysql.NotSupportedError) and number:
        return UserError(f"{what}: {server}: {words} ({number})")
    return ExternalError(f"{what}: {server}: {words} ({number}): see that the server runs and is not overloaded")


def _line(words: object) -> str:
    return " ".join(str(words).split())
