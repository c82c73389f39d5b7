"""The page that sets Flink beside Headgate is whole, counts right, and names only what is there."""

import dataclasses
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from headgate.job.settings import Checkpointing
from headgate.serve import models

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGE = (DOCS / "flink-parity.md").read_text(encoding="utf-8")
MARKS = ("same", "ours", "Spark's", "no", "not yet")
ROW = re.compile(r"^\| (?P<flink>.+?) \| (?P<mark>[^|]*) \|(?P<headgate>.*)\|$")
HEAD, RULE = "| Flink | mark | Headgate |", "| --- | --- | --- |"
METHODS = r"(?:GET|POST|PUT|PATCH|DELETE)"
JOB, VERTEX = "/jobs/:jobid", "/jobs/:jobid/vertices/:vertexid"
SUBTASK = f"{VERTEX}/subtasks/:subtaskindex"
FLINKS = {
    *("GET /applications/overview", "GET /applications/:applicationid", "POST /applications/:applicationid/cancel"),
    *(f"GET /applications/:applicationid/{each}" for each in ("exceptions", "jobmanager/config")),
    *("DELETE /cluster", "GET /config", "GET /overview"),
    *("GET /datasets", "GET /datasets/delete/:triggerid", "DELETE /datasets/:datasetid"),
    *("GET /jars", "POST /jars/upload", "DELETE /jars/:jarid"),
    *(f"POST /jars/:jarid/{each}" for each in ("plan", "run", "run-application")),
    *(f"GET /jobmanager/{each}" for each in ("config", "environment", "logs", "metrics", "thread-dump")),
    *("GET /jobs", "GET /jobs/metrics", "GET /jobs/overview", f"GET {JOB}", f"PATCH {JOB}"),
    *(f"GET {JOB}/{each}" for each in ("accumulators", "checkpoints", "checkpoints/config", "config", "exceptions")),
    f"GET {JOB}/checkpoints/details/:checkpointid",
    f"GET {JOB}/checkpoints/details/:checkpointid/subtasks/:vertexid",
    *(f"GET {JOB}/{each}/:triggerid" for each in ("checkpoints", "rescaling", "savepoints")),
    *(f"POST {JOB}/{each}" for each in ("checkpoints", "savepoints", "stop")),
    *(f"PATCH {JOB}/{each}" for each in ("clientHeartbeat", "rescaling")),
    *(f"GET {JOB}/{each}" for each in ("execution-result", "metrics", "plan", "status")),
    *(f"GET {JOB}/jobmanager/{each}" for each in ("config", "environment", "log-url")),
    *(f"GET {JOB}/rescales/{each}" for each in ("config", "details/:rescaleuuid", "history", "overview", "summary")),
    *(f"{method} {JOB}/resource-requirements" for method in ("GET", "PUT")),
    f"GET {JOB}/taskmanagers/:taskmanagerid/log-url",
    f"GET {VERTEX}",
    *(f"GET {VERTEX}/{each}" for each in ("accumulators", "backpressure", "flamegraph", "jm-operator-metrics")),
    *(f"GET {VERTEX}/{each}" for each in ("metrics", "subtasktimes", "taskmanagers", "watermarks")),
    *(f"GET {VERTEX}/subtasks/{each}" for each in ("accumulators", "metrics")),
    *(f"GET {SUBTASK}{each}" for each in ("", "/metrics", "/attempts/:attempt", "/attempts/:attempt/accumulators")),
    *("POST /savepoint-disposal", "GET /savepoint-disposal/:triggerid"),
    *("GET /taskmanagers", "GET /taskmanagers/metrics", "GET /taskmanagers/:taskmanagerid"),
    *(f"GET /taskmanagers/:taskmanagerid/{each}" for each in ("logs", "metrics", "thread-dump")),
}
"""Every resource of Flink 2.3.0's REST API."""
NAMES = json.loads(Path(__file__).with_name("flink-names.json").read_text(encoding="utf-8"))
"""What else Flink 2.3.0 has names for: metrics, settings, its command line, reasons why a checkpoint fails."""
SECTIONS = {
    "metrics": "Metrics, spans and events",
    "settings": "Settings",
    "command_line": "CLI",
    "failure_reasons": "Failure reasons",
}
WORDS = {"get", "maxExceptions", "failureLabelFilter"}
"""Fields of questions, not of answers."""
ROOTS: dict[str, tuple[type[BaseModel], ...]] = {
    "Jobs, plan and tasks": (models.JobDetails,),
    "Checkpoints": (models.CheckpointStatistics, models.CheckpointingStatistics, models.TaskCheckpointDetails),
    "Settings of checkpoints": (models.CheckpointConfig,),
    "Asking": (
        *(models.TriggerResponse, models.OperationStatus, models.CheckpointTrigger),
        *(models.SavepointTrigger, models.StopTrigger, models.VertexResourceRequirements),
    ),
    "Exceptions, backpressure, figures, process": (
        *(models.ExceptionEntry, models.ExceptionHistory, models.VertexBackpressure, models.FlameGraph),
        *(models.MetricValue, models.Overview, models.DashboardConfiguration),
    ),
}
"""The answers in which the fields under a heading are."""


