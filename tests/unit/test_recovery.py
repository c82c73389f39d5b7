import pytest

from headgate.core import checkpoint_log, recovery
from headgate.core.errors import NotRestorable
from headgate.core.evolve import evolve
from headgate.core.graph import Graph, Task
from headgate.core.ids import NO_BATCH, Batch, ChannelId, CheckpointId, Generation, OperatorUid, SinkId, TaskId
from headgate.core.records import Ending, InFlight, Record, Restore
from headgate.core.recovery import FIRST_RUN, Recovery
from tests.helpers import aborted_entry, channel, completed, epoch_record, line, operators, task, transaction

GRAPH = line("a", "b")
SECOND = Generation(2)
ALLOW = Restore(allow_non_restored=True)


def plan(graph: Graph, *records: Record, restore: Restore | None = None) -> Recovery:
    return recovery.plan(graph, records, restore or Restore(), SECOND)


def renamed(*pairs: tuple[str, str]) -> Restore:
    return Restore(renamed=tuple((OperatorUid(old), OperatorUid(new)) for old, new in pairs))


def taken_from(found: Recovery) -> dict[str, str | None]:
    """For each task, the task whose snapshot it continues from."""
    return {start.task: start.snapshot.task if start.snapshot else None for start in found.starts}


# -- which checkpoint ----------------------------------------------------------------------------------------------


def chosen(*records: Record, wanted: int | None = None) -> int | None:
    found = recovery.choose(records, None if wanted is None else CheckpointId(wanted))
    return None if found is None else found.id


def test_an_empty_checkpoint_log_has_no_checkpoint_to_return_to() -> None:
    assert chosen() is None
    assert chosen(aborted_entry(0)) is None
    assert chosen(epoch_record(0, 1, 1), aborted_entry(1)) is None


def test_the_newest_completed_checkpoint_is_chosen_past_aborted_entries() -> None:
    assert chosen(epoch_record(0, 1, 1), completed(GRAPH, 1), completed(GRAPH, 2), aborted_entry(3)) == 2


def test_a_generation_that_completed_nothing_hands_on_its_base() -> None:
    records = (
        completed(GRAPH, 1),
        completed(GRAPH, 2),
        epoch_record(3, 2, 4, base=CheckpointId(1)),
        aborted_entry(4, 2),
    )
    assert chosen(*records) == 1
    assert chosen(*records, completed(GRAPH, 5, generation=2)) == 5


def test_an_epoch_record_without_a_base_begins_empty_even_after_checkpoints() -> None:
    assert chosen(completed(GRAPH, 1), epoch_record(2, 2, 3)) is None


def test_a_checkpoint_that_the_user_names_goes_before_the_newest() -> None:
    assert chosen(completed(GRAPH, 1), completed(GRAPH, 2), wanted=1) == 1


def test_a_checkpoint_that_is_not_there_is_refused_with_what_there_is() -> None:
    with pytest.raises(NotRestorable, match=r"^checkpoint 9 is not in the storage; there are: 1, 2$"):
        chosen(completed(GRAPH, 1), completed(GRAPH, 2), wanted=9)
    with pytest.raises(NotRestorable, match=r"^checkpoint 0 is not in the storage; there are: none$"):
        chosen(epoch_record(0, 1, 1), wanted=0)


# -- what was decided before ---------------------------------------------------------------------------------------


def test_what_the_newest_checkpoint_pre_committed_is_committed_first_whichever_one_the_job_returns_to() -> None:
    older = completed(GRAPH, 1, transactions=(transaction(1, -1, 0),))
    newer = completed(GRAPH, 2, transactions=(transaction(1, -1, 0), transaction(2, 0, 3)))
    for restore in (Restore(), Restore(checkpoint=CheckpointId(1))):
        found = plan(GRAPH, older, newer, epoch_record(3, 2, 4), aborted_entry(4), restore=restore)
        assert found.commits == tuple((checkpoint_log.permit(newer), one) for one in newer.transactions)


def test_without_a_completed_checkpoint_nothing_is_to_be_committed() -> None:
    assert plan(GRAPH, epoch_record(0, 1, 1), aborted_entry(1)).commits == ()


