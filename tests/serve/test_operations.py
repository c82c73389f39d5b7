"""What a job is asked over HTTP: accepted at once, and what became of it for whoever comes back."""

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from headgate.core import events as e
from headgate.core.effects import Notify, Outcome
from headgate.core.ids import CheckpointId
from headgate.run import requests
from headgate.store.jobstore import JobStore
from tests.cli.live import Job, copied, files_of
from tests.serve.web import Web
from tests.step_helpers import ME

ORDERS = "/v1/jobs/orders"


def begin(web: Web, path: str, body: Any = None, method: str = "POST") -> str:
    said = web.ask(method, f"{ORDERS}{path}", body)
    assert said.code == 202, said.body
    name: str = said.data["request-id"]
    return name


def test_a_checkpoint_is_accepted_and_what_became_of_it_is_told_later(job: Job, web: Web) -> None:
    name = begin(web, "/checkpoints")
    found = web.get(f"{ORDERS}/operations/{name}")
    assert (found["status"], found["operation"], found["outcome"]) == ({"id": "IN_PROGRESS"}, None, None)
    job.do(lambda: job.core.complete(1))
    done = web.get(f"{ORDERS}/operations/{name}?wait=60")
    assert done["status"] == {"id": "COMPLETED"}
    assert done["operation"] == {"checkpointId": 1, "location": None, "failure-cause": None}
    assert (done["kind"], done["outcome"], done["text"]) == ("checkpoint", "done", "checkpoint 1 completed")
    assert done["begun_ms"] <= done["ended_ms"]
    for folder in ("checkpoints", "savepoints"):  # Flink's paths.
        assert web.get(f"{ORDERS}/{folder}/{name}") == done
    assert web.get(f"{ORDERS}/operations")["operations"] == [done]


def test_whoever_waits_hears_as_soon_as_it_is_over(job: Job, web: Web, user: ThreadPoolExecutor) -> None:
    name = begin(web, "/checkpoints", {"checkpointType": "CONFIGURED"})
    waiting = user.submit(web.get, f"{ORDERS}/operations/{name}?wait=60")
    begun_s = time.monotonic()
    job.do(lambda: job.core.complete(1))
    assert waiting.result(60)["outcome"] == "done"
    assert time.monotonic() - begun_s < 30
    assert web.get(f"{ORDERS}/operations/{name}?wait=0.01&after=5")["outcome"] == "done", "it is over for all"


@pytest.mark.usefixtures("nobody_comes_back")
def test_waiting_ends_with_its_time(job: Job, web: Web) -> None:
    name = begin(web, "/checkpoints")
    assert web.get(f"{ORDERS}/operations/{name}?wait=0.05")["status"]["id"] == "IN_PROGRESS"
    assert web.ask("GET", f"{ORDERS}/operations/{name}?wait=61").code == 400
    assert job.core.state.checkpoints.pending


def test_a_savepoint_says_where_it_is(job: Job, web: Web, store: JobStore) -> None:
    name = begin(web, "/savepoints", {"formatType": "NATIVE"})
    job.do(lambda: job.core.complete(1))
    job.do(lambda: job.core.tell(e.SavepointCopied(ME, CheckpointId(1))))
    done = web.get(f"{ORDERS}/savepoints/{name}?wait=60")
    assert done["operation"]["location"] == f"{store.uri}/savepoints/1"


@pytest.mark.parametrize(("path", "field"), [("/savepoints", "target-directory"), ("/stop", "targetDirectory")])
def test_a_savepoint_goes_to_the_directory_that_is_named(
    path: str, field: str, job: Job, web: Web, store: JobStore, tmp_path: Path
) -> None:
    name = begin(web, path, {field: str(tmp_path / "backup")})
    job.do(lambda: job.core.complete(1))
    made = copied(store, 1)
    job.do(lambda: job.core.tell(e.SavepointCopied(ME, CheckpointId(1))))
    with ThreadPoolExecutor(1) as pool:
        if path == "/stop":
            job.do(job.core.write_closing_record)
            job.do(lambda: job.core.tell(job.core.stale_generations_aborted()))
            pool.submit(job.server.close)
        done = web.get(f"{ORDERS}/operations/{name}?wait=60")
    assert (done["outcome"], done["operation"]["location"]) == ("done", f"file://{tmp_path}/backup")
    assert files_of(tmp_path / "backup") == made
    assert done["kind"] == path.removeprefix("/").removesuffix("s")


def test_a_target_that_cannot_be_used_is_refused_before_anything_is_taken(job: Job, web: Web, tmp_path: Path) -> None:
    (tmp_path / "x").touch()
    done = web.get(f"{ORDERS}/operations/{begin(web, '/stop', {'targetDirectory': str(tmp_path)})}?wait=60")
    assert done["outcome"] == "refused"
    assert done["text"].startswith(f"no savepoint was taken: target {tmp_path} is not empty (")
    relative = web.get(f"{ORDERS}/operations/{begin(web, '/savepoints', {'target-directory': 'x'})}?wait=60")
    assert relative["text"] == "no savepoint was taken: target x: give an absolute path, or a URI"
    assert not job.asked.is_set()


