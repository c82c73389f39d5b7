"""What cannot work is refused when the sink is built or opened, in one line that says what to do."""

import pickle
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from headgate.connect import postgres as connector
from headgate.errors import ExternalError, HeadgateError, InvalidOption
from headgate.sink.api import TwoPhaseSink
from headgate.testing import context_in
from services.postgres import Postgres
from services.server import free_port
from tests.connect.postgres.databases import TABLE, Database

SECRET = "very-secret"  # noqa: S105 - to see that it is not shown


def refused(sink: TwoPhaseSink, place: Path, kind: type[HeadgateError], said: str) -> None:
    began = time.monotonic()
    with pytest.raises(kind, match=said) as error:
        sink.open(context_in(place))
    assert time.monotonic() - began < 30, "it must answer within 10 s, or a little more on a busy machine"
    assert "\n" not in str(error.value)
    assert SECRET not in str(error.value)


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (lambda: connector.sink("", table=""), "table takes the name of a table"),
        (lambda: connector.sink(f"host=x {SECRET}", table="t"), "the connection string cannot be read"),
        (lambda: connector.sink("", table="t", parameters={"sslmod": "on"}), "'sslmod' is not a parameter"),
        (lambda: connector.sink("", table="t", parameters={"application_name": "x"}), "is set by Headgate"),
        (lambda: connector.sink("", table="t", parallelism=0), "parallelism=0 is too few"),
        (lambda: connector.sink("", table="t", wait="soon"), "wait='soon' is not a valid duration"),
        (lambda: connector.sink("", table="t", columns={"a": "c", "b": "c"}), "names a column of the table twice"),
        (lambda: connector.sink("", table="t", columns={}), "columns takes pairs"),
        (lambda: connector.sink("", table="t", mode="upsert", key=[]), "needs key, the names of columns"),
        (lambda: connector.sink("", table="t", mode="upsert", key="id"), "needs key, the names of columns"),
        (lambda: connector.sink("", table="t", mode="upsert"), "mode='upsert' needs key, the names of columns"),
        (lambda: connector.sink("", table="t", key=["id"]), "is for mode='upsert', not for mode='two-phase'"),
        (
            lambda: connector.sink("", table="t", mode="xa"),  # type: ignore[arg-type]
            "mode='xa' is unknown: choose two-phase or upsert",
        ),
    ],
)
def test_an_option_that_cannot_hold_is_refused_when_the_sink_is_built(
    build: Callable[[], TwoPhaseSink], said: str
) -> None:
    with pytest.raises(InvalidOption, match=said) as error:
        build()
    assert SECRET not in str(error.value)


def test_a_sink_shows_where_to_and_never_its_password() -> None:
    for sink in (
        connector.sink(f"postgresql://me:{SECRET}@db:5433/shop", table="orders"),
        connector.sink(
            host="db", port=5433, database="shop", password=SECRET, table="orders", mode="upsert", key=["id"]
        ),
    ):
        assert "PostgreSQL table orders in database shop at db:5433" in sink.describe()
        assert SECRET not in sink.describe() + repr(sink) + repr(vars(sink))
        assert pickle.loads(pickle.dumps(sink)).describe() == sink.describe()  # noqa: S301


def test_a_server_that_is_down_or_lets_nobody_in_is_named(database: Database, tmp_path: Path) -> None:
    nobody = connector.sink(f"host=127.0.0.1 port={free_port()} password={SECRET}", table="t")
    refused(nobody, tmp_path, ExternalError, "PostgreSQL does not answer, database default at 127.0.0.1:")
    wrong = connector.sink(database.dsn, table="t", password=SECRET)
    refused(wrong, tmp_path, InvalidOption, "refused the login.* password authentication failed")
    refused(connector.sink(database.dsn, table="t", database="none"), tmp_path, InvalidOption, '"none" does not exist')


def test_a_server_that_accepts_and_says_nothing_is_given_up(database: Database, tmp_path: Path) -> None:
    database.server.pause()
    try:
        sink = connector.sink(database.dsn, table="t", parameters={"connect_timeout": 2})
        refused(sink, tmp_path, ExternalError, "sink sink: cannot be opened: PostgreSQL does not answer")
    finally:
        database.server.resume()


