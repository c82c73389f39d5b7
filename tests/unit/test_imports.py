"""Who may know whom: read from the source, file by file.

The stages that data meets (source, task, channel, snapshot, store, sink) know the core and never each other; ``run``
wires them. One module knows what is where in Spark's checkpoint directories.
"""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import headgate

ROOT = Path(headgate.__file__).parent
FILES = {path.relative_to(ROOT).as_posix(): path for path in sorted(ROOT.rglob("*.py"))}
STAGES = ("source", "task", "channel", "snapshot", "store", "sink")
SHARED = (
    *(
        "headgate.about",
        "headgate.access",
        "headgate.columns",
        "headgate.core",
        "headgate.errors",
        "headgate.layout",
        "headgate.machine",
        "headgate.redact",
    ),
    *("headgate.checksums", "headgate.durable", "headgate.retry", "headgate.room", "headgate.values"),
)
"""What every stage may know."""
MAY_ALSO = {
    "task/session.py": ("headgate.state_backend", "headgate.needs"),
    "durable.py": ("headgate.checksums",),
    "layout.py": ("headgate.durable",),
}
SPARKS_LOGS = {"commits", "offsets"}


def imported(source: str, within: str) -> Iterator[str]:
    """Every module of Headgate that a source imports, wherever in it. ``within`` is the package it is in."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = within.split(".")[: len(within.split(".")) - node.level + 1] if node.level else []
            module = ".".join([*above, *([node.module] if node.module else [])])
            names = [f"{module}.{alias.name}" for alias in node.names]
        else:
            continue
        yield from (name for name in names if name.split(".")[0] == "headgate")


def stale_generations(source: str, within: str, allowed: tuple[str, ...]) -> list[str]:
    """What a source imports and may not."""
    return [
        name
        for name in imported(source, within)
        if not any(name == each or name.startswith(f"{each}.") for each in allowed)
    ]


def path_parts(source: str) -> set[str]:
    """The names of Spark's logs that a source has in a path: as a text of its own, or between slashes."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            found |= SPARKS_LOGS & set(node.value.split("/"))
    return found


def text(name: str) -> str:
    return FILES[name].read_text(encoding="utf-8")


@pytest.mark.parametrize("name", [name for name in FILES if name.partition("/")[0] in STAGES])
def test_a_stage_knows_the_core_and_no_other_stage(name: str) -> None:
    package = f"headgate.{name.partition('/')[0]}"
    assert stale_generations(text(name), package, (package, *SHARED, *MAY_ALSO.get(name, ()))) == []


@pytest.mark.parametrize("name", [name for name in FILES if name.startswith("core/")])
def test_the_core_knows_itself_alone(name: str) -> None:
    assert stale_generations(text(name), "headgate.core", ("headgate.core",)) == []


@pytest.mark.parametrize(
    "name",
    [
        "about.py",
        "access.py",
        "checksums.py",
        "columns.py",
        "durable.py",
        "layout.py",
        "errors.py",
        "machine.py",
        "needs.py",
        "redact.py",
        "retry.py",
        "room.py",
        "values.py",
    ],
)
def test_what_all_stages_share_knows_the_core_at_most(name: str) -> None:
    allowed = ("headgate.core", "headgate.errors", "headgate.redact", *MAY_ALSO.get(name, ()))
    assert stale_generations(text(name), "headgate", allowed) == []


@pytest.mark.parametrize("name", [name for name in FILES if name != "layout.py"])
def test_only_the_layout_knows_what_is_where_in_sparks_directories(name: str) -> None:
    assert path_parts(text(name)) == set()


def test_the_layout_does_know_it() -> None:
    assert path_parts(text("layout.py")) == SPARKS_LOGS


BROKER = "headgate.connect.kafka.broker"
INSIDE = {name for name in FILES if name.startswith("connect/kafka/broker/")}


def from_inside_the_broker(source: str, within: str) -> list[str]:
    """What a source imports of Kafka's small client that its package does not offer: modules, and names in them."""
    modules = {Path(name).stem for name in INSIDE}
    names = [name.removeprefix(f"{BROKER}.") for name in imported(source, within) if name.startswith(f"{BROKER}.")]
    return [name for name in names if name.partition(".")[0] in modules]


@pytest.mark.parametrize("name", [name for name in FILES if name not in INSIDE])
def test_nobody_knows_how_the_small_client_of_kafka_is_made(name: str) -> None:
    package = ".".join(("headgate", *Path(name).parent.parts))
    assert from_inside_the_broker(text(name), package) == []


