"""What happens while somebody looks: checkpoints, operations, failures, and a process that goes away."""

import re
from pathlib import Path

from playwright.sync_api import Page, expect

from tests.ui.conftest import WAIT_MS, Opened
from tests.ui.live import DrivenJob

expect.set_options(timeout=WAIT_MS)


def passing(page: Page, task: str) -> str:
    node = page.locator(".node.task", has=page.locator(f".node-name:text-is('{task}')"))
    found = re.search(r"passing-(\w+)", node.get_attribute("class") or "")
    return found[1] if found else ""


def test_the_barrier_moves_through_the_graph_as_tasks_acknowledge(at: Opened, job: DrivenJob) -> None:
    job.batch("a", 0)
    job.batch("b", 0, 0)
    page = at()
    expect(page.get_by_text("2 tasks")).to_be_visible()
    number = job.trigger()
    expect(page.get_by_text(f"checkpoint {number}: 0 of 2 tasks")).to_be_visible()
    job.acknowledge("a", number)
    expect(page.get_by_text(f"checkpoint {number}: 1 of 2 tasks")).to_be_visible()
    assert passing(page, "a") == "acknowledged"
    assert passing(page, "b") != "acknowledged"
    expect(page.locator(".road.past")).not_to_have_count(0)
    job.complete(number)
    expect(page.get_by_text(re.compile(rf"checkpoint {number}, took"))).to_be_visible()
    expect(page.locator(".node-passing")).to_have_count(0)


def test_what_a_checkpoint_waits_for_is_named(at: Opened, job: DrivenJob) -> None:
    number = job.trigger()
    job.acknowledge("a", number)
    page = at("/checkpoints")
    waiting = page.locator(".waiting")
    expect(waiting.get_by_role("link")).to_have_text(["b"])
    expect(page.get_by_text("1 of 2 tasks")).to_be_visible()
    job.complete(number)
    expect(waiting).to_have_count(0)
    expect(page.get_by_role("link", name=str(number), exact=True)).to_be_visible()


def test_a_new_checkpoint_joins_the_history_by_itself(at: Opened, job: DrivenJob) -> None:
    first = job.checkpoint()
    page = at("/checkpoints/history")
    table = page.get_by_role("table")
    expect(table.get_by_role("link", name=str(first), exact=True)).to_be_visible()
    second = job.checkpoint()
    expect(table.get_by_role("row").nth(1)).to_contain_text(str(second))
    bar = table.get_by_role("row").nth(1).get_by_role("img")
    expect(bar).to_have_attribute("aria-label", "sync 4\u00a0ms, async 21\u00a0ms")


def test_a_savepoint_is_taken_and_deleted_after_a_question(at: Opened, job: DrivenJob) -> None:
    page = at("/savepoints")
    page.get_by_role("button", name="Take a savepoint").click()
    followed = page.get_by_role("log")
    expect(followed).to_contain_text("under way")
    job.wait_until_asked()
    number = int(job.core.state.checkpoints.pending[-1].id)
    expect(page.get_by_text(f"Savepoint {number} is under way")).to_be_visible()
    job.complete(number)
    job.copied(number)
    expect(followed).to_contain_text("done")
    row = page.get_by_role("table").get_by_role("row").nth(1)
    expect(row).to_contain_text("complete")
    expect(row).to_contain_text(f"savepoints/{number}")
    job.checkpoint()  # The job would go on from the savepoint until then, so it could not be deleted.

    row.get_by_role("button", name="Delete").click()
    question = page.get_by_role("dialog")
    expect(question).to_contain_text("Nobody can bring it back")
    expect(question.get_by_role("button", name="Keep it")).to_be_focused()
    page.keyboard.press("Escape")
    expect(question).to_have_count(0)
    row.get_by_role("button", name="Delete").click()
    question.get_by_role("button", name=f"Delete savepoint {number}").click()
    job.wait_until_asked()
    expect(followed).to_contain_text(f"Delete savepoint {number}")