def sections() -> dict[str, list[str]]:
    parts = re.split(r"^## (.+)$", PAGE, flags=re.MULTILINE)
    return dict(zip(parts[1::2], (part.splitlines() for part in parts[2::2]), strict=True))


def rows(section: str) -> list[re.Match[str]]:
    lines = [line for line in sections()[section] if line.startswith("|") and line not in (HEAD, RULE)]
    found = [ROW.match(line) for line in lines]
    assert None not in found, lines[found.index(None)]
    return [each for each in found if each is not None]


def counted(section: str) -> Counter[str]:
    counts: Counter[str] = Counter()
    for row in rows(section):
        counts[row["mark"]] += len(row["flink"].split(" · "))
    return counts


def figures(counts: Counter[str]) -> list[int]:
    return [*(counts[mark] for mark in MARKS), counts.total()]


def paths_of_ours() -> set[str]:
    """What docs/rest.md lists, with paths that it shortens to ``.../END`` written out."""
    found: set[str] = set()
    for line in (DOCS / "rest.md").read_text(encoding="utf-8").splitlines():
        first = re.match(rf"\| `({METHODS}) (/v1[^`?]*)[^`]*`", line)
        if first is None:
            continue
        method, path = first.groups()
        found.add(f"{method} {path}")
        for end in re.findall(r"`\.\.\./([^`?]+)`", line.split("|")[1]):
            kept = path.split("/")[: -len(end.split("/"))]
            found.add(f"{method} {'/'.join(kept)}/{end}")
    return found


def test_every_path_of_flinks_has_a_row_and_no_other() -> None:
    named = [row["flink"] for row in rows("REST paths")]
    assert len(FLINKS) == 80
    assert sorted(named) == sorted(f"`{path}`" for path in FLINKS)


@pytest.mark.parametrize(("kind", "section"), SECTIONS.items())
def test_every_name_of_flinks_has_a_row_and_has_it_once(kind: str, section: str) -> None:
    entries = [entry for row in rows(section) for entry in row["flink"].split(" · ")]
    named = Counter(re.sub(r"`([^`]*)`.*", r"\1", entry).removesuffix(" key=value") for entry in entries)
    assert [name for name in NAMES[kind] if named[name] != 1] == []


@pytest.mark.parametrize("section", list(sections()))
def test_every_row_has_a_mark(section: str) -> None:
    assert [row[0] for row in rows(section) if row["mark"] not in MARKS] == []


def test_what_is_not_the_same_says_what_there_is_instead() -> None:
    silent = [row[0] for section in sections() for row in rows(section) if not row["headgate"].strip()]
    assert [row for row in silent if "| same |" not in row] == []