def test_a_savepoint_is_called_something(job: Job, web: Web, store: JobStore) -> None:
    copied(store, 1)
    name = begin(web, "/savepoints/details/1/label", {"label": "before the upgrade"})
    done = web.get(f"{ORDERS}/operations/{name}?wait=60")
    assert (done["kind"], done["checkpoint"], done["outcome"]) == ("label", 1, "done")
    assert store.labels() == {1: "before the upgrade"}
    assert web.ask("POST", f"{ORDERS}/savepoints/details/1/label", {}).code == 400
    assert not job.asked.is_set()


@pytest.mark.parametrize(("path", "body"), [("/stop", None), ("/savepoints", {"cancel-job": True})])
def test_a_stop_is_over_when_the_job_is_and_then_the_process_waits_for_whoever_asked(
    path: str, body: Any, job: Job, web: Web, store: JobStore
) -> None:
    name = begin(web, path, body)
    job.do(lambda: job.core.complete(1))
    job.do(lambda: job.core.tell(e.SavepointCopied(ME, CheckpointId(1))))
    job.do(job.core.write_closing_record)
    job.do(lambda: job.core.tell(job.core.stale_generations_aborted()))
    assert web.get(f"{ORDERS}/operations/{name}")["status"]["id"] == "IN_PROGRESS"
    with ThreadPoolExecutor(1) as pool:
        closing = pool.submit(job.server.close)
        done = web.get(f"{ORDERS}/operations/{name}?wait=60")
        closing.result(60)
    assert (done["kind"], done["outcome"], done["operation"]["checkpointId"]) == ("stop", "done", 1)
    assert store.read_control() is None


def test_a_job_is_drained_before_it_stops_if_that_is_asked_for(job: Job, web: Web, store: JobStore) -> None:
    name = begin(web, "/stop", {"drain": True, "triggerId": "mine"})
    job.do(lambda: job.core.tell(job.core.ended("a", 0)))
    assert "is being drained" in web.get(f"{ORDERS}/operations/{name}?wait=60&after=0")["text"]
    assert web.ask("POST", f"{ORDERS}/stop", {"drain": False, "triggerId": "mine"}).code == 409
    second = web.get(f"{ORDERS}/operations/{begin(web, '/stop')}?wait=60")
    assert (second["outcome"], second["text"]) == (
        "refused",
        "savepoint refused: the job is being drained, and ends with a savepoint",
    )
    job.do(lambda: job.core.complete(1))
    job.do(lambda: job.core.tell(e.SavepointCopied(ME, CheckpointId(1))))
    job.do(job.core.write_closing_record)
    job.do(lambda: job.core.tell(job.core.stale_generations_aborted()))
    with ThreadPoolExecutor(1) as pool:
        closing = pool.submit(job.server.close)
        done = web.get(f"{ORDERS}/operations/{name}?wait=60")
        closing.result(60)
    assert (done["kind"], done["outcome"], done["operation"]["checkpointId"]) == ("stop", "done", 1)
    assert done["operation"]["location"] == f"{store.uri}/savepoints/1"


def test_a_process_that_ends_waits_for_nobody_for_long(job: Job, web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "LAST_WORDS_S", 0.1)
    begin(web, "/checkpoints")
    begun_s = time.monotonic()
    job.server.close()
    assert time.monotonic() - begun_s < 30


@pytest.mark.usefixtures("nobody_comes_back")
def test_what_it_takes_is_told_meanwhile(job: Job, web: Web, user: ThreadPoolExecutor) -> None:
    job.core.tell(job.core.committed("a", 0))
    job.core.ask()
    job.core.make_ready(1)
    job.core.create()
    name = begin(web, "/cancel")
    waiting = user.submit(web.get, f"{ORDERS}/operations/{name}?wait=60&after=0")
    job.do(lambda: job.core.tell(job.core.commit_failed(1)))
    found = waiting.result(60)
    assert found["status"]["id"] == "IN_PROGRESS"
    assert found["notices"] >= 1
    assert "`headgate cancel JOB --abandon-commits out --reason TEXT` (out: no answer)" in found["text"]
    second = begin(web, "/cancel")
    refused = web.get(f"{ORDERS}/operations/{second}?wait=60")
    assert refused["outcome"] == "refused"
    assert refused["operation"]["failure-cause"]["class"] == "refused"
    assert "waits for sink out" in refused["operation"]["failure-cause"]["stack-trace"]


def test_holding_releasing_and_deleting_are_about_one_checkpoint(job: Job, web: Web) -> None:
    for method, path in (
        ("POST", "/checkpoints/details/7/hold"),
        ("POST", "/checkpoints/details/7/release"),
        ("DELETE", "/savepoints/details/7"),
    ):
        name = begin(web, path, None, method)
        done = web.get(f"{ORDERS}/operations/{name}?wait=60")
        assert (done["checkpoint"], done["outcome"]) == (7, "refused")
    job.core.ask()
    job.core.complete(1)
    job.asked.clear()
    name = begin(web, "/checkpoints/details/1/hold")
    job.do(lambda: job.core.tell(e.HoldSet(ME, CheckpointId(1), True)))
    assert web.get(f"{ORDERS}/operations/{name}?wait=60")["outcome"] == "done"


