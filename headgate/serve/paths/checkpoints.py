"""Checkpoints and savepoints of a job, and figures that are made of them."""

from typing import Annotated, Any

from fastapi import FastAPI, Path, Query

from headgate.core.ids import CheckpointId
from headgate.run.past import JobPast
from headgate.run.savepoints import path_of
from headgate.serve import checkpoints as shaped, models, shapes
from headgate.serve.asking import PAGE, PAGE_MAX, RequestRefused, chosen, known
from headgate.serve.catalog import JobCatalog, ServedJob
from headgate.view.history import LineView

Limit = Annotated[int, Query(ge=1, le=PAGE_MAX)]
Before = Annotated[int | None, Query(ge=0)]
Number = Annotated[int, Path(ge=0)]


def add(app: FastAPI, catalog: JobCatalog) -> None:
    """Add the paths."""

    @app.get("/v1/jobs/{jid}/checkpoints", response_model=models.CheckpointingStatistics)
    def checkpoints(jid: str, limit: Limit = PAGE, before: Before = None, summary: bool = True) -> Any:  # noqa: FBT001, FBT002
        job = known(catalog, jid)
        view = job.see().view
        with job.reading.past() as past:
            page = past.checkpoints(limit, before)
            return {
                "counts": {**past.counts(), "restored": past.restored()[0]},
                "summary": shaped.summary(past.summary()) if summary else None,
                "latest": _latest(job, view, past),
                "history": [_statistics(job, view, one) for one in reversed(page)],
                "next_before": page[0]["id"] if page and past.checkpoints(1, page[0]["id"]) else None,
                "unreadable": past.history.unreadable(),
            }

    @app.get("/v1/jobs/{jid}/checkpoints/config", response_model=models.CheckpointConfig)
    def config(jid: str) -> Any:
        job = known(catalog, jid)
        found = shaped.config(job.described())
        if found is None:
            raise RequestRefused(
                404, f"nobody has written down how job {job.name} takes checkpoints: an earlier release ran it"
            )
        return found

    @app.get("/v1/jobs/{jid}/checkpoints/details/{number}", response_model=models.CheckpointStatistics)
    def details(jid: str, number: Number) -> Any:
        job = known(catalog, jid)
        view = job.see().view
        return _statistics(job, view, _one(job, number))

    @app.get("/v1/jobs/{jid}/checkpoints/details/{number}/subtasks/{task}", response_model=models.TaskCheckpointDetails)
    def task_details(jid: str, number: Number, task: str) -> Any:
        job = known(catalog, jid)
        one = _one(job, number)
        if task not in one["tasks"]:
            there = ", ".join(one["tasks"]) or "none"
            raise RequestRefused(404, f"nothing is known of task {task} in checkpoint {number}; known tasks: {there}")
        with job.reading.past() as past:
            parts = past.partitions(number, task)
        return shaped.task_details(one, task, parts)

    @app.get("/v1/jobs/{jid}/savepoints", response_model=models.Savepoints)
    def savepoints(jid: str) -> Any:
        job = known(catalog, jid)
        view = job.see().view
        with job.reading.past() as past:
            found, gone = past.savepoints()
            labels = past.labels()
        return {
            "savepoints": [
                {
                    **_statistics(job, view, {**one, "kind": "savepoint"}),
                    "carried_off": one["id"] in gone,
                    "label": labels.get(one["id"]),
                }
                for one in reversed(found)
            ]
        }

    @app.get("/v1/jobs/{jid}/metrics", response_model=list[models.MetricValue])
    def metrics(jid: str, get: str | None = None) -> Any:
        job = known(catalog, jid)
        view = job.see().view
        with job.reading.past() as past:
            newest = past.newest()
            last = max(
                (one for one in (newest["completed"], newest["savepoint"]) if one is not None),
                key=lambda one: int(one["id"]),
                default=None,
            )
            counts = past.counts()
            _, restored = past.restored()
            metadata = None if last is None else past.metadata_bytes(last["id"])
        newest_one = None if last is None else _statistics(job, view, last)
        restored_ms = None if restored is None else restored.get("at")
        return chosen(shapes.job_metrics(view, counts, newest_one, restored_ms, metadata), get)


def _one(job: ServedJob, number: int) -> LineView:
    with job.reading.past() as past:
        one = past.checkpoint(number)
    if one is None:
        raise RequestRefused(404, f"checkpoint {number} of job {job.name} is not known")
    return one


def _latest(job: ServedJob, view: LineView, past: JobPast) -> dict[str, Any]:
    newest = {name: None if one is None else _statistics(job, view, one) for name, one in past.newest().items()}
    return {**newest, "restored": _restored(job, past)}


def _restored(job: ServedJob, past: JobPast) -> dict[str, Any] | None:
    _, line = past.restored()
    if line is None:
        return None
    base = past.checkpoint(line["base"])
    savepoint = base is not None and base["kind"] == "savepoint"
    return {
        "id": line["base"],
        "restore_timestamp": line.get("at"),
        "is_savepoint": savepoint,
        "external_path": path_of(job.uri, CheckpointId(line["base"])) if savepoint else None,
        "generation": line.get("generation"),
    }


def _statistics(job: ServedJob, view: LineView, one: LineView) -> dict[str, Any]:
    progress = next((each for each in view.get("in_progress", ()) if each["id"] == one["id"]), None)
    return shaped.statistics(one, path_of(job.uri, CheckpointId(one["id"])), len(view["tasks"]) or None, progress)
