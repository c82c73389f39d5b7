from typing import Any

import pytest

from headgate.core import trigger
from headgate.core.checkpoint_log import IDS_AHEAD_MAX, CheckpointLog, permit
from headgate.core.commit import SinkState
from headgate.core.evolve import evolve
from headgate.core.ids import NO_CHECKPOINT, CheckpointId, RequestId, SinkId, TaskId
from headgate.core.records import Kind
from headgate.core.settings import Settings
from headgate.core.state import JobState, PendingCheckpoint, Phase, Request
from headgate.core.trigger import COMMITS_BEHIND_MAX, Trigger
from tests.helpers import aborted_entry, changed, completed, line, running, transaction

GRAPH = line("a", "b")
PERIODIC = Trigger(Kind.CHECKPOINT)


def job(settings: Settings | None = None, *, ended: str = "", **changes: Any) -> JobState:
    """A running job whose next periodic checkpoint is due at 1000 ms, and it is 1000 ms. ``ended`` names tasks."""
    state = running(GRAPH, settings=settings, now_ms=1_000, next_trigger_ms=1_000)
    tasks = {name: evolve(task, ended=name in ended.split()) for name, task in state.execution.tasks.items()}
    return changed(state, tasks=tasks, **changes)


def pending(number: int) -> PendingCheckpoint:
    return PendingCheckpoint(CheckpointId(number), Kind.CHECKPOINT, 0, unaligned=False)


UNDER_WAY: dict[str, Any] = {"pending": (pending(1),), "next_id": CheckpointId(2)}
IN_THE_LOG: dict[str, Any] = {
    "checkpoint_log": CheckpointLog(recorded=CheckpointId(0), queue=(aborted_entry(1),), last=CheckpointId(1)),
    "next_id": CheckpointId(2),
}


# -- room ----------------------------------------------------------------------------------------------------------


def test_a_periodic_checkpoint_starts_when_its_time_has_come() -> None:
    assert trigger.due(job()) == PERIODIC
    assert trigger.due(job(now_ms=999)) is None


@pytest.mark.parametrize("phase", [phase for phase in Phase if phase is not Phase.RUNNING])
def test_no_checkpoint_starts_unless_the_job_runs(phase: Phase) -> None:
    assert not trigger.has_room(job(phase=phase))
    assert trigger.due(job(phase=phase)) is None


def test_only_so_many_checkpoints_are_under_way_at_once() -> None:
    two = Settings(max_concurrent_checkpoints=2)
    assert trigger.due(job(two, **UNDER_WAY)) == PERIODIC
    assert trigger.due(job(two, pending=(pending(1), pending(2)), next_id=CheckpointId(3))) is None
    assert trigger.due(job(**UNDER_WAY)) is None


def test_nothing_starts_after_the_savepoint_with_which_the_job_stops() -> None:
    assert trigger.due(job(stop_after=CheckpointId(1), next_id=CheckpointId(2))) is None
    assert trigger.due(job(stop_after=NO_CHECKPOINT)) == PERIODIC


def test_no_id_is_used_too_far_past_the_last_record() -> None:
    assert trigger.due(job(next_id=CheckpointId(IDS_AHEAD_MAX))) == PERIODIC
    assert trigger.due(job(next_id=CheckpointId(IDS_AHEAD_MAX + 1))) is None


@pytest.mark.parametrize(("behind", "expected"), [(COMMITS_BEHIND_MAX - 1, PERIODIC), (COMMITS_BEHIND_MAX, None)])
def test_a_sink_that_is_behind_with_its_commits_holds_checkpoints_back(behind: int, expected: Trigger | None) -> None:
    published = permit(completed(GRAPH, behind))
    due = tuple((published, transaction(number, number - 1, number)) for number in range(behind))
    assert trigger.due(job(sinks={SinkId("out"): SinkState(due=due)})) == expected


