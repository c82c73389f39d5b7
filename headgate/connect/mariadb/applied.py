"""The note of what was applied last: a row for each owner in ``headgate_applied``.

One rule: who wants to change an owner's rows first locks the owner's note, so that two who do the same come one after
the other, and the second sees what the first did.
"""

# ruff: noqa: S608 - values go as parameters; names are our own, or quoted

import hashlib

from headgate.connect.mariadb.session import Session
from headgate.connect.mariadb.table import APPLIED

IDLE_SECONDS = 30
"""How long the transaction may wait for its client before the server ends it. A process that is frozen in the middle of
one would hold the lock, and so hold up whoever has taken its place."""
OWNER_MAX = 255
AppliedMark = tuple[int, int]
"""Generation and checkpoint. An owner's marks only grow."""


def note_key(owner: str) -> str:
    """The owner as the table has it: a long one by its beginning and a checksum."""
    if len(owner) <= OWNER_MAX:
        return owner
    digest = hashlib.sha256(owner.encode()).hexdigest()
    return f"{owner[: OWNER_MAX - len(digest) - 1]}#{digest}"


def applied(session: Session, owner: str) -> AppliedMark | None:
    """The owner's mark."""
    found = session.ask(f"SELECT generation, checkpoint FROM {APPLIED} WHERE owner = %s", (note_key(owner),))
    return (int(found[0][0]), int(found[0][1])) if found else None


def lock(session: Session, owner: str) -> AppliedMark:
    """Begin a transaction in which nobody else changes the owner's mark; the mark."""
    if "MariaDB" in str(session.get_server_info()):  # type: ignore[no-untyped-call]  # MySQL has no such setting
        session.ask(f"SET SESSION idle_transaction_timeout = {IDLE_SECONDS}")
    # Outside of the transaction, so that a new owner's lock is that of a row that is there.
    key = note_key(owner)
    session.ask(f"INSERT IGNORE INTO {APPLIED} VALUES (%s, -1, -1)", (key,))
    session.begin()
    generation, checkpoint = session.ask(
        f"SELECT generation, checkpoint FROM {APPLIED} WHERE owner = %s FOR UPDATE", (key,)
    )[0]
    return int(generation), int(checkpoint)


def note(session: Session, owner: str, mark: AppliedMark) -> None:
    """Set the mark, in the transaction that ``lock`` began."""
    session.ask(
        f"UPDATE {APPLIED} SET generation = %s, checkpoint = %s WHERE owner = %s", (mark[0], mark[1], note_key(owner))
    )
