"""``pytest --rewrite`` writes the expected output of the transcripts in ``tests/scenario`` anew."""

import os

import pytest

# Tests start many JVMs, and none lives long: a simple compiler and collector halve what a start costs.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="write the expected output of the transcripts anew")