def test_the_counts_are_right() -> None:
    table = re.findall(r"^\| ([A-Z][^|]*|\*\*all\*\*) \|((?: \d+ \|){6})$", PAGE, re.MULTILINE)
    said = {name.strip("*"): [int(each) for each in re.findall(r"\d+", numbers)] for name, numbers in table}
    counts = {section: counted(section) for section in sections()}
    assert said == {
        **{section: figures(each) for section, each in counts.items()},
        "all": figures(sum(counts.values(), Counter())),
    }


def test_every_path_of_ours_is_in_the_description_of_the_rest_api() -> None:
    named = set(re.findall(rf"`({METHODS} /v1[^`]*)`", PAGE))
    assert len(named) > 20
    assert named - paths_of_ours() == set()


def test_every_metric_of_ours_is_in_the_table_of_metrics() -> None:
    metrics = (DOCS / "metrics.md").read_text(encoding="utf-8")
    known = set(re.findall(r"^\| `(headgate_\w+)`", metrics, re.MULTILINE))
    named = set(re.findall(r"\bheadgate_\w+", PAGE))
    assert len(named) > 30
    assert named - known == set()


def test_every_setting_of_checkpoints_is_one() -> None:
    named = set(re.findall(r"`Checkpointing\((\w+)=\)`", PAGE))
    assert len(named) > 10
    assert named - {field.name for field in dataclasses.fields(Checkpointing)} == set()


def test_every_option_is_in_the_description_of_the_command_line() -> None:
    described = (DOCS / "cli.md").read_text(encoding="utf-8")
    named = {option for row in rows("CLI") for option in re.findall(r"--[a-z][a-z-]+", row["headgate"])}
    assert len(named) > 10
    assert [option for option in sorted(named) if not re.search(rf"(?<![\w-]){option}(?![\w-])", described)] == []


def fields_under() -> dict[str, list[str]]:
    """The fields of the REST API that are the same, by heading."""
    found: dict[str, list[str]] = {}
    heading = ""
    for line in sections()["REST fields"]:
        if line.startswith("### "):
            heading = line.removeprefix("### ")
        row = ROW.match(line)
        if row is not None and row["mark"] == "same":
            found.setdefault(heading, []).extend(re.findall(r"`([\w.\[\]<>-]+)`", row["flink"]))
    return found


def inside(kind: Any, part: str) -> Any:
    """The type of a field, by its name in JSON. None if there is no such field. A key may be any of a map's, or of a
    type that has a field for each.
    """
    for each in (kind, *get_args(kind)):
        if isinstance(each, type) and issubclass(each, BaseModel):
            for name, field in each.model_fields.items():
                if part in (field.alias or name, "<key>"):
                    return field.annotation
        elif part == "<key>" and get_args(each)[:1] == (str,):
            return get_args(each)[1]
        elif (found := next((inside(one, part) for one in get_args(each)), None)) is not None:
            return found
    return None


def reaches(root: type[BaseModel], path: str) -> bool:
    kind: Any = root
    for part in path.replace("[]", "").split("."):
        kind = inside(kind, part)
        if kind is None:
            return False
    return True


def test_every_field_that_is_the_same_is_in_the_answer_that_it_belongs_to() -> None:
    under = fields_under()
    assert set(under) == set(ROOTS)
    assert sum(map(len, under.values())) > 100
    missing = {
        heading: [
            path for path in paths if path not in WORDS and not any(reaches(root, path) for root in ROOTS[heading])
        ]
        for heading, paths in under.items()
    }
    assert {heading: paths for heading, paths in missing.items() if paths} == {}


def test_a_field_of_another_answer_is_not_taken_for_one() -> None:
    assert reaches(models.JobDetails, "plan.nodes[].inputs[].ship_strategy")
    assert reaches(models.CheckpointStatistics, "tasks.<key>.latest_ack_timestamp")
    assert not reaches(models.JobDetails, "plan.nodes[].ship_strategy")
    assert not reaches(models.CheckpointStatistics, "vertices[].id")
