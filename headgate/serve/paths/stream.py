"""What happens, as it happens: server-sent events.

One rule: nothing is computed while nobody listens, and a listener that does not keep up is told what it missed.
"""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import ExitStack
from typing import Any

from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from headgate.serve.asking import RequestRefused, details, job_of
from headgate.serve.broadcast import LISTENERS_MAX, EventListener
from headgate.serve.catalog import JobCatalog, ServedJob

EVERY_S = 1.0
"""The state of the job is told no more often than this."""
STREAMS_MAX = 64
"""How many streams one server has, of all its jobs. They are requests too, and leave room for others."""
QUIET_S = 15.0
"""After this time without anything a comment is sent, so that whoever is between does not close the connection."""
CLOCKS = ("now", "duration", "uptime", "last-modification")
"""What changes with every tick of the clock, and is no news. Of a task its duration, and how long it was idle."""
IDLE = "accumulated-idle-time"


def add(app: FastAPI, catalog: JobCatalog) -> None:
    """Add the path."""
    open_ones: set[EventListener] = set()

    @app.get(
        "/v1/jobs/{jid}/stream",
        response_class=StreamingResponse,
        responses={200: {"content": {"text/event-stream": {}}, "description": "Events, as docs/rest.md lists them."}},
    )
    async def stream(jid: str) -> StreamingResponse:
        job = await job_of(catalog, jid)
        loop, woken = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            with contextlib.suppress(RuntimeError):  # The loop has ended, and nobody listens any more.
                loop.call_soon_threadsafe(woken.set)

        with ExitStack() as leaving:
            if len(open_ones) >= STREAMS_MAX:
                raise RequestRefused(503, f"{STREAMS_MAX} streams are open already: close one, or try again later")
            listener = job.broadcast.join(wake)
            if listener is None:
                raise RequestRefused(503, f"{LISTENERS_MAX} listen to job {job.name} already: try again later")
            leaving.callback(job.broadcast.leave, listener)
            open_ones.add(listener)
            leaving.callback(open_ones.discard, listener)
            leaving.callback(await run_in_threadpool(job.follow))
            return _Stream(_live(job, listener, woken), leaving.pop_all())


class _Stream(StreamingResponse):
    """Events, and what is to be done when nobody takes them any more: also where nobody has begun to."""

    media_type = "text/event-stream"

    def __init__(self, events: AsyncIterator[str], leaving: ExitStack) -> None:
        super().__init__(events)
        self._leaving = leaving

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._leaving:
            await super().__call__(scope, receive, send)


async def _live(job: ServedJob, listener: EventListener, woken: asyncio.Event) -> AsyncIterator[str]:
    told: dict[str, Any] | None = None
    due_s = spoke_s = time.monotonic()
    while True:
        woken.clear()
        lines, missed, over = listener.take()
        if missed:
            yield _event("missed", {"events": missed})
        for line in lines:
            yield _event("event", line)
        now_s = time.monotonic()
        if now_s >= due_s or over is not None:
            found = await details(job)
            news = _news(found)
            if news != told:
                yield _event("job", found)
                told, spoke_s = news, now_s
            due_s = time.monotonic() + EVERY_S
        if over is not None:
            yield _event("over", {"text": over})
            return
        if lines:
            spoke_s = now_s
        elif now_s - spoke_s >= QUIET_S:
            yield ": still here\n\n"
            spoke_s = now_s
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, due_s - time.monotonic())):
                await woken.wait()


def _news(found: Mapping[str, Any]) -> dict[str, Any]:
    """What there is to tell of a job, without its clocks."""
    tasks = [
        {name: value for name, value in task.items() if name not in CLOCKS}
        | {"metrics": {name: value for name, value in task["metrics"].items() if name != IDLE}}
        for task in found["vertices"]
    ]
    return {name: value for name, value in found.items() if name not in CLOCKS} | {"vertices": tasks}


def _event(name: str, data: Mapping[str, Any]) -> str:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"
