"""Prepared transactions, as the server keeps them.

One rule: a transaction that is gone was committed if its note is there, and only then.

The server keeps a prepared transaction with its connection until that is closed, and refuses it to all others with the
same words as one that it never knew. So while it is in the list it is asked for again.
"""

# ruff: noqa: S608 - values go as parameters; names are our own, or quoted

import pymysql

from headgate.connect.mariadb.problems import UNKNOWN_XID, code, is_worth_another_try
from headgate.connect.mariadb.session import Session
from headgate.connect.mariadb.table import COMMITS
from headgate.connect.mariadb.xid import FORMAT, Xid
from headgate.errors import ExternalError
from headgate.retry import Retry, RetryPolicy
from headgate.sink.api import WriteId
from headgate.sink.owner import Owner

LET_GO = RetryPolicy(first_s=0.05, longest_s=0.2, seconds=30.0)
"""How long a connection that was closed may still have its transaction."""
_ROLLED_BACK = {1402, 1613, 1614}
"""The server answers that it had to roll back: after that the transaction is gone."""


def prepared(session: Session, owner: Owner) -> dict[Xid, WriteId]:
    """The owner's transactions that are prepared."""
    found = {}
    for form, gtrid_length, bqual_length, data in _listed(session):
        parts = data[:gtrid_length], data[gtrid_length : gtrid_length + bqual_length]
        xid = Xid(*(part.decode("ascii", errors="replace") for part in parts))
        if form == FORMAT and (write_id := owner.whose(xid.name)) is not None and xid == Xid.of(xid.name):
            found[xid] = write_id
    return found


def note(session: Session, xid: Xid) -> None:
    """Write, in the transaction itself, that it is committed."""
    session.ask(f"INSERT INTO {COMMITS} VALUES (%s, %s)", (xid.gtrid, xid.bqual))


def is_committed(session: Session, xid: Xid) -> bool:
    """Whether the transaction's note is there. If somebody is just committing it, this waits for the end."""
    sql = f"SELECT 1 FROM {COMMITS} WHERE owner = %s AND part = %s LOCK IN SHARE MODE"
    return bool(session.ask(sql, (xid.gtrid, xid.bqual)))


def commit(session: Session, owner: Owner, xid: Xid) -> bool:
    """Commit a prepared transaction; False if there is none of this name."""
    return _end(session, owner, xid, "COMMIT")


def rollback(session: Session, owner: Owner, xid: Xid) -> bool:
    """Throw away a prepared transaction; False if there is none of this name."""
    return _end(session, owner, xid, "ROLLBACK")


def _end(session: Session, owner: Owner, xid: Xid, how: str) -> bool:
    retry = Retry(LET_GO)
    while True:
        try:
            session.ask(f"XA {how} {xid}")
        except pymysql.Error as error:
            if code(error) in _ROLLED_BACK and how == "ROLLBACK":
                return True
            if code(error) != UNKNOWN_XID and not is_worth_another_try(error):
                raise
            if xid not in prepared(session, owner):
                return False
        else:
            return True
        if not retry.again():
            raise ExternalError(
                f"sink {owner.sink}: another connection still has the prepared transaction {xid} and does not let "
                "it go: end that connection"
            )


def _listed(session: Session) -> list[tuple[int, int, int, bytes]]:
    """All prepared transactions of the server. Names of others may be any bytes."""
    session.use_unicode, before = False, session.use_unicode
    try:
        return [(int(a), int(b), int(c), bytes(data)) for a, b, c, data in session.ask("XA RECOVER")]
    finally:
        session.use_unicode = before