def test_output_for_a_sink_that_is_gone_is_refused_unless_the_user_gives_it_up_by_name() -> None:
    checkpoint = completed(GRAPH, 1, transactions=(transaction(1, -1, 0, sink="lost"), transaction(1, -1, 0)))
    for restore in (Restore(), ALLOW):  # State that is left out is one thing, output that is lost another.
        with pytest.raises(
            NotRestorable, match=r"^sink lost is gone .* checkpoint 1 .* --abandon-commits lost --reason TEXT$"
        ):
            plan(GRAPH, checkpoint, restore=restore)
    found = plan(GRAPH, checkpoint, restore=Restore(abandon=(SinkId("lost"),)))
    assert [one.sink for _, one in found.commits] == ["out"]
    assert [one.sink for one in found.abandoned] == ["lost"]


@pytest.mark.parametrize("ending", Ending)
def test_a_job_that_came_to_its_end_owes_nothing_and_its_sinks_may_go(ending: Ending) -> None:
    checkpoint = completed(GRAPH, 1, transactions=(transaction(1, -1, 0, sink="lost"), transaction(1, -1, 0)))
    end = evolve(epoch_record(2, 2, 3, base=CheckpointId(1)), ending=ending)
    again = epoch_record(3, 3, 4, base=CheckpointId(1))
    for records in ((checkpoint, end), (checkpoint, end, again), (checkpoint, end, again, aborted_entry(4, 3))):
        found = plan(GRAPH, *records)
        assert found.base == checkpoint
        assert found.commits == ()
    after = completed(GRAPH, 5, generation=3, transactions=(transaction(5, 0, 1, generation=3),))
    assert [one.checkpoint for _, one in plan(GRAPH, checkpoint, end, again, after).commits] == [5]


def test_what_was_given_up_by_name_is_not_owed_by_the_next_generation_either() -> None:
    lost = transaction(1, -1, 0, sink="lost")
    checkpoint = completed(GRAPH, 1, transactions=(lost, transaction(1, -1, 0)))
    without = evolve(epoch_record(2, 2, 3, base=CheckpointId(1)), abandoned=(lost,))
    assert [one.sink for _, one in plan(GRAPH, checkpoint, without).commits] == ["out"]
    assert plan(GRAPH, checkpoint, without, restore=Restore(abandon=(SinkId("lost"),))).abandoned == ()


def test_a_job_that_does_not_fit_is_offered_the_checkpoint_that_was_kept_beside() -> None:
    before, empty = completed(GRAPH, 1), completed(line("a"), 2, generation=2, keeps=CheckpointId(1))
    with pytest.raises(NotRestorable, match=r"^checkpoint 2 has no state for b-op: .*--from 1$"):
        plan(GRAPH, before, epoch_record(2, 2, 3), empty)
    with pytest.raises(NotRestorable, match=r"state$"):  # That one does not fit either.
        plan(line("c"), before, epoch_record(2, 2, 3), empty)


# -- how each task begins ------------------------------------------------------------------------------------------


def test_without_a_checkpoint_every_task_begins_empty() -> None:
    found = plan(GRAPH)
    assert found.base is None
    assert [(s.generation, s.task, s.run, s.in_place, s.snapshot) for s in found.starts] == [
        (SECOND, "a", FIRST_RUN, False, None),
        (SECOND, "b", FIRST_RUN, False, None),
    ]
    assert [start.positions for start in found.starts] == [(), (NO_BATCH,)]


def test_an_unchanged_job_begins_at_its_checkpoint_with_the_data_in_flight() -> None:
    held = InFlight(ChannelId("a>b"), TaskId("a"), TaskId("b"), Batch(3), Batch(5))
    base = completed(GRAPH, 1, batch=5, channels=(held,))
    found = plan(GRAPH, base)
    assert found.base == base
    assert [start.snapshot for start in found.starts] == list(base.tasks)
    assert [start.positions for start in found.starts] == [(), (3,)]
    assert [start.in_flight for start in found.starts] == [(), (held,)]
    assert all(not start.in_place and start.run == FIRST_RUN for start in found.starts)


def test_tasks_may_be_named_anew_because_state_is_found_by_operator() -> None:
    names = Graph((task("x", source=True, uids=("a-op",)), task("y", uids=("b-op",))), (channel("x", "y"),))
    base = completed(line("a", "b"), 1, batch=5)
    found = plan(names, base)
    assert taken_from(found) == {"x": "a", "y": "b"}
    assert found.starts[1].in_flight == base.channels


