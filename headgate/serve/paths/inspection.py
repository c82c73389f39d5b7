"""Looking into a job that runs: flame graphs, and what a checkpoint under way waits for.

One rule: the process that runs the job looks; any other has it answer. Both kinds of token may: what it costs is
bounded, whoever asks and however often.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlencode

from fastapi import FastAPI, Path
from starlette.responses import JSONResponse

from headgate.profile import sampling
from headgate.profile.sampling import Profile, Subject
from headgate.profile.stacks import FlameGraphType, tree
from headgate.profile.workers import NO_WORKERS
from headgate.serve import models
from headgate.serve.asking import RequestRefused, known
from headgate.serve.catalog import JobCatalog, ServedJob

if TYPE_CHECKING:  # It knows Spark, which a server for storages does not need.
    from headgate.run.inspecting import Inspection

Number = Annotated[int, Path(ge=0)]
FORWARDED_S = 30.0
"""The process of the job has this long to look at its threads and workers."""


def add(app: FastAPI, catalog: JobCatalog) -> None:
    """Add the paths. Handlers are threads of their own: they look at processes, or ask another."""

    @app.get("/v1/jobs/{jid}/flamegraph", response_model=models.FlameGraph)
    def flamegraph(jid: str, type: str = "full", subject: str = "driver") -> Any:  # noqa: A002 - Flink's name
        job = known(catalog, jid)
        kind = _one_of(FlameGraphType, "type", type.lower())
        of = _one_of(Subject, "subject", subject)
        if job.inspection is None:
            return forward(job, "/flamegraph", [("type", kind.value), ("subject", of.value)])
        found, sampling_now = job.inspection.profiler.look(of)
        return _flame_graph(kind, of, found, sampling_now=sampling_now)

    @app.get("/v1/jobs/{jid}/checkpoints/details/{number}/waiting", response_model=models.CheckpointWaiting)
    def waiting(jid: str, number: Number, stacks: bool = False) -> Any:  # noqa: FBT001, FBT002 - a query parameter
        job = known(catalog, jid)
        if job.inspection is None:
            return forward(job, f"/checkpoints/details/{number}/waiting", [("stacks", str(stacks).lower())])
        return _waiting(job, job.inspection, number, stacks=stacks)


def _waiting(job: ServedJob, inspection: "Inspection", number: int, *, stacks: bool) -> Mapping[str, Any]:
    view = job.see().view
    progress = next((each for each in view.get("in_progress", ()) if each["id"] == number), None)
    if progress is not None:
        return inspection.waiting(progress, view["tasks"], stacks=stacks)
    with job.reading.past() as past:
        if past.checkpoint(number) is None:
            raise RequestRefused(404, f"checkpoint {number} of job {job.name} is not known")
    return _nothing(number)


def _nothing(number: int) -> Mapping[str, Any]:
    return {"id": number, "waiting_for": [], **NO_WORKERS}


def _flame_graph(
    kind: FlameGraphType, subject: Subject, found: Profile | None, *, sampling_now: bool
) -> dict[str, Any]:
    failed = found is not None and found.why is not None
    seen = None if found is None or failed else found
    return {
        "endTimestamp": None if seen is None else seen.ended_ms,
        "data": None if seen is None else tree(seen.stacks.counted(kind)),
        "type": kind.value,
        "subject": subject.value,
        "status": "SAMPLING" if sampling_now else "FAILED" if failed else "COMPLETED",
        "samples": None if seen is None else seen.samples,
        "took_ms": None if seen is None else seen.ended_ms - seen.begun_ms,
        "refresh_ms": round(sampling.REFRESH_S * 1000),
        "why": found.why if failed and found is not None else None,
    }


def _one_of(kinds: Any, name: str, given: str) -> Any:
    try:
        return kinds(given)
    except ValueError:
        there = ", ".join(each.value for each in kinds)
        raise RequestRefused(400, f"{name}={given[:40]}: there is no such {name}; there are: {there}") from None


def forward(
    job: ServedJob,
    path: str,
    asked: Sequence[tuple[str, Any]],
    *,
    wait_s: float = FORWARDED_S,
    advice: str = "only a job that runs can be looked into",
) -> JSONResponse:
    """Have the process that runs a job answer."""
    found = job.forward("GET", f"{path}?{urlencode(asked)}", None, wait_s)
    if found is None:
        raise RequestRefused(409, f"job {job.name} is not running here: {advice}")
    return JSONResponse(found.data, found.code)
