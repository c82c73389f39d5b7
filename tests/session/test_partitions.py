"""How many partitions the state of a new job gets, and what is said of a number that is far off."""

import pytest

from headgate.task.partitions import advice, advice_on_restored, cores


@pytest.mark.parametrize(
    ("master", "conf", "found"),
    [
        ("local", {}, 1),
        ("local[3]", {}, 3),
        ("local[3,2]", {}, 3),
        ("local[*]", {}, None),
        ("local[*,4]", {}, None),
        ("local-cluster[2,3,1024]", {}, 6),
        ("spark://host:7077", {}, None),
        ("spark://host:7077", {"spark.cores.max": "12"}, 12),
        ("yarn", {"spark.executor.instances": "4", "spark.executor.cores": "2"}, 8),
        ("yarn", {"spark.executor.instances": "4"}, None),
    ],
)
def test_a_master_says_how_many_cores_there_are_or_must_be_asked(
    master: str, conf: dict[str, str], found: int | None
) -> None:
    assert cores(master, conf) == found


@pytest.mark.parametrize(("partitions", "cores"), [(2, 2), (16, 2), (1, 8), (200, 25), (8, 64)])
def test_a_number_that_fits_gets_no_word(partitions: int, cores: int) -> None:
    assert advice(partitions, cores) is None
    assert advice_on_restored("a", partitions, cores) is None


def test_a_number_that_is_far_off_is_named_with_what_it_costs_and_what_to_do() -> None:
    assert advice(200, 2) == (
        "spark.sql.shuffle.partitions=200 is far off 2 cores: every batch does 200 small pieces of work for each "
        "operator with state: leave it out to have 2; a job keeps the number that it began with"
    )
    few = advice(1, 64)
    assert few is not None
    assert "operators with state use 1 of them" in few
    assert advice_on_restored("a", 17, 2) == (
        "task a keeps the 17 state partitions that it began with, far off 2 cores: every batch does 17 small pieces of "
        "work for each operator with state: for another number, begin anew under another job name"
    )
    assert advice(9, 1) is not None