def test_an_operator_that_was_renamed_is_found_by_its_new_name() -> None:
    names = Graph((task("a", source=True, uids=("new",)), task("b")), (channel("a", "b"),))
    assert taken_from(plan(names, completed(GRAPH, 1), restore=renamed(("a-op", "new")))) == {"a": "a", "b": "b"}


def test_two_operators_may_swap_their_names() -> None:
    swap = renamed(("a-op", "b-op"), ("b-op", "a-op"))
    names = Graph((task("x", source=True, uids=("b-op",)), task("y", uids=("a-op",))), (channel("x", "y"),))
    assert taken_from(plan(names, completed(GRAPH, 1), restore=swap)) == {"x": "a", "y": "b"}


def test_an_operator_that_the_checkpoint_does_not_have_cannot_be_renamed() -> None:
    with pytest.raises(NotRestorable, match=r"^operator z cannot be renamed: checkpoint 1 does not have it$"):
        plan(GRAPH, completed(GRAPH, 1), restore=renamed(("z", "y")))


def test_an_operator_that_has_its_new_name_already_may_be_renamed_again() -> None:
    restored = plan(GRAPH, completed(GRAPH, 1), restore=renamed(("old", "a-op")))
    assert restored == plan(GRAPH, completed(GRAPH, 1))


@pytest.mark.parametrize(
    "restore", [renamed(("one", "two")), renamed(("one", "x"), ("two", "x"))], ids=["a name in use", "one new name"]
)
def test_two_operators_with_state_cannot_take_one_name(restore: Restore) -> None:
    before = Graph((task("a", source=True, uids=("one", "two")),))
    new = restore.renamed[0][1]
    with pytest.raises(NotRestorable):
        plan(Graph((task("a", source=True, uids=(new,)),)), completed(before, 1), restore=restore)


@pytest.mark.parametrize("restore", [Restore(), ALLOW])
def test_operators_of_one_task_stay_together(restore: Restore) -> None:
    before = Graph((task("a", source=True, uids=("one", "two")),))
    apart = Graph((task("x", source=True, uids=("one",)), task("y", uids=("two",))), (channel("x", "y"),))
    with pytest.raises(NotRestorable, match=r"^the operators of task a are now in several tasks \(x, y\)"):
        plan(apart, completed(before, 1), restore=restore)


@pytest.mark.parametrize("restore", [Restore(), ALLOW])
def test_operators_of_two_tasks_stay_apart(restore: Restore) -> None:
    together = Graph((task("x", source=True, uids=("a-op", "b-op")),))
    with pytest.raises(NotRestorable, match=r"^tasks a and b are now one task \(x\): keep them apart$"):
        plan(together, completed(GRAPH, 1), restore=restore)


def test_state_that_no_operator_claims_is_refused_unless_the_user_allows_it() -> None:
    less = Graph((task("a", source=True),))
    with pytest.raises(NotRestorable, match=r"^checkpoint 1 has state for b-op, which the job no longer has: name"):
        plan(less, completed(GRAPH, 1))
    assert taken_from(plan(less, completed(GRAPH, 1), restore=ALLOW)) == {"a": "a"}


def test_a_new_operator_with_state_is_refused_unless_the_user_allows_it() -> None:
    more = line("a", "b", "c")
    with pytest.raises(NotRestorable, match=r"^checkpoint 1 has no state for c-op: name the old uid"):
        plan(more, completed(GRAPH, 1))
    found = plan(more, completed(GRAPH, 1, batch=5), restore=ALLOW)
    assert taken_from(found) == {"a": "a", "b": "b", "c": None}
    assert found.starts[2].positions == (5,), "a new channel begins where its upstream task begins"
    assert found.starts[2].in_flight == ()


def test_a_new_task_behind_a_new_task_begins_with_nothing() -> None:
    found = plan(line("a", "x", "y"), completed(line("a"), 1, batch=5), restore=ALLOW)
    assert [start.positions for start in found.starts] == [(), (5,), (NO_BATCH,)]


def stateless(name: str, *uids: str, source: bool = False) -> Task:
    return Task(TaskId(name), operators(*uids, stateful=False), has_source=source)


