"""Every path that is documented is there and answers what its type says, and no other is."""

import io
import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, TypeAdapter

from headgate.core import events as e
from headgate.core.ids import CheckpointId
from headgate.run import logfiles
from headgate.run.inspecting import Inspection
from headgate.run.logfiles import LogFile, log_files
from headgate.run.requests import Requests
from headgate.serve import models
from headgate.serve.paths import past
from headgate.serve.process import RunningJob
from headgate.serve.server import StoredJob
from headgate.store.jobstore import JobStore
from headgate.store.local import LocalStore
from tests.cli.live import Job
from tests.serve.web import Web
from tests.step_helpers import ME

pytestmark = pytest.mark.usefixtures("nobody_comes_back")

TEXT = (Path(__file__).parents[2] / "docs" / "rest.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| (`(?:GET|POST|DELETE) /v1.*?) \| (.*?) \|", re.MULTILINE)
NAMES = {"JID": "jid", "TASK": "task", "ID": "number", "REQUEST": "request"}


def documented() -> list[tuple[str, str, str]]:
    """Method, path and answer of every row of the table."""
    found = []
    for cell, answer in ROW.findall(TEXT):
        first, *others = re.findall(r"`([^`]*)`", cell)
        method, path = first.split(" ")
        path = path.partition("?")[0]
        found.append((method, path, answer))
        for other in others:  # `.../release` ends as the first does, but for its last part or two.
            tail = other.removeprefix("...").strip("/")
            kept = path.split("/")[: -len(tail.split("/"))]
            found.append((method, "/".join([*kept, tail]), answer))
    return found


ROWS = documented()


def pattern(path: str) -> str:
    return re.sub(r"(?<=/)(JID|TASK|ID|REQUEST)(?=/|$)", lambda part: f"{{{NAMES[part[1]]}}}", path)


@pytest.fixture
def busy(job: Job, store: JobStore) -> Job:
    """A job with something to show of everything."""
    job.core.snapshot("a", 1, sync_ms=3, total_bytes=1000, new_bytes=10, files=4)
    job.core.tell(job.core.committed("a", 0))
    job.core.ask()
    job.core.snapshot("a", 1, sync_ms=3, total_bytes=1000, new_bytes=10, files=4)
    job.core.complete(1)
    job.core.savepoint()
    job.core.complete(2)
    job.core.tell(e.SavepointCopied(ME, CheckpointId(2)))
    store.mark_copied(CheckpointId(2))
    for record in job.core.store.values():
        assert store.create_record(record, {"files": {}, "segments": {}}) is None
    store.append_history(
        [
            *job.core.lines,
            {"at": 50, "event": "task-failed", "task": "a", "run": 1, "class": "external", "message": "OSError: gone"},
            {
                "at": 51,
                "event": "restart",
                "level": "task",
                "task": "a",
                "cause": "task a failed: OSError: gone",
                "class": "external",
                "delay_ms": 100,
            },
            {"at": 160, "event": "task-started", "task": "a", "run": 2, "batch": 0},
        ]
    )
    return job


def filled(path: str, request: str) -> str:
    for name, value in (("JID", "orders"), ("TASK", "a"), ("REQUEST", request), ("ID", "1")):
        path = re.sub(rf"(?<=/){name}(?=/|$)", value, path)
    return path


def test_the_document_has_just_the_paths_that_are_documented(web: Web) -> None:
    document = web.get("/v1/openapi.json")
    there = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    assert there == {(method, pattern(path)) for method, path, _ in ROWS} - {("GET", "/v1/openapi.json")}
    assert document["openapi"].startswith("3.")
    assert "HTTPValidationError" not in document["components"]["schemas"]


def test_what_is_there_is_of_its_type(busy: Job, web: Web) -> None:
    assert busy.server is not None
    request = web.ask("POST", "/v1/jobs/orders/checkpoints").data["request-id"]
    seen = set()
    for method, path, answer in ROWS:
        # What reads state needs Spark: tests/spark/test_jobs.py asks it. Streams have tests of their own.
        if method != "GET" or path.endswith("/stream") or "/state/" in path:
            continue
        said = web.ask(method, filled(path, request))
        assert said.code == 200, (path, said.body)
        assert said.headers["content-type"] == "application/json", path
        named = re.search(r"`(\w+)`", answer)
        if named is None:
            assert path.endswith("openapi.json")
            continue
        kind: Any = getattr(models, named[1])
        whole = {"list of": list[kind], "map of": dict[str, kind]}.get(answer.partition(" `")[0], kind)
        adapter: TypeAdapter[Any] = TypeAdapter(whole)
        known = adapter.validate_python(said.data, strict=False)
        assert adapter.dump_python(known, mode="json", by_alias=True) == said.data, (
            f"{path}: nothing is there beside it"
        )
        seen.add(path)
    assert len(seen) > 30


