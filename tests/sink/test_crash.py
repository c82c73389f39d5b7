"""A commit of files is cut off at every single step, and done by several processes at once: exact in the end."""

import multiprocessing
import os
import shutil
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headgate import files
from headgate.sink.api import TwoPhaseSink
from headgate.sink.staging import HIDDEN
from headgate.testing import CONTEXT, Row, compare, pre_commit, rows_of, write, write_id
from tests.sink.readers import read_json_by_writer, visible_files

STEPS = ("os.mkdir", "os.rename", "os.remove", "os.rmdir")
"""The audit events of all steps that change what is in a directory. Each is raised just before the step is taken."""


def opened(place: Path) -> TwoPhaseSink:
    sink = files.sink(place, format="json", partition_by=("writer",))
    sink.open(CONTEXT)
    return sink


@pytest.fixture(scope="module")
def pre_committed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A directory with two pre-committed batches in it, and the committable.

    Tests work on copies: a committable bears that.
    """
    place = tmp_path_factory.mktemp("pre_committed")
    sink = opened(place)
    for batch in (0, 1):
        write(sink, spark, write_id(batch), partitions=3)
    return place, pre_commit(sink, 1, write_id(0), write_id(1))


ROWS = rows_of(write_id(0), write_id(1))


def die_at_every_step(place: Path, committable: str, copies: Path) -> None:
    """In a process without threads, which may fork: one copy for each step of a commit, which is killed there."""
    step = 0
    survived = False
    while not survived:
        copy = copies / f"{step:03}"
        shutil.copytree(place, copy)
        sink = opened(copy)
        committing = os.fork()
        if committing == 0:
            left = step

            def count(event: str, _arguments: object) -> None:
                nonlocal left
                if event in STEPS:
                    if left == 0:
                        os.kill(os.getpid(), signal.SIGKILL)
                    left -= 1

            sys.addaudithook(count)
            sink.commit(committable)
            os._exit(0)
        survived = os.waitpid(committing, 0)[1] == 0
        step += 1


def commit_at_once(place: Path, committable: str, copies: Path) -> None:
    """In a process without threads: several processes commit the same, and all succeed."""
    for number in range(10):
        copy = copies / str(number)
        shutil.copytree(place, copy)
        committing = []
        for _ in range(4):
            process = os.fork()
            if process == 0:
                opened(copy).commit(committable)
                os._exit(0)
            committing.append(process)
        assert [os.waitpid(process, 0)[1] for process in committing] == [0] * 4


def in_a_clean_process(target: object, *arguments: object) -> None:
    process = multiprocessing.get_context("spawn").Process(target=target, args=arguments)  # type: ignore[arg-type]
    process.start()
    process.join()
    assert process.exitcode == 0


def test_a_commit_that_is_cut_off_at_any_step_is_exact_after_the_next(
    pre_committed: tuple[Path, str], tmp_path: Path
) -> None:
    place, committable = pre_committed
    in_a_clean_process(die_at_every_step, place, committable, tmp_path)
    partly = 0
    copies = sorted(tmp_path.iterdir())
    for copy in copies:
        seen = read_json_by_writer(copy)
        compare(seen, [row for row in ROWS if row in seen])
        partly += 0 < len(seen) < len(ROWS)
        recover_twice(shutil.copytree(copy, f"{copy}-again"), committable, taken=[])
        # The same, with a reader that takes away what it finds before the commit is repeated.
        for file in visible_files(copy):
            file.unlink()
        recover_twice(copy, committable, taken=seen)
    assert partly >= 5, "between any two of the six renames"
    assert len(copies) > 15


def recover_twice(place: Path | str, committable: str, *, taken: Sequence[Row]) -> None:
    place = Path(place)
    sink = opened(place)
    for _ in range(2):
        sink.recover_and_commit(committable)
        compare([*taken, *read_json_by_writer(place)], ROWS)
    staging = place / HIDDEN / "contract.sink"
    left = {path.name for path in staging.iterdir() if not path.name.startswith(".committed-")}
    assert left == {"committed.json", "g1"}
    assert list((staging / "g1").iterdir()) == []


def test_processes_that_commit_the_same_at_once_all_succeed(pre_committed: tuple[Path, str], tmp_path: Path) -> None:
    place, committable = pre_committed
    in_a_clean_process(commit_at_once, place, committable, tmp_path)
    copies = list(tmp_path.iterdir())
    assert len(copies) == 10
    for copy in copies:
        compare(read_json_by_writer(copy), ROWS)