@pytest.mark.usefixtures("nobody_comes_back")
def test_who_repeats_a_request_starts_nothing_twice(job: Job, web: Web) -> None:
    assert [begin(web, "/checkpoints", {"triggerId": "mine"}) for _ in range(3)] == ["mine"] * 3
    assert job.core.requests + len(job.core.state.checkpoints.pending) >= 1
    assert len(web.get(f"{ORDERS}/operations")["operations"]) == 1
    other = web.ask("POST", f"{ORDERS}/stop", {"triggerId": "mine"})
    assert other.code == 409
    assert "mine names another request, a checkpoint" in other.errors[0]


def test_the_name_of_a_request_is_a_name(web: Web) -> None:
    for name in ("", "a/b", "x" * 65, "ä"):
        assert web.ask("POST", f"{ORDERS}/checkpoints", {"triggerId": name}).code == 400


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/savepoints", {"target-directory": ""}, "target-directory"),
        ("/savepoints", {"targetDirectory": "/x"}, "targetDirectory"),
        ("/stop", {"drain": "later"}, "drain"),
        ("/savepoints", {"drain": True}, "drain"),
        ("/checkpoints", {"checkpointType": "FULL"}, "checkpointType"),
        ("/cancel", {"abandon": "out"}, "abandon"),
        ("/checkpoints", {"timeout_s": 0}, "timeout_s"),
        ("/checkpoints/details/x/hold", None, "number"),
    ],
)
def test_what_is_not_understood_is_refused_by_its_name(path: str, body: Any, field: str, job: Job, web: Web) -> None:
    said = web.ask("POST", f"{ORDERS}{path}", body)
    assert said.code == 400
    assert said.errors[0].startswith(f"{field}: ")
    assert not job.asked.is_set()


def test_a_body_that_is_no_json_is_refused(job: Job, web: Web) -> None:
    assert web.ask("POST", f"{ORDERS}/cancel", b"{").code == 400
    said = web.ask("POST", f"{ORDERS}/cancel", b"abandon=out", Content_Type="application/x-www-form-urlencoded")
    assert said.errors == ["the body: send JSON, with `Content-Type: application/json`"]
    assert not job.asked.is_set()


def test_more_operations_than_may_wait_are_refused(job: Job, web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "WAITING_MAX", 1)
    first = begin(web, "/checkpoints", {"timeout_s": 0.05})
    said = web.ask("POST", f"{ORDERS}/checkpoints")
    if said.code != 202:  # On a slow machine the first has had its time.
        assert (said.code, said.errors) == (429, ["checkpoint refused: 1 requests wait already"])
    done = web.get(f"{ORDERS}/operations/{first}?wait=60")
    assert (done["outcome"], done["text"]) == ("failed", "checkpoint: no answer within 0.05 s; it may still come")
    assert job.asked.is_set()


def test_an_operation_that_nobody_knows_is_not_there(web: Web) -> None:
    said = web.ask("GET", f"{ORDERS}/operations/nobody")
    assert (said.code, said.errors[0].startswith("operation nobody is not known")) == (404, True)


def test_only_so_many_are_remembered(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "REMEMBERED_MAX", 2)
    taken = requests.Requests(job.submit)
    job.server._requests = taken
    names = [taken.begin("hold", checkpoint=number) for number in range(4)]
    assert [each.name for each in taken.all()] == names[:1:-1]
    assert all(each.reply is not None for each in taken.all())


def test_giving_commits_up_is_noted_with_its_reason_once_the_core_has_taken_it_in() -> None:
    noted: list[tuple[str, Mapping[str, Any]]] = []
    asked: list[e.Event] = []
    taken = requests.Requests(asked.append, lambda kind, fields: noted.append((kind, fields)))
    taken.begin("checkpoint")
    for name in ("refused", "done"):
        taken.begin("cancel", name=name, abandon=["out"], reason="its server is gone")
    assert noted == [], "the core has not heard of it"
    refused, done = asked[1:]
    assert isinstance(refused, e.CancelAsked)
    assert isinstance(done, e.CancelAsked)
    taken.taken(refused, [Notify(Outcome.REFUSED, "cancel refused: the job has no sink out", refused.request)])
    assert noted == []
    for _ in range(2):
        taken.taken(done, [Notify(Outcome.NOTICE, "the commits of out fail", done.request)])
    fields = {"decision": "abandon-commits", "sinks": ["out"], "reason": "its server is gone", "command": "cancel"}
    assert noted == [("decision", fields)]


def test_after_the_end_nothing_is_begun(job: Job) -> None:
    taken = requests.Requests(job.submit)
    taken.close()
    assert taken.ask("stop").text == "stop refused: the job's process is ending"
    assert taken.ask("dance").text == "dance refused: there is no such request"