def test_a_savepoint_goes_to_a_directory_and_is_called_something(at: Opened, job: DrivenJob, tmp_path: Path) -> None:
    page = at("/savepoints")
    page.get_by_role("button", name="To a directory").click()
    question = page.get_by_role("dialog", name="Take a savepoint to a directory")
    (tmp_path / "x").touch()
    question.get_by_label("Directory or URI").fill(str(tmp_path))
    question.get_by_role("button", name="Take the savepoint").click()
    followed = page.get_by_role("log")
    expect(followed).to_contain_text(f"no savepoint was taken: target {tmp_path} is not empty (")

    page.get_by_role("button", name="Take a savepoint").click()
    job.wait_until_asked()
    number = int(job.core.state.checkpoints.pending[-1].id)
    job.complete(number)
    job.copied(number)
    row = page.get_by_role("table").get_by_role("row").nth(1)
    row.get_by_role("button", name="Label").click()
    question = page.get_by_role("dialog", name=f"Label savepoint {number}")
    question.get_by_role("textbox").fill("before the upgrade")
    question.get_by_role("button", name="Label it").click()
    expect(row).to_contain_text("before the upgrade")


def test_a_stop_asks_first_and_ends_the_job(at: Opened, job: DrivenJob) -> None:
    page = at()
    page.get_by_role("button", name="Stop").click()
    question = page.get_by_role("dialog", name="Stop orders?")
    expect(question).to_contain_text("takes a savepoint")
    question.get_by_role("button", name="Keep it running").click()
    assert not job.core.state.checkpoints.pending
    page.get_by_role("button", name="Stop").click()
    question.get_by_role("button", name="Stop with a savepoint").click()
    job.wait_until_asked()
    number = int(job.core.state.checkpoints.pending[-1].id)
    job.complete(number)
    job.copied(number)
    job.do(job.core.write_closing_record)
    job.do(lambda: job.core.tell(job.core.stale_generations_aborted()))
    job.close()
    expect(page.get_by_role("log")).to_contain_text("done")
    expect(page.get_by_text("The process of this job has ended")).to_be_visible()
    expect(page.get_by_text("What is shown was true at")).to_be_visible()
    expect(page.get_by_role("button", name="Savepoint")).to_have_attribute("aria-disabled", "true")


def test_a_job_is_drained_if_the_box_is_ticked(at: Opened, job: DrivenJob) -> None:
    page = at()
    page.get_by_role("button", name="Stop").click()
    question = page.get_by_role("dialog", name="Stop orders?")
    question.get_by_role("checkbox", name="drain it first, for good").check()
    question.get_by_role("button", name="Stop with a savepoint").click()
    job.wait_until_asked()
    assert job.core.state.termination.draining
    expect(page.get_by_role("log")).to_contain_text("the job is being drained: its sources have ended")


def test_a_job_that_fails_while_one_looks_says_so_and_why(at: Opened, job: DrivenJob) -> None:
    page = at()
    expect(page.locator(".job-title")).to_contain_text("running")
    job.fail("b")
    expect(page.locator(".job-title")).not_to_contain_text("running")
    page.keyboard.press("g")
    page.keyboard.press("r")
    expect(page.get_by_text("boom").first).to_be_visible()
    expect(page.get_by_text("user", exact=True).first).to_be_visible()


def test_what_stands_still_is_said(at: Opened, job: DrivenJob) -> None:
    page = at()
    job.stalled = ["task a: no batch for 3 min"]
    job.batch("a", 1)
    job.server.publish([{"at": 0, "event": "notice", "text": "look again"}])
    expect(page.get_by_text("task a: no batch for 3 min")).to_be_visible()


def test_a_token_that_only_reads_commands_nothing(job: DrivenJob, open_page: Opened) -> None:
    page = open_page(f"{job.address}#token={job.read_token}")
    expect(page.locator("h1")).to_have_text("orders")
    expect(page.locator(".job-actions .read-only")).to_be_visible()
    for name in ("Checkpoint", "Savepoint", "Stop", "Cancel"):
        button = page.get_by_role("button", name=name, exact=True)
        expect(button).to_have_attribute("aria-disabled", "true")
        expect(button).to_have_attribute("title", "This token only reads")
    page.get_by_role("button", name="Savepoint", exact=True).click(force=True)
    assert not job.core.state.checkpoints.pending


def test_a_token_that_is_missing_or_wrong_is_asked_for(job: DrivenJob, open_page: Opened) -> None:
    page = open_page(job.address)
    expect(page.get_by_text("A token is needed")).to_be_visible()
    page.get_by_label("Token").fill("another")
    page.keyboard.press("Enter")
    expect(page.get_by_text("The token is not the right one")).to_be_visible()
    assert page.evaluate("sessionStorage.length") == 0
    page.get_by_label("Token").fill(job.token)
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("orders")
