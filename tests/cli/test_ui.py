"""``headgate ui``: an address that works, and a browser that is led there without a token for all to read."""

import os
import stat
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from typer.testing import CliRunner, Result

from headgate.cli import app
from headgate.store.api import open_store
from headgate.store.jobstore import JobStore
from tests.cli.live import Job


@pytest.fixture
def storage(tmp_path: Path) -> Path:
    return tmp_path / "storage"


@pytest.fixture
def job(storage: Path) -> Iterator[Job]:
    found = Job(JobStore.open(open_store(str(storage)), "orders"))
    yield found
    found.server.close()


def ui(storage: Path, *options: str) -> Result:
    return CliRunner().invoke(app, ["ui", "orders", "--storage", str(storage), *options])


def with_browser(storage: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own: which browsers there are is looked up once."""
    asked = [sys.executable, "-m", "headgate", "ui", "orders", "--storage", str(storage)]
    hidden = {"BROWSER": "", "DISPLAY": "", "WAYLAND_DISPLAY": ""}
    return subprocess.run(
        asked, env={**os.environ, **hidden, **environment}, capture_output=True, text=True, timeout=600, check=False
    )


def ask(address: str, path: str, method: str = "GET") -> int:
    """With the token that is in the address, as the page does."""
    parts = urlsplit(address)
    [token] = parse_qs(parts.fragment)["token"]
    asked = urllib.request.Request(f"http://{parts.netloc}{path}", method=method)
    asked.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(asked, timeout=60) as answer:  # noqa: S310 - an address of ours
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


@pytest.mark.usefixtures("job")
def test_the_address_leads_to_the_pages_and_its_token_lets_in(storage: Path) -> None:
    told = ui(storage, "--no-browser")
    assert told.exit_code == 0, told.stderr
    address = told.stdout.strip()
    assert address.endswith("&/jobs/orders")
    assert ask(address, "/") == 200
    assert ask(address, "/v1/jobs/orders") == 200
    assert ask(address, "/v1/jobs/orders/checkpoints/details/77/hold", "POST") == 202


@pytest.mark.usefixtures("job")
def test_an_address_to_look_at_commands_nothing(storage: Path) -> None:
    address = ui(storage, "--no-browser", "--read-only").stdout.strip()
    assert ask(address, "/v1/jobs/orders") == 200
    assert ask(address, "/v1/jobs/orders/checkpoints", "POST") == 403


@pytest.mark.usefixtures("job")
def test_a_browser_is_led_there_by_a_file_of_its_owner_alone(storage: Path, tmp_path: Path) -> None:
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/arguments\n')
    browser.chmod(0o755)
    told = with_browser(storage, BROWSER=f"{browser} %s", HEADGATE_LOGS=str(tmp_path / "state"))
    assert told.returncode == 0, told.stderr
    [token] = parse_qs(urlsplit(told.stdout.strip()).fragment)["token"]
    given = (tmp_path / "arguments").read_text().strip()
    assert token not in given
    file = Path(given.removeprefix("file://"))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert told.stdout.strip().replace("&", "&amp;") in file.read_text()
    assert [each.name for each in file.parent.iterdir()] == ["orders.html"], "nothing else stays there"


@pytest.mark.usefixtures("job")
def test_without_a_browser_the_address_is_enough(storage: Path, tmp_path: Path) -> None:
    told = with_browser(storage, HEADGATE_LOGS=str(tmp_path))
    assert told.returncode == 0, told.stderr
    assert told.stdout.startswith("http://127.0.0.1:")
    assert "open the address yourself" in told.stderr


def test_of_a_job_that_does_not_run_it_is_said_where_to_see_it(storage: Path, job: Job) -> None:
    job.server.close()
    told = ui(storage)
    assert (told.exit_code, told.stdout) == (2, "")
    assert told.stderr == "headgate: job orders is not running here: see it with `headgate server STORAGE`\n"
