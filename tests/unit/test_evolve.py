from dataclasses import FrozenInstanceError, replace

import pytest

from headgate.core.evolve import evolve
from headgate.core.ids import Batch
from headgate.core.records import Boundary


def test_a_changed_copy_leaves_the_original_as_it_was() -> None:
    before = Boundary(Batch(3), (Batch(1),))
    after = evolve(before, batch=Batch(4))
    assert before == Boundary(Batch(3), (Batch(1),))
    assert after == Boundary(Batch(4), (Batch(1),))
    assert after == replace(before, batch=Batch(4))


def test_a_copy_is_of_the_same_class_equal_hashed_alike_and_frozen() -> None:
    before = Boundary(Batch(3))
    copy = evolve(before)
    assert copy is not before
    assert copy == before
    assert hash(copy) == hash(before)
    with pytest.raises(FrozenInstanceError):
        copy.batch = Batch(9)  # type: ignore[misc]
