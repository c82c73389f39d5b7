"""What a job is asked to do, and what became of it."""

import asyncio
import contextlib
import time
from typing import Annotated, Any
from urllib.parse import quote

from anyio import CapacityLimiter, to_thread
from fastapi import FastAPI, Path, Query
from fastapi.responses import JSONResponse

from headgate.core.effects import Outcome
from headgate.core.ids import CheckpointId
from headgate.errors import InvalidOption
from headgate.redact import redact
from headgate.run.decisions import checked_reason
from headgate.run.requests import SAVING, Operation, RequestConflict, Requests, TooManyRequests
from headgate.run.savepoints import path_of
from headgate.serve import models
from headgate.serve.asking import RequestRefused, job_of
from headgate.serve.catalog import JobCatalog, ServedJob

WAIT_MAX_S = 60.0
FORWARDED_MAX = 32
"""How many questions wait at once for other processes to answer."""
Number = Annotated[int, Path(ge=0)]
Wait = Annotated[float, Query(ge=0, le=WAIT_MAX_S)]
After = Annotated[int, Query(ge=0)]


def add(app: FastAPI, catalog: JobCatalog) -> None:
    """Add the paths."""
    asking = _Asking(catalog)
    begun: dict[str, Any] = {"status_code": 202, "response_model": models.TriggerResponse}

    @app.post("/v1/jobs/{jid}/checkpoints", **begun)
    async def checkpoint(jid: str, body: models.CheckpointTrigger | None = None) -> Any:
        return await asking.begin(jid, "checkpoint", body or models.CheckpointTrigger(), "POST", "/checkpoints")

    @app.post("/v1/jobs/{jid}/savepoints", **begun)
    async def savepoint(jid: str, body: models.SavepointTrigger | None = None) -> Any:
        asked = body or models.SavepointTrigger()
        command = "stop" if asked.cancel_job else "savepoint"
        return await asking.begin(jid, command, asked, "POST", "/savepoints", target=asked.target_directory)

    @app.post("/v1/jobs/{jid}/stop", **begun)
    async def stop(jid: str, body: models.StopTrigger | None = None) -> Any:
        asked = body or models.StopTrigger()
        return await asking.begin(jid, "stop", asked, "POST", "/stop", target=asked.targetDirectory, drain=asked.drain)

    @app.post("/v1/jobs/{jid}/cancel", **begun)
    async def cancel(jid: str, body: models.CancelTrigger | None = None) -> Any:
        asked = body or models.CancelTrigger()
        reason = ""
        if asked.abandon:
            try:
                reason = checked_reason(asked.reason, "giving up commits")
            except InvalidOption as error:
                raise RequestRefused(400, f"reason: {error}") from error
        return await asking.begin(jid, "cancel", asked, "POST", "/cancel", abandon=asked.abandon, reason=reason)

    @app.post("/v1/jobs/{jid}/checkpoints/details/{number}/hold", **begun)
    async def hold(jid: str, number: Number, body: models.PlainTrigger | None = None) -> Any:
        path = f"/checkpoints/details/{number}/hold"
        return await asking.begin(jid, "hold", body or models.PlainTrigger(), "POST", path, checkpoint=number)

    @app.post("/v1/jobs/{jid}/checkpoints/details/{number}/release", **begun)
    async def release(jid: str, number: Number, body: models.PlainTrigger | None = None) -> Any:
        path = f"/checkpoints/details/{number}/release"
        return await asking.begin(jid, "release", body or models.PlainTrigger(), "POST", path, checkpoint=number)

    @app.post("/v1/jobs/{jid}/savepoints/details/{number}/label", **begun)
    async def label(jid: str, number: Number, body: models.LabelTrigger) -> Any:
        path = f"/savepoints/details/{number}/label"
        return await asking.begin(jid, "label", body, "POST", path, checkpoint=number, label=body.label)

    @app.delete("/v1/jobs/{jid}/savepoints/details/{number}", **begun)
    async def delete(jid: str, number: Number, body: models.PlainTrigger | None = None) -> Any:
        path = f"/savepoints/details/{number}"
        return await asking.begin(jid, "delete", body or models.PlainTrigger(), "DELETE", path, checkpoint=number)

    @app.get("/v1/jobs/{jid}/operations", response_model=models.Operations)
    async def operations(jid: str) -> Any:
        job = await job_of(catalog, jid)
        if job.requests is None:
            return await asking.forward(job, "GET", "/operations", None, 0)
        return {"operations": [_told(job, each) for each in job.requests.all()]}

    for folder in ("operations", "checkpoints", "savepoints"):  # The last two are Flink's.

        @app.get(
            f"/v1/jobs/{{jid}}/{folder}/{{request}}",
            response_model=models.OperationStatus,
            operation_id=f"operation_under_{folder}",
        )
        async def operation(jid: str, request: str, wait: Wait = 0, after: After = 1 << 30) -> Any:
            job = await job_of(catalog, jid)
            if job.requests is None:
                path = f"/operations/{quote(request, safe='')}?wait={wait}&after={after}"
                return await asking.forward(job, "GET", path, None, wait)
            found = await _wait(job.requests, request, wait, after)
            if found is None:
                raise RequestRefused(
                    404, f"operation {request} is not known: the last ones are under /v1/jobs/{jid}/operations"
                )
            if found.reply is not None:
                job.requests.took(request)
            return _told(job, found)


