"""A job that runs, and somebody who asks it over HTTP."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headgate.run import requests
from headgate.store.api import open_store
from headgate.store.jobstore import JobStore
from tests.cli.live import Job
from tests.serve.described import DESCRIBED
from tests.serve.web import Web, web_of


@pytest.fixture
def store(tmp_path: Path) -> JobStore:
    return JobStore.open(open_store(str(tmp_path / "storage")), "orders")


@pytest.fixture
def job(store: JobStore) -> Iterator[Job]:
    found = Job(store, DESCRIBED)
    yield found
    found.server.close()
    assert found.warned == []


@pytest.fixture
def nobody_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asked for something does not come for the answer, so a job that ends need not wait for them."""
    monkeypatch.setattr(requests, "LAST_WORDS_S", 0.0)


@pytest.fixture
def web(job: Job, store: JobStore) -> Web:
    assert job.server is not None
    return web_of(store)


@pytest.fixture
def user() -> Iterator[ThreadPoolExecutor]:
    """Somebody who asks while the test goes on."""
    with ThreadPoolExecutor(2) as pool:
        yield pool
