"""One Spark session for each module of tests that need no kill, and marks to which tests of illnesses are held."""

from collections.abc import Generator, Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests import sessions


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    yield from sessions.made()


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, Any, Any]:
    """A module that has ``hold`` looks at each of its tests that has passed."""
    result = yield
    if (hold := getattr(pyfuncitem.module, "hold", None)) is not None:
        hold(pyfuncitem)
    return result
