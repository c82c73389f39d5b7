"""``pytest --rewrite`` writes the expected output of the transcripts in ``tests/scenario`` anew.

``pytest --kills 10`` kills ten times where a test kills again and again; ``make test`` does so twice.

``pytest --long`` also runs what takes long and has a shorter sister, which runs always (``tests.tiers``).

``pytest -m "not heavy"`` runs what needs no JVM and no server (``tests.tiers``), and ``pytest --times FILE`` writes the
seconds that each test took.
"""

import gc
import json
import os
import signal
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests import jvm, mounts, tiers

HERE = Path(__file__).parent

# Every run draws the same examples, so that a red run is red again, here and in CI; and none is timed.
for profile, number in tiers.EXAMPLES.items():
    settings.register_profile(profile, derandomize=True, deadline=None, database=None, max_examples=number)
settings.load_profile("headgate")

os.environ.setdefault("SPARK_SUBMIT_OPTS", jvm.options())
os.environ.setdefault("HEADGATE_STARTS", str(jvm.STARTS))

# A shell has its background jobs ignore Ctrl-C, and so would every process that a test starts and interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# What commands log goes where it is in nobody's way. Five files for each job are kept.
os.environ.setdefault("HEADGATE_LOGS", str(Path(tempfile.gettempdir()) / "headgate-test-logs"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="write the expected output of the transcripts anew")
    parser.addoption("--kills", type=int, default=2, help="kills in a test that kills again and again (default: 2)")
    parser.addoption("--long", action="store_true", help="also run what is marked long")
    parser.addoption("--times", type=Path, help="a file for the seconds that each test took, as JSON")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "heavy: starts a JVM or a server, or takes long (see tests/tiers.py)")
    config.addinivalue_line("markers", "ill: the rules of the doctor that find something here (tests/spark)")
    config.addinivalue_line("markers", "well: the rules of the doctor that look and find nothing here (tests/spark)")
    config.addinivalue_line("markers", "long: takes long, and has a shorter sister: only with --long")


@pytest.fixture
def kills(request: pytest.FixtureRequest) -> int:
    """How often a test kills that does so again and again."""
    return int(request.config.getoption("--kills"))


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[mounts.Mount]:
    """Makes small file systems in memory, which go with the test."""
    with ExitStack() as stack:
        yield lambda options: stack.enter_context(
            mounts.in_memory(tmp_path / f"mount-{len(list(tmp_path.glob('mount-*')))}", options)
        )


FIRST = (
    "spark/test_jobs.py",
    "spark/test_kills.py",
    "examples",
    "kills",
    "connect/kafka/test_twophase.py",
    "job/test_windows.py",
    "connect/test_jobs.py",
    "connect/kafka/test_cluster.py",
    "spark",
    "connect",
    "job",
    "session",
    "store",
    "services",
    "sink",
    "source",
    "mutation",
)
"""Files and folders that take long, longest first, so that no worker is left with one at the end."""
RANKS = {name: rank for rank, name in enumerate(FIRST)}


def folder_of(item: pytest.Item) -> str:
    return item.path.relative_to(HERE).parts[0]


def rank_of(item: pytest.Item) -> int:
    file = item.path.relative_to(HERE).as_posix()
    return RANKS.get(file, RANKS.get(folder_of(item), len(RANKS)))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    items.sort(key=rank_of)
    if not config.getoption("--long"):
        long = [item for item in items if item.get_closest_marker("long") is not None]
        items[:] = [item for item in items if item.get_closest_marker("long") is None]
        config.hook.pytest_deselected(items=long)


@pytest.hookimpl(tryfirst=True)
def pytest_itemcollected(item: pytest.Item) -> None:
    contract: Any = getattr(item, "cls", None)
    if hasattr(contract, "kills"):
        contract.kills = max(1, item.config.getoption("--kills") // 2)
    if tiers.is_heavy(item, folder_of(item)):
        item.add_marker(pytest.mark.heavy)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    if item.get_closest_marker("heavy") is not None:
        return (yield)
    with tiers.no_jvm_and_no_server():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Iterator[None]:
    result = yield
    if (note := tiers.take_note()) is not None:
        pytest.fail(f"a test that starts a JVM is heavy: mark it so (tests/tiers.py); it started {note}")
    return result


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Without looks at what can go: thousands of tests come, and all stay."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


times: defaultdict[str, float] = defaultdict(float)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    times[report.nodeid] += report.duration


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write what took how long, longest first; in a run of several processes, that which started the others does."""
    file: Path | None = session.config.getoption("--times")
    if file is not None and "PYTEST_XDIST_WORKER" not in os.environ:
        file.parent.mkdir(exist_ok=True)
        longest_first = sorted(times.items(), key=lambda one: -one[1])
        file.write_text(json.dumps({name: round(seconds, 2) for name, seconds in longest_first}, indent=0) + "\n")
