"""The pages of ``headgate server``: jobs of storages, also those that no process runs any more."""

import os
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from headgate.serve.access import ServerAccess
from headgate.serve.listening import HttpServer
from headgate.serve.server import StoredJobs
from headgate.store.api import open_store
from headgate.store.jobstore import JobStore
from tests.cli.live import crashed, stopped
from tests.serve.described import DESCRIBED
from tests.ui.conftest import WAIT_MS, Opened
from tests.ui.live import DrivenJob
from tests.view.watched import keep

expect.set_options(timeout=WAIT_MS)
TOKEN = "0123456789abcdef"  # noqa: S105 - of a test


@pytest.fixture
def address(tmp_path: Path, job: DrivenJob) -> Iterator[str]:
    """A server for two storages. In the first is the job that runs, and others that have ended."""
    assert job.address
    storages = [tmp_path / "storage", tmp_path / "second"]
    for core, storage, name in ((stopped(), 0, "sums"), (crashed(), 0, "payments"), (crashed(), 1, "sums")):
        store = JobStore.open(open_store(str(storages[storage])), name)
        keep(core, store)
        store.put_description(DESCRIBED)
    warned: list[str] = []
    listening = socket.create_server(("127.0.0.1", 0))
    about = {"pid": os.getpid(), "machine": "here", "job": None, "leader": None}
    jobs = StoredJobs([open_store(str(one)) for one in storages], about, warned.append)
    serving = HttpServer(listening, jobs, ServerAccess(TOKEN, None))
    serving.start()
    yield f"http://127.0.0.1:{listening.getsockname()[1]}/#token={TOKEN}"
    serving.close()
    assert warned == []


def test_all_jobs_of_the_storages_are_listed_and_found(address: str, open_page: Opened) -> None:
    page = open_page(address)
    table = page.get_by_role("table", name="Jobs")
    names = table.get_by_role("link")
    for name in ("orders", "payments", "sums", "sums~2"):
        expect(names.filter(has_text=name).first).to_be_visible()
    expect(table.get_by_role("row").nth(1)).to_contain_text("orders")  # What runs comes first.
    expect(table.get_by_role("row").filter(has_text="payments")).to_contain_text("crashed")
    page.keyboard.press("/")
    page.keyboard.type("pay")
    expect(table.get_by_role("row")).to_have_count(2)
    table.get_by_role("link", name="payments").click()
    expect(page.get_by_role("alert")).to_contain_text("The job has crashed")


def test_a_job_that_has_ended_is_shown_from_its_storage_and_takes_no_orders(address: str, open_page: Opened) -> None:
    page = open_page(f"{address}&/jobs/sums")
    expect(page.locator(".job-title")).to_contain_text("stopped")
    expect(page.locator(".job-title")).to_contain_text("from its storage")
    expect(page.locator(".node.task").first).to_be_visible()
    for name in ("Checkpoint", "Savepoint", "Stop", "Cancel"):
        button = page.get_by_role("button", name=name, exact=True)
        expect(button).to_have_attribute("aria-disabled", "true")
        expect(button).to_have_attribute("title", re.compile("^The job is not running here"))
    page.evaluate("location.hash = '#/jobs/sums/checkpoints'")
    expect(page.get_by_text("Latest savepoint")).to_be_visible()
    page.evaluate("location.hash = '#/jobs/sums/checkpoints/1/tasks/a'")
    expect(page.get_by_text("1,000 B")).to_be_visible()


def test_a_job_of_another_process_is_live_and_can_be_commanded(address: str, job: DrivenJob, open_page: Opened) -> None:
    page = open_page(f"{address}&/jobs/orders")
    expect(page.get_by_text("live", exact=True)).to_be_visible()
    page.get_by_role("button", name="Checkpoint", exact=True).click()
    followed = page.get_by_role("log")
    job.wait_until_asked()
    number = int(job.core.state.checkpoints.pending[-1].id)
    job.complete(number)
    expect(followed).to_contain_text(f"checkpoint {number} completed")


def test_an_address_with_another_token_works_in_a_tab_that_is_open(address: str, open_page: Opened) -> None:
    place, _, _ = address.partition("#")
    page = open_page(f"{place}#token=wrong")
    expect(page.get_by_text("The token is not the right one")).to_be_visible()
    page.goto(f"{address}&/jobs/payments")
    expect(page.locator(".job-title")).to_contain_text("crashed")
    assert "token" not in page.url


def test_what_there_is_not_is_said(address: str, open_page: Opened) -> None:
    page = open_page(f"{address}&/jobs/nobody")
    expect(page.get_by_text("there is no job nobody; there are: orders")).to_be_visible()
    page.evaluate("location.hash = '#/jobs/payments/checkpoints/999'")
    expect(page.get_by_text("Not found")).to_be_visible()
    page.evaluate("location.hash = '#/jobs/payments/nowhere'")
    expect(page.get_by_text("There is no page nowhere")).to_be_visible()
