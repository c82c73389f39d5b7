"""What is lost, doubled or foreign is counted by key and number."""

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from headgate.audit import Example, count
from headgate.errors import UserError

records = st.lists(
    st.tuples(st.sampled_from(["a", "b", "", "ä"]), st.integers(-3, 3) | st.integers(-(2**63), 2**63 - 1))
)


def columns(found: list[tuple[str, int]]) -> tuple[pa.Array, pa.Array]:
    return pa.array([key for key, _ in found], pa.string()), pa.array([seq for _, seq in found], pa.int64())


@given(records, records)
def test_every_record_is_counted_as_by_hand(went_in: list[tuple[str, int]], came_out: list[tuple[str, int]]) -> None:
    verdict = count(columns(went_in), columns(came_out), show=100)
    should, has = Counter(went_in), Counter(came_out)
    foreign = Counter({record: times for record, times in has.items() if record not in should})
    assert (verdict.wanted, verdict.found) == (len(went_in), len(came_out))
    assert verdict.lost == (should - has).total()
    assert verdict.foreign == foreign.total()
    assert verdict.doubled == (has - should).total() - foreign.total()
    assert verdict.exact == (should == has)
    told = {key: example for example in verdict.examples if (key := example.key) is not None}
    for key in {key for key, _ in went_in + came_out}:
        missing = sorted(seq for (of, seq) in should - has if of == key)
        assert told.get(key, Example(key)).missing == tuple(missing[:10])
    assert list(told) == sorted(told)


@pytest.mark.parametrize(
    ("went_in", "came_out"),
    [
        ((None, range(5)), (None, [0, 1, 1, 1, 3, 4, 9])),
        ((None, np.arange(5)), (None, np.array([9, 4, 3, 1, 1, 1, 0]))),
        ((None, ["0", "1", "2", "3", "4"]), (None, [[0, 1, 1], [], [1, 3, 4, 9]])),
        (pa.table({"seq": range(5), "key": [None] * 5}), (None, pa.array([0, 1, 1, 1, 3, 4, 9], pa.uint8()))),
    ],
)
def test_numbers_come_in_many_forms(went_in: Any, came_out: Any) -> None:
    verdict = count(went_in, came_out)
    assert str(verdict) == "NOT exactly once: 5 in, 7 out, 1 lost, 2 duplicated, 1 foreign"
    assert verdict.examples == (Example(None, (2,), (1,), (9,)),)
    assert str(verdict.examples[0]) == "missing 2; doubled 1; foreign 9"


def test_what_is_exact_is_said_in_one_line() -> None:
    verdict = count((["a", "b"], [2, 1]), (["b", "a"], [1, 2]))
    assert str(verdict) == "exactly once: 2 in, 2 out, 0 lost, 0 duplicated"
    assert verdict.exact
    assert str(count((None, []), (None, []))) == "exactly once: 0 in, 0 out, 0 lost, 0 duplicated"


def test_a_record_that_went_in_twice_must_come_out_twice() -> None:
    assert count((None, [1, 1]), (None, [1, 1])).exact
    assert count((None, [1, 1]), (None, [1])).lost == 1


def test_the_numbers_of_a_list_belong_to_the_key_beside_it() -> None:
    verdict = count((["a", "a", "b"], [1, 2, 3]), (["a", "b"], [[1], [3, 3, 4]]))
    assert [str(example) for example in verdict.examples] == ["a: missing 2", "b: doubled 3; foreign 4"]


def test_few_keys_and_few_numbers_are_shown() -> None:
    went_in = ([f"k{n % 50:02}" for n in range(5000)], list(range(5000)))
    verdict = count(went_in, ([], []), show=3)
    assert [example.key for example in verdict.examples] == ["k00", "k01", "k02"]
    assert verdict.examples[1].missing == tuple(range(1, 501, 50))
    assert count(went_in, ([], []), show=0).examples == ()
    assert verdict.lost == 5000


@pytest.mark.parametrize("numbers", [[1.5], ["x"], [None], [[None]]])
def test_what_is_no_number_is_refused(numbers: list[Any]) -> None:
    with pytest.raises(UserError):
        count((None, numbers), (None, [1]))


def test_millions_of_records_are_counted_without_a_look_at_each() -> None:
    size = 1_000_000
    keys = pa.DictionaryArray.from_arrays(pa.array(np.arange(size) % 100), pa.array([f"k{n}" for n in range(100)]))
    numbers = np.arange(size) // 100
    assert count((keys, numbers), (keys.take(pa.array(np.arange(size)[::-1])), numbers[::-1])).exact
    assert count((keys, numbers), (keys[: size - 7], numbers[: size - 7])).lost == 7
