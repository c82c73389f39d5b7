"""Garbage collection makes progress whatever is pending, and a round of it is bounded."""

from headgate.core import effects as o, events as e
from headgate.core.garbage import DELETE_MAX, PAUSE_MS
from headgate.core.ids import Batch, CheckpointId, Generation, RequestId, TaskId
from headgate.core.records import StoredFile
from headgate.core.restart import FailureClass
from tests.helpers import line
from tests.step_helpers import ME, Core, only, running

GRAPH = line("a")
OURS = Generation(1)


def file(batch: int, name: str = "", generation: int = 1) -> StoredFile:
    return StoredFile(name or f"a/{batch}", Generation(generation), TaskId("a"), Batch(batch))


def collect(core: Core, *files: StoredFile) -> tuple[str, ...]:
    """One round: the listing comes, and whatever it finds is deleted."""
    (order,) = only(o.DeleteFiles, core.tell(e.FilesListed(OURS, files)))
    core.tell(e.FilesDeleted(OURS, order.records))
    return order.files


def test_files_go_although_a_checkpoint_is_pending_at_every_listing() -> None:
    core = running(GRAPH, max_concurrent_checkpoints=2)
    core.ask()
    there = {name: file(0, name) for name in ("x", "y")}
    for number in range(1, 9):
        core.tell(core.committed("a", number))
        core.ask()
        core.complete(number)
        assert core.state.checkpoints.pending, "there is always one under way"
        if core.state.collection.under_way:
            for name in collect(core, *there.values()):
                del there[name]
    assert there == {}


def test_what_is_a_candidate_waits_for_a_checkpoint_that_began_after_the_listing_had_come() -> None:
    core = running(GRAPH, max_concurrent_checkpoints=3)
    for number in (1, 2):
        core.tell(core.committed("a", number))
        core.ask()
        core.complete(number)
    core.ask()
    core.ask()
    assert collect(core, file(0)) == (), "a candidate while 3 and 4 are under way"
    core.complete(3)
    assert collect(core, file(0), file(1)) == (), "3 may have looked before the file was there"
    core.complete(4)
    assert collect(core, file(0), file(1)) == (), "and so may 4"
    core.ask()
    core.complete(5)
    assert collect(core, file(0), file(1)) == ("a/0",), "5 began later; the other was no candidate then"
    core.ask()
    core.complete(6)
    assert collect(core, file(1)) == ("a/1",)


def test_a_candidate_that_is_named_after_all_is_none_any_more() -> None:
    core = running(GRAPH, max_concurrent_checkpoints=2)
    for number in (1, 2):
        core.tell(core.committed("a", number))
        core.ask()
        core.complete(number)
    core.ask()
    assert collect(core, file(0, "file"), file(0, "x")) == ()
    assert list(core.state.collection.candidates) == ["x"], "checkpoints name the other"
    core.complete(3)
    assert collect(core) == ()
    assert list(core.state.collection.candidates) == [], "it went by itself"


def test_a_round_deletes_no_more_than_the_bound_and_the_rest_follows_at_once() -> None:
    core = running(GRAPH)
    for number in (1, 2):
        core.tell(core.committed("a", number))
        core.ask()
        core.complete(number)
    left = {f"old/{n}": file(0, f"old/{n}", generation=0) for n in range(2 * DELETE_MAX + 1)}
    (order,) = only(o.DeleteFiles, core.tell(e.FilesListed(OURS, tuple(left.values()))))
    assert order.records == (CheckpointId(1),)
    sizes = []
    while True:
        sizes.append(len(order.files))
        for name in order.files:
            del left[name]
        following = only(o.DeleteFiles, core.tell(e.FilesDeleted(OURS, order.records)))
        if not following:
            break
        (order,) = following
        assert order.records == (), "records are gone before the first file is"
    assert (left, sizes) == ({}, [DELETE_MAX, DELETE_MAX, 1])
    assert not core.state.collection.under_way


def test_a_listing_that_comes_while_the_rest_waits_is_judged_anew() -> None:
    core = running(GRAPH)
    for number in (1, 2):
        core.tell(core.committed("a", number))
        core.ask()
        core.complete(number)
    files = tuple(file(0, f"old/{n}", generation=0) for n in range(DELETE_MAX + 1))
    core.tell(e.FilesListed(OURS, files))
    (again,) = only(o.DeleteFiles, core.tell(e.FilesListed(OURS, files[-1:])))
    assert again.files == (files[-1].name,)
    assert only(o.DeleteFiles, core.tell(e.FilesDeleted(OURS, again.records))) == []


def test_where_there_are_thousands_of_files_records_go_at_once_and_listings_keep_their_distance() -> None:
    core = running(GRAPH)
    many = tuple(file(99, f"new/{n}") for n in range(2_000))
    core.ask()
    core.complete(1)
    core.ask()
    assert only(o.ListFiles, core.complete(2))
    assert collect(core, *many) == ()
    core.ask()
    given = core.complete(3)
    assert only(o.ListFiles, given) == []
    assert [(one.records, one.files) for one in only(o.DeleteFiles, given)] == [((2,), ())]
    core.tell(e.FilesDeleted(OURS, (CheckpointId(2),)), e.Ticked(2 * PAUSE_MS - 1))
    core.ask()
    core.tell(e.FilesDeleted(OURS, only(o.DeleteFiles, core.complete(4))[0].records), e.Ticked(2 * PAUSE_MS))
    core.ask()
    assert only(o.ListFiles, core.complete(5)), "a second for two thousand files"


def test_an_aborted_entry_goes_once_a_later_checkpoint_is_complete_and_never_as_the_last_record() -> None:
    core = running(GRAPH, tolerable_failed_checkpoints=5)
    core.ask()
    core.complete(1)
    core.ask()
    core.tell(e.SnapshotDeclined(OURS, CheckpointId(2), TaskId("a"), "no"))
    core.create()
    assert list(core.state.collection.aborted_entries) == [2]
    core.ask()
    given = core.complete(3)
    assert only(o.ListFiles, given)
    (order,) = only(o.DeleteFiles, core.tell(e.FilesListed(OURS, ())))
    assert order.records == (1, 2)
    assert list(core.state.collection.aborted_entries) == []


def test_an_aborted_entry_that_is_the_last_record_stays_whatever_else_falls_out() -> None:
    core = running(GRAPH, tolerable_failed_checkpoints=5)
    core.ask()
    core.complete(1)
    core.tell(e.HoldAsked(RequestId("h"), CheckpointId(1)), e.HoldSet(ME, CheckpointId(1), held=True))
    core.ask()
    core.complete(2)
    core.ask()
    core.tell(e.SnapshotDeclined(OURS, CheckpointId(3), TaskId("a"), "no"))
    core.create()
    core.tell(e.HoldAsked(RequestId("r"), CheckpointId(1), held=False), e.HoldSet(ME, CheckpointId(1), held=False))
    (order,) = only(o.DeleteFiles, core.tell(e.FilesListed(OURS, ())))
    assert (order.records, core.state.collection.aborted_entries) == ((1,), (3,))


def test_aborted_entries_that_earlier_generations_left_go_too() -> None:
    core = running(GRAPH, tolerable_failed_checkpoints=5)
    core.ask()
    core.complete(1)
    core.ask()
    core.tell(e.SnapshotDeclined(OURS, CheckpointId(2), TaskId("a"), "no"))
    core.create()
    core.tell(core.failed("a", FailureClass.INTERNAL), e.Ticked(1000))
    core.read()
    core.create()
    assert core.state.collection.aborted_entries == (2,)
    assert core.state.retained.base == 1
