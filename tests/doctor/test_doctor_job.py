"""``headgate doctor JOB`` and the API, as a user meets them."""

import json
from pathlib import Path

import pytest

from headgate.serve.catalog import PastReading
from headgate.store.api import open_store
from headgate.store.jobstore import JobStore
from tests.doctor.looking import doctor
from tests.doctor.sick import Sick


@pytest.fixture
def job(tmp_path: Path) -> Sick:
    return Sick(JobStore.open(open_store(str(tmp_path / "storage")), "orders"))


def look(job: Sick, *arguments: str) -> tuple[int, str, str]:
    """What the command says of the job, whose process is gone."""
    job.facts()
    told = doctor("orders", "--storage", str(job.store.uri).removesuffix("/orders"), *arguments, env={})
    return told.exit_code, told.stdout, told.stderr


def test_a_job_without_an_illness_has_a_line_that_says_so(job: Sick) -> None:
    for _ in range(6):
        job.go()
    code, out, _ = look(job)
    assert code == 0
    assert out.startswith("nothing found: ")
    assert "rules looked" in out


def test_a_warning_is_a_line_with_its_evidence_and_a_problem_is_exit_code_1(job: Sick) -> None:
    for _ in range(6):
        job.go(commit_ms=8_000)
    code, out, _ = look(job)
    assert code == 0
    first, last = out.splitlines()
    assert first.startswith("warning  slow commit  8.0 s from complete until committed (median of 6 checkpoints)")
    assert last.startswith("no problem found: 1 warning (")
    for _ in range(3):
        job.core.tell(job.core.failed("b"))
        job.core.wait(1_000)
        if job.core.state.execution.tasks:
            job.core.tell(job.core.started("b"))
    code, out, _ = look(job, "--json")
    assert code == 1
    seen = json.loads(out)
    assert seen["ok"] is False
    assert [(each["rule"], each["tasks"]) for each in seen["findings"]] == [
        ("restart-loop", ["b"]),
        ("slow-commit", ["b"]),
    ]


def test_a_job_that_is_not_there_and_a_command_without_a_job_are_refused_in_a_line(job: Sick) -> None:
    job.facts()
    where = str(job.store.uri).removesuffix("/orders")
    for arguments, words in (((), "doctor takes a job, or --env"), (("nobody", "--storage", where), "nobody")):
        told = doctor(*arguments, env={})
        assert told.exit_code == 2
        assert words in told.stderr
        assert len(told.stderr.strip().splitlines()) == 1


def test_looking_changes_nothing(job: Sick) -> None:
    for _ in range(6):
        job.go()
    job.facts()
    place = Path(str(job.store.uri).removeprefix("file://"))
    before = {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}
    look(job)
    with PastReading(job.store.for_looking()).past():
        pass
    assert {path: path.read_bytes() for path in place.rglob("*") if path.is_file()} == before