@pytest.mark.parametrize(
    ("started", "ended", "expected"), [(False, False, None), (False, True, PERIODIC), (True, False, PERIODIC)]
)
def test_every_task_is_up_or_has_ended_before_a_checkpoint_starts(
    started: bool, ended: bool, expected: Trigger | None
) -> None:
    state = job()
    tasks = {
        **state.execution.tasks,
        TaskId("a"): evolve(state.execution.tasks[TaskId("a")], started=started, ended=ended),
    }
    assert trigger.due(changed(state, tasks=tasks)) == expected


# -- requests ------------------------------------------------------------------------------------------------------


def test_what_a_user_asked_for_goes_before_the_clock_first_come_first_served() -> None:
    first = Request(RequestId("r1"), Kind.SAVEPOINT, stop=True)
    second = Request(RequestId("r2"), Kind.CHECKPOINT)
    early = job(now_ms=0, requests=(first, second))
    assert trigger.due(early) == Trigger(Kind.SAVEPOINT, RequestId("r1"), stop=True)
    assert trigger.due(changed(early, requests=(second,))) == Trigger(Kind.CHECKPOINT, RequestId("r2"))


def test_what_a_user_asked_for_waits_for_room() -> None:
    asked = (Request(RequestId("r1"), Kind.SAVEPOINT),)
    assert trigger.due(job(requests=asked, **UNDER_WAY)) is None


# -- the clock -----------------------------------------------------------------------------------------------------


def test_without_an_interval_nothing_is_due_by_the_clock() -> None:
    assert trigger.clock_deadline(job(Settings(interval_ms=None))) is None
    assert trigger.due(job(Settings(interval_ms=None))) is None


def test_the_interval_runs_from_start_to_start() -> None:
    assert trigger.clock_deadline(job(last_end_ms=5_000)) == 1_000
    assert trigger.clock_deadline(job(Settings(max_concurrent_checkpoints=2), **UNDER_WAY)) == 1_000


def test_checkpoints_go_on_after_some_tasks_have_finished_unless_the_user_says_otherwise() -> None:
    assert trigger.clock_deadline(job(ended="a")) == 1_000
    assert trigger.clock_deadline(job(Settings(checkpoints_after_tasks_finish=False), ended="a")) is None
    assert trigger.clock_deadline(job(Settings(checkpoints_after_tasks_finish=False))) == 1_000


PAUSE = Settings(min_pause_ms=300, max_concurrent_checkpoints=2)


@pytest.mark.parametrize(("last_end_ms", "deadline"), [(None, 1_000), (600, 1_000), (700, 1_000), (900, 1_200)])
def test_after_a_checkpoint_there_is_a_pause(last_end_ms: int | None, deadline: int) -> None:
    assert trigger.clock_deadline(job(PAUSE, last_end_ms=last_end_ms)) == deadline


@pytest.mark.parametrize("busy", [UNDER_WAY, IN_THE_LOG])
def test_with_a_pause_one_checkpoint_is_under_way_at_a_time(busy: dict[str, Any]) -> None:
    assert trigger.clock_deadline(job(PAUSE, **busy)) is None
    assert trigger.due(job(PAUSE, **busy)) is None


# -- the last one --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings", [Settings(), Settings(interval_ms=None), Settings(checkpoints_after_tasks_finish=False)]
)
def test_a_job_whose_tasks_have_all_ended_takes_one_more_checkpoint_at_once(settings: Settings) -> None:
    assert trigger.due(job(settings, ended="a b", now_ms=0)) == PERIODIC


def test_a_last_checkpoint_that_failed_is_tried_again_at_the_next_tick() -> None:
    assert trigger.clock_deadline(job(ended="a b", last_end_ms=1_000)) == 1_001
    assert trigger.due(job(ended="a b", last_end_ms=1_000)) is None
    assert trigger.due(job(ended="a b", last_end_ms=1_000, now_ms=1_001)) == PERIODIC


@pytest.mark.parametrize("busy", [UNDER_WAY, IN_THE_LOG])
def test_there_is_only_one_last_checkpoint_at_a_time(busy: dict[str, Any]) -> None:
    assert trigger.due(job(Settings(max_concurrent_checkpoints=2), ended="a b", **busy)) is None
