"""``pytest --rewrite`` writes the expected output of the transcripts in ``tests/scenario`` anew.

``pytest --kills 10`` kills ten times where a test kills again and again; ``make test`` does so twice.
"""

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings

from tests import jvm

HERE = Path(__file__).parent

# Every run draws the same examples, so that a red run is red again, here and in CI; and none is timed.
settings.register_profile("headgate", derandomize=True, deadline=None, database=None, max_examples=150)
settings.load_profile("headgate")

os.environ.setdefault("SPARK_SUBMIT_OPTS", jvm.options())

# What commands log goes where it is in nobody's way. Five files for each job are kept.
os.environ.setdefault("HEADGATE_LOGS", str(Path(tempfile.gettempdir()) / "headgate-test-logs"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="write the expected output of the transcripts anew")
    parser.addoption("--kills", type=int, default=2, help="kills in a test that kills again and again (default: 2)")


@pytest.fixture
def kills(request: pytest.FixtureRequest) -> int:
    """How often a test kills that does so again and again."""
    return int(request.config.getoption("--kills"))


LONG = ("kills", "spark", "examples", "connect", "session", "store")
"""Directories whose files take minutes each. They come first, so that no worker is left with one at the end."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    ranks = {name: rank for rank, name in enumerate(LONG)}
    items.sort(key=lambda item: ranks.get(item.path.relative_to(HERE).parts[0], len(LONG)))
