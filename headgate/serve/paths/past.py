"""What happened to a job: events, exceptions, restarts, logs, and what is wrong by all that."""

from collections.abc import Collection, Sequence
from typing import Annotated, Any

from fastapi import FastAPI, Query

from headgate.doctor.cause import diagnosis_data
from headgate.doctor.diagnosis import diagnose
from headgate.doctor.gathering import gather
from headgate.receipts.receipt import EVENT
from headgate.run.logfiles import LogFile, last_lines, log_files
from headgate.serve import failures, models
from headgate.serve.asking import LINES_MAX, PAGE, PAGE_MAX, RequestRefused, known
from headgate.serve.catalog import JobCatalog, ServedJob, now_ms
from headgate.store.history import HistoryPosition
from headgate.view.history import LineView

Limit = Annotated[int, Query(ge=1, le=PAGE_MAX)]
FOR_EACH = 20
"""How many events are read first for each thing that is told by several."""


def add(app: FastAPI, catalog: JobCatalog) -> None:
    """Add the paths."""

    @app.get("/v1/jobs/{jid}/events", response_model=models.JobEvents)
    def events(
        jid: str,
        limit: Limit = PAGE,
        before: str | None = None,
        since: int | None = None,
        kinds: Annotated[list[str] | None, Query(alias="type")] = None,
    ) -> Any:
        found = _events(known(catalog, jid), limit + 1, before, since, kinds or ())
        page = found[-limit:]
        return {
            "events": [{**_short(line), "position": position} for position, line in page],
            "next_before": page[0][0] if len(found) > limit else None,
        }

    @app.get("/v1/jobs/{jid}/exceptions", response_model=models.JobExceptions)
    def exceptions(
        jid: str,
        limit: Annotated[int, Query(ge=1, le=PAGE_MAX, alias="maxExceptions")] = PAGE,
        before: str | None = None,
        labels: Annotated[str | None, Query(alias="failureLabelFilter")] = None,
    ) -> Any:
        wanted = _labels(labels)
        job = known(catalog, jid)
        view = job.see().view

        def tell(lines: Sequence[failures.Placed]) -> list[dict[str, Any]]:
            return [each for each in failures.exceptions(lines) if wanted.items() <= each["failureLabels"].items()]

        found, older = _told(job, limit, before, failures.EXCEPTIONS, tell)
        return {
            "exceptionHistory": {"entries": found, "truncated": older is not None},
            "root": failures.root(view),
            "next_before": older,
        }

    @app.get("/v1/jobs/{jid}/restarts", response_model=models.JobRestarts)
    def restarts(jid: str, limit: Limit = PAGE, before: str | None = None) -> Any:
        job = known(catalog, jid)
        view = job.see().view
        found, older = _told(job, limit, before, failures.RESTARTS, failures.restarts)
        return {"counts": dict(view["restarts"]), "history": found, "next_before": older}

    @app.get("/v1/jobs/{jid}/diagnosis", response_model=models.JobDiagnosis)
    def diagnosis(jid: str) -> Any:
        job = known(catalog, jid)
        view, described = job.see().view, job.described()
        with job.reading.past() as past:
            facts = gather(past, view, described, job.reading.local_root, now_ms())
        return diagnosis_data(diagnose(facts))

    @app.get("/v1/jobs/{jid}/logs", response_model=models.JobLogs)
    def logs(jid: str, lines: Annotated[int, Query(ge=0, le=10_000)] = 100, name: str | None = None) -> Any:
        job = known(catalog, jid)
        files = [(file, about) for file in _logs(catalog, job) if (about := _described(file)) is not None]
        one = next((file for file, _ in files if name in (None, file.path.name)), None)
        if one is None and name is not None:
            there = ", ".join(file.path.name for file, _ in files) or "none"
            raise RequestRefused(404, f"there is no log {name} of job {job.name} on this machine; there are: {there}")
        try:
            last = [] if one is None else last_lines(one.path, lines)[0]
        except FileNotFoundError:
            raise RequestRefused(
                404, f"the log was deleted just now, since job {job.name} began anew: ask again"
            ) from None
        return {
            "logs": [about for _, about in files],
            "name": None if one is None else one.path.name,
            "lines": last,
        }


def _labels(given: str | None) -> dict[str, str]:
    """Labels as Flink's filter has them: ``class:user,level:task``."""
    pairs = [each.partition(":") for each in given.split(",")] if given else []
    if any(not colon for _, colon, _ in pairs):
        raise RequestRefused(400, f"failureLabelFilter={given}: give name:value,name:value, such as class:user")
    return {name: value for name, _, value in pairs}


def _short(line: LineView) -> dict[str, Any]:
    """An event, without what is long and looked up elsewhere."""
    receipt = line.get(EVENT)
    return {**line, EVENT: {**receipt, "committable": None}} if isinstance(receipt, dict) else dict(line)


def _events(
    job: ServedJob, limit: int, before: str | None, since_ms: int | None, kinds: Collection[str]
) -> list[failures.Placed]:
    position = None if before is None else HistoryPosition.parse(before)
    if before is not None and position is None:
        raise RequestRefused(400, f"before={before}: give a position as an answer has it, such as 3.1.4096")
    with job.reading.past() as past:
        found = past.history.events(limit, before=position, since_ms=since_ms, types=kinds)
    return [(str(at), line) for at, line in found]


def _told(
    job: ServedJob, limit: int, before: str | None, kinds: Collection[str], tell: Any
) -> tuple[list[dict[str, Any]], str | None]:
    """A page of what is told by several events, and where the older one begins."""
    count = limit * FOR_EACH
    while True:
        lines = _events(job, count, before, None, kinds)
        found: list[dict[str, Any]] = tell(lines)
        all_of_it = len(lines) < count
        if len(found) > limit:
            return found[:limit], found[limit - 1]["position"]
        if all_of_it or count >= LINES_MAX:
            return found, None if all_of_it else lines[0][0]
        count *= 4


def _logs(catalog: JobCatalog, job: ServedJob) -> list[LogFile]:
    """The logs of a job. Where several have its name, those of processes that have led this one."""
    found = log_files(job.name)
    if not found or sum(each.name == job.name for each in catalog.jobs()) == 1:
        return found
    with job.reading.past() as past:
        leaders = {str(line.get("leader")).partition("-")[0] for line in past.newest_generations(PAGE_MAX)}
    return [file for file in found if str(file.pid) in leaders]


def _described(file: LogFile) -> dict[str, Any] | None:
    """None if it is gone."""
    try:
        about = file.path.stat()
    except FileNotFoundError:
        return None
    return {
        "name": file.path.name,
        "pid": file.pid,
        "size": about.st_size,
        "mtime": about.st_mtime_ns // 1_000_000,
        "running": file.is_written(),
    }
