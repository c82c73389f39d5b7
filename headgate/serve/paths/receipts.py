"""Receipts of a job, and its transactions in doubt."""

from typing import Annotated, Any

from fastapi import FastAPI, Path, Query

from headgate import redact
from headgate.errors import BadStorage
from headgate.receipts.gather import receipt_of
from headgate.serve import models
from headgate.serve.asking import PAGE, PAGE_MAX, RequestRefused, known
from headgate.serve.catalog import JobCatalog
from headgate.store.history import HistoryPosition

Limit = Annotated[int, Query(ge=1, le=PAGE_MAX)]


def add(app: FastAPI, catalog: JobCatalog) -> None:
    """Add the paths."""

    @app.get("/v1/jobs/{jid}/checkpoints/details/{number}/receipts", response_model=models.CheckpointReceipts)
    def of_checkpoint(jid: str, number: Annotated[int, Path(ge=0)]) -> Any:
        job = known(catalog, jid)
        with job.reading.past() as past:
            found = past.receipts(number)
            there = bool(found) or past.checkpoint(number) is not None
        if not there:
            raise RequestRefused(404, f"checkpoint {number} of job {job.name} is not known")
        return {"id": number, "receipts": [_shaped(each) for each in found]}

    @app.get("/v1/jobs/{jid}/receipts", response_model=models.JobReceiptPage)
    def receipts(jid: str, limit: Limit = PAGE, before: str | None = None) -> Any:
        position = None if before is None else HistoryPosition.parse(before)
        if before is not None and position is None:
            raise RequestRefused(400, f"before={before}: give a position as an answer has it, such as 3.1.4096")
        job = known(catalog, jid)
        with job.reading.past() as past:
            found = past.newest_receipts(limit + 1, position)
        page, unreadable = [], 0
        for _, line in reversed(found[-limit:]):
            try:
                receipt = receipt_of(line).without_committable()
            except BadStorage:
                unreadable += 1
                continue
            page.append(_shaped({**receipt.data(), "in_history": True}))
        older = str(found[-limit][0]) if len(found) > limit else None
        return {"receipts": page, "unreadable": unreadable, "next_before": older}

    @app.get("/v1/jobs/{jid}/transactions", response_model=models.Transactions)
    def transactions(jid: str) -> Any:
        with known(catalog, jid).reading.past() as past:
            return {"in_doubt": [_shaped({**each, "in_history": False}) for each in past.in_doubt()]}


def _shaped(found: dict[str, Any]) -> dict[str, Any]:
    place = found["place"]
    return {
        **found,
        "place": redact.shown(place) if place is not None and "://" in place else place,
        **{name: _ranges(found[name]) for name in ("sources", "channels")},
    }


def _ranges(found: dict[str, Any] | None) -> dict[str, list[str | None]] | None:
    return None if found is None else {name: list(each) for name, each in found.items()}
