"""The benchmark looks at what came out before a time counts, and leaves no process behind."""

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from bench.case import WrongOutput
from bench.cases import etl, python
from bench.feeding import Feed, Watch, check_once
from bench.meter import Meter, descendants
from bench.milestones import MARK, milestones
from bench.profiling import parts
from bench.reading import SparkFiles, json_rows, visible
from bench.worker import Failed, Worker

ROWS = 700_000
SERVING = """
import os, subprocess, sys, time
from bench.programs.serving import serve
def child(request):
    return {"pid": subprocess.Popen(["sleep", "600"], start_new_session=True).pid}
def compute(request):
    end = time.process_time() + request["seconds"]
    while time.process_time() < end:
        pass
    return {}
def fail(request):
    raise ValueError("it is broken")
def sleep(request):
    return time.sleep(60) or {}
def end(request):
    os._exit(3)
serve({"child": child, "compute": compute, "fail": fail, "sleep": sleep, "end": end})
"""


def sums() -> pa.Table:
    orders, totals = etl.Expected(ROWS).counts
    place = np.flatnonzero(orders)
    minutes = [f"1970-01-01 00:{10 * int(window):02}:00" for window in place // 10_000]
    users = [f"user-{10_000 + int(user)}" for user in place % 10_000]
    return pa.table({"user": users, "start": minutes, "orders": orders[place], "total": totals[place]})


def test_the_right_sums_are_accepted_in_any_order_and_in_both_forms_of_time() -> None:
    right = sums()
    etl.compare(right.take(np.random.default_rng(1).permutation(right.num_rows)), ROWS)
    iso = [text.replace(" ", "T") + ".000Z" for text in right["start"].to_pylist()]
    etl.compare(right.set_column(1, "start", pa.array(iso)), ROWS)


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        (lambda table: table.slice(1), "not the 20000"),
        (lambda table: pa.concat_tables([table, table.slice(0, 1)]), "came out twice"),
        (lambda table: table.set_column(3, "total", pa.array(table["total"].to_numpy() + 1)), "sums are wrong"),
        (lambda table: table.set_column(2, "orders", pa.array(table["orders"].to_numpy() + 1)), "counts are wrong"),
    ],
)
def test_wrong_sums_are_no_round(wrong: Any, what: str) -> None:
    with pytest.raises(WrongOutput, match=what):
        etl.compare(wrong(sums()), ROWS)


def test_jumps_are_those_of_each_sensor_and_its_reading_before() -> None:
    n = python._jumps(100_000)
    value = {"n": n, "value": python._value(n), "before": python._value(n - 10_000)}
    sensors = [f"sensor-{10_000 + int(each) * 7919 % 10_000}" for each in n]
    right = pa.table({"sensor": sensors, **value})
    python.check_jumps(right, 100_000)
    with pytest.raises(WrongOutput, match="jumps came out"):
        python.check_jumps(right.slice(1), 100_000)
    with pytest.raises(WrongOutput, match="before are wrong"):
        python.check_jumps(right.set_column(3, "before", right["value"]), 100_000)


