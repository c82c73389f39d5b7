"""What all handlers share: finding a job, asking it without holding up others, and refusing."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from starlette.concurrency import run_in_threadpool

from headgate.serve import shapes
from headgate.serve.catalog import JobCatalog, Seen, ServedJob, now_ms

Found = TypeVar("Found")

PAGE = 50
PAGE_MAX = 1000
LINES_MAX = 20_000
"""As many events are read at most to make a page of something that is told by several."""


class RequestRefused(Exception):
    """What is asked for cannot be had, and why."""

    def __init__(self, code: int, why: str) -> None:
        super().__init__(why)
        self.code = code
        self.why = why


def known(catalog: JobCatalog, jid: str) -> ServedJob:
    """A job by its id."""
    found = catalog.find(jid)
    if found is None:
        there = ", ".join(job.jid for job in catalog.jobs()[:20]) or "none"
        raise RequestRefused(404, f"there is no job {jid}; there are: {there}")
    return found


async def job_of(catalog: JobCatalog, jid: str) -> ServedJob:
    """The same, without holding up others while a storage is listed."""
    return known(catalog, jid) if catalog.at_hand else await run_in_threadpool(known, catalog, jid)


async def seen(job: ServedJob) -> Seen:
    """The status of a job, without holding up others."""
    return await quickly(job, job.see)


async def quickly(job: ServedJob, ask: Callable[[], Found]) -> Found:
    """Ask a job something that is at hand, or have a thread ask."""
    return ask() if job.at_hand else await run_in_threadpool(ask)


async def details(job: ServedJob) -> dict[str, Any]:
    """All that a page on one job begins with."""
    found, described = await quickly(job, lambda: (job.see(), job.described()))
    return shapes.details(job.jid, found.view, described, job.storage, now_ms(), live=found.live)


async def vertices(job: ServedJob) -> list[dict[str, Any]]:
    """The tasks of a job."""
    found, described = await quickly(job, lambda: (job.see(), job.described()))
    return shapes.vertices(found.view, described, now_ms())


def one_of(vertices: list[dict[str, Any]], task: str) -> Mapping[str, Any]:
    """A task by its id."""
    for vertex in vertices:
        if vertex["id"] == task:
            return vertex
    there = ", ".join(vertex["id"] for vertex in vertices[:20]) or "none"
    raise RequestRefused(404, f"there is no task {task}; there are: {there}")


def chosen(metrics: list[dict[str, Any]], get: str | None) -> list[dict[str, Any]]:
    """The figures that are asked for; all, if none is named."""
    if get is None:
        return metrics
    wanted = get.split(",")
    return [each for each in metrics if each["id"] in wanted]
