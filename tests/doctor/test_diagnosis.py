"""Rules over what is recorded of a job: each names its illness, and none says anything of a healthy one."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headgate.core import events as e
from headgate.core.graph import Graph
from headgate.core.restart import FailureClass
from headgate.doctor.cause import diagnosis_data, diagnosis_text
from headgate.doctor.diagnosis import RULES, diagnose
from headgate.doctor.facts import SEEN_MIN
from headgate.doctor.finding import Severity
from headgate.store.api import open_store
from headgate.store.jobstore import JobStore
from tests.doctor.sick import EVENT_MS, Sick, rules
from tests.helpers import channel, line, task
from tests.mounts import Mount, needs_root
from tests.step_helpers import OTHER
from tests.view.watched import Watched

TABLE = Path(__file__).parents[2] / "docs" / "diagnosis.md"


@pytest.fixture
def store(tmp_path: Path) -> JobStore:
    return JobStore.open(open_store(str(tmp_path / "storage")), "orders")


def healthy(job: Sick, count: int = 40, **more: Any) -> None:
    """All is well, for a while."""
    for number in range(count):
        event_ms = EVENT_MS + number * 10_000
        job.batch("a")
        job.batch("b", state=min(5_000, 200 * number), event_ms=event_ms, watermark_ms=event_ms - 60_000)
        job.core.note("gc", ratio=0.03)
        job.core.note("python", task="b", ratio=0.2)
        job.go(**more)


def test_nothing_is_said_of_a_healthy_job_and_every_rule_has_looked(store: JobStore) -> None:
    job = Sick(store)
    healthy(job)
    seen = diagnose(replace(job.facts(), partitions={"b": state(10 << 20, 11 << 20)}))
    assert (seen.causes, seen.unknown) == ((), ())
    assert diagnosis_text(seen) == f"nothing found: {len(RULES)} rules looked"
    assert diagnosis_data(seen)["ok"] is True


def test_a_job_that_has_just_begun_has_too_few_facts_and_says_which(store: JobStore) -> None:
    job = Sick(store)
    healthy(job, SEEN_MIN - 1, held={"b": 60_000}, commit_ms=60_000)
    seen = job.look()
    assert seen.causes == ()
    assert {"slow-start-delay", "slow-commit", "state-grows", "batches-longer-than-interval"} <= set(seen.unknown)
    assert f"{len(seen.unknown)} have too few facts yet" in diagnosis_text(seen)


def test_one_slow_checkpoint_among_quick_ones_is_no_illness(store: JobStore) -> None:
    job = Sick(store)
    healthy(job, 4, held={"b": 60_000}, commit_ms=60_000, publish_ms=60_000, pre_commit_ms=60_000)
    healthy(job, 8)
    assert job.look().causes == ()


def test_without_settings_of_the_job_nothing_fails(store: JobStore) -> None:
    job = Sick(store)
    healthy(job, 8)
    seen = diagnose(replace(job.facts(), described={}))
    assert seen.causes == ()


# -- checkpoints -----------------------------------------------------------------------------------------------------


def test_a_reader_with_a_backlog_is_named_with_how_busy_it_is(store: JobStore) -> None:
    job = Sick(store)
    healthy(job, 6, held={"b": 6_000})
    cause = job.found("slow-start-delay")
    assert cause.evidence.startswith(
        "from the trigger to the last barrier 6.0 s (median of 6 checkpoints), of which 6.0 s"
    )
    assert "in task b, which is busy" in cause.evidence
    assert (cause.tasks, cause.checkpoints) == (("b",), (2, 3, 4, 5, 6))
    assert (cause.setting, cause.value) == ("Checkpointing.aligned_checkpoint_timeout", "1s")
    assert rules(job.look()) == {"slow-start-delay"}


def test_the_part_of_a_delay_that_one_task_has_is_no_more_than_the_whole(store: JobStore) -> None:
    job = Sick(store)
    for held in (5_000, 6_000, 7_000, 8_000, 1_000, 1_000, 9_000):
        job.go(held={"b": held})
    evidence = job.found("slow-start-delay").evidence
    assert evidence.startswith(
        "from the trigger to the last barrier 6.0 s (median of 7 checkpoints), of which 6.0 s in task b"
    )


def test_a_task_that_waits_for_its_reader_is_not_to_blame(store: JobStore) -> None:
    job = three(store)
    for _ in range(6):
        job.go(held={"b": 6_000})
    facts = job.facts()
    for each in facts.checkpoints:
        each["tasks"]["b"]["figures"]["backpressured_ratio"] = 0.8
        each["tasks"]["c"]["figures"]["busy_ratio"] = 0.9
    [cause] = [each for each in diagnose(facts).causes if each.rule == "slow-start-delay"]
    assert cause.tasks == ("b", "c")
    assert "task b, which is backpressured 80% of the time by task c, which is busy 90% of the time" in cause.evidence


def test_an_input_that_is_late_is_named_as_what_alignment_waits_for(store: JobStore) -> None:
    job = diamond(store)
    for _ in range(6):
        job.go(held={"right": 7_000})
    cause = job.found("slow-alignment")
    assert cause.evidence.startswith("task both holds its input from left for 7.0 s (median of 6 checkpoints) until")
    assert cause.tasks == ("both", "right")
    assert cause.setting == "Checkpointing.aligned_checkpoint_timeout"
    assert len(cause.checkpoints) == 5, "the newest of those that were slow"
    assert rules(job.look()) == {"slow-alignment"}


def three(store: JobStore) -> Sick:
    """A -> b -> c."""
    return shaped(store, line("a", "b", "c"))


def diamond(store: JobStore) -> Sick:
    """A -> left, right -> both."""
    tasks = (task("a", source=True), task("left"), task("right"), task("both", sinks=("out",)))
    ways = (("a", "left"), ("a", "right"), ("left", "both"), ("right", "both"))
    return shaped(store, Graph(tasks, tuple(channel(*way) for way in ways)))


def shaped(store: JobStore, graph: Graph) -> Sick:
    """A job with this graph, and a plan that says so."""
    job = Sick(store, graph)
    first, last = job.described["plan"]["tasks"]
    job.described["plan"]["tasks"] = [
        {**(last if each.sinks else first), "id": each.id, "operators": first["operators"]} for each in graph.tasks
    ]
    job.described["plan"]["channels"] = [
        {"id": each.id, "from": each.upstream, "to": each.downstream, "operator": "x", "input": 0}
        for each in graph.channels
    ]
    return job


@pytest.mark.parametrize(
    ("part", "facts", "rule", "told", "setting"),
    [
        ("sync_ms", {"files": 2_000}, "slow-sync", "to find the 2,000 files", "spark.sql.shuffle.partitions"),
        ("sync_ms", {"files": 9}, "slow-sync", "to find the 9 files", "Checkpointing.working_directory"),
        (
            "async_ms",
            {"files": 9, "new_bytes": 50_000_000, "total_bytes": 90_000_000},
            "slow-async",
            "task b takes 10.0 s for 50.0 MB that are new, 5.0 MB a second; it names 9 files of 10.0 MB",
            "Checkpointing.interval",
        ),
        (
            "async_ms",
            {"files": 3_000, "new_bytes": 9_000_000, "total_bytes": 30_000_000},
            "slow-async",
            "it names 3,000 files of 10.0 kB on average",
            "spark.sql.shuffle.partitions",
        ),
    ],
)
def test_a_slow_part_of_a_snapshot_is_named(
    store: JobStore, part: str, facts: dict[str, float], rule: str, told: str, setting: str
) -> None:
    job = Sick(store)
    for _ in range(6):
        job.go(snapshot={"b": {**facts, part: 10_000}})
    cause = job.found(rule)
    assert told in cause.evidence
    assert (cause.setting, cause.tasks, cause.checkpoints) == (setting, ("b",), (2, 3, 4, 5, 6))
    assert rules(job.look()) == {rule}


@pytest.mark.parametrize(
    ("slow", "rule", "told", "setting"),
    [
        ({"pre_commit_ms": 6_000}, "slow-pre-commit", "sink out takes 6.0 s", "Checkpointing.interval"),
        (
            {"publish_ms": 6_000},
            "slow-publish",
            "file:///data/headgate/orders takes 6.0 s for the record",
            "Checkpointing.storage",
        ),
        ({"commit_ms": 6_000}, "slow-commit", "6.0 s from complete until committed", "Checkpointing.interval"),
        (
            {"commit_ms": 3_000, "tries": 3},
            "slow-commit",
            "18 attempts failed in 6 checkpoints",
            "Checkpointing.interval",
        ),
    ],
)
def test_a_slow_sink_or_storage_is_named(
    store: JobStore, slow: dict[str, Any], rule: str, told: str, setting: str
) -> None:
    job = Sick(store)
    for _ in range(6):
        job.go(**slow)
    cause = job.found(rule)
    assert told in cause.evidence
    assert (cause.setting, cause.tasks) == (setting, ("b",) if rule != "slow-publish" else ())
    assert rules(job.look()) == {rule}


def test_what_takes_less_than_half_of_the_interval_is_not_slow(store: JobStore) -> None:
    job = Sick(store)
    for _ in range(6):
        job.go(commit_ms=4_900, publish_ms=4_900, pre_commit_ms=4_900, held={"b": 4_900})
    assert job.look().causes == ()
    job.described["checkpointing"]["interval_ms"] = None
    assert job.look().causes == ()


def test_checkpoints_that_fail_one_after_the_other_are_a_problem_and_one_is_not(store: JobStore) -> None:
    job = Sick(store)
    healthy(job, 2)

    def fail() -> None:
        job.core.ask()
        [pending] = job.core.state.checkpoints.pending
        job.core.tell(e.PreCommitFailed(job.core.state.leadership.generation, pending.id, "out", "disk full"))  # type: ignore[arg-type]

    job.core.tell(job.core.committed("a", 2), job.core.committed("b", 2, 2))
    job.core.state = replace(job.core.state, settings=replace(job.core.state.settings, tolerable_failed_checkpoints=9))
    fail()
    fail()
    assert job.look().causes == ()
    fail()
    cause = job.found("checkpoints-fail")
    assert cause.verdict is Severity.PROBLEM
    assert cause.evidence.startswith("3 in a row, the last because: checkpoint 5 given up")
    assert cause.checkpoints == (3, 4, 5)


# -- tasks -----------------------------------------------------------------------------------------------------------


def test_batches_that_take_longer_than_the_interval_are_named_in_the_words_of_the_advice(store: JobStore) -> None:
    job = Sick(store)
    for _ in range(6):
        job.batch("b", took_ms=14_000)
        job.go()
    cause = job.found("batches-longer-than-interval")
    assert cause.evidence == "batches of task b take about 14000 ms, and checkpoints are wanted every 10000 ms"
    assert (cause.setting, cause.value, cause.tasks) == ("Checkpointing.interval", "28s", ("b",))


def test_more_partitions_than_the_rows_are_worth_are_named(store: JobStore) -> None:
    job = Sick(store)
    for number in range(6):
        job.batch("b", rows=500, took_ms=3_000, state=100 + number, partitions=200)
        job.go()
    cause = job.found("too-many-partitions")
    assert cause.evidence == "a batch of task b has 500 rows, spread over 200 partitions on 2 cores, and takes 3.0 s"
    assert (cause.setting, cause.value) == ("spark.sql.shuffle.partitions", "2")


@pytest.mark.parametrize(("rows", "took_ms", "partitions"), [(500, 400, 200), (50_000, 3_000, 200), (500, 3_000, 8)])
def test_many_partitions_are_well_with_many_rows_or_quick_batches(
    store: JobStore, rows: int, took_ms: int, partitions: int
) -> None:
    job = Sick(store)
    for number in range(6):
        job.batch("b", rows=rows, took_ms=took_ms, state=100 + number, partitions=partitions)
        job.go()
    assert job.look().causes == ()


def state(*sizes: int) -> list[dict[str, Any]]:
    return [{"operator": "sums", "partition": number, "bytes": size} for number, size in enumerate(sizes)]


def test_a_partition_with_most_of_the_state_is_named(store: JobStore) -> None:
    job = Sick(store)
    healthy(job, 6)
    facts = replace(job.facts(), partitions={"b": state(90 << 20, 1 << 20, 2 << 20, 1 << 20)}, partitions_of=6)
    [cause] = diagnose(facts).causes
    assert (cause.rule, cause.tasks, cause.checkpoints) == ("skewed-partitions", ("b",), (6,))
    assert (
        cause.evidence == "partition 0 of operator sums in task b has 94.4 MB, 3.83 times the mean of its 4 partitions"
    )


def test_of_many_partitions_one_of_three_times_the_mean_is_enough(store: JobStore) -> None:
    job = Sick(store)
    healthy(job, 6)
    for largest, found in ((40, {"skewed-partitions"}), (24, set())):
        facts = replace(job.facts(), partitions={"b": state(largest << 20, *[8 << 20] * 15)})
        assert rules(diagnose(facts)) == found


@pytest.mark.parametrize("sizes", [(4 << 20, 0, 0, 0), (90 << 20, 40 << 20, 50 << 20, 30 << 20), (90 << 20,)])
def test_partitions_that_are_small_or_nearly_alike_are_well(store: JobStore, sizes: tuple[int, ...]) -> None:
    job = Sick(store)
    healthy(job, 6)
    assert diagnose(replace(job.facts(), partitions={"b": state(*sizes)})).causes == ()


@pytest.mark.parametrize(("skew", "busy"), [(3.9, 0.9), (3.9, 0.5), (1.2, 0.9)])
def test_a_skewed_source_of_a_busy_task_is_named_in_a_job_without_state_as_well(
    store: JobStore, skew: float, busy: float
) -> None:
    job = Sick(store)
    job.go()
    facts = replace(job.facts(), partitions={})
    assert "skewed-partitions" in diagnose(facts).unknown
    source = {"source": "orders", "partitions": 4, "skew": skew}
    view = {**facts.view, "tasks": [{"task": "a", "batch": 1, "busy_ratio": busy, "sources": [source]}]}
    seen = diagnose(replace(facts, view=view))
    assert "skewed-partitions" not in seen.unknown
    found = [(each.verdict, each.tasks, each.setting) for each in seen.causes]
    wanted = (Severity.NOTE, ("a",), "minPartitions of the Kafka source")
    assert found == ([wanted] if (skew, busy) == (3.9, 0.9) else [])


def grow(job: Sick, kept: Callable[[int], int], **more: Any) -> None:
    for number in range(40):
        job.batch("b", rows=10_000, state=job.state + kept(number), **more)
        job.go()


def test_state_that_every_row_makes_larger_is_named(store: JobStore) -> None:
    job = Sick(store)
    grow(job, lambda _: 9_000)
    cause = job.found("state-grows")
    assert cause.verdict is Severity.NOTE
    assert "task b holds 360,000 rows of state, 351,000 more than at checkpoint 1; of a hundred rows" in cause.evidence
    assert "90 stay, as in the beginning (90)" in cause.evidence
    assert rules(job.look()) == {"state-grows"}


@pytest.mark.parametrize(
    ("kept", "more"),
    [
        (lambda number: 10_000 // (1 + number), {}),
        (lambda number: 9_000 if number < 20 else 4_000, {}),
        (lambda number: 9_000 if number % 10 else -50_000 * (number > 0), {}),
        (lambda _: 50, {}),
        (lambda _: 9_000, {"event_ms": EVENT_MS, "watermark_ms": EVENT_MS - 60_000}),
    ],
    ids=["keys come again", "more and more keys come again", "rows expire", "few stay", "there is a watermark"],
)
def test_state_that_fills_up_or_is_cleared_is_well(
    store: JobStore, kept: Callable[[int], int], more: dict[str, int]
) -> None:
    job = Sick(store)
    grow(job, kept, **more)
    assert job.look().causes == ()


@pytest.mark.parametrize("watermark_ms", [None, EVENT_MS - 5_000], ids=["never was one", "has stopped"])
def test_a_watermark_that_an_idle_input_holds_back_is_named_with_that_input(
    store: JobStore, watermark_ms: int | None
) -> None:
    job = Sick(store)
    job.described["plan"]["channels"].append({"id": "b.1", "from": "c", "to": "b", "operator": "b", "input": 1})
    for number in range(8):
        event_ms = EVENT_MS + number * 10_000
        job.batch("b", sources={"b.0": 500, "b.1": 0}, event_ms=event_ms, watermark_ms=watermark_ms)
        job.go()
    cause = job.found("watermark-stands-still")
    assert "its latest event went on by 1 min 10 s (checkpoints 1 to 8): no rows come from c" in cause.evidence
    assert ("has no watermark yet" in cause.evidence) is (watermark_ms is None)
    assert (cause.setting, cause.value) == ("spark.sql.streaming.multipleWatermarkPolicy", "max")


def test_an_input_whose_events_stand_still_holds_it_back_as_well(store: JobStore) -> None:
    job = Sick(store)
    for number in range(8):
        job.batch("b", sources={"b.0": 500, "b.1": 500}, event_ms=EVENT_MS + number * 10_000, watermark_ms=EVENT_MS)
        job.go()
    assert "the events of one of its inputs (a, b.1) do not go on" in job.found("watermark-stands-still").evidence


@pytest.mark.parametrize("case", ["moves", "events stand", "one input"])
def test_a_watermark_that_stands_for_a_good_reason_is_well(store: JobStore, case: str) -> None:
    job = Sick(store)
    for number in range(8):
        event_ms = EVENT_MS if case == "events stand" else EVENT_MS + number * 10_000
        watermark_ms = event_ms - 60_000 if case == "moves" else EVENT_MS
        sources = {"b.0": 500, "b.1": 0}
        job.batch(
            "b",
            sources={"b.0": 500} if case == "one input" else sources,
            event_ms=event_ms,
            watermark_ms=watermark_ms,
        )
        job.go()
    assert job.look().causes == ()


@pytest.mark.parametrize(("ratio", "verdict"), [(0.3, Severity.WARNING), (0.6, Severity.PROBLEM)])
def test_garbage_collection_that_takes_the_time_is_named(store: JobStore, ratio: float, verdict: Severity) -> None:
    job = Sick(store)
    job.described["configuration"]["memory"] = {"spark.driver.memory": "512m"}
    for _ in range(6):
        job.core.note("gc", ratio=ratio)
        job.go()
    cause = job.found("gc-pressure")
    assert (cause.verdict, cause.setting, cause.value) == (verdict, "spark.driver.memory", "1024m")


def test_a_busy_task_that_is_in_python_most_of_the_time_is_named_and_one_with_time_left_is_not(store: JobStore) -> None:
    job = Sick(store)
    for _ in range(6):
        job.core.note("python", task="b", ratio=0.7)
        job.go()
    facts = job.facts()
    assert diagnose(facts).causes == ()
    for each in facts.checkpoints:
        each["tasks"]["b"]["figures"]["busy_ratio"] = 0.95
    [cause] = diagnose(facts).causes
    assert (cause.rule, cause.tasks) == ("python-bound", ("b",))
    assert "busy 95% of the time, and 70% of that goes by in Python functions" in cause.evidence


# -- ends ------------------------------------------------------------------------------------------------------------


def fail_on(job: Sick, name: str) -> None:
    job.core.tell(job.core.failed(name, FailureClass.EXTERNAL))
    job.core.wait(1_000)
    job.core.tell(job.core.started(name))


def test_a_task_that_fails_on_the_same_batch_again_and_again_is_named(store: JobStore) -> None:
    job = Sick(store)
    healthy(job, 6)
    fail_on(job, "b")
    fail_on(job, "b")
    assert job.look().causes == ()
    fail_on(job, "b")
    cause = job.found("restart-loop")
    assert cause.verdict is Severity.PROBLEM
    assert cause.evidence == "task b has failed 3 times on batch 6 within 2.0 s, the last time (external): boom"
    assert (cause.tasks, cause.setting) == (("b",), "the other system")


def test_failures_on_batches_that_pass_are_no_loop(store: JobStore) -> None:
    job = Sick(store)
    for _ in range(5):
        healthy(job, 1)
        fail_on(job, "b")
    assert job.look().causes == ()
    for _ in range(2):
        fail_on(job, "b")
    assert rules(job.look()) == {"restart-loop"}
    job.core.tell(job.core.committed("a", 5), job.core.committed("b", 5, 5))
    assert job.look().causes == (), "it has gone on since"


def test_transactions_that_come_near_their_time_out_are_named(store: JobStore) -> None:
    job = Sick(store)
    job.described["plan"]["tasks"][1]["sinks"][0]["transaction_timeout_ms"] = 15_000
    for _ in range(6):
        job.batch("b")
        job.go(commit_ms=2_000)
    cause = job.found("transactions-near-timeout")
    assert cause.verdict is Severity.PROBLEM
    assert "a transaction of sink out was open for 13.1 s, from checkpoint 1 on, until checkpoint 2" in cause.evidence
    assert (cause.setting, cause.value) == ("transaction_timeout of sink out", "53s")
    job.described["plan"]["tasks"][1]["sinks"][0]["transaction_timeout_ms"] = 900_000
    assert job.look().causes == ()


def test_a_transaction_that_is_still_open_is_named(store: JobStore) -> None:
    job = Sick(store)
    job.described["plan"]["tasks"][1]["sinks"][0]["transaction_timeout_ms"] = 60_000
    healthy(job, 6)
    job.core.wait(55_000)
    assert job.look().causes == (), "no rows since"
    job.batch("b")
    cause = job.found("transactions-near-timeout")
    assert cause.verdict is Severity.PROBLEM
    assert "was open for 55.0 s, from checkpoint 6 on, and still is; after 1 min" in cause.evidence


def test_a_sink_without_rows_has_no_transactions(store: JobStore) -> None:
    job = Sick(store)
    job.described["plan"]["tasks"][1]["sinks"][0]["transaction_timeout_ms"] = 15_000
    for _ in range(6):
        job.go(commit_ms=2_000)
    assert job.look().causes == ()


@needs_root
def test_a_disk_that_is_nearly_full_is_named(mount: Mount) -> None:
    place = mount("size=300m")
    job = Sick(JobStore.open(open_store(str(place / "storage")), "orders"))
    for _ in range(6):
        job.go(snapshot={"b": {"new_bytes": 5_000_000}})
    cause = job.found("disk-nearly-full")
    assert (cause.verdict, cause.setting) == (Severity.WARNING, "Checkpointing.storage")
    assert "a checkpoint typically brings 5.0 MB" in cause.evidence
    (place / "rest").write_bytes(bytes(280 << 20))
    assert job.found("disk-nearly-full").verdict is Severity.PROBLEM


def succeeded(job: Sick, ahead_ms: int) -> None:
    """The clock of the machine that leads is ahead. Another process on another machine leads then."""
    job.core.wait(ahead_ms)
    healthy(job, 6)
    job.facts()
    successor = Watched(job.core.state.graph)
    successor.store, successor.now_ms = job.core.store, job.core.now_ms - ahead_ms + 1_000
    successor.lead(OTHER)
    successor.read()
    successor.create()
    job.core = successor


def test_a_checkpoint_that_began_after_it_was_shut_out_shows_that_clocks_differ(store: JobStore) -> None:
    job = Sick(store)
    succeeded(job, 60_000)
    cause = job.found("clock-skew")
    assert cause.checkpoints == (6,)
    assert (
        "checkpoint 6 was complete before other began to lead, and its own leader says that it began 59.0 s after"
        in cause.evidence
    )


def test_a_successor_on_a_machine_with_the_same_time_is_no_illness(store: JobStore) -> None:
    job = Sick(store)
    succeeded(job, 0)
    assert job.look().causes == ()


def test_what_stands_still_is_told_where(store: JobStore) -> None:
    job = Sick(store)
    healthy(job, 6)
    job.core.note("stall", name="task b", text="task b: a batch has been under way for 90 s, in parse (job.py:7)")
    cause = job.found("stalled")
    assert (cause.verdict, cause.tasks) == (Severity.PROBLEM, ("b",))
    assert "in parse (job.py:7)" in cause.evidence
    assert diagnosis_data(job.look())["ok"] is False
    job.core.note("stall-over", name="task b")
    assert job.look().causes == ()


@pytest.mark.parametrize(
    ("who", "tasks"),
    [
        ("task b", ("b",)),
        ("the snapshot of task b", ("b",)),
        ("sink out", ("b",)),
        ("the storage", ()),
        ("task b.c", ()),
    ],
)
def test_what_stands_still_is_told_of_the_task_whose_it_is(store: JobStore, who: str, tasks: tuple[str, ...]) -> None:
    job = Sick(store)
    healthy(job, 1)
    job.core.note("stall", name=who, text=f"{who}: a call has been running for 90 s")
    assert job.found("stalled").tasks == tasks


# -- all of them -----------------------------------------------------------------------------------------------------


def test_the_worst_comes_first_and_everything_survives_json(store: JobStore) -> None:
    job = Sick(store)
    healthy(job, 6, commit_ms=8_000)
    for _ in range(3):
        fail_on(job, "b")
    seen = job.look()
    assert [each.rule for each in seen.causes] == ["restart-loop", "slow-commit"]
    data = diagnosis_data(seen)
    assert json.loads(json.dumps(data)) == data
    assert data["counts"] == {"ok": 0, "note": 0, "warning": 1, "problem": 1}
    assert diagnosis_text(seen).splitlines()[-1].startswith("1 problem, 1 warning (")


def test_every_rule_is_in_the_documentation_and_no_other() -> None:
    rows = [text.split("`")[1] for text in TABLE.read_text(encoding="utf-8").splitlines() if text.startswith("| `")]
    assert rows == list(RULES)
