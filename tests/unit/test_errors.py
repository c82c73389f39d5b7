import pickle

import pytest

from headgate.core.errors import HeadgateError, InvalidGraph, InvalidSettings, NotRestorable, ProtocolError

PLAIN = (InvalidSettings, InvalidGraph, NotRestorable)


@pytest.mark.parametrize("kind", [*PLAIN, ProtocolError])
def test_every_error_of_the_core_is_in_the_tree_that_users_catch(kind: type[HeadgateError]) -> None:
    with pytest.raises(HeadgateError, match="a fact"):
        raise kind("a fact")


@pytest.mark.parametrize("kind", PLAIN)
def test_an_error_for_the_user_survives_pickling(kind: type[HeadgateError]) -> None:
    copy = pickle.loads(pickle.dumps(kind("num_retained is 0: it must be 1 or more")))  # noqa: S301 - our own bytes
    assert type(copy) is kind
    assert str(copy) == "num_retained is 0: it must be 1 or more"


def test_a_protocol_error_keeps_its_fields_through_pickling() -> None:
    copy = pickle.loads(pickle.dumps(ProtocolError("a gate fell", ("1 ms: first", "2 ms: then"))))  # noqa: S301 - ours
    assert type(copy) is ProtocolError
    assert copy.what == "a gate fell"
    assert copy.story == ("1 ms: first", "2 ms: then")
    assert str(copy) == "a gate fell\nthe story so far:\n  1 ms: first\n  2 ms: then"


def test_a_protocol_error_without_a_story_says_the_fact_alone() -> None:
    assert str(ProtocolError("a gate fell")) == "a gate fell"
