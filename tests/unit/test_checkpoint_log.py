import pytest

from headgate.core import checkpoint_log
from headgate.core.checkpoint_log import IDS_AHEAD_MAX, Answer, CheckpointLog
from headgate.core.evolve import evolve
from headgate.core.ids import CheckpointId, Generation
from headgate.core.records import CommitPermit, EpochRecord, Record
from tests.helpers import ALICE, BOB, aborted_entry, completed, epoch_record, ids, line

GRAPH = line("a")
FIRST = Generation(1)


def queued(*records: Record, recorded: int = 0) -> CheckpointLog:
    links, _ = checkpoint_log.enqueue(
        CheckpointLog(recorded=CheckpointId(recorded), last=CheckpointId(recorded)), records
    )
    return links


def test_the_first_record_is_ordered_at_once_and_the_next_ones_wait() -> None:
    empty = CheckpointLog(recorded=CheckpointId(0), last=CheckpointId(0))
    one, first = checkpoint_log.enqueue(empty, (aborted_entry(1), aborted_entry(2)))
    assert first == aborted_entry(1)
    assert (one.recorded, ids(one.queue), one.last) == (0, [1, 2], 2)
    two, first = checkpoint_log.enqueue(one, (completed(GRAPH, 3),))
    assert first is None
    assert (ids(two.queue), two.last) == ([1, 2, 3], 3)


def unclear(links: CheckpointLog, generation: Generation = FIRST, number: int = 1, now_ms: int = 50) -> CheckpointLog:
    return checkpoint_log.unclear(links, generation, CheckpointId(number), now_ms=now_ms, retry_ms=10, retry_max_ms=100)


def test_to_append_nothing_changes_nothing() -> None:
    links = queued(aborted_entry(1))
    assert checkpoint_log.enqueue(links, ()) == (links, None)
    assert checkpoint_log.enqueue(CheckpointLog(), ()) == (CheckpointLog(), None)


def test_a_created_record_leaves_the_queue_and_settles_its_id() -> None:
    links = unclear(queued(aborted_entry(1), aborted_entry(2)))
    after, record = checkpoint_log.created(links, FIRST, CheckpointId(1))
    assert record == aborted_entry(1)
    assert (after.recorded, ids(after.queue), after.last) == (1, [2], 2)
    assert (after.retry_at_ms, after.tries, after.failing_since_ms) == (None, 0, None)


@pytest.mark.parametrize(("generation", "number"), [(1, 2), (1, 0), (2, 1)])
def test_a_stale_answer_changes_nothing(generation: int, number: int) -> None:
    links = queued(aborted_entry(1), aborted_entry(2))
    about = Generation(generation), CheckpointId(number)
    assert checkpoint_log.created(links, *about) == (links, None)
    assert unclear(links, *about) == links


def test_an_answer_to_an_empty_queue_changes_nothing() -> None:
    links = CheckpointLog(recorded=CheckpointId(1), last=CheckpointId(1))
    assert checkpoint_log.created(links, FIRST, CheckpointId(1)) == (links, None)
    assert unclear(links) == links
    assert checkpoint_log.taken(links, aborted_entry(1)) == (links, Answer.STALE, None)


def test_tries_come_later_and_later_up_to_a_limit_and_a_late_word_changes_nothing() -> None:
    links, waits = queued(aborted_entry(1)), []
    for number in range(6):
        links = unclear(links, now_ms=1_000 * number)
        assert unclear(links, now_ms=1_000 * number + 1) == links, "the next try is waited for already"
        waits.append((links.retry_at_ms or 0) - 1_000 * number)
        links = evolve(links, retry_at_ms=None)  # As the core does when it orders the record again.
    assert waits == [10, 20, 40, 80, 100, 100]
    assert (links.tries, links.failing_since_ms) == (6, 0)


def test_an_unclear_create_is_to_be_ordered_again_and_stays_in_the_queue() -> None:
    links = queued(aborted_entry(1), aborted_entry(2))
    after = unclear(links)
    assert (after.retry_at_ms, after.tries, after.failing_since_ms) == (50 + 10, 1, 50)
    assert (after.recorded, after.queue, after.last) == (links.recorded, links.queue, links.last)


def test_a_record_of_ours_that_is_there_already_counts_as_created() -> None:
    links = queued(aborted_entry(1), aborted_entry(2))
    after, answer, record = checkpoint_log.taken(links, aborted_entry(1))
    assert (answer, record) == (Answer.OURS, aborted_entry(1))
    assert after == checkpoint_log.created(links, FIRST, CheckpointId(1))[0]


@pytest.mark.parametrize(
    "foreign", [aborted_entry(1, leader=BOB), aborted_entry(1, generation=2), epoch_record(1, 2, 2, leader=BOB)]
)
def test_a_record_of_another_leader_or_generation_is_foreign(foreign: Record) -> None:
    links = queued(aborted_entry(1), aborted_entry(2))
    assert checkpoint_log.taken(links, foreign) == (links, Answer.FOREIGN, None)