class _Asking:
    """How a job is asked: here, or through the process that runs it."""

    def __init__(self, catalog: JobCatalog) -> None:
        self._catalog = catalog
        self._limiter: CapacityLimiter | None = None

    async def begin(self, jid: str, command: str, body: Any, method: str, path: str, **arguments: Any) -> Any:
        """Ask for something to be done."""
        job = await job_of(self._catalog, jid)
        if job.requests is None:
            return await self.forward(job, method, path, body.model_dump(by_alias=True, exclude_none=True), 0)
        try:
            name = job.requests.begin(command, name=body.triggerId, timeout_s=body.timeout_s, **arguments)
        except RequestConflict as error:
            raise RequestRefused(409, str(error)) from error
        except TooManyRequests as error:
            raise RequestRefused(429, str(error)) from error
        return {"request-id": name}

    async def forward(self, job: ServedJob, method: str, path: str, body: Any, wait_s: float) -> JSONResponse:
        """Have the process that runs a job answer, in a thread of its own."""
        self._limiter = self._limiter or CapacityLimiter(FORWARDED_MAX)
        found = await to_thread.run_sync(job.forward, method, path, body, wait_s, limiter=self._limiter)
        if found is None:
            raise RequestRefused(409, f"job {job.name} is not running here: start it with `headgate run`")
        return JSONResponse(found.data, found.code)


async def _wait(requests: Requests, name: str, wait_s: float, after: int) -> Operation | None:
    """An operation, when it is over or has had more than ``after`` notices, or when this time is over."""
    loop, changed = asyncio.get_running_loop(), asyncio.Event()

    def wake() -> None:
        with contextlib.suppress(RuntimeError):  # The loop has ended, and nobody waits any more.
            loop.call_soon_threadsafe(changed.set)

    until_s = time.monotonic() + wait_s
    leave = requests.listen(wake)
    try:
        while True:
            changed.clear()
            found = requests.find(name)
            now_s = time.monotonic()
            if found is None or found.reply is not None or found.notices > after or now_s >= until_s:
                return found
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(until_s, found.deadline_s) - now_s):
                    await changed.wait()
    finally:
        leave()


def _told(job: ServedJob, operation: Operation) -> dict[str, Any]:
    reply = operation.reply
    result = None
    if reply is not None:
        done = reply.outcome is Outcome.DONE
        saved = done and operation.command in SAVING and reply.checkpoint is not None
        place = reply.location or path_of(job.uri, CheckpointId(reply.checkpoint or 0))
        result = {
            "checkpointId": reply.checkpoint,
            "location": redact(place) if saved else None,
            "failure-cause": None if done else {"class": reply.outcome.value, "stack-trace": reply.text},
        }
    return {
        "status": {"id": "IN_PROGRESS" if reply is None else "COMPLETED"},
        "operation": result,
        "request-id": operation.name,
        "kind": operation.command,
        "checkpoint": operation.checkpoint,
        "outcome": None if reply is None else reply.outcome.value,
        "text": operation.text,
        "notices": operation.notices,
        "begun_ms": operation.begun_ms,
        "ended_ms": operation.ended_ms,
    }
