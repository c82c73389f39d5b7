import pytest

from headgate.core import chain
from headgate.core.chain import IDS_AHEAD_MAX, Answer, Chain
from headgate.core.evolve import evolve
from headgate.core.ids import CheckpointId, Generation
from headgate.core.records import CommitPermit, Fence, Record
from tests.helpers import ALICE, BOB, completed, fence, ids, line, void

GRAPH = line("a")
FIRST = Generation(1)


def queued(*records: Record, recorded: int = 0) -> Chain:
    links, _ = chain.enqueue(Chain(recorded=CheckpointId(recorded), last=CheckpointId(recorded)), records)
    return links


def test_the_first_record_is_ordered_at_once_and_the_next_ones_wait() -> None:
    empty = Chain(recorded=CheckpointId(0), last=CheckpointId(0))
    one, first = chain.enqueue(empty, (void(1), void(2)))
    assert first == void(1)
    assert (one.recorded, ids(one.queue), one.last) == (0, [1, 2], 2)
    two, first = chain.enqueue(one, (completed(GRAPH, 3),))
    assert first is None
    assert (ids(two.queue), two.last) == ([1, 2, 3], 3)


def unclear(links: Chain, generation: Generation = FIRST, number: int = 1, now_ms: int = 50) -> Chain:
    return chain.unclear(links, generation, CheckpointId(number), now_ms=now_ms, retry_ms=10, retry_max_ms=100)


def test_to_append_nothing_changes_nothing() -> None:
    links = queued(void(1))
    assert chain.enqueue(links, ()) == (links, None)
    assert chain.enqueue(Chain(), ()) == (Chain(), None)


def test_a_created_record_leaves_the_queue_and_settles_its_id() -> None:
    links = unclear(queued(void(1), void(2)))
    after, record = chain.created(links, FIRST, CheckpointId(1))
    assert record == void(1)
    assert (after.recorded, ids(after.queue), after.last) == (1, [2], 2)
    assert (after.retry_at_ms, after.tries, after.failing_since_ms) == (None, 0, None)


@pytest.mark.parametrize(("generation", "number"), [(1, 2), (1, 0), (2, 1)])
def test_a_stale_answer_changes_nothing(generation: int, number: int) -> None:
    links = queued(void(1), void(2))
    about = Generation(generation), CheckpointId(number)
    assert chain.created(links, *about) == (links, None)
    assert unclear(links, *about) == links


def test_an_answer_to_an_empty_queue_changes_nothing() -> None:
    links = Chain(recorded=CheckpointId(1), last=CheckpointId(1))
    assert chain.created(links, FIRST, CheckpointId(1)) == (links, None)
    assert unclear(links) == links
    assert chain.taken(links, void(1)) == (links, Answer.STALE, None)


def test_tries_come_later_and_later_up_to_a_limit_and_a_late_word_changes_nothing() -> None:
    links, waits = queued(void(1)), []
    for number in range(6):
        links = unclear(links, now_ms=1_000 * number)
        assert unclear(links, now_ms=1_000 * number + 1) == links, "the next try is waited for already"
        waits.append((links.retry_at_ms or 0) - 1_000 * number)
        links = evolve(links, retry_at_ms=None)  # As the core does when it orders the record again.
    assert waits == [10, 20, 40, 80, 100, 100]
    assert (links.tries, links.failing_since_ms) == (6, 0)


def test_an_unclear_create_is_to_be_ordered_again_and_stays_in_the_queue() -> None:
    links = queued(void(1), void(2))
    after = unclear(links)
    assert (after.retry_at_ms, after.tries, after.failing_since_ms) == (50 + 10, 1, 50)
    assert (after.recorded, after.queue, after.last) == (links.recorded, links.queue, links.last)


def test_a_record_of_ours_that_is_there_already_counts_as_created() -> None:
    links = queued(void(1), void(2))
    after, answer, record = chain.taken(links, void(1))
    assert (answer, record) == (Answer.OURS, void(1))
    assert after == chain.created(links, FIRST, CheckpointId(1))[0]


