"""Metrics, as a Prometheus reads them."""

from fastapi import FastAPI, Request
from starlette.responses import Response

from headgate.serve.access import METRICS
from headgate.serve.catalog import JobCatalog


def add(app: FastAPI, catalog: JobCatalog) -> None:
    """Add the path. It is no part of the document, since its form is Prometheus' own."""

    @app.get(METRICS, include_in_schema=False)
    def metrics(request: Request) -> Response:
        content_type, body = catalog.exposition(request.headers.get("accept", ""))
        return Response(body, headers={"content-type": content_type})
