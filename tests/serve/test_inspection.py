"""Looking into a job that runs: flame graphs, and what a checkpoint waits for."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from headgate.profile import sampling, workers
from headgate.profile.sampling import NO_JVM, Profiler
from headgate.run.inspecting import LOOKING, Inspection
from headgate.store.jobstore import JobStore
from tests.cli.live import Job
from tests.serve.web import Web, web_of


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "SAMPLES", 3)
    monkeypatch.setattr(sampling, "INTERVAL_MS", 1)


def sampled(web: Web, asked: str) -> Any:
    """A flame graph, once it is there."""
    found: Any = None
    for _ in range(6000):
        found = web.get(f"/v1/jobs/orders/flamegraph{asked}")
        if found["status"] != "SAMPLING":
            return found
        assert (found["data"], found["endTimestamp"]) == (None, None)
        threading.Event().wait(0.01)
    raise AssertionError(found)


def test_a_flame_graph_of_the_jobs_own_process_has_its_threads(job: Job, store: JobStore) -> None:
    assert job.server is not None
    web = web_of(store, "read_token")  # It only reads, and may look.
    first = web.get("/v1/jobs/orders/flamegraph?type=FULL&subject=driver-python")
    assert (first["status"], first["type"], first["subject"]) == ("SAMPLING", "full", "driver-python")
    full = sampled(web, "?subject=driver-python")
    assert (full["status"], full["samples"], full["why"]) == ("COMPLETED", 3, None)
    assert 0 <= time.time() * 1000 - full["endTimestamp"] < 600_000
    root = full["data"]
    assert root["value"] == sum(thread["value"] for thread in root["children"])
    threads = {thread["name"]: thread for thread in root["children"]}
    assert threads["MainThread"]["value"] == 3
    on, off = (sampled(web, f"?type={kind}&subject=driver-python") for kind in ("on_cpu", "off_cpu"))
    assert on["data"]["value"] + off["data"]["value"] == root["value"]
    assert on["endTimestamp"] == off["endTimestamp"] == full["endTimestamp"], "all three are of the same samples"


def test_a_subject_that_cannot_be_sampled_says_why(web: Web) -> None:
    found = sampled(web, "")
    assert (found["status"], found["subject"], found["data"], found["why"]) == ("FAILED", "driver", None, NO_JVM)


def test_what_is_asked_for_wrongly_is_refused_in_one_line(web: Web) -> None:
    for asked, words in (
        ("?type=mixed", "type=mixed: there is no such type; there are: full, on_cpu, off_cpu"),
        (
            "?subject=executor",
            "subject=executor: there is no such subject; there are: driver, driver-python, python-workers",
        ),
    ):
        said = web.ask("GET", f"/v1/jobs/orders/flamegraph{asked}")
        assert (said.code, said.errors) == (400, [words])


def test_with_the_job_its_profiler_ends(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = threading.Event()
    monkeypatch.setattr(Profiler, "close", lambda _: closed.set())
    job.server.close()
    assert closed.is_set()


def test_a_checkpoint_under_way_waits_for_tasks_without_a_snapshot(job: Job, web: Web) -> None:
    job.core.tell(job.core.committed("a", 4))
    job.core.ask()
    found = web.get("/v1/jobs/orders/checkpoints/details/1/waiting")
    [one] = found["waiting_for"]
    assert (found["id"], one["task"], one["cut"], one["batch"]) == (1, "a", True, 5)
    assert (one["doing"], one["for_ms"], one["place"], one["stack"]) == (None, None, None, [])
    assert (found["workers"], found["workers_missing"]) == ([], None)


def test_workers_are_looked_at_when_stacks_are_asked_for(job: Job, web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    job.core.ask()
    monkeypatch.setattr(workers, "_program", lambda: "/nowhere/py-spy")
    monkeypatch.setattr(workers, "of_this_job", lambda: [1])
    found = web.get("/v1/jobs/orders/checkpoints/details/1/waiting?stacks=true")
    assert found["workers"] == []
    assert found["workers_missing"].startswith("/nowhere/py-spy cannot be run: No such file or directory: ")


def test_nobody_waits_while_another_looks_at_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    here, go_on, looks = threading.Event(), threading.Event(), list[int]()

    def look() -> list[workers.PythonStack]:
        looks.append(1)
        here.set()
        assert go_on.wait(60)
        return [workers.PythonStack(7, "Python worker", "MainThread", True, ("f (a.py:1)",))]

    monkeypatch.setattr(workers, "look", look)
    inspection = Inspection()
    with ThreadPoolExecutor(1) as first:
        looking = first.submit(inspection._look_at_workers)
        assert here.wait(60)
        for _ in range(50):
            assert inspection._look_at_workers() == {"workers": [], "workers_missing": LOOKING}
        go_on.set()
        found = looking.result(60)
    assert [each["pid"] for each in found["workers"]] == [7]
    assert inspection._look_at_workers() == found
    assert len(looks) == 1


def test_all_workers_together_are_looked_at_for_a_while_and_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []

    def dump(_: str, __: int, timeout_s: float) -> list[workers.PythonStack]:
        asked.append(timeout_s)
        time.sleep(min(timeout_s, 0.1))
        return []

    monkeypatch.setattr(workers, "LOOK_S", 0.25)
    monkeypatch.setattr(workers, "_program", lambda: "py-spy")
    monkeypatch.setattr(workers, "_dump", dump)
    monkeypatch.setattr(workers, "of_this_job", lambda: list(range(workers.PROCESSES_MAX)))
    assert workers.look() == []
    assert 1 <= len(asked) <= 3
    assert max(asked) <= 0.25


def test_a_checkpoint_that_is_over_waits_for_nothing_and_another_is_not_known(
    job: Job, web: Web, store: JobStore
) -> None:
    job.core.ask()
    job.core.complete(1)
    store.append_history(job.core.lines)
    assert web.get("/v1/jobs/orders/checkpoints/details/1/waiting?stacks=true")["waiting_for"] == []
    said = web.ask("GET", "/v1/jobs/orders/checkpoints/details/9/waiting")
    assert (said.code, said.errors) == (404, ["checkpoint 9 of job orders is not known"])
