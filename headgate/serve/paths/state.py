"""The state of kept checkpoints: by operator and key, and what differs between two.

One rule: which operators there are the storage says; rows are read by the session of the job, if it runs.
"""

from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Query
from starlette.responses import JSONResponse

from headgate.browse.reader import LIMIT, LIMIT_MAX, TIMEOUT_S, StateQuestion, StateReader, question
from headgate.errors import UserError
from headgate.serve import models
from headgate.serve.asking import RequestRefused, known
from headgate.serve.catalog import JobCatalog, ServedJob
from headgate.serve.paths.inspection import forward

Checkpoint = Annotated[int | None, Query(ge=0)]
KeyQuery = Annotated[list[str] | None, Query(alias="key")]
Rows = Annotated[int, Query(ge=1, le=LIMIT_MAX)]
Seconds = Annotated[float, Query(gt=0, le=600)]


@dataclass(frozen=True)
class Parameters:
    """What both questions about rows take."""

    checkpoint: Checkpoint = None
    operator: str | None = None
    state: str | None = None
    key: KeyQuery = None
    limit: Rows = LIMIT
    timeout_s: Seconds = TIMEOUT_S


Given = Annotated[Parameters, Depends()]


def add(app: FastAPI, catalog: JobCatalog) -> None:
    """Add the paths. Handlers are threads of their own: Spark takes its time."""

    @app.get("/v1/jobs/{jid}/state", response_model=models.KeptState)
    def state(jid: str, checkpoint: Checkpoint = None) -> Any:
        number, found = _operators(known(catalog, jid), checkpoint)
        return {"checkpoint": number, "operators": [each.told() for each in found]}

    @app.get("/v1/jobs/{jid}/state/rows", response_model=models.StateRows)
    def rows(jid: str, given: Given) -> Any:
        job = known(catalog, jid)
        number, asked = _question(job, given)
        reader = _reader(job)
        if reader is None:
            return _elsewhere(job, "rows", {"checkpoint": number}, asked)
        found, more = _read(lambda: reader.rows(number, asked))
        about = {"checkpoint": number, "operator": asked.operator.name, "state": asked.state}
        return {**about, "rows": found, "more": more}

    @app.get("/v1/jobs/{jid}/state/difference", response_model=models.StateDifference)
    def difference(jid: str, before: Annotated[int, Query(ge=0)], given: Given) -> Any:
        job = known(catalog, jid)
        number, asked = _question(job, given)
        reader = _reader(job)
        if reader is None:
            return _elsewhere(job, "difference", {"checkpoint": number, "before": before}, asked)
        found, more = _read(lambda: reader.difference(before, number, asked))
        about = {"checkpoint": number, "before": before, "operator": asked.operator.name, "state": asked.state}
        return {**about, "changes": found, "more": more}


def _operators(job: ServedJob, checkpoint: int | None) -> Any:
    return _read(lambda: job.reading.state_operators(checkpoint), code=404)


def _question(job: ServedJob, given: Parameters) -> tuple[int, StateQuestion]:
    number, there = _operators(job, given.checkpoint)
    return number, _read(
        lambda: question(
            there,
            operator=given.operator,
            state=given.state,
            keys=given.key or (),
            limit=given.limit,
            timeout_s=given.timeout_s,
            where=f"checkpoint {number}",
        )
    )


def _reader(job: ServedJob) -> StateReader | None:
    """Who reads. None: the process that runs the job does."""
    if job.inspection is None:
        return None
    if job.inspection.state is None:
        raise RequestRefused(409, f"job {job.name} has no Spark session yet: try again when it runs")
    return job.inspection.state


def _elsewhere(job: ServedJob, what: str, which: dict[str, int], asked: StateQuestion) -> JSONResponse:
    given = [*which.items(), ("operator", asked.operator.name), ("state", asked.state)]
    given += [("key", f"{name}={value}") for name, value in asked.keys]
    given += [("limit", asked.limit), ("timeout_s", asked.timeout_s)]
    advice = f"`headgate state {job.name}` reads the state of a job that does not run"
    return forward(job, f"/state/{what}", given, wait_s=asked.timeout_s, advice=advice)


def _read(ask: Any, code: int = 400) -> Any:
    try:
        return ask()
    except UserError as error:
        raise RequestRefused(code, str(error)) from error