def test_a_table_that_takes_no_rows_is_named(database: Database, tmp_path: Path) -> None:
    database.query(
        f"CREATE TABLE {TABLE} (number bigint, writer text); CREATE VIEW seen AS SELECT 1 AS number;"
        "CREATE UNLOGGED TABLE brief (number bigint); CREATE TABLE secured (number bigint);"
        "ALTER TABLE secured ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY"
    )
    refused(database.sink(table="none"), tmp_path, InvalidOption, "there is no table none: create it")
    refused(database.sink(table="a.b.c.d"), tmp_path, InvalidOption, "improper relation name|no table a.b.c.d")
    refused(database.sink(table="seen"), tmp_path, InvalidOption, "public.seen is a view")
    refused(database.sink(table="brief"), tmp_path, InvalidOption, "public.brief is unlogged")
    refused(database.sink(columns={"n": "colour"}), tmp_path, InvalidOption, "has no column colour: it has number")
    upsert = connector.sink(database.dsn, table=TABLE, mode="upsert", key=["number"])
    refused(upsert, tmp_path, InvalidOption, r"has no unique key \(number\): ALTER TABLE")
    upsert = connector.sink(database.dsn, table=TABLE, mode="upsert", key=["colour"])
    refused(upsert, tmp_path, InvalidOption, "has no column colour")
    database.query(f"CREATE UNIQUE INDEX ON {TABLE} (number) WHERE number > 0")
    upsert = connector.sink(database.dsn, table=TABLE, mode="upsert", key=["number"])
    refused(upsert, tmp_path, InvalidOption, r"has no unique key \(number\)")


def test_a_user_without_rights_is_told_which(database: Database, tmp_path: Path) -> None:
    user = f"u_{database.name}"
    database.query(
        f"CREATE TABLE {TABLE} (number bigint PRIMARY KEY, writer text);"
        f"CREATE ROLE {user} LOGIN PASSWORD '{SECRET}'; REVOKE CREATE ON SCHEMA public FROM PUBLIC;"
        f"CREATE TABLE secured (number bigint); ALTER TABLE secured ENABLE ROW LEVEL SECURITY;"
        f"GRANT INSERT ON secured TO {user}"
    )
    dsn = database.server.dsn(database.name, user=user, password=SECRET)
    sink = connector.sink(dsn, table=TABLE)
    try:
        refused(sink, tmp_path, InvalidOption, f"user {user} has no right to INSERT on table public.numbers: GRANT")
        refused(connector.sink(dsn, table="secured"), tmp_path, InvalidOption, "has row-level security")
        database.query(f"GRANT INSERT ON {TABLE} TO {user}")
        upsert = connector.sink(dsn, table=TABLE, mode="upsert", key=["number"])
        refused(upsert, tmp_path, InvalidOption, "no right to UPDATE and SELECT on table")
        refused(sink, tmp_path, InvalidOption, "may not create public.headgate_commits.* GRANT CREATE ON SCHEMA public")
        database.sink().open(context_in(tmp_path))
        refused(
            sink, tmp_path, InvalidOption, "may not SELECT or INSERT or UPDATE or DELETE in public.headgate_commits"
        )
        database.query(f"GRANT SELECT, INSERT, UPDATE, DELETE ON headgate_commits TO {user}")
        sink.open(context_in(tmp_path))
        sink.close()
    finally:
        database.query(f"DROP OWNED BY {user}; DROP ROLE {user}")


def test_another_table_of_the_markers_name_is_left_alone(database: Database, tmp_path: Path) -> None:
    database.make_table()
    database.query("CREATE TABLE headgate_commits (mine text)")
    refused(database.sink(), tmp_path, InvalidOption, "headgate_commits is not the table that Headgate makes")


@pytest.mark.heavy
def test_a_server_that_prepares_nothing_or_takes_no_changes_is_named(tmp_path: Path) -> None:
    with Postgres(tmp_path / "server", max_prepared_transactions=0) as server:
        database = Database(server, "postgres")
        database.make_table(key=True)
        refused(database.sink(), tmp_path, InvalidOption, "set max_prepared_transactions = 100 in postgresql.conf")
        connector.sink(database.dsn, table=TABLE, mode="upsert", key=["number"]).open(context_in(tmp_path))
        server.stop()
        data = (tmp_path / "server" / "home").resolve() / "data"
        (data / "standby.signal").touch()
        server.start()
        refused(database.sink(), tmp_path, InvalidOption, "the server is a standby")