def test_what_begins_with_a_dot_or_an_underscore_is_not_seen(tmp_path: Path) -> None:
    for name in ("day/a.json", ".b.json", "_c/d.json", "day/.part"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text('{"n": 1}\n')
    assert [path.name for path in visible(tmp_path)] == ["a.json"]
    assert json_rows(tmp_path, pa.schema([("n", pa.int64())])).num_rows == 1


def test_of_sparks_files_those_in_its_log_are_seen(tmp_path: Path) -> None:
    log = tmp_path / "_spark_metadata"
    log.mkdir()
    files = SparkFiles()
    (tmp_path / "a b.json").write_text("{}")
    (log / ".0.tmp").write_text("v1\n")
    assert files(tmp_path) == []
    (log / "0").write_text("v1\n" + json.dumps({"path": (tmp_path / "a b.json").as_uri()}) + "\n")
    assert files(tmp_path) == [tmp_path / "a b.json"]


def test_rows_that_are_missing_or_come_twice_are_no_round(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    with Feed(tmp_path / "in", 1_000) as feed, Watch(out) as watch:
        while len(feed.made) < 100:
            time.sleep(0.01)
        feed.end()
        every = [json.dumps({"n": n}) for n in range(len(feed.made))]
        (out / "a").write_text("\n".join(every[:-1]))
        with pytest.raises(WrongOutput, match=r"1 had not come after 0\.3 s, and 0 came twice"):
            check_once(feed, watch, 0.3)
        (out / "b").write_text(every[-1])
        check_once(feed, watch, 5)
        (out / "c").write_text(every[0])
        assert watch.until(lambda: len(watch.seen) > len(every), 5)
        with pytest.raises(WrongOutput, match="1 came twice"):
            check_once(feed, watch, 5)


def test_a_contender_that_fails_says_why_and_goes_on(tmp_path: Path) -> None:
    with Worker([sys.executable, "-c", SERVING], log=tmp_path / "log") as worker:
        with pytest.raises(Failed, match="ValueError: it is broken"):
            worker.ask("fail")
        worker.ask("compute", seconds=0)


@pytest.mark.parametrize(("do", "what"), [("end", "it has ended"), ("sleep", r"no answer for 0\.5 s")])
def test_one_that_ends_or_does_not_answer_has_failed(do: str, what: str, tmp_path: Path) -> None:
    with Worker([sys.executable, "-c", SERVING], log=tmp_path / "log") as worker, pytest.raises(Failed, match=what):
        worker.ask(do, timeout_s=0.5 if do == "sleep" else 60)


def test_all_that_a_contender_started_ends_with_it(tmp_path: Path) -> None:
    with Worker([sys.executable, "-c", SERVING], log=tmp_path / "log") as worker:
        answer, _ = worker.ask("child")
        assert answer["pid"] in descendants(worker.pid)
    state = Path(f"/proc/{answer['pid']}/stat")
    assert not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z"


def test_a_contender_at_work_ends_when_nobody_is_there_to_ask(tmp_path: Path) -> None:
    with Worker([sys.executable, "-c", SERVING], log=tmp_path / "log") as worker:
        worker.send("sleep")
        assert worker._process.stdin is not None
        worker._process.stdin.close()
        assert worker._process.wait(30) == -signal.SIGKILL


def test_cpu_is_that_of_the_contender(tmp_path: Path) -> None:
    with Worker([sys.executable, "-c", SERVING], log=tmp_path / "log") as worker:
        worker.ask("compute", seconds=0)
        _, used = worker.ask("compute", seconds=0.3)
        assert 0.25 <= used.cpu_s <= 0.6
        assert Meter(os.getpid()).read().cpu_s < 0.2


def test_milestones_are_those_between_two_moments(tmp_path: Path) -> None:
    events = [
        {"at": 1_000, "event": "task-started"},
        {"at": 11_000, "event": "task-failed"},
        {"at": 11_500, "event": "task-started"},
        {"at": 12_000, "event": "checkpoint-completed", "duration_ms": 100},
    ]
    log = tmp_path / "log"
    log.write_text("words\n" + "\n".join(map(json.dumps, events)) + '\n{"torn')
    found = milestones(log, 10.9, 12.1)
    assert {name.removeprefix(MARK): round(at, 2) for name, at in found.items()} == {
        "the failure is told": 0.1,
        "the query is started": 0.6,
        "the barrier of the checkpoint": 1.0,
        "the checkpoint is complete": 1.1,
    }


def test_a_sample_counts_once_and_what_no_rule_names_stands_under_its_thread() -> None:
    stacks = [
        "[C2 CompilerThread0 tid=12];start_thread 50",
        "[Executor task launch worker for task 3.0 tid=9];org/rocksdb/RocksDB.put 30",
        "[some-thread-7 tid=8];java/lang/Object.wait 20",
        "not a stack",
    ]
    assert [(each["where"], each["share"]) for each in parts(stacks)] == [
        ("the JVM compiles (C1, C2)", 0.5),
        ("RocksDB", 0.3),
        ("thread some-thread", 0.2),
    ]
