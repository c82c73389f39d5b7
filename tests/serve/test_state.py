"""The state of kept checkpoints over HTTP, as far as it can be told without Spark; and what is refused."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from headgate.cli import app
from headgate.store.jobstore import JobStore
from tests.browse.test_kept import DESCRIBED, operator, stored
from tests.cli.live import Job
from tests.serve.web import Web, web_of


@pytest.fixture
def store(tmp_path: Path) -> JobStore:
    """A job with one checkpoint, in which two tasks could have state and one has."""
    return stored(tmp_path, {DESCRIBED.format(operator=0, batch=0): operator("stateStoreSave")}, "sums")


def test_operators_are_told_from_the_storage(job: Job, store: JobStore) -> None:
    assert job.server is not None
    found = web_of(store, "read_token").get("/v1/jobs/orders/state")
    assert found["checkpoint"] == 1
    assert [(each["name"], each["states"], each["uids"]) for each in found["operators"]] == [
        ("sums", ["all"], ["sums"])
    ]
    assert found == web_of(store).get("/v1/jobs/orders/state?checkpoint=1")


@pytest.mark.parametrize(
    ("path", "code", "words"),
    [
        ("/state?checkpoint=7", 404, "checkpoint 7 is not kept: kept are 1"),
        ("/state/rows?checkpoint=7", 404, "checkpoint 7 is not kept: kept are 1"),
        ("/state/rows?operator=x", 400, "checkpoint 1 has no state of an operator x; it has: sums"),
        ("/state/rows?state=x", 400, "operator sums has no state x; it has: all"),
        ("/state/rows?key=user", 400, "key 'user': write COLUMN=VALUE, such as user=ann"),
        ("/state/difference?before=0&operator=x", 400, "checkpoint 1 has no state of an operator x; it has: sums"),
        ("/state/rows", 409, "job orders has no Spark session yet: try again when it runs"),
    ],
)
def test_what_cannot_be_answered_is_refused(job: Job, web: Web, path: str, code: int, words: str) -> None:
    assert job.server is not None
    said = web.ask("GET", f"/v1/jobs/orders{path}")
    assert (said.code, said.errors) == (code, [words])


@pytest.mark.parametrize("asked", ["limit=0", "limit=1001", "timeout_s=0", "checkpoint=-1", "checkpoint=x"])
def test_what_is_out_of_bounds_is_refused(web: Web, asked: str) -> None:
    assert web.ask("GET", f"/v1/jobs/orders/state/rows?{asked}").code == 400


def run(storage: Path, *arguments: str) -> tuple[int, str, str]:
    said = CliRunner().invoke(app, ["state", "orders", "--storage", str(storage), *arguments])
    return said.exit_code, said.stdout, said.stderr


def test_the_command_shows_operators_without_spark(store: JobStore, tmp_path: Path) -> None:
    assert store.is_there()
    code, out, _ = run(tmp_path / "storage")
    assert code == 0
    assert out.split() == [
        "operator",
        "task",
        "kind",
        "partitions",
        "states",
        "sums",
        "a",
        "stateStoreSave",
        "4",
        "all",
    ]
    code, out, _ = run(tmp_path / "storage", "--json")
    assert '"name": "sums"' in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--checkpoint", "7"], "checkpoint 7 is not kept: kept are 1"),
        (["--operator", "x"], "checkpoint 1 of job orders has no state of an operator x; it has: sums"),
        (["--operator", "sums", "--state", "x"], "operator sums has no state x; it has: all"),
        (["--operator", "sums", "--key", "user"], "key 'user': write COLUMN=VALUE, such as user=ann"),
        (["--operator", "sums", "--diff", "9"], "checkpoint 9 is not kept: kept are 1"),
        (["--operator", "sums", "--limit", "0"], "limit 0: give a number from 1 to 1000"),
    ],
)
def test_the_command_refuses_in_one_line(store: JobStore, tmp_path: Path, arguments: list[str], words: str) -> None:
    assert store.is_there()
    assert run(tmp_path / "storage", *arguments) == (2, "", f"headgate: {words}\n")