@pytest.mark.parametrize(("method", "path"), [row[:2] for row in ROWS if row[0] != "GET"])
def test_what_can_be_asked_for_is_accepted(method: str, path: str, busy: Job, web: Web) -> None:
    said = web.ask(method, filled(path, ""), {"label": "x"} if path.endswith("/label") else None)
    assert said.code == 202, said.body
    models.TriggerResponse.model_validate(said.data)
    assert path.endswith("/label") or busy.asked.wait(60), "the core hears of all but a label"


def test_every_type_is_used_and_described(web: Web) -> None:
    schemas = web.get("/v1/openapi.json")["components"]["schemas"]
    kinds = [
        each
        for each in vars(models).values()
        if isinstance(each, type) and issubclass(each, BaseModel) and each.__module__ == models.__name__
    ]
    unused = {each.__name__ for each in kinds} - {"AnswerModel", "AskModel", *schemas}
    assert {name for name in unused if f"{name}-Output" not in schemas} == set()
    assert all(each.get("description") for each in schemas.values())


@pytest.mark.parametrize(
    "path",
    ["/v1", "/v1/", "/v1/jobs/", "/v1/nothing", "/v1/jobs/orders/flamegraphs", "/v1/jobs/orders/states", "/v1/metrics"],
)
def test_another_path_is_not_there(path: str, web: Web) -> None:
    said = web.ask("GET", path)
    assert said.code == 404
    assert said.errors == [f"there is no path {path}: /v1/openapi.json lists them"]


def test_another_method_is_refused(web: Web) -> None:
    said = web.ask("PUT", "/v1/jobs/orders")
    assert said.code == 405
    assert said.errors == ["/v1/jobs/orders is not for PUT: /v1/openapi.json lists the paths"]


def test_what_is_not_there_is_refused_with_what_is(busy: Job, web: Web) -> None:
    assert busy.server is not None
    for path, words in (
        ("/v1/jobs/nobody", "there is no job nobody; there are: orders"),
        ("/v1/jobs/orders/vertices/z", "there is no task z; there are: a"),
        ("/v1/jobs/orders/checkpoints/details/9", "checkpoint 9 of job orders is not known"),
        ("/v1/jobs/orders/checkpoints/details/1/subtasks/z", "nothing is known of task z in checkpoint 1"),
        ("/v1/jobs/orders/logs?name=../x", "there is no log ../x of job orders on this machine"),
    ):
        said = web.ask("GET", path)
        assert said.code == 404
        assert said.errors[0].startswith(words)
    for path in (
        "/events?before=x",
        "/events?limit=0",
        "/checkpoints?limit=1001",
        "/checkpoints?before=-1",
        "/events?since=x",
    ):
        assert web.ask("GET", f"/v1/jobs/orders{path}").code == 400


def test_checkpoints_come_newest_first_and_by_pages(busy: Job, web: Web) -> None:
    assert busy.server is not None
    found = web.get("/v1/jobs/orders/checkpoints?limit=1")
    assert [one["id"] for one in found["history"]] == [2]
    assert found["next_before"] == 2
    assert found["counts"] == {
        "total": 2,
        "in_progress": 0,
        "completed": 2,
        "failed": 0,
        "restored": 0,
        "savepoints": 1,
    }
    assert (found["latest"]["completed"]["id"], found["latest"]["savepoint"]["id"]) == (1, 2)
    assert (found["latest"]["failed"], found["latest"]["restored"]) == (None, None)
    older = web.get("/v1/jobs/orders/checkpoints?before=2&summary=false")
    [one] = older["history"]
    assert (older["next_before"], older["summary"]) == (None, None)
    assert (one["id"], one["status"], one["checkpoint_type"], one["num_subtasks"]) == (1, "COMPLETED", "CHECKPOINT", 1)
    assert one["tasks"]["a"]["checkpoint"] == {"sync": 3, "async": 0}
    assert one == web.get("/v1/jobs/orders/checkpoints/details/1")
    assert found["summary"]["state_size"]["max"] == 1000
    [savepoint] = web.get("/v1/jobs/orders/savepoints")["savepoints"]
    assert (savepoint["id"], savepoint["is_savepoint"], savepoint["carried_off"]) == (2, True, True)
    assert savepoint["external_path"].endswith("/orders/savepoints/2")


