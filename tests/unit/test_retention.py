import pytest

from headgate.core import retention
from headgate.core.evolve import evolve
from headgate.core.graph import Graph
from headgate.core.ids import Batch, ChannelId, CheckpointId, Generation, TaskId
from headgate.core.records import CompletedCheckpoint, InFlight, Kind, StoredFile
from tests.helpers import completed, line

GRAPH: Graph = line("a", "b")


def kept(
    *checkpoints: CompletedCheckpoint, num_retained: int = 1, held: tuple[int, ...] = (), base: int | None = None
) -> list[int]:
    found = retention.keep(
        checkpoints,
        num_retained=num_retained,
        held=tuple(CheckpointId(number) for number in held),
        base=None if base is None else CheckpointId(base),
    )
    return [checkpoint.id for checkpoint in found]


def periodic(*numbers: int) -> tuple[CompletedCheckpoint, ...]:
    return tuple(completed(GRAPH, number) for number in numbers)


def file(owner: str, batch: int, generation: int = 1, name: str = "") -> StoredFile:
    place = ChannelId(owner) if ">" in owner else TaskId(owner)
    return StoredFile(name or f"{owner}/{batch}", Generation(generation), place, Batch(batch))


def deleted(
    files: list[StoredFile], *checkpoints: CompletedCheckpoint, generation: int = 1, live: bool = True
) -> list[str]:
    """What goes once an earlier collection has made it a candidate."""
    candidates = frozenset(retention.collect(tuple(files), checkpoints, Generation(generation), live=live).candidates)
    plan = retention.collect(tuple(files), checkpoints, Generation(generation), live=live, candidates=candidates)
    assert plan.kept == len(files) - len(plan.files)
    return list(plan.files)


@pytest.mark.parametrize(("num_retained", "expected"), [(0, []), (1, [4]), (2, [3, 4]), (9, [1, 2, 3, 4])])
def test_the_newest_checkpoints_are_kept(num_retained: int, expected: list[int]) -> None:
    assert kept(*periodic(1, 2, 3, 4), num_retained=num_retained) == expected


def test_savepoints_held_checkpoints_and_the_base_are_kept_and_do_not_count() -> None:
    savepoint = completed(GRAPH, 5, kind=Kind.SAVEPOINT)
    assert kept(*periodic(1, 2, 3, 4), savepoint) == [4, 5]
    assert kept(*periodic(1, 2, 3, 4), savepoint, held=(2,), base=1) == [1, 2, 4, 5]
    assert kept(*periodic(1, 2, 3, 4), savepoint, num_retained=0, held=(2,)) == [2, 5]


def test_the_checkpoint_that_the_base_has_not_replaced_yet_is_kept_beside_it() -> None:
    fresh = completed(GRAPH, 5, keeps=CheckpointId(2))
    assert kept(*periodic(1, 2, 3, 4), fresh, base=5) == [2, 5]
    assert kept(*periodic(1, 2, 3, 4), fresh, completed(GRAPH, 6), base=6) == [6]


def test_a_held_checkpoint_that_is_gone_does_not_come_back() -> None:
    assert kept(*periodic(3), held=(1,), base=2) == [3]


def test_a_file_that_a_kept_checkpoint_names_stays() -> None:
    files = [file("a", 3), file("a", 2), file("b", 3)]
    assert deleted(files, completed(GRAPH, 1, batch=3), live=False) == ["a/2"]


def test_all_goes_if_nothing_is_kept_and_nobody_lives() -> None:
    assert deleted([file("a", 1), file("a>b", 1)], live=False) == ["a/1", "a>b/1"]


def test_data_in_flight_stays_exactly_in_its_range() -> None:
    held = InFlight(ChannelId("a>b"), TaskId("a"), TaskId("b"), Batch(2), Batch(4))
    checkpoint = completed(GRAPH, 1, batch=9, channels=(held,))
    files = [file("a>b", batch) for batch in (1, 2, 3, 4, 5)]
    assert deleted(files, checkpoint, live=False) == ["a>b/1", "a>b/2", "a>b/5"]
    assert deleted([file("b>c", 3)], checkpoint, live=False) == ["b>c/3"]


def test_files_of_later_generations_are_not_ours_to_judge() -> None:
    files = [file("a", 1, generation=1), file("a", 2, generation=2), file("a", 3, generation=3)]
    assert deleted(files, generation=2, live=False) == ["a/1", "a/2"]


def test_what_came_after_the_newest_cut_of_a_live_job_stays() -> None:
    checkpoint = evolve(completed(GRAPH, 1, batch=5), tasks=completed(GRAPH, 1, batch=5).tasks[:1])
    files = [file("a", batch, name=f"extra-{batch}") for batch in (4, 5, 6)]
    assert deleted(files, checkpoint) == ["extra-4", "extra-5"]
    assert deleted(files, checkpoint, live=False) == ["extra-4", "extra-5", "extra-6"]
    assert deleted([file("b", 0)], checkpoint) == [], "nothing is known of b"


def test_the_segments_that_a_live_reader_has_not_consumed_stay() -> None:
    held = InFlight(ChannelId("a>b"), TaskId("a"), TaskId("b"), Batch(2), Batch(4))
    checkpoint = completed(GRAPH, 1, batch=4, channels=(held,))
    files = [file("a>b", batch) for batch in (1, 2, 3, 4, 5)]
    assert deleted(files, checkpoint) == ["a>b/1", "a>b/2"]


def test_a_live_job_without_a_checkpoint_of_its_own_generation_keeps_all_its_files() -> None:
    base = completed(GRAPH, 1, batch=5, generation=1)
    files = [file("a", 4, generation=1), file("a", 4, generation=2, name="new"), file("a", 6, generation=1)]
    assert deleted(files, base, generation=2) == ["a/4", "a/6"]


def test_the_newest_of_several_checkpoints_decides_what_is_old() -> None:
    older, newer = completed(GRAPH, 1, batch=3), completed(GRAPH, 2, batch=6)
    files = [file("a", batch) for batch in (2, 3, 4, 5, 6, 7)]
    assert deleted(files, older, newer) == ["a/2", "a/4", "a/5"]


def test_a_live_file_that_nobody_names_is_a_candidate_first_and_goes_with_a_later_collection() -> None:
    checkpoint = completed(GRAPH, 1, batch=5)
    old = (file("a", 4, name="old"),)
    first = retention.collect(old, (checkpoint,), Generation(1), live=True)
    assert (first.files, first.candidates) == ((), ("old",))
    second = retention.collect(old, (checkpoint,), Generation(1), live=True, candidates=frozenset(first.candidates))
    assert (second.files, second.candidates) == (("old",), ())


def test_what_a_checkpoint_under_way_names_stays() -> None:
    checkpoint = completed(GRAPH, 1, batch=5)
    old = (file("a", 4, name="old"),)
    candidates = named = frozenset({"old"})
    plan = retention.collect(old, (checkpoint,), Generation(1), live=True, named_elsewhere=named, candidates=candidates)
    assert (plan.files, plan.candidates) == ((), ())
