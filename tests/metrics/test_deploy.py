"""The dashboard and the alert rules: well formed, and about metrics and labels that exist."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from strictyaml import Map, Optional, Regex, Seq, Str, load

from headgate.cli.server import PORT
from headgate.metrics.table import every_metric
from tests.metrics.promql import BadQuery, read

DEPLOY = Path(__file__).parents[2] / "deploy"
DASHBOARD: dict[str, Any] = json.loads((DEPLOY / "grafana" / "headgate.json").read_text(encoding="utf-8"))
RULE = Map(
    {
        "alert": Regex(r"Headgate[A-Z][A-Za-z]+"),
        "expr": Str(),
        "for": Regex(r"[0-9]+[smhd]"),
        "labels": Map({"severity": Regex(r"info|warning|critical")}),
        "annotations": Map({"summary": Str(), "description": Str()}),
    }
)
RULES: list[dict[str, Any]] = load(
    (DEPLOY / "prometheus" / "alerts.yaml").read_text(encoding="utf-8"),
    Map({"groups": Seq(Map({"name": Str(), "rules": Seq(RULE)}))}),
).data["groups"][0]["rules"]
LABELS = {metric.name: {"job", *metric.labels} for metric in every_metric()}
TEMPLATE = re.compile(r"\{\{\s*(.*?)\s*\}\}")


def panels() -> list[dict[str, Any]]:
    return [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]


def queries() -> Iterator[tuple[str, str, list[str]]]:
    """Every query: where it is, its text, and the labels that its caption or its message shows."""
    for panel in panels():
        for target in panel["targets"]:
            yield panel["title"], target["expr"], TEMPLATE.findall(target["legendFormat"])
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["name"], variable["definition"], []
    for rule in RULES:
        shown = [TEMPLATE.findall(text) for text in rule["annotations"].values()]
        labels = [each.removeprefix("$labels.") for texts in shown for each in texts if each.startswith("$labels.")]
        yield rule["alert"], rule["expr"], labels


QUERIES = list(queries())


@pytest.mark.parametrize(
    ("where", "text", "shown"), QUERIES, ids=[f"{where}: {text[:40]}" for where, text, _ in QUERIES]
)
def test_a_query_names_metrics_and_labels_that_exist(where: str, text: str, shown: list[str]) -> None:
    query = read(text)
    assert query.matched, where
    assert set(query.matched) <= set(LABELS), where
    for name, matched in query.matched.items():
        assert matched <= LABELS[name], where
        assert query.grouped <= LABELS[name] | {"job"} or len(query.matched) > 1, where
    known = set.union(*(LABELS[name] for name in query.matched))
    assert query.grouped <= known, where
    left = query.grouped if text.startswith(("sum by", "max by")) else known
    assert set(shown) <= left, where


def test_a_rate_is_of_what_only_grows_and_nothing_else_is() -> None:
    for where, text, _ in QUERIES:
        for function, name in re.findall(r"(rate|increase|delta|deriv)\((headgate_\w+)", text):
            assert name.endswith("_total") == (function in ("rate", "increase")), where
        for name in re.findall(r"headgate_\w+_total", text):
            assert re.search(rf"(rate|increase)\({name}", text), where


def test_prometheus_is_told_to_read_what_is_served() -> None:
    target = {"static_configs": Seq(Map({"targets": Seq(Regex(r"127\.0\.0\.1:[0-9]+"))}))}
    scrape = Map(
        {
            "job_name": Str(),
            "honor_labels": Regex("true"),
            Optional("authorization"): Map({"credentials_file": Str()}),
            **target,
        }
    )
    settings = (DEPLOY / "prometheus" / "scrape.yaml").read_text(encoding="utf-8")
    served, alone = load(settings, Map({"scrape_configs": Seq(scrape)})).data["scrape_configs"]
    assert "authorization" in served
    assert served["static_configs"][0]["targets"] == [f"127.0.0.1:{PORT}"]
    assert "authorization" not in alone


def test_every_panel_says_what_it_is_and_lies_beside_the_others() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        assert panel["title"]
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)
    for panel in panels():
        assert panel["datasource"]["uid"] == "${datasource}"
        assert panel["targets"]
        assert all('job=~"$job"' in target["expr"] for target in panel["targets"]), panel["title"]


def test_alerts_have_names_of_their_own_and_messages_that_are_sentences_without_an_end() -> None:
    names = [rule["alert"] for rule in RULES]
    assert len(set(names)) == len(names)
    for rule in RULES:
        assert not rule["annotations"]["summary"].endswith(".")
        assert rule["annotations"]["description"].endswith(".")


@pytest.mark.parametrize(
    "text",
    [
        "rate(headgate_x[5m]",
        "headgate_x)",
        "sum by job (headgate_x)",
        "guess(headgate_x)",
        'headgate_x{a="b"',
        "headgate_x ? 1",
    ],
)
def test_a_query_that_is_none_is_found(text: str) -> None:
    with pytest.raises((BadQuery, ValueError)):
        read(text)


def test_a_query_is_read_with_its_metrics_and_labels() -> None:
    seen = read(
        'sum by (job, x) (rate(a_total{job=~"$job", y!="}"}[$__rate_interval])) / on (job) b offset 1d > 2 and c'
    )
    assert seen.matched == {"a_total": {"job", "y"}, "b": set(), "c": set()}
    assert seen.grouped == {"job", "x"}
    assert read("label_values(a, job)").matched == {"a": set()}
