"""States that are hard to bring about, from recorded answers: nothing there, very much there, nobody there."""

from collections.abc import Callable
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect

from tests.ui.answers import Recorded
from tests.ui.conftest import WAIT_MS, Opened
from tests.ui.timing import load

expect.set_options(timeout=WAIT_MS)
Served = Callable[[str], tuple[Recorded, str]]


def test_a_storage_without_jobs_says_how_to_get_one(world: Served, open_page: Opened) -> None:
    _, address = world("none")
    page = open_page(f"{address}/")
    expect(page.get_by_text("No job yet")).to_be_visible()
    expect(page.get_by_text("headgate run job.py")).to_be_visible()


def test_a_storage_that_cannot_be_reached_is_named_above_the_jobs_of_the_others(
    world: Served, open_page: Opened
) -> None:
    recorded, address = world("busy")
    recorded.unreachable = {"s3a://archive/jobs": "it has not answered for 10 s"}
    page = open_page(f"{address}/")
    expect(page.get_by_role("status").filter(has_text="s3a://archive/jobs cannot be reached")).to_be_visible()
    expect(page.get_by_text("it has not answered for 10 s. Its jobs are shown as they were last seen")).to_be_visible()
    expect(page.get_by_role("link", name="orders").first).to_be_visible()
    recorded.unreachable = {}
    expect(page.get_by_text("cannot be reached")).to_have_count(0)


def test_a_job_that_never_began_has_no_empty_tables(world: Served, open_page: Opened) -> None:
    _, address = world("empty")
    page = open_page(f"{address}/jobs/first")
    for path, words in {
        "": "No plan is known",
        "/checkpoints": "No checkpoint yet",
        "/checkpoints/configuration": "The settings were not written down",
        "/savepoints": "No savepoint yet",
        "/recovery": "Nothing has failed",
        "/sinks": "No sinks are known",
        "/diagnosis": "Nothing found",
        "/events": "Nothing has happened yet",
        "/state": "No checkpoint is kept",
        "/flamegraph": "The job does not run",
        "/logs": "No log on this machine",
    }.items():
        page.evaluate("path => { location.hash = path }", f"#/jobs/first{path}")
        expect(page.get_by_text(words).first, path).to_be_visible()


def test_a_finding_names_its_cause_its_evidence_and_the_setting(world: Served, open_page: Opened) -> None:
    _, address = world("busy")
    page = open_page(f"{address}/jobs/orders")
    page.get_by_role("link", name="Diagnosis").click()
    expect(page.get_by_role("heading", name="slow start delay")).to_be_visible()
    expect(page.get_by_text("of which 5.1 s in task enriched")).to_be_visible()
    expect(page.get_by_text("Checkpointing.aligned_checkpoint_timeout = 1s")).to_be_visible()
    page.get_by_role("link", name="1284").click()
    expect(page.get_by_role("heading", name="Checkpoint 1284")).to_be_visible()


def test_receipts_say_what_each_sink_published_with_a_checkpoint(world: Served, open_page: Opened) -> None:
    recorded, address = world("busy")
    recorded.stands_at = recorded.at
    page = open_page(f"{address}/jobs/orders")
    page.get_by_role("link", name="Sinks").click()
    newest = recorded.receipts(recorded.world("orders"))["receipts"][0]
    row = page.get_by_role("table", name="Receipts").get_by_role("row").nth(1)
    for words in (str(newest["checkpoint"]), newest["sink"], newest["hash"], "orders: "):
        expect(row).to_contain_text(words)


def test_a_sink_says_what_it_owes_at_this_moment(world: Served, open_page: Opened) -> None:
    recorded, address = world("busy")
    recorded.stands_at = 6.0
    page = open_page(f"{address}/jobs/clicks/sinks")
    row = page.get_by_role("table", name="Transactions").get_by_role("row").nth(1)
    for words in ("summaries", "full", "6 batches"):
        expect(row).to_contain_text(words)
    expect(row.get_by_role("cell").nth(3)).to_have_text("3")
    expect(row.get_by_role("cell").nth(4)).to_have_text("1")
    page.evaluate("location.hash = '#/jobs/payments/sinks'")
    expect(page.get_by_text("Only a job that runs can tell")).to_be_visible()


