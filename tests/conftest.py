"""``pytest --rewrite`` writes the expected output of the transcripts in ``tests/scenario`` anew."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="write the expected output of the transcripts anew")