@pytest.mark.parametrize(
    "source",
    [
        "from headgate.connect.kafka.broker.codec import Reader",
        "from headgate.connect.kafka.broker import requests",
        "import headgate.connect.kafka.broker.cluster",
        "def later():\n    from ..broker.protocol import BrokerClient",
    ],
)
def test_an_import_from_inside_the_small_client_is_found(source: str) -> None:
    assert len(from_inside_the_broker(source, "headgate.connect.kafka.writing")) == 1
    assert from_inside_the_broker("from headgate.connect.kafka.broker import BrokerClient", "headgate") == []


@pytest.mark.parametrize("name", [name for name in FILES if name.startswith("metrics/")])
def test_metrics_are_read_from_views_and_measure_nothing(name: str) -> None:
    allowed = ("headgate.metrics", "headgate.view", "headgate.errors", "headgate.values", "headgate.__version__")
    assert stale_generations(text(name), "headgate.metrics", allowed) == []


def test_every_stage_is_there() -> None:
    assert {name.split("/")[0] for name in FILES if "/" in name} >= {*STAGES, "core", "run"}


@pytest.mark.parametrize(
    "source",
    [
        "import headgate.sink.files",
        "from headgate.sink import files",
        "from headgate import sink",
        "def later():\n    from headgate.sink.api import TwoPhaseSink",
        "from ..sink import files",
        "from .. import sink",
    ],
)
def test_an_import_of_another_stage_is_found_however_it_is_written(source: str) -> None:
    assert len(stale_generations(source, "headgate.source", ("headgate.source", *SHARED))) == 1


@pytest.mark.parametrize(
    "source",
    [
        "from headgate import layout",
        "from headgate.core.ids import Batch",
        "from . import api",
        "import headgatekeeper",
    ],
)
def test_an_import_that_is_allowed_is_left_alone(source: str) -> None:
    assert stale_generations(source, "headgate.source", ("headgate.source", *SHARED)) == []


@pytest.mark.parametrize("source", ["query / 'commits'", "f'offsets/{batch}'", "f'{query}/commits/{batch}'"])
def test_a_name_of_sparks_is_found_in_a_path(source: str) -> None:
    assert len(path_parts(source)) == 1
    assert path_parts('"the commits and offsets of a sentence"') == set()


HTTP = {name for name in FILES if name.startswith("serve/")}
HEAVY = ("fastapi", "starlette", "uvicorn", "pydantic", "anyio")
LIGHT = {"serve/__init__.py"} | {
    f"serve/{name}.py" for name in ("access", "broadcast", "catalog", "process", "listening")
}
"""What a job imports before it runs. The rest waits for a thread of its own."""


def roots(source: str) -> set[str]:
    """The packages that a source imports when it is imported itself."""
    found: set[str] = set()
    for node in ast.parse(source).body:
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.partition(".")[0])
    return found


def test_only_what_serves_knows_how_http_is_served() -> None:
    knowing = {name for name in FILES if not roots(text(name)).isdisjoint(HEAVY)}
    assert knowing
    assert knowing <= HTTP - LIGHT


@pytest.mark.parametrize("name", [name for name in FILES if name.startswith("serve/")])
def test_what_serves_knows_no_stage_but_the_storage_and_nothing_of_jobs(name: str) -> None:
    forbidden = ("source", "task", "channel", "snapshot", "sink", "job", "connect", "cli", "sim", "audit", "demo")
    allowed = ("headgate.task.logs",)
    known = [each for each in imported(text(name), "headgate.serve") if not each.startswith(allowed)]
    assert [each for each in known if each.removeprefix("headgate.").partition(".")[0] in forbidden] == []


@pytest.mark.parametrize(
    ("module", "not_needed"),
    [
        ("headgate.run.start", "pandas"),
        ("headgate.run.start", "prometheus_client"),
        ("headgate.run.start", "opentelemetry.sdk"),
        ("headgate.channel.reader", "headgate.core.job"),
        ("headgate.run.start", "fastapi"),
        ("headgate.run.start", "uvicorn"),
        ("headgate.cli", "fastapi"),
        ("headgate.cli", "pydantic"),
        ("headgate.cli", "starlette"),
        ("headgate.cli", "http.client"),
    ],
)
def test_a_process_does_not_import_what_it_does_not_need(module: str, not_needed: str) -> None:
    """Each costs every start of it a part of a second."""
    program = f"import sys, {module}; print({not_needed!r} in sys.modules)"
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert told.stdout == "False\n"