def test_a_restart_is_opened_for_its_parts_and_its_stack_trace(world: Served, open_page: Opened) -> None:
    _, address = world("busy")
    page = open_page(f"{address}/jobs/payments/recovery/restarts")
    table = page.get_by_role("table", name="Restarts, the newest first")
    expect(table.get_by_role("img", name="restore 2.30 s, replay 900 ms").first).to_be_visible()
    table.get_by_role("button", name="amount is not a number").first.click()
    drawer = page.get_by_role("complementary")
    expect(drawer).to_contain_text("Restart of the whole job")
    for words in ("Decide140 ms", "Wait1 s", "Restore2.30 s", "Replay900 ms"):
        expect(drawer).to_contain_text(words.replace(" ", "\u00a0"))
    expect(drawer.locator("pre")).to_contain_text('File "/opt/jobs/payments.py", line 41, in update')
    page.keyboard.press("Escape")
    expect(drawer).to_have_count(0)


def test_a_task_with_uneven_partitions_says_so_in_the_graph_the_table_and_its_drawer(
    world: Served, open_page: Opened
) -> None:
    _, address = world("busy")
    page = open_page(f"{address}/jobs/orders")
    expect(page.locator(".node-skew")).to_have_text("skew 3.2x")
    expect(page.locator(".node.task", has=page.locator(".node-skew"))).to_contain_text("enriched")
    table = page.get_by_role("table", name="Tasks")
    expect(table.get_by_role("row").filter(has_text="user-windows")).to_contain_text("1.6x")
    page.locator(".node.task", has=page.locator(".node-skew")).click()
    expect(page.get_by_role("complementary")).to_contain_text("Skew3.2x of state 0")


def test_sparks_own_ui_is_linked_or_how_to_switch_it_on_is_told(world: Served, open_page: Opened) -> None:
    _, address = world("busy")
    page = open_page(f"{address}/jobs/orders")
    link = page.get_by_role("link", name="Spark's UI")
    expect(link).to_have_attribute("href", "http://driver-7f9c.example.org:4040")
    expect(link).to_have_attribute("rel", "noopener noreferrer")
    page.evaluate("location.hash = '#/jobs/sensors/configuration'")
    expect(page.get_by_text('spark_conf={"spark.ui.enabled": "true"}')).to_be_visible()
    expect(link).to_have_count(0)


def test_a_failed_job_leads_to_its_stack_trace(world: Served, open_page: Opened) -> None:
    _, address = world("busy")
    page = open_page(f"{address}/")
    expect(page.get_by_role("row").filter(has_text="payments")).to_contain_text("failed")
    page.get_by_role("link", name="payments").click()
    expect(page.get_by_role("alert")).to_contain_text("amount is not a number")
    page.get_by_role("link", name="Stack trace").click()
    expect(page.locator("pre").first).to_contain_text('File "/opt/jobs/payments.py", line 41, in update')


def test_a_flame_graph_is_looked_into_with_keys_and_searched(world: Served, open_page: Opened) -> None:
    _, address = world("busy")
    page = open_page(f"{address}/jobs/orders/flamegraph")
    graph = page.get_by_role("tree", name="Flame graph of all threads of the JVM of Spark's driver")
    told = page.locator(".flame-told")
    expect(told).to_contain_text("all threads872 samples, 100.0 %")
    graph.press("ArrowDown")
    expect(told).to_contain_text("Executor task launch worker for task # in stage # (TID #)670 samples, 76.8 %")
    graph.press("ArrowRight")
    expect(told).to_contain_text("stream execution thread for user-windows")
    graph.press("Enter")
    expect(graph.locator(".frame.above")).to_have_count(1)
    expect(graph.get_by_role("treeitem", name="netty")).to_have_count(0)
    graph.press("Escape")
    expect(graph.locator(".frame.above")).to_have_count(0)
    page.keyboard.press("/")
    page.keyboard.type("rocksdb")
    expect(page.get_by_text("410 samples with a match, 47.0 %")).to_be_visible()
    expect(graph.locator(".frame.hit")).to_have_count(1)
    graph.locator(".frame.hit").click()
    expect(told).to_contain_text("org.rocksdb.WriteBatchWithIndex.put")
    page.get_by_role("button", name="Zoom out").click()
    page.get_by_label("Which samples").select_option("off_cpu")
    expect(page.get_by_text("Driver JVM: Off CPU")).to_be_visible()
    expect(graph.get_by_role("treeitem", name="netty-rpc-#")).to_have_count(1)


