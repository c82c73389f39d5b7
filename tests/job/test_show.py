import json
from dataclasses import replace
from typing import Any

import pytest

from headgate.core.settings import Mode
from headgate.job.plan import Plan, plan
from headgate.job.show import as_data, as_dot, as_text
from headgate.sink.api import Guarantee
from tests.job.helpers import NullSink, RateSource, planned, shape

FORKED = "orders  parse<orders  raw!<parse  clean<parse  good!<clean  totals~<parse  out!<totals"


def with_parts(text: str, **what: object) -> Plan:
    nodes, stateful = shape(text)
    return plan([replace(node, what=what.get(node.uid, node.what)) for node in nodes], stateful)


def test_the_text_has_a_paragraph_for_each_task() -> None:
    assert as_text("summaries", planned(FORKED)) == (
        "job summaries: exactly-once\n"
        "\n"
        "task orders\n"
        "  orders   source     a counter\n"
        "  parse    transform\n"
        "  clean    transform  on a branch\n"
        "  -> channel totals.0 to totals\n"
        "  -> raw   sink       nowhere, exactly-once\n"
        "  -> good  sink       nowhere, exactly-once, after clean\n"
        "\n"
        "task totals (update mode)\n"
        "  <- channel totals.0 from orders\n"
        "  totals   transform  keeps state\n"
        "  -> out   sink       nowhere, exactly-once\n"
    )


def test_a_plan_says_how_many_partitions_the_state_of_a_new_task_gets() -> None:
    assert as_data("summaries", planned(FORKED), partitions=2)["state_partitions"] == 2
    assert as_text("summaries", planned(FORKED), partitions=2).splitlines()[1] == (
        "  state partitions: 2 (a task that has a checkpoint keeps its own number)"
    )
    assert "partitions" not in as_text("plain", planned("orders  out!<orders"), partitions=2)


def test_the_data_is_plain_and_says_all_of_it() -> None:
    data = as_data("summaries", planned(FORKED))
    assert json.loads(json.dumps(data)) == data
    orders, totals = data["tasks"]
    assert [part["uid"] for part in orders["operators"]] == ["orders", "parse", "clean"]
    assert orders["sinks"][1] == {
        "uid": "good",
        "kind": "sink",
        "inputs": ["clean"],
        "where": "job.py:5",
        "description": "nowhere",
        "guarantee": "exactly-once",
        "after": ["clean"],
    }
    assert (orders["writes_segment"], totals["writes_segment"]) == (True, False)
    assert (totals["output_mode"], totals["operators"][0]["stateful"]) == ("update", True)
    assert data["channels"] == [{"id": "totals.0", "from": "orders", "to": "totals", "operator": "totals", "input": 0}]


def test_the_picture_has_every_node_in_its_task_and_every_edge_once() -> None:
    dot = as_dot('say "hi"', planned("a  j*<a,a  out!<j"))
    assert dot == (
        'digraph "say \\"hi\\"" {\n'
        "  rankdir=LR;\n"
        '  label="say \\"hi\\": exactly-once";\n'
        "  node [shape=box];\n"
        '  subgraph "cluster_a" {\n'
        '    label="task a";\n'
        '    "a" [peripheries=1];\n'
        "  }\n"
        '  subgraph "cluster_j" {\n'
        '    label="task j";\n'
        '    "j" [peripheries=2];\n'
        '    "out" [shape=cylinder];\n'
        "  }\n"
        '  "a" -> "j" [style=bold];\n'
        '  "a" -> "j" [style=bold];\n'
        '  "j" -> "out";\n'
        "}\n"
    )


EFFECTIVELY, REPEATING = NullSink(promise=Guarantee.EFFECTIVELY_ONCE), NullSink(promise=Guarantee.AT_LEAST_ONCE)


@pytest.mark.parametrize(
    ("mode", "what", "guarantee", "because"),
    [
        (Mode.EXACTLY_ONCE, {}, "exactly-once", []),
        (
            Mode.EXACTLY_ONCE,
            {"one": EFFECTIVELY},
            "effectively-once",
            ["sink one is effectively-once"],
        ),
        (
            Mode.EXACTLY_ONCE,
            {"one": EFFECTIVELY, "two": REPEATING},
            "at-least-once",
            ["sink one is effectively-once", "sink two is at-least-once"],
        ),
        (Mode.AT_LEAST_ONCE, {}, "at-least-once", ["mode is at-least-once"]),
        (Mode.AT_MOST_ONCE, {}, "at-most-once", ["mode is at-most-once"]),
        (
            Mode.AT_MOST_ONCE,
            {"one": EFFECTIVELY},
            "at-most-once",
            ["mode is", "sink one"],
        ),
        (
            Mode.AT_MOST_ONCE,
            {"one": REPEATING},
            "none",
            ["mode is at-most-once", "sink one is"],
        ),
        (Mode.AT_LEAST_ONCE, {"a": RateSource(again=False)}, "none", ["source a cannot be read again", "mode is"]),
        (
            Mode.AT_MOST_ONCE,
            {"a": RateSource(again=False)},
            "at-most-once",
            ["mode is", "source a cannot be read"],
        ),
    ],
)
def test_a_job_promises_what_its_weakest_part_does(
    mode: Mode, what: dict[str, Any], guarantee: str, because: list[str]
) -> None:
    made = with_parts("a  one!<a  two!<a", **what)
    data = as_data("job", made, mode)
    assert data["guarantee"] == guarantee
    assert len(data["because"]) == len(because)
    assert all(said.startswith(why) for said, why in zip(data["because"], because, strict=True))
    assert as_text("job", made, mode).splitlines()[: len(because) + 1] == [
        f"job job: {guarantee}",
        *(f"  {why}" for why in data["because"]),
    ]


@pytest.mark.parametrize("guarantee", list(Guarantee))
def test_every_promise_that_headgates_sinks_make_has_its_place(guarantee: Guarantee) -> None:
    data = as_data("job", with_parts("a  out!<a", out=NullSink(promise=guarantee)))
    assert data["guarantee"] == guarantee.value