def test_a_checkpoint_under_way_shows_where_its_barrier_is(job: Job, web: Web) -> None:
    job.core.ask()
    [under_way] = web.get("/v1/jobs/orders")["in_progress"]
    assert (under_way["id"], under_way["is_savepoint"]) == (1, False)
    assert set(under_way["waiting"]) | set(under_way["acknowledged"]) == {"a"}
    job.core.complete(1)
    assert web.get("/v1/jobs/orders")["in_progress"] == []


def test_a_sink_says_what_it_owes_at_this_moment(job: Job, web: Web) -> None:
    def owed() -> list[int]:
        [sink] = web.get("/v1/jobs/orders")["sinks"]
        return [sink[name] for name in ("open_batches", "pre_committed", "due", "committed")]

    job.core.tell(job.core.committed("a", 0))
    assert owed() == [1, 0, 0, 0]
    job.core.ask()
    job.core.make_ready(1)
    assert owed() == [0, 1, 0, 0]
    job.core.create()
    assert owed() == [0, 0, 1, 0]
    job.core.tell(job.core.visible(1))
    assert owed() == [0, 0, 0, 1]


def test_what_failed_and_what_was_done_about_it(busy: Job, web: Web) -> None:
    assert busy.server is not None
    [failed] = web.get("/v1/jobs/orders/exceptions")["exceptionHistory"]["entries"]
    assert (failed["exceptionName"], failed["taskName"], failed["stacktrace"]) == ("OSError", "a", "OSError: gone")
    assert failed["failureLabels"] == {"class": "external", "level": "task", "run": "1"}
    [restart] = web.get("/v1/jobs/orders/restarts")["history"]
    assert (restart["level"], restart["failed_ms"], restart["timestamp"], restart["running_ms"]) == (
        "task",
        50,
        51,
        160,
    )
    [event] = web.get("/v1/jobs/orders/events?type=restart")["events"]
    assert event["position"] == restart["position"]
    assert web.get(f"/v1/jobs/orders/events?type=restart&before={event['position']}")["events"] == []
    assert web.get("/v1/jobs/orders/events?since=160")["events"][0]["event"] == "task-started"
    newest = web.get("/v1/jobs/orders/events?limit=2")
    assert [each["event"] for each in newest["events"]] == ["restart", "task-started"]
    assert newest["next_before"] == newest["events"][0]["position"]


def test_exceptions_are_told_by_their_labels(busy: Job, web: Web) -> None:
    assert busy.server is not None

    def found(labels: str) -> int:
        answer = web.get(f"/v1/jobs/orders/exceptions?failureLabelFilter={labels}")
        return len(answer["exceptionHistory"]["entries"])

    assert (found("class:external"), found("class:external,level:task,run:1")) == (1, 1)
    assert (found("class:user"), found("class:external,level:job"), found("")) == (0, 0, 1)
    said = web.ask("GET", "/v1/jobs/orders/exceptions?failureLabelFilter=external")
    assert (said.code, "such as class:user" in said.errors[0]) == (400, True)


def test_a_task_has_as_many_partitions_as_its_state_and_no_choice(job: Job, web: Web) -> None:
    assert job.server is not None
    bounds = {"lowerBound": 4, "upperBound": 4}
    assert web.get("/v1/jobs/orders/resource-requirements") == {"a": {"parallelism": bounds}}


def test_a_task_says_since_when_it_runs_and_the_job_when_it_was_in_which_state(job: Job, web: Web) -> None:
    begun_ms = job.core.now_ms
    job.core.wait(1_500)
    [vertex] = web.get("/v1/jobs/orders")["vertices"]
    assert (vertex["start-time"], vertex["end-time"]) == (begun_ms, None)
    assert vertex["duration"] >= 1_500
    assert vertex["metrics"]["accumulated-idle-time"] >= 1_500
    details = web.get("/v1/jobs/orders")
    assert details["timestamps"] == {"INITIALIZING": begun_ms, "RUNNING": begun_ms}
    figures = {each["id"]: each["value"] for each in web.get("/v1/jobs/orders/metrics")}
    assert figures["downtime"] == 0
    assert figures["runningTime"] == figures["runningTimeTotal"] >= 1_500
    assert figures["restartingTime"] is None
    assert figures["lastCheckpointRestoreTimestamp"] is None


