"""Rows that come late are not written over newer ones: the writer itself, on a real server, without Spark."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import cast

import psycopg
import pyarrow as pa
import pytest

from headgate.connect import postgres as connector
from headgate.connect.postgres.upserting import UpsertSink
from headgate.core.ids import Generation
from headgate.errors import ExternalError, FencedOff, InvalidOption
from headgate.sink.api import SinkContext, StaleGenerations, WriteId
from headgate.sink.partitions import Place
from headgate.testing import context_in, write_id
from services.server import wait_until
from tests.connect.postgres.databases import TABLE, Database

Open = Callable[..., UpsertSink]


@pytest.fixture
def opened(database: Database, tmp_path: Path) -> Iterator[Open]:
    """Sinks as processes of the job have them, one for each call."""
    database.make_table(key=True)
    made: list[UpsertSink] = []

    def open_one(context: SinkContext | None = None) -> UpsertSink:
        sink = cast("UpsertSink", connector.sink(database.dsn, table=TABLE, mode="upsert", key=["number"]))
        sink.open(context or context_in(tmp_path))
        made.append(sink)
        return sink

    yield open_one
    for sink in made:
        sink.close()


def put(sink: UpsertSink, what: WriteId, total: str) -> None:
    """What an executor does for a partition of the attempt."""
    rows = pa.RecordBatch.from_pydict({"number": [1, 2], "writer": [total, total]})
    sink.writer(what)(Place(0, 0), iter([rows]))


def write(sink: UpsertSink, what: WriteId, total: str) -> None:
    sink.begin_transaction(what)
    put(sink, what, total)


def totals(database: Database) -> list[tuple[int, str]]:
    return sorted(database.rows())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (write_id(7), write_id(3, generation=2)),
        (write_id(7), write_id(7, run=2)),
        (write_id(7, run=2), write_id(8, run=2)),
    ],
    ids=["generation", "run", "batch"],
)
def test_an_older_attempt_changes_nothing_and_says_so(
    opened: Open, database: Database, old: WriteId, new: WriteId
) -> None:
    frozen, leader = opened(), opened()
    frozen.begin_transaction(old)
    write(leader, new, "60")
    with pytest.raises(FencedOff, match=rf"sink sink: batch {old.batch} of generation 1 is fenced off, nothing of it"):
        put(frozen, old, "20")
    with pytest.raises(FencedOff, match="let the process that leads now go on"):
        write(frozen, old, "20")
    assert totals(database) == [(1, "60"), (2, "60")]
    write(leader, new, "61")
    assert totals(database) == [(1, "61"), (2, "61")]


def test_a_generation_fences_off_the_one_before_although_it_has_nothing_to_write(
    opened: Open, database: Database
) -> None:
    frozen, leader = opened(), opened()
    write(frozen, write_id(0), "10")
    frozen.begin_transaction(write_id(1))
    leader.abort(StaleGenerations(Generation(2)))
    with pytest.raises(FencedOff):
        put(frozen, write_id(1), "20")
    assert totals(database) == [(1, "10"), (2, "10")]
    leader.abort(StaleGenerations(Generation(1)))
    write(leader, write_id(1, generation=2), "30")
    leader.abort(StaleGenerations(Generation(2)))
    assert totals(database) == [(1, "30"), (2, "30")]


def waiting(database: Database, part: str) -> int:
    """How many sessions whose name has ``part`` in it wait for a lock."""
    names = database.query("SELECT application_name FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
    return sum(part in name for (name,) in names)


def test_a_merge_that_began_before_the_new_leader_comes_before_it(opened: Open, database: Database) -> None:
    frozen, leader = opened(), opened()
    write(frozen, write_id(0), "10")
    frozen.begin_transaction(write_id(1))
    with closing(psycopg.connect(database.dsn)) as other, ThreadPoolExecutor(2) as threads:
        other.execute(f"SELECT FROM {TABLE} WHERE number = 1 FOR UPDATE")
        merging: Future[None] = threads.submit(put, frozen, write_id(1), "20")
        wait_until(lambda: waiting(database, ":g1:b1:") == 1)
        raising = threads.submit(leader.begin_transaction, write_id(1, generation=2))
        wait_until(lambda: waiting(database, ":driver") == 1)
        assert not raising.done()
        other.rollback()
        merging.result()
        raising.result()
    put(leader, write_id(1, generation=2), "60")
    assert totals(database) == [(1, "60"), (2, "60")]


def test_another_incarnation_has_a_row_of_its_own(opened: Open, database: Database, tmp_path: Path) -> None:
    write(opened(), write_id(5, generation=9), "10")
    write(opened(replace(context_in(tmp_path), incarnation="another")), write_id(0), "20")
    assert totals(database) == [(1, "20"), (2, "20")]


def test_a_leader_row_that_is_gone_is_named_and_made_again(opened: Open, database: Database) -> None:
    sink = opened()
    sink.begin_transaction(write_id(0))
    database.query("DELETE FROM headgate_leaders")
    with pytest.raises(ExternalError, match="the row of headgate_leaders that was raised to batch 0 is gone"):
        put(sink, write_id(0), "10")
    assert totals(database) == []
    write(sink, write_id(0, run=2), "10")
    assert totals(database) == [(1, "10"), (2, "10")]


def test_another_table_of_that_name_is_left_alone(database: Database, tmp_path: Path) -> None:
    database.make_table(key=True)
    database.query("CREATE TABLE headgate_leaders (mine text)")
    sink = connector.sink(database.dsn, table=TABLE, mode="upsert", key=["number"])
    with pytest.raises(InvalidOption, match=r"public\.headgate_leaders is not the table that Headgate makes"):
        sink.open(context_in(tmp_path))