def test_a_flame_graph_that_is_not_there_says_why(world: Served, open_page: Opened) -> None:
    recorded, address = world("busy")
    recorded.sampling = "first"
    page = open_page(f"{address}/jobs/orders/flamegraph/python-workers")
    expect(page.get_by_text("100 samples, 50 ms apart")).to_be_visible()
    recorded.sampling = "failed"
    expect(page.get_by_text("pip install 'headgate[profile]'")).to_be_visible()
    recorded.sampling = None
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_text("Nothing was seen")).to_be_visible()
    page.evaluate("location.hash = '#/jobs/payments/flamegraph'")
    expect(page.get_by_text("Only a job that runs can be looked into")).to_be_visible()


def test_state_is_shown_when_it_is_asked_for_and_two_checkpoints_are_compared(world: Served, open_page: Opened) -> None:
    recorded, address = world("busy")
    recorded.stands_at = 6.0
    page = open_page(f"{address}/jobs/orders/state")
    expect(page.get_by_text("Nothing was asked for")).to_be_visible()
    page.get_by_label("Operator").select_option("user-windows")
    page.get_by_label("Key").fill("user=ann")
    page.keyboard.press("Enter")
    table = page.get_by_role("table", name="State of user-windows")
    expect(table.get_by_role("row")).to_have_count(3)
    expect(table).to_contain_text('{"user":"ann"')
    page.get_by_label("Compared with").select_option(
        page.get_by_label("Compared with").locator("option").nth(1).inner_text()
    )
    page.get_by_label("Key").fill("")
    page.get_by_role("button", name="Compare").click()
    changes = page.get_by_role("table", name="Changes of user-windows")
    for word in ("added", "removed", "changed"):
        expect(changes.get_by_text(word, exact=True).first).to_be_visible()
    page.get_by_label("Key").fill("who=ann")
    page.get_by_role("button", name="Compare").click()
    expect(page.get_by_text("key who: the key has no such column; it has: user")).to_be_visible()


def test_what_a_checkpoint_waits_for_shows_its_python_stack_when_asked(world: Served, open_page: Opened) -> None:
    recorded, address = world("busy")
    recorded.stands_at = 1.7
    page = open_page(f"{address}/jobs/orders/checkpoints")
    panel = page.locator(".waiting").first
    expect(panel).to_contain_text("batch 5301 has been running for 4.18 s")
    expect(panel.locator("pre")).to_have_count(0)
    panel.get_by_label("Python stacks").check()
    expect(panel).to_contain_text("write (/opt/jobs/ledger.py:41)")
    expect(panel.get_by_label("Stack of process 41911")).to_contain_text("score (/opt/jobs/orders.py:52)")


def test_a_server_that_goes_away_and_comes_back_is_noticed(world: Served, open_page: Opened) -> None:
    recorded, address = world("busy")
    page = open_page(f"{address}/jobs/orders")
    expect(page.get_by_text("live", exact=True)).to_be_visible()
    recorded.gone.set()
    expect(page.get_by_text("The job does not answer")).to_be_visible()
    expect(page.get_by_text("What is shown was true at")).to_be_visible()
    expect(page.locator(".node.task").first).to_be_visible()
    page.get_by_role("button", name="Try now").click()
    expect(page.get_by_text("The job does not answer")).to_be_visible()
    recorded.gone.clear()  # Now it comes back by itself.
    expect(page.get_by_text("live", exact=True)).to_be_visible()
    expect(page.get_by_text("The job does not answer")).to_have_count(0)