def test_the_plan_and_the_settings_are_those_that_were_written_down(job: Job, web: Web) -> None:
    assert job.server is not None
    plan = web.get("/v1/jobs/orders/plan")["plan"]
    assert [(node["id"], node["sources"], [sink["uid"] for sink in node["sinks"]]) for node in plan["nodes"]] == [
        ("a", ["a"], []),
        ("b", [], ["out"]),
    ]
    assert plan["nodes"][1]["inputs"][0]["id"] == "a"
    assert [(edge["source"], edge["target"]) for edge in plan["edges"]] == [("a", "b")]
    assert plan == web.get("/v1/jobs/orders")["plan"]
    vertex = web.get("/v1/jobs/orders/vertices/a")
    assert (vertex["name"], vertex["parallelism"], vertex["status"]) == ("a -> sums", 4, "RUNNING")
    config = web.get("/v1/jobs/orders/checkpoints/config")
    assert (config["mode"], config["interval"], config["num_retained"]) == ("exactly_once", 10_000, 1)
    assert web.get("/v1/jobs/orders/config")["execution-config"]["user-config"] == {"spark.sql.shuffle.partitions": "4"}


def test_figures_that_are_asked_for_by_name_are_told_alone(busy: Job, web: Web) -> None:
    assert busy.server is not None
    found = web.get("/v1/jobs/orders/metrics?get=lastCompletedCheckpointId,numberOfCompletedCheckpoints")
    assert found == [
        {"id": "lastCompletedCheckpointId", "value": 2},
        {"id": "numberOfCompletedCheckpoints", "value": 2},
    ]
    [size] = web.get("/v1/jobs/orders/metrics?get=lastCheckpointMetadataSize")
    assert size["value"] > 100, "the record of the last checkpoint"
    assert {each["id"] for each in web.get("/v1/jobs/orders/vertices/a/metrics")} >= {"numRecordsIn", "lag"}


def test_what_breaks_gives_no_secret_away(busy: Job, web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    served = busy.server._job
    assert served is not None

    def broken() -> None:
        raise RuntimeError("s3a://user:hunter2@bucket: password=hunter2")

    monkeypatch.setattr(served, "see", broken)
    said = web.ask("GET", "/v1/jobs/orders/savepoints")
    assert (said.code, said.errors[0][:13]) == (500, "RuntimeError:")
    assert b"hunter2" not in said.body


def test_an_address_with_a_password_is_shown_without_it(tmp_path: Path) -> None:
    class Elsewhere(LocalStore):
        uri = "s3a://key:hunter2@bucket/jobs"

    store = JobStore(Elsewhere(tmp_path), "orders")
    for job in (
        StoredJob(store, "orders", "s3a://key:***@bucket/jobs"),
        RunningJob(store, dict, Requests(lambda _: None), None, Inspection()),
    ):
        assert (job.storage, job.uri) == ("s3a://key:***@bucket/jobs", "s3a://key:***@bucket/jobs/orders")


def test_a_position_of_thousands_of_digits_is_refused(web: Web) -> None:
    for path in ("events", "exceptions", "restarts", "receipts"):
        assert web.ask("GET", f"/v1/jobs/orders/{path}?before=1.1.{'9' * 5_000}").code == 400


def test_a_log_that_is_deleted_meanwhile_is_not_there(
    web: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADGATE_LOGS", str(tmp_path))
    for pid in (1, 2):
        (tmp_path / f"orders.{pid}.log").write_text(f"line of {pid}\n")
    assert len(web.get("/v1/jobs/orders/logs")["logs"]) == 2
    glob, gone = Path.glob, tmp_path / "orders.3.log"
    monkeypatch.setattr(Path, "glob", lambda self, pattern: [*glob(self, pattern), gone])
    assert len(web.get("/v1/jobs/orders/logs")["logs"]) == 2
    there, described = log_files("orders")[0], past._described

    def delete(file: LogFile) -> dict[str, Any] | None:
        about = described(file)
        if file == there:
            file.path.unlink(missing_ok=True)
        return about

    monkeypatch.setattr(past, "_described", delete)
    said = web.ask("GET", "/v1/jobs/orders/logs")
    assert (said.code, said.errors[0][:31]) == (404, "the log was deleted just now, s")
    assert len(web.get("/v1/jobs/orders/logs")["logs"]) == 1


def test_the_last_lines_of_a_log_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, reads = tmp_path / "orders.1.log", list[int]()
    path.write_text("".join(f"{number:>99}\n" for number in range(10_000)))
    monkeypatch.setattr(logfiles, "READ_BYTES", 1_000)
    kept = logfiles._last

    class Counted(io.FileIO):
        def read(self, size: int | None = -1, /) -> bytes:
            found = super().read(size)
            reads.append(len(found))
            return found

    with Counted(path) as file:
        found = kept(file, path.stat().st_size, 5_000)
    assert [int(line) for line in found] == list(range(5_000, 10_000))
    assert sum(reads) <= 5_010 * 100
