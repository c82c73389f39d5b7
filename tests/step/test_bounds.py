"""Everything that could grow has a bound."""

from headgate.core import effects as o, events as e
from headgate.core.checkpoint_log import IDS_AHEAD_MAX
from headgate.core.coordinator import REQUESTS_MAX
from headgate.core.garbage import HOLDS_MAX
from headgate.core.ids import CheckpointId, Generation, RequestId, TaskId
from headgate.core.trigger import COMMITS_BEHIND_MAX
from tests.helpers import line
from tests.step_helpers import ME, only, running, told

GRAPH = line("a")


def test_requests_above_the_bound_are_refused() -> None:
    core = running(GRAPH)
    core.ask()
    for _ in range(REQUESTS_MAX):
        assert core.ask() == []
    assert [one.text for one in only(o.Notify, core.ask())] == [
        f"checkpoint refused: {REQUESTS_MAX} requests are waiting already"
    ]
    assert told(core.savepoint()) == [("refused", f"r{REQUESTS_MAX + 3}")]


def test_requests_are_served_one_after_the_other_in_their_order() -> None:
    core = running(GRAPH)
    core.ask()
    core.savepoint()
    core.ask()
    given = core.complete(1) + core.complete(2) + core.complete(3)
    assert [one.request for one in core.state.retained.completed] == ["r2", "r3"]
    assert told(given) == [("done", "r1"), ("done", "r3")]


def test_holds_above_the_bound_are_refused() -> None:
    core = running(GRAPH, num_retained=HOLDS_MAX + 1)
    for number in range(1, HOLDS_MAX + 2):
        core.ask()
        core.complete(number)
    ids = [CheckpointId(number) for number in range(1, HOLDS_MAX + 2)]
    holds = [e.HoldAsked(RequestId(f"h{number}"), number) for number in ids]
    assert only(o.SetHold, core.tell(*holds[:-1])) == [o.SetHold(ME, number, held=True) for number in ids[:-1]]
    assert told(core.tell(holds[-1])) == [("refused", f"h{ids[-1]}")]
    core.tell(e.HoldSet(ME, ids[0], held=True))
    assert told(core.tell(holds[-1])) == []


def test_so_many_checkpoints_are_under_way_as_the_user_allows() -> None:
    core = running(GRAPH, max_concurrent_checkpoints=3, interval_ms=10)
    for now_ms in range(10, 60, 10):
        core.tell(e.Ticked(now_ms))
    assert [pending.id for pending in core.state.checkpoints.pending] == [1, 2, 3]
    core.make_ready(1)
    assert [pending.id for pending in core.state.checkpoints.pending] == [2, 3, 4]


def test_no_checkpoint_starts_while_a_sink_is_too_many_commits_behind() -> None:
    core = running(GRAPH)
    for number in range(1, COMMITS_BEHIND_MAX + 1):
        core.tell(core.committed("a", number))
        core.ask()
        core.make_ready(number)
        core.create()
    assert core.ask() == []
    given = core.tell(core.visible(1))
    assert [one.checkpoint for one in only(o.TakeSnapshot, given)] == [COMMITS_BEHIND_MAX + 1]


def test_no_id_is_used_too_far_past_the_last_one_that_is_settled() -> None:
    core = running(GRAPH, tolerable_failed_checkpoints=99)
    for number in range(1, IDS_AHEAD_MAX + 1):
        core.ask()
        core.tell(e.SnapshotDeclined(Generation(1), CheckpointId(number), TaskId("a")))
    assert core.ask() == []
    assert core.state.checkpoints.next_id == IDS_AHEAD_MAX + 1
    assert [one.checkpoint for one in only(o.TakeSnapshot, core.create())] == [IDS_AHEAD_MAX + 1]
