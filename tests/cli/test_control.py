"""A running job takes requests through its loopback address, and answers them."""

import os
import socket
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from headgate.core import events as e
from headgate.core.effects import Outcome
from headgate.core.ids import CheckpointId
from headgate.errors import BadStorage, ExternalError
from headgate.run import control, requests
from headgate.run.control import ControlClient, NotRunning
from headgate.run.requests import Reply
from headgate.store.api import open_store
from headgate.store.jobstore import JobStore
from tests.cli.live import Job
from tests.step_helpers import ME


@pytest.fixture
def store(tmp_path: Path) -> JobStore:
    return JobStore.open(open_store(str(tmp_path)), "orders")


@pytest.fixture
def job(store: JobStore) -> Iterator[Job]:
    found = Job(store)
    yield found
    found.server.close()


@pytest.fixture
def user() -> Iterator[ThreadPoolExecutor]:
    """Somebody who asks while the test goes on."""
    with ThreadPoolExecutor(2) as pool:
        yield pool


def test_a_storage_that_is_away_at_the_end_hides_nothing(
    job: Job, store: JobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise BadStorage("control.json cannot be used: read-only file system")

    monkeypatch.setattr(store, "clear_control", refuse)
    job.server.close()  # Else its error would stand in place of the one that ends the job.
    monkeypatch.undo()
    assert ControlClient(store).ping() is None, "nobody answers at what is left"


def test_a_running_job_says_who_it_is_and_how_it_does(job: Job, store: JobStore) -> None:
    assert ControlClient(store).ping() == {"job": "orders", "leader": "me", "pid": os.getpid(), "answers": True}
    assert ControlClient(store).status() == job.status()
    assert job.status()["state"] == "running"
    assert ControlClient(store).elsewhere() is None
    assert job.core.requests == 0


def test_a_checkpoint_that_is_asked_for_is_answered_when_it_is_complete(
    job: Job, store: JobStore, user: ThreadPoolExecutor
) -> None:
    asked = user.submit(ControlClient(store).ask, "checkpoint")
    job.do(lambda: job.core.complete(1))
    assert asked.result(60) == Reply(Outcome.DONE, "checkpoint 1 completed", 1)


def test_stopping_is_answered_when_the_job_is_over(job: Job, store: JobStore, user: ThreadPoolExecutor) -> None:
    asked = user.submit(ControlClient(store).ask, "stop")
    job.do(lambda: job.core.complete(1))
    job.do(lambda: job.core.tell(e.SavepointCopied(ME, CheckpointId(1))))
    job.do(job.core.write_closing_record)
    assert not asked.done()
    job.do(lambda: job.core.tell(job.core.stale_generations_aborted()))
    job.server.close()
    assert asked.result(60) == Reply(Outcome.DONE, "savepoint 1 completed", 1, f"{store.uri}/savepoints/1")
    assert store.read_control() is None


def test_a_savepoint_does_not_stop_the_job(job: Job, store: JobStore, user: ThreadPoolExecutor) -> None:
    asked = user.submit(ControlClient(store).ask, "savepoint")
    job.do(lambda: job.core.complete(1))
    job.do(lambda: job.core.tell(e.SavepointCopied(ME, CheckpointId(1))))
    assert asked.result(60) == Reply(Outcome.DONE, "savepoint 1 completed", 1, f"{store.uri}/savepoints/1")


def test_cancelling_is_answered_at_the_end(job: Job, store: JobStore, user: ThreadPoolExecutor) -> None:
    asked = user.submit(ControlClient(store).ask, "cancel")
    job.do(job.core.write_closing_record)
    job.do(lambda: job.core.tell(job.core.stale_generations_aborted()))
    job.server.close()
    assert asked.result(60) == Reply(Outcome.DONE, "the job is cancelled; its checkpoints are deleted")


def test_holding_and_releasing_go_to_the_core(job: Job, store: JobStore, user: ThreadPoolExecutor) -> None:
    refused = ControlClient(store).ask("hold", checkpoint=1)
    assert (refused.outcome, refused.checkpoint) == (Outcome.REFUSED, 1)
    job.core.ask()
    job.core.complete(1)
    for command, held in (("hold", True), ("release", False)):
        job.asked.clear()
        asked = user.submit(ControlClient(store).ask, command, checkpoint=1)
        job.do(lambda held=held: job.core.tell(e.HoldSet(ME, CheckpointId(1), held)))  # type: ignore[misc]
        assert asked.result(60).outcome is Outcome.DONE


def test_a_request_that_is_none_is_refused(job: Job, store: JobStore) -> None:
    assert ControlClient(store).ask("dance").text == "dance refused: there is no such request"
    assert ControlClient(store).ask("hold", checkpoint="x").outcome is Outcome.REFUSED
    assert not job.asked.is_set()


def test_nobody_waits_longer_than_he_said(job: Job, store: JobStore) -> None:
    reply = ControlClient(store).ask("checkpoint", timeout_s=0.05)
    assert reply == Reply(Outcome.FAILED, "checkpoint: no answer within 0.05 s; it may still come")
    assert job.core.state.checkpoints.pending != ()


def test_whoever_waits_hears_when_the_process_ends(job: Job, store: JobStore, user: ThreadPoolExecutor) -> None:
    asked = user.submit(ControlClient(store).ask, "checkpoint")
    assert job.asked.wait(60)
    job.server.close()
    assert asked.result(60) == Reply(Outcome.FAILED, "the job's process is ending")
    with pytest.raises(NotRunning, match="job orders is not running here"):
        ControlClient(store).ask("checkpoint")


def test_without_the_right_secret_nothing_is_answered(job: Job, store: JobStore) -> None:
    there = store.read_control()
    assert there is not None
    store.put_control({**there, "token": "wrong"})
    assert ControlClient(store).ping() is None
    assert ControlClient(store).status() is None
    assert not job.asked.is_set()


def change(store: JobStore, **fields: Any) -> None:
    store.put_control({**(store.read_control() or {}), **fields})


def test_a_process_that_is_gone_does_not_run_the_job(job: Job, store: JobStore) -> None:
    assert job.server is not None
    free = socket.create_server(("127.0.0.1", 0))
    port = free.getsockname()[1]
    free.close()
    change(store, port=port)
    assert ControlClient(store).ping() is None
    change(store, pid=2**22 + 1)
    assert ControlClient(store).ping() is None
    store.clear_control()
    assert ControlClient(store).ping() is None


def test_a_process_on_another_machine_is_not_asked(job: Job, store: JobStore) -> None:
    change(store, machine="far-away")
    client = ControlClient(store)
    assert (client.ping(), client.elsewhere()) == (None, "far-away")
    assert not job.asked.is_set()


def test_a_process_that_does_not_answer_is_still_there(
    job: Job, store: JobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "ANSWER_S", 0.1)
    assert job.server is not None
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        change(store, port=deaf.getsockname()[1])
        assert ControlClient(store).ping() == {"pid": os.getpid(), "leader": "me", "answers": False}
        with pytest.raises(ExternalError, match="does not answer: see whether it is stuck or busy"):
            ControlClient(store).status()


def test_closing_leaves_the_address_of_who_leads_by_now(job: Job, store: JobStore) -> None:
    change(store, token="another")  # noqa: S106 - not a secret
    job.server.close()
    there = store.read_control()
    assert there is not None
    assert there["token"] == "another"  # noqa: S105 - not a secret


def test_more_requests_than_may_wait_are_refused(
    job: Job, store: JobStore, user: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "WAITING_MAX", 1)
    first = user.submit(ControlClient(store).ask, "checkpoint")
    assert job.asked.wait(60)
    reply = ControlClient(store).ask("checkpoint")
    assert reply == Reply(Outcome.REFUSED, "checkpoint refused: 1 requests wait already")
    job.do(lambda: job.core.complete(1))
    assert first.result(60).outcome is Outcome.DONE


def test_nobody_but_the_owner_reads_the_secret(job: Job, store: JobStore) -> None:
    assert job.server is not None
    assert store.local_root is not None
    assert stat.S_IMODE((store.local_root / "control.json").stat().st_mode) == 0o600
    assert stat.S_IMODE(store.local_root.stat().st_mode) == 0o700
