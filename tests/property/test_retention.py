from collections.abc import Iterable

from hypothesis import given, strategies as st

from headgate.core import retention
from headgate.core.evolve import evolve
from headgate.core.ids import Batch, ChannelId, CheckpointId, Generation, TaskId
from headgate.core.records import CompletedCheckpoint, InFlight, Kind, StoredFile
from tests.helpers import completed, line

GRAPH = line("a", "b")
OWNERS: list[TaskId | ChannelId] = [TaskId("a"), TaskId("b"), ChannelId("a>b")]
GENERATIONS = st.integers(1, 3)
BATCHES = st.integers(0, 6)


@st.composite
def listings(draw: st.DrawFn) -> tuple[StoredFile, ...]:
    keys = draw(st.lists(st.tuples(GENERATIONS, st.sampled_from(OWNERS), BATCHES), unique=True, max_size=25))
    return tuple(
        StoredFile(f"{generation}/{owner}/{batch}", Generation(generation), owner, Batch(batch))
        for generation, owner, batch in keys
    )


@st.composite
def histories(draw: st.DrawFn) -> tuple[CompletedCheckpoint, ...]:
    """Completed checkpoints in the order of ids. Each names files of its own generation or an earlier one."""
    made = []
    generation = 1
    for number in range(draw(st.integers(0, 5))):
        generation = min(3, generation + draw(st.integers(0, 1)))
        through = draw(BATCHES)
        held = InFlight(
            ChannelId("a>b"), TaskId("a"), TaskId("b"), Batch(draw(st.integers(-1, through))), Batch(through)
        )
        base = completed(GRAPH, number, generation=generation, kind=draw(st.sampled_from(Kind)), channels=(held,))
        tasks = tuple(
            evolve(
                snapshot,
                batch=Batch(draw(BATCHES)),
                files=tuple(
                    f"{draw(st.integers(1, generation))}/{snapshot.task}/{draw(BATCHES)}"
                    for _ in range(draw(st.integers(0, 3)))
                ),
            )
            for snapshot in base.tasks
        )
        made.append(evolve(base, tasks=tasks))
    return tuple(made)


def left(files: tuple[StoredFile, ...], gone: Iterable[str]) -> tuple[StoredFile, ...]:
    pending_deletion = set(gone)
    return tuple(file for file in files if file.name not in pending_deletion)


@given(listings(), histories(), GENERATIONS, st.booleans())
def test_a_collection_never_deletes_what_a_kept_checkpoint_needs(
    files: tuple[StoredFile, ...], kept: tuple[CompletedCheckpoint, ...], number: int, live: bool
) -> None:
    gone = set(retention.collect(files, kept, Generation(number), live=live).files)
    for checkpoint in kept:
        for snapshot in checkpoint.tasks:
            assert gone.isdisjoint(snapshot.files)
        for held in checkpoint.channels:
            segments = [f for f in files if f.owner == held.channel and held.after < f.batch <= held.through]
            assert gone.isdisjoint(file.name for file in segments)


@given(listings(), histories(), GENERATIONS, st.booleans())
def test_a_collection_leaves_later_generations_and_what_a_live_one_has_written_since(
    files: tuple[StoredFile, ...], kept: tuple[CompletedCheckpoint, ...], number: int, live: bool
) -> None:
    gone = set(retention.collect(files, kept, Generation(number), live=live).files)
    assert gone.isdisjoint(file.name for file in files if file.generation > number)
    own = [checkpoint for checkpoint in kept if checkpoint.generation == number]
    for file in files:
        if live and file.generation == number and file.name in gone:
            assert own, "a live generation without a checkpoint keeps everything"
            cuts: dict[str, int] = {snapshot.task: snapshot.batch for snapshot in own[-1].tasks}
            cuts |= {held.channel: held.after for held in own[-1].channels}
            assert file.batch <= cuts[file.owner]


@given(listings(), histories(), GENERATIONS, st.booleans())
def test_a_second_collection_finds_nothing_more(
    files: tuple[StoredFile, ...], kept: tuple[CompletedCheckpoint, ...], number: int, live: bool
) -> None:
    plan = retention.collect(files, kept, Generation(number), live=live)
    assert plan == retention.collect(files, kept, Generation(number), live=live), "the dry run says what will happen"
    rest = left(files, plan.files)
    assert plan.kept == len(rest)
    assert retention.collect(rest, kept, Generation(number), live=live).files == ()


@given(listings(), histories(), GENERATIONS)
def test_when_nobody_lives_all_goes_that_is_not_kept(
    files: tuple[StoredFile, ...], kept: tuple[CompletedCheckpoint, ...], number: int
) -> None:
    rest = left(files, retention.collect(files, kept, Generation(number), live=False).files)
    named = {name for checkpoint in kept for snapshot in checkpoint.tasks for name in snapshot.files}
    ranges = [held for checkpoint in kept for held in checkpoint.channels]
    for file in rest:
        in_flight = any(h.channel == file.owner and file.batch in range(h.after + 1, h.through + 1) for h in ranges)
        assert file.generation > number or file.name in named or in_flight


@given(histories(), st.integers(0, 4), st.lists(st.integers(0, 6)), st.none() | st.integers(0, 6))
def test_what_is_kept_is_kept_for_a_reason_in_order_and_keeping_again_changes_nothing(
    history: tuple[CompletedCheckpoint, ...], num_retained: int, held: list[int], base: int | None
) -> None:
    holds, start = tuple(CheckpointId(number) for number in held), None if base is None else CheckpointId(base)
    kept = retention.keep(history, num_retained=num_retained, held=holds, base=start)
    assert kept == tuple(checkpoint for checkpoint in history if checkpoint in kept)
    wanted = [c for c in history if c.kind is Kind.SAVEPOINT or c.id in held or c.id == base]
    assert all(checkpoint in kept for checkpoint in wanted)
    periodic = [checkpoint for checkpoint in history if checkpoint.kind is Kind.CHECKPOINT]
    assert [c for c in kept if c not in wanted] == [
        c for c in periodic[max(0, len(periodic) - num_retained) :] if c not in wanted
    ]
    assert retention.keep(kept, num_retained=num_retained, held=holds, base=start) == kept