def test_a_foreign_record_under_another_id_is_stale() -> None:
    links = queued(aborted_entry(2), aborted_entry(3), recorded=1)
    assert checkpoint_log.taken(links, aborted_entry(1, leader=BOB)) == (links, Answer.STALE, None)
    assert checkpoint_log.taken(links, aborted_entry(3, leader=BOB)) == (links, Answer.STALE, None)


def test_the_first_epoch_record_of_all_opens_the_checkpoint_log() -> None:
    assert checkpoint_log.epoch_record((), ALICE, None, CheckpointId(-1)) == epoch_record(0, 1, 1)


def test_an_epoch_record_comes_right_after_the_last_record_in_a_new_generation() -> None:
    records = (epoch_record(0, 1, 1), aborted_entry(1), aborted_entry(2))
    assert checkpoint_log.epoch_record(records, ALICE, CheckpointId(2), CheckpointId(3)) == epoch_record(
        3, 2, 4, base=CheckpointId(2)
    )


def test_an_epoch_record_takes_a_generation_above_all_even_if_the_tail_has_a_lower_one() -> None:
    records = (epoch_record(0, 7, 1), aborted_entry(1, generation=3))
    assert checkpoint_log.epoch_record(records, ALICE, None, CheckpointId(1)).generation == 8


def test_a_leader_who_comes_back_numbers_on_from_what_it_has_used() -> None:
    records = (epoch_record(0, 1, 1), aborted_entry(1))
    assert checkpoint_log.epoch_record(records, ALICE, None, CheckpointId(6)) == epoch_record(2, 2, 6)


def test_a_new_leader_numbers_past_all_that_the_one_before_may_have_used() -> None:
    records: tuple[Record, ...] = (epoch_record(0, 1, 1), aborted_entry(1))
    after_an_aborted_entry = checkpoint_log.epoch_record(records, BOB, None, CheckpointId(-1))
    assert after_an_aborted_entry == epoch_record(2, 2, 2 + IDS_AHEAD_MAX, leader=BOB)
    assert not checkpoint_log.may_use(CheckpointLog(recorded=CheckpointId(1)), after_an_aborted_entry.next_id)
    alone = checkpoint_log.epoch_record((epoch_record(0, 1, 5),), BOB, None, CheckpointId(-1))
    assert alone.next_id == 5 + IDS_AHEAD_MAX
    assert not checkpoint_log.may_use(checkpoint_log.opened(epoch_record(0, 1, 5)), alone.next_id)


def test_an_epoch_record_after_an_epoch_record_stands_where_the_one_before_would_write_next() -> None:
    """Ids 1 to 4 are settled by Alice's epoch record, so she writes 5 next: one of Bob's at 1 would not stop her."""
    alices = epoch_record(0, 1, 5)
    would_write = checkpoint_log.aborted_entries(checkpoint_log.opened(alices), CheckpointId(6), FIRST, ALICE)[0]
    assert checkpoint_log.epoch_record((alices,), BOB, None, CheckpointId(-1)).id == would_write.id


def test_all_ids_before_an_epoch_record_are_settled_once_it_stands() -> None:
    links = checkpoint_log.opened(epoch_record(3, 2, 12))
    assert links == CheckpointLog(recorded=CheckpointId(11), last=CheckpointId(11))


def test_ids_that_were_given_up_get_an_aborted_entry_each() -> None:
    links = queued(aborted_entry(1))
    assert checkpoint_log.aborted_entries(links, CheckpointId(4), FIRST, ALICE) == (aborted_entry(2), aborted_entry(3))
    assert checkpoint_log.aborted_entries(links, CheckpointId(2), FIRST, ALICE) == ()
    assert checkpoint_log.aborted_entries(links, CheckpointId(1), FIRST, ALICE) == ()


def test_an_id_may_be_used_only_so_far_past_the_last_that_is_settled() -> None:
    links = CheckpointLog(recorded=CheckpointId(3))
    assert checkpoint_log.may_use(links, CheckpointId(3 + IDS_AHEAD_MAX))
    assert not checkpoint_log.may_use(links, CheckpointId(4 + IDS_AHEAD_MAX))


def test_a_permit_names_the_checkpoint_it_was_made_for() -> None:
    assert checkpoint_log.permit(completed(GRAPH, 4, generation=2)) == CommitPermit(CheckpointId(4), Generation(2))


def test_an_epoch_record_says_where_its_generation_continues() -> None:
    found = checkpoint_log.epoch_record((), BOB, CheckpointId(0), CheckpointId(0))
    assert isinstance(found, EpochRecord)
    assert (found.leader, found.base) == (BOB, 0)
