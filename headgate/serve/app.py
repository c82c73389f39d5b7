"""The app: the API, and the files of the web UI beside it.

One rule: whatever is refused is refused in one line, as ``{"errors": [...]}``, and says what to do. Importing this
takes a second: it is done in a thread.
"""

from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

import headgate
from headgate.errors import HeadgateError
from headgate.redact import redact
from headgate.serve import models
from headgate.serve.asking import RequestRefused
from headgate.serve.catalog import JobCatalog
from headgate.serve.gate import API, App, Receive, Scope, Send, is_api
from headgate.serve.paths import ALL
from headgate.serve.ui import make_ui
from headgate.task.logs import failures

TITLE = "Headgate"
ERRORS = {
    400: "What was sent is not understood.",
    401: "There is no token, or another one.",
    403: "The token only reads.",
    404: "There is no such path, job, task, checkpoint or operation.",
    409: "The job is not running here, is ending, or means something else by that name.",
    429: "Too many operations are under way.",
    503: "Too many requests at once, or a storage or a process that does not answer.",
}


def make_app(catalog: JobCatalog) -> App:
    """Everything that is served of some jobs."""
    api, ui = make_api(catalog), make_ui()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await (api if is_api(scope["path"]) else ui)(scope, receive, send)

    return app


def make_api(catalog: JobCatalog) -> FastAPI:
    """The paths below ``/v1``, and ``/metrics``."""
    app = FastAPI(
        title=TITLE,
        version=headgate.__version__,
        summary="See and steer the jobs of Headgate.",
        openapi_url=f"{API}/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        responses={code: {"model": models.ErrorResponse, "description": text} for code, text in ERRORS.items()},
    )
    app.exception_handler(RequestRefused)(_refused)
    app.exception_handler(RequestValidationError)(_not_understood)
    app.exception_handler(HTTPException)(_no_such_path)
    app.exception_handler(HeadgateError)(_away)
    app.exception_handler(Exception)(_broken)
    for add in ALL:
        add(app, catalog)
    app.openapi = lambda: openapi(app)  # type: ignore[method-assign]
    return app


def openapi(app: FastAPI) -> dict[str, Any]:
    """The document. FastAPI would have what is not understood answered with 422; here it is 400."""
    if app.openapi_schema is None:
        found = get_openapi(title=app.title, version=app.version, summary=app.summary, routes=app.routes)
        for path in found["paths"].values():
            for operation in path.values():
                operation["responses"].pop("422", None)
                operation["security"] = [{"token": []}]
        components = found["components"]
        for name in ("HTTPValidationError", "ValidationError"):
            components["schemas"].pop(name, None)
        components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        app.openapi_schema = found
    return app.openapi_schema


def _errors(code: int, said: Sequence[str]) -> JSONResponse:
    return JSONResponse({"errors": [" ".join(one.split()) for one in said]}, code)


async def _refused(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestRefused), "it is asked about no other"
    return _errors(error.code, [error.why])


async def _not_understood(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError), "it is asked about no other"
    kind = request.headers.get("content-type", "")
    whole = any(tuple(each["loc"]) == ("body",) for each in error.errors())
    if whole and not kind.startswith("application/json"):
        return _errors(400, ["the body: send JSON, with `Content-Type: application/json`"])
    said = []
    for each in error.errors():
        where = ".".join(str(part) for part in each["loc"] if part not in ("body", "query", "path"))
        said.append(f"{where or 'the body'}: {each['msg']}")
    return _errors(400, said)


async def _no_such_path(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException), "it is asked about no other"
    path, method = request.url.path, request.method
    if error.status_code == 404:
        return _errors(404, [f"there is no path {path}: {API}/openapi.json lists them"])
    if error.status_code == 405:
        return _errors(405, [f"{path} is not for {method}: {API}/openapi.json lists the paths"])
    return _errors(error.status_code, [str(error.detail)])


async def _away(_: Request, error: Exception) -> JSONResponse:
    return _errors(503, [str(error)])


async def _broken(request: Request, error: Exception) -> JSONResponse:
    failures.error("%s %s", request.method, request.url.path, exc_info=error)
    return _errors(500, [redact(f"{type(error).__name__}: {error}; the log has the trace")])
