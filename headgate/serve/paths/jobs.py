"""Overview, jobs, one job: its plan, tasks, figures, settings."""

import time
from typing import Any

from fastapi import FastAPI, Request
from starlette.concurrency import run_in_threadpool

import headgate
from headgate.checksums import in_parallel
from headgate.serve import models, shapes
from headgate.serve.access import Right
from headgate.serve.asking import chosen, details, job_of, one_of, quickly, seen, vertices
from headgate.serve.catalog import JobCatalog, ServedJob, now_ms

REFRESH_MS = 1_000
AT_ONCE = 8
"""How many storages are read at once for a list of jobs."""


def add(app: FastAPI, catalog: JobCatalog) -> None:
    """Add the paths."""

    @app.get("/v1/overview", response_model=models.Overview)
    async def overview() -> Any:
        found = await _summaries(catalog)
        return shapes.overview(
            found, headgate.__version__, catalog.storages, catalog.unreachable, catalog.process(), now_ms()
        )

    @app.get("/v1/config", response_model=models.DashboardConfiguration)
    async def config(request: Request) -> Any:
        local = time.localtime()
        return {
            "refresh-interval": REFRESH_MS,
            "timezone-name": local.tm_zone,
            "timezone-offset": local.tm_gmtoff * 1000,
            "headgate-version": headgate.__version__,
            "features": {
                "web-cancel": request.state.right is Right.COMMAND,
                "web-history": catalog.shows_ended,
                "web-submit": False,
                "web-rescale": False,
            },
            "process": catalog.process(),
        }

    @app.get("/v1/jobs", response_model=models.Jobs)
    async def jobs() -> Any:
        found = await _summaries(catalog)
        return {"jobs": sorted(found, key=lambda each: (not each["live"], each["name"], each["jid"]))}

    @app.get("/v1/jobs/{jid}", response_model=models.JobDetails)
    async def job(jid: str) -> Any:
        return await details(await job_of(catalog, jid))

    @app.get("/v1/jobs/{jid}/status", response_model=models.JobStatus)
    async def status(jid: str) -> Any:
        view = (await seen(await job_of(catalog, jid))).view
        return {"status": shapes.STATES[view["state"]], "view": view}

    @app.get("/v1/jobs/{jid}/plan", response_model=models.JobPlan)
    async def plan(jid: str) -> Any:
        one = await job_of(catalog, jid)
        return {"plan": shapes.plan(jid, one.name, await quickly(one, one.described))}

    @app.get("/v1/jobs/{jid}/config", response_model=models.JobConfiguration)
    async def job_config(jid: str) -> Any:
        one = await job_of(catalog, jid)
        return shapes.configuration(jid, one.name, await quickly(one, one.described))

    @app.get("/v1/jobs/{jid}/resource-requirements", response_model=dict[str, models.VertexResourceRequirements])
    async def requirements(jid: str) -> Any:
        found = await vertices(await job_of(catalog, jid))
        bounds = {vertex["id"]: dict.fromkeys(("lowerBound", "upperBound"), vertex["parallelism"]) for vertex in found}
        return {task: {"parallelism": each} for task, each in bounds.items()}

    @app.get("/v1/jobs/{jid}/vertices", response_model=list[models.Vertex])
    async def tasks(jid: str) -> Any:
        return await vertices(await job_of(catalog, jid))

    @app.get("/v1/jobs/{jid}/vertices/{task}", response_model=models.Vertex)
    async def task(jid: str, task: str) -> Any:
        return one_of(await vertices(await job_of(catalog, jid)), task)

    @app.get("/v1/jobs/{jid}/vertices/{task}/backpressure", response_model=models.VertexBackpressure)
    async def task_backpressure(jid: str, task: str) -> Any:
        return shapes.backpressure(one_of(await vertices(await job_of(catalog, jid)), task), now_ms())

    @app.get("/v1/jobs/{jid}/vertices/{task}/watermarks", response_model=list[models.MetricValue])
    async def task_watermarks(jid: str, task: str) -> Any:
        vertex = one_of(await vertices(await job_of(catalog, jid)), task)
        return [{"id": "currentInputWatermark", "value": vertex["watermark_ms"]}]

    @app.get("/v1/jobs/{jid}/vertices/{task}/metrics", response_model=list[models.MetricValue])
    async def task_metrics(jid: str, task: str, get: str | None = None) -> Any:
        return chosen(shapes.vertex_metrics(one_of(await vertices(await job_of(catalog, jid)), task)), get)

    @app.get("/v1/jobs/{jid}/backpressure", response_model=models.JobBackpressure)
    async def backpressure(jid: str) -> Any:
        found = await vertices(await job_of(catalog, jid))
        return {"vertices": [shapes.backpressure(vertex, now_ms()) for vertex in found]}

    @app.get("/v1/jobs/{jid}/watermarks", response_model=list[models.MetricValue])
    async def watermarks(jid: str) -> Any:
        found = await vertices(await job_of(catalog, jid))
        return [{"id": f"{vertex['id']}.currentInputWatermark", "value": vertex["watermark_ms"]} for vertex in found]


async def _summaries(catalog: JobCatalog) -> list[dict[str, Any]]:
    if catalog.at_hand:
        return [_summary(job) for job in catalog.jobs()]
    return await run_in_threadpool(lambda: list(in_parallel(_summary, catalog.jobs(), AT_ONCE)))


def _summary(job: ServedJob) -> dict[str, Any]:
    found = job.see()
    return shapes.summary(job.jid, found.view, job.storage, now_ms(), live=found.live)
