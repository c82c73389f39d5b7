"""Transactional ids and tokens: who may touch whose, and for how long the numbers last."""

from itertools import pairwise

import pytest

from headgate.connect.kafka.writing.names import (
    EARLIER,
    FIRST,
    NOW,
    KafkaCommittable,
    Names,
    OpenTransaction,
    Slot,
    token,
)
from headgate.core.ids import Batch, CheckpointId, Generation, Run, SinkId
from headgate.errors import BadStorage
from headgate.sink.form import Whose

NAMES = Names("app", "job", SinkId("out"), "inc_0")
YEAR_AT_TEN_A_SECOND = 10 * 86_400 * 366


def of(generation: int) -> str:
    return NAMES.transactional_id(Generation(generation), Slot(3, 1))


@pytest.mark.parametrize("zombie", [1, 7, 500, 1023, 1024, 5_000])
def test_whoever_was_overtaken_touches_nothing_of_its_successors(zombie: int) -> None:
    later = range(zombie, zombie + NOW.classes - EARLIER)
    assert not [ahead for ahead in later if NAMES.is_earlier(of(ahead), Generation(zombie))]


def test_a_generation_finds_what_those_before_it_left() -> None:
    for now in (2, 70, 1_030):
        before = range(max(1, now - EARLIER), now)
        assert all(NAMES.is_earlier(of(left), Generation(now)) for left in before)


def test_nobody_takes_up_the_id_of_one_of_the_next_thousand_generations() -> None:
    assert len({of(generation) for generation in range(40, 1_040)}) == 1_000


def test_batches_do_not_run_out_in_a_thousand_years() -> None:
    last = token(Generation(2), Batch(1_000 * YEAR_AT_TEN_A_SECOND), Run(40_000))
    assert last < token(Generation(3), Batch(0), Run(1)) < 1 << 63
    with pytest.raises(BadStorage, match="generation 1048576 is past what a Kafka sink can number"):
        token(Generation(1 << 20), Batch(0), Run(1))


def test_tokens_of_one_id_grow_with_every_use() -> None:
    uses = [(1, 0), (1, 1), (1, 1 << 30), (2, 0), (2, 5)]
    assert all(one < other for one, other in pairwise(token(Generation(g), Batch(b), Run(1)) for g, b in uses))


def test_what_an_older_version_pre_committed_keeps_its_ids_and_its_tokens() -> None:
    old = (
        '{"version":1,"job":"job","sink":"out","generation":20,"checkpoint":7,'
        '"batches":[[5,2,[[3,1,4000,0,10,"part-00001-9.parquet",99]]]]}'
    )
    pre_committed = KafkaCommittable.from_text(old)
    assert pre_committed.scheme is FIRST
    generation = pre_committed.whose.generation
    assert NAMES.transactional_id(generation, Slot(3, 1), pre_committed.scheme) == "app.job.out.g4.3.1"
    assert token(generation, Batch(5), Run(2), pre_committed.scheme) == (20 << 43) | (5 << 15) | 2
    assert KafkaCommittable.from_text(pre_committed.to_text()) == pre_committed


def test_a_committable_says_by_which_scheme_it_was_written() -> None:
    part = OpenTransaction(Slot(3, 1), 4_000, 0, 10)
    whose = Whose("job", SinkId("out"), Generation(20), CheckpointId(7))
    pre_committed = KafkaCommittable(whose, ((whose.write_id(5, 2), (part,)),))
    assert KafkaCommittable.from_text(pre_committed.to_text()) == pre_committed
    with pytest.raises(BadStorage, match="cannot be read"):
        KafkaCommittable.from_text(pre_committed.to_text().replace('"ids":2', '"ids":9'))
