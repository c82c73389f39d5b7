"""Receipts of one sink: what follows on what, and what is named where it does not."""

from typing import Any

import pytest

from headgate.errors import BadStorage
from headgate.receipts.receipt import Receipt
from headgate.receipts.sequence import AuditKind, GenerationBegan, follow

FIRST = [GenerationBegan(1, None)]


def receipt(checkpoint: int, after: int, through: int, **fields: Any) -> Receipt:
    given: dict[str, Any] = {
        "generation": 1,
        "rows": 10,
        "sources": {"in": (None if after < 0 else f"{after}", f"{through}")},
        "channels": {},
        **fields,
    }
    return Receipt("out", "t", checkpoint=checkpoint, after=after, through=through, **given)


def test_receipts_that_follow_on_each_other_prove_all_batches() -> None:
    seen = follow([receipt(2, 3, 5), receipt(1, -1, 3), receipt(4, 5, 6)], FIRST)
    assert (seen.findings, seen.whole) == ((), True)
    assert [one.checkpoint for one in seen.live] == [1, 2, 4]


def test_a_receipt_that_is_not_there_is_named_with_its_batches_and_offsets() -> None:
    [found] = follow([receipt(1, -1, 3), receipt(3, 5, 6)], FIRST).findings
    assert (found.kind, found.checkpoint) == (AuditKind.MISSING, 3)
    assert found.text == (
        "there is no receipt for batches 4 to 5, between checkpoints 1 and 3 (source in from 3 to 5): whether they "
        "were published is not proven"
    )


def test_batches_that_two_receipts_have_are_doubled() -> None:
    [found] = follow([receipt(1, -1, 3), receipt(2, 2, 5)], FIRST).findings
    assert found.kind is AuditKind.DOUBLED
    assert found.text == "checkpoints 1 and 2 both published batch 3"


def test_offsets_that_do_not_follow_on_each_other_are_named() -> None:
    [found] = follow([receipt(1, -1, 3), receipt(2, 3, 5, sources={"in": ("9", "5")})], FIRST).findings
    assert found.kind is AuditKind.MISSING
    assert "source in: checkpoint 1 read through 3, and checkpoint 2 from 9" in found.text


def test_channels_are_compared_as_sources_are() -> None:
    receipts = [
        receipt(1, -1, 3, channels={"c": (None, "7")}),
        receipt(2, 3, 5, channels={"c": ("6", "9")}),
    ]
    [found] = follow(receipts, FIRST).findings
    assert "channel c: checkpoint 1 read through 7, and checkpoint 2 from 6" in found.text


def test_what_is_not_known_of_offsets_is_not_compared() -> None:
    assert follow([receipt(1, -1, 3, sources=None), receipt(2, 3, 5)], FIRST).findings == ()


def test_a_generation_goes_on_where_its_checkpoint_was() -> None:
    receipts = [receipt(1, -1, 3), receipt(2, 3, 5), receipt(4, 5, 8, generation=2)]
    assert follow(receipts, [*FIRST, GenerationBegan(2, 2)]).findings == ()


def test_what_was_published_after_the_checkpoint_gone_back_to_is_doubled() -> None:
    receipts = [receipt(1, -1, 3), receipt(2, 3, 5), receipt(4, 3, 8, generation=2)]
    seen = follow(receipts, [*FIRST, GenerationBegan(2, 1)])
    [found] = seen.findings
    assert (found.kind, found.checkpoint, found.generation) == (AuditKind.DOUBLED, 2, 1)
    assert found.text == (
        "checkpoint 2 published batches 4 to 5 (in from 3 to 5), and generation 2 began from checkpoint 1, before "
        "that: they come out again"
    )
    assert [one.checkpoint for one in seen.live] == [1, 4]


def test_a_job_that_begins_anew_publishes_all_of_it_again() -> None:
    seen = follow([receipt(1, -1, 3), receipt(2, -1, 3, generation=2)], [*FIRST, GenerationBegan(2, None)])
    assert [found.kind for found in seen.findings] == [AuditKind.DOUBLED]


def test_receipts_that_do_not_begin_with_the_first_batch_prove_nothing_of_those_before() -> None:
    seen = follow([receipt(7, 40, 44)], FIRST)
    assert (seen.whole, [found.kind for found in seen.findings]) == (False, [AuditKind.UNPROVEN])


def test_a_sink_of_another_task_begins_a_sequence_of_its_own() -> None:
    other = Receipt("out", "u", generation=1, checkpoint=2, after=0, through=1)
    seen = follow([receipt(1, -1, 3), other], FIRST)
    assert not seen.whole


def test_a_receipt_reads_back_as_it_was_written() -> None:
    one = receipt(1, -1, 3, place="/out", committable="{}", committed_ms=5, recovered=True)
    assert Receipt.of(one.data(), "here") == one


def test_fields_of_a_later_release_are_passed_over() -> None:
    assert Receipt.of({**receipt(1, -1, 3).data(), "more": 1}, "here") == receipt(1, -1, 3)


@pytest.mark.parametrize(
    "wrong",
    [
        None,
        {"sink": "out"},
        {**receipt(1, -1, 3).data(), "rows": "ten"},
        {**receipt(1, -1, 3).data(), "checkpoint": None},
        {**receipt(1, -1, 3).data(), "after": 9},
        {**receipt(1, -1, 3).data(), "place": 9},
        {**receipt(1, -1, 3).data(), "sources": {"in": [1, 2]}},
        {**receipt(1, -1, 3).data(), "sources": {"in": ["1"]}},
    ],
)
def test_what_is_no_receipt_is_refused(wrong: Any) -> None:
    with pytest.raises(BadStorage, match=r"^here has a receipt"):
        Receipt.of(wrong, "here")