@pytest.mark.parametrize("foreign", [void(1, leader=BOB), void(1, generation=2), fence(1, 2, 2, leader=BOB)])
def test_a_record_of_another_leader_or_generation_is_foreign(foreign: Record) -> None:
    links = queued(void(1), void(2))
    assert chain.taken(links, foreign) == (links, Answer.FOREIGN, None)


def test_a_foreign_record_under_another_id_is_stale() -> None:
    links = queued(void(2), void(3), recorded=1)
    assert chain.taken(links, void(1, leader=BOB)) == (links, Answer.STALE, None)
    assert chain.taken(links, void(3, leader=BOB)) == (links, Answer.STALE, None)


def test_the_first_fence_of_all_opens_the_chain() -> None:
    assert chain.fence((), ALICE, None, CheckpointId(-1)) == fence(0, 1, 1)


def test_a_fence_comes_right_after_the_last_record_in_a_new_generation() -> None:
    records = (fence(0, 1, 1), void(1), void(2))
    assert chain.fence(records, ALICE, CheckpointId(2), CheckpointId(3)) == fence(3, 2, 4, base=CheckpointId(2))


def test_a_fence_takes_a_generation_above_all_even_if_the_tail_has_a_lower_one() -> None:
    records = (fence(0, 7, 1), void(1, generation=3))
    assert chain.fence(records, ALICE, None, CheckpointId(1)).generation == 8


def test_a_leader_who_comes_back_numbers_on_from_what_it_has_used() -> None:
    records = (fence(0, 1, 1), void(1))
    assert chain.fence(records, ALICE, None, CheckpointId(6)) == fence(2, 2, 6)


def test_a_new_leader_numbers_past_all_that_the_one_before_may_have_used() -> None:
    records: tuple[Record, ...] = (fence(0, 1, 1), void(1))
    after_a_void = chain.fence(records, BOB, None, CheckpointId(-1))
    assert after_a_void == fence(2, 2, 2 + IDS_AHEAD_MAX, leader=BOB)
    assert not chain.may_use(Chain(recorded=CheckpointId(1)), after_a_void.next_id)
    alone = chain.fence((fence(0, 1, 5),), BOB, None, CheckpointId(-1))
    assert alone.next_id == 5 + IDS_AHEAD_MAX
    assert not chain.may_use(chain.opened(fence(0, 1, 5)), alone.next_id)


def test_a_fence_after_a_fence_stands_where_the_one_before_would_write_next() -> None:
    """Ids 1 to 4 are settled by Alice's fence: she writes 5 next. A fence of Bob's at 1 would not stop her."""
    alices = fence(0, 1, 5)
    would_write = chain.voids(chain.opened(alices), CheckpointId(6), FIRST, ALICE)[0]
    assert chain.fence((alices,), BOB, None, CheckpointId(-1)).id == would_write.id


def test_all_ids_before_a_fence_are_settled_once_it_stands() -> None:
    links = chain.opened(fence(3, 2, 12))
    assert links == Chain(recorded=CheckpointId(11), last=CheckpointId(11))


def test_ids_that_were_given_up_get_a_void_each() -> None:
    links = queued(void(1))
    assert chain.voids(links, CheckpointId(4), FIRST, ALICE) == (void(2), void(3))
    assert chain.voids(links, CheckpointId(2), FIRST, ALICE) == ()
    assert chain.voids(links, CheckpointId(1), FIRST, ALICE) == ()


def test_an_id_may_be_used_only_so_far_past_the_last_that_is_settled() -> None:
    links = Chain(recorded=CheckpointId(3))
    assert chain.may_use(links, CheckpointId(3 + IDS_AHEAD_MAX))
    assert not chain.may_use(links, CheckpointId(4 + IDS_AHEAD_MAX))


def test_a_permit_names_the_checkpoint_it_was_made_for() -> None:
    assert chain.permit(completed(GRAPH, 4, generation=2)) == CommitPermit(CheckpointId(4), Generation(2))


def test_a_fence_says_where_its_generation_continues() -> None:
    found = chain.fence((), BOB, CheckpointId(0), CheckpointId(0))
    assert isinstance(found, Fence)
    assert (found.leader, found.base) == (BOB, 0)