def test_an_operation_that_fails_stays_until_somebody_has_read_why(world: Served, open_page: Opened) -> None:
    recorded, address = world("busy")
    clicks = recorded.world("clicks")
    clicks.phase, clicks.state = "running", "RUNNING"
    page = open_page(f"{address}/jobs/clicks")
    page.get_by_role("button", name="Stop").click()
    page.get_by_role("button", name="Stop with a savepoint").click()
    followed = page.get_by_role("log")
    expect(followed).to_contain_text("the savepoint failed, so the job runs on")
    expect(followed.get_by_text("failed", exact=True)).to_be_visible()
    followed.get_by_role("button", name="Dismiss").click()
    expect(followed.locator(".following")).to_have_count(0)


def test_200_tasks_are_drawn_and_only_rows_that_can_be_seen_are_in_the_page(world: Served, open_page: Opened) -> None:
    recorded, address = world("large")
    recorded.stands_at = 6.0
    page = open_page(f"{address}/jobs/large")
    expect(page.locator(".node.task")).to_have_count(200)
    table = page.get_by_role("table", name="Tasks")
    expect(table).to_have_attribute("aria-rowcount", "201")
    assert table.get_by_role("row").count() < 80
    table.get_by_role("button", name="Rows").click()  # The busiest first.
    rates = {one["id"]: one["rows_per_s"] for one in recorded.worlds[0].details(6.0)["vertices"]}
    expect(table.get_by_role("row").nth(1)).to_contain_text(max(rates, key=rates.__getitem__))


def test_10000_checkpoints_leave_the_page_as_small_as_the_first_200(world: Served, open_page: Opened) -> None:
    _, address = world("busy")
    page = open_page(f"{address}/jobs/sensors/checkpoints/history")
    table = page.get_by_role("table", name="Checkpoints, the newest first")
    expect(table).to_have_attribute("aria-rowcount", "201")
    size = "document.getElementsByTagName('*').length"
    small = page.evaluate(size)
    load(page, 10_000)
    expect(table).to_have_attribute("aria-rowcount", "10001")
    assert table.get_by_role("row").count() < 100
    assert page.evaluate(size) < 1.5 * small
    table.evaluate("box => { box.scrollTop = box.scrollHeight }")
    expect(table.get_by_role("link", name="76401", exact=True)).to_be_visible()
    table.evaluate("box => { box.scrollTop = box.scrollHeight / 2 }")
    # The browser may keep a row in its place while others are drawn around it: the middle is met within some screens.
    page.wait_for_function(
        """() => {
          const links = [...document.querySelectorAll("[role=table][aria-rowcount='10001'] [role=row] a")];
          return links.length > 0 && links.every((link) => Math.abs(Number(link.textContent) - 81400) < 200);
        }""",
        timeout=60_000,
    )
    assert table.get_by_role("row").count() < 100


@pytest.mark.parametrize(("name", "job", "tasks"), [("busy", "orders", 5), ("large", "large", 200)])
def test_the_first_view_asks_for_little_however_large_the_job_is(
    world: Served, open_page: Opened, name: str, job: str, tasks: int
) -> None:
    recorded, address = world(name)
    recorded.stands_at = 6.0
    page = open_page("about:blank")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(urlsplit(request.url).path))
    page.goto(f"{address}/jobs/{job}")
    expect(page.locator(".node.task")).to_have_count(tasks)
    expect(page.get_by_role("img", name="Duration of checkpoints")).to_be_visible()
    files = [path for path in asked if not path.startswith("/v1/")]
    assert sorted(files) == sorted(["/", "/app.css", "/app.js", "/icon.svg", "/theme.js"])
    questions = sorted(path.removeprefix("/v1/") for path in asked if path.startswith("/v1/"))
    assert questions == ["config", *(f"jobs/{job}/{what}" for what in ("checkpoints", "operations", "stream"))]
