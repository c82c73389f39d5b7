"""The table that says which attempt of a sink may write at once.

One rule: a sink has one leader row. It is raised to each attempt before the attempt writes, and never goes back.
Whoever writes locks the row for sharing and sees, in the very statement that writes, that it is still raised to its own
attempt. So the raise waits for those who write, and afterwards nothing older can be written: not by a process that was
frozen, and not by an executor that outlives its driver.
"""

from psycopg import sql

from headgate.connect.postgres.client import PostgresConnection
from headgate.connect.postgres.making import OwnTable
from headgate.connect.postgres.names import PostgresOwner
from headgate.core import fencing
from headgate.core.fencing import Order
from headgate.core.ids import Batch, Generation, Run
from headgate.errors import ExternalError, FencedOff, HeadgateError

TABLE = OwnTable(
    name="headgate_leaders",
    columns=(
        "owner text PRIMARY KEY, generation bigint NOT NULL, batch bigint NOT NULL, run bigint NOT NULL, "
        "raised timestamptz NOT NULL DEFAULT now()"
    ),
    read="owner, generation, batch, run, raised",
    rights=("SELECT", "INSERT", "UPDATE"),
    purpose="in which Headgate notes who leads",
)


def raise_to(connection: PostgresConnection, schema: str, owner: PostgresOwner, order: Order) -> None:
    """Let nothing older than ``order`` be written from here on. ``FencedOff`` if something newer was.

    One statement outside of any transaction: a process that is frozen holds no lock.
    """
    query = sql.SQL(
        "INSERT INTO {} AS leader (owner, generation, batch, run) VALUES (%s, %s, %s, %s) ON CONFLICT (owner) "
        "DO UPDATE SET generation = EXCLUDED.generation, batch = EXCLUDED.batch, run = EXCLUDED.run, "
        "raised = EXCLUDED.raised "
        "WHERE (leader.generation, leader.batch, leader.run) <= (EXCLUDED.generation, EXCLUDED.batch, EXCLUDED.run)"
    )
    if not connection.execute(query.format(TABLE.identifier(schema)), [owner.label, *order]).rowcount:
        raise FencedOff(_why(owner, known(connection, schema, owner), order))


def known(connection: PostgresConnection, schema: str, owner: PostgresOwner) -> Order:
    """To which attempt the row is raised."""
    query = sql.SQL("SELECT generation, batch, run FROM {} WHERE owner = %s").format(TABLE.identifier(schema))
    row = connection.execute(query, [owner.label]).fetchone() or (0, -1, 0)
    return Generation(row[0]), Batch(row[1]), Run(row[2])


def still_leading(schema: str, owner: PostgresOwner, order: Order) -> sql.Composed:
    """A query that has a row as long as an attempt leads, and keeps it so until the end of the transaction."""
    query = sql.SQL("SELECT owner FROM {} WHERE owner = {} AND generation = {} AND batch = {} AND run = {} FOR SHARE")
    return query.format(TABLE.identifier(schema), owner.label, *order)


def refused(connection: PostgresConnection, schema: str, owner: PostgresOwner, order: Order) -> HeadgateError:
    """The error of an attempt that does not lead."""
    leader = known(connection, schema, owner)
    if fencing.may_lead(leader, order):
        return ExternalError(
            f"sink {owner.sink}: the row of {TABLE.name} that was raised to batch {order[1]} is gone or was set back: "
            "leave that table to Headgate"
        )
    return FencedOff(_why(owner, leader, order))


def _why(owner: PostgresOwner, leader: Order, order: Order) -> str:
    return (
        f"sink {owner.sink}: batch {order[1]} of generation {order[0]} is fenced off, nothing of it was written: "
        f"generation {leader[0]} has written batch {leader[1]} since: let the process that leads now go on"
    )