def test_a_task_without_state_has_a_position_and_may_not_be_lost_or_appear_unnoticed() -> None:
    before = Graph((stateless("a", "read", source=True), task("b")), (channel("a", "b"),))
    after = Graph((stateless("a", "other", source=True), task("b")), (channel("a", "b"),))
    with pytest.raises(NotRestorable, match=r"^checkpoint 1 has state for a, which the job no longer has"):
        plan(after, completed(before, 1))
    more = Graph((*before.tasks, stateless("c", "write")), (channel("a", "b"), channel("b", "c")))
    with pytest.raises(NotRestorable, match=r"^checkpoint 1 has no state for c: name the old uid"):
        plan(more, completed(before, 1))
    assert taken_from(plan(more, completed(before, 1), restore=ALLOW)) == {"a": "a", "b": "b", "c": None}


def test_an_operator_without_state_may_come_and_go_inside_a_task() -> None:
    before = Graph((Task(TaskId("a"), operators("s") + operators("map", stateful=False), has_source=True),))
    after = Graph((Task(TaskId("a"), operators("s") + operators("filter", stateful=False), has_source=True),))
    assert taken_from(plan(after, completed(before, 1))) == {"a": "a"}


def test_an_operator_that_loses_its_state_is_refused() -> None:
    before = Graph((task("a", source=True, uids=("s", "t")),))
    after = Graph((Task(TaskId("a"), operators("s") + operators("t", stateful=False), has_source=True),))
    with pytest.raises(NotRestorable, match=r"^checkpoint 1 has state for t, "):
        plan(after, completed(before, 1))


# -- channels ------------------------------------------------------------------------------------------------------


def test_data_in_flight_that_has_no_channel_is_refused_unless_the_user_allows_it() -> None:
    apart = Graph((task("a", source=True), task("b", source=True)))
    held = InFlight(ChannelId("a>b"), TaskId("a"), TaskId("b"), Batch(3), Batch(5))
    base = completed(GRAPH, 1, batch=5, channels=(held,))
    with pytest.raises(NotRestorable, match=r"^checkpoint 1 has data in flight from a to b, which the job no longer"):
        plan(apart, base)
    found = plan(apart, base, restore=ALLOW)
    assert [(start.positions, start.in_flight) for start in found.starts] == [((), ()), ((), ())]


def test_a_channel_without_data_in_flight_may_go() -> None:
    apart = Graph((task("a", source=True), task("b", source=True)))
    assert taken_from(plan(apart, completed(GRAPH, 1, batch=5))) == {"a": "a", "b": "b"}


def test_a_channel_that_runs_the_other_way_is_another_channel() -> None:
    held = InFlight(ChannelId("a>b"), TaskId("a"), TaskId("b"), Batch(3), Batch(5))
    around = Graph((task("b", source=True), task("a")), (channel("b", "a"),))
    with pytest.raises(NotRestorable, match="data in flight from a to b"):
        plan(around, completed(GRAPH, 1, batch=5, channels=(held,)))


TWO_WAYS = Graph((task("a", source=True), task("b")), (channel("a", "b", "left"), channel("a", "b", "right")))
BOTH = tuple(
    InFlight(ChannelId(name), TaskId("a"), TaskId("b"), Batch(after), Batch(5))
    for name, after in (("left", 1), ("right", 3))
)


def test_two_channels_between_the_same_tasks_each_keep_their_own_data() -> None:
    found = plan(TWO_WAYS, completed(TWO_WAYS, 1, batch=5, channels=BOTH))
    assert found.starts[1].positions == (1, 3)
    assert found.starts[1].in_flight == BOTH


def test_two_channels_between_the_same_tasks_keep_their_own_data_when_listed_in_another_order() -> None:
    around = Graph(TWO_WAYS.tasks, TWO_WAYS.channels[::-1])
    found = plan(around, completed(TWO_WAYS, 1, batch=5, channels=BOTH))
    assert [c.id for c in around.inputs[TaskId("b")]] == ["right", "left"]
    assert found.starts[1].positions == (3, 1)


def test_a_job_that_was_accepted_can_return_to_its_own_checkpoint_even_without_operators() -> None:
    bare = Graph((Task(TaskId("a"), has_source=True),))
    assert taken_from(plan(bare, completed(bare, 1))) == {"a": "a"}
