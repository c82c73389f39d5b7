"""The files of the web UI, if there are any.

One rule: a file is served by its name, and nothing else is: no folder is listed, and no path leads out of the folder.
"""

from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

FOLDER = Path(__file__).parent / "ui"
"""Where ``make ui`` puts what it has built."""


def make_ui(folder: Path = FOLDER) -> Starlette:
    """Serves the files of a folder: ``index.html`` for the folder itself."""
    routes = [Mount("/", StaticFiles(directory=folder, html=True))] if folder.is_dir() else []
    return Starlette(routes=routes, exception_handlers={HTTPException: _refuse})


async def _refuse(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException), "it is asked about no other"
    return JSONResponse({"errors": [f"there is no file {request.url.path}"]}, error.status_code)
