import json
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given, strategies as st

from headgate.core.ids import Batch, CheckpointId, Generation, LeaderId, SinkId, TaskId
from headgate.core.records import AbortedEntry, CompletedCheckpoint, Ending, EpochRecord, Kind, Record, Transaction
from headgate.errors import BadStorage
from headgate.store.codec import Mismatch, decode, decode_value, encode, encode_value, unwrap, wrap
from tests.helpers import ALICE, aborted_entry, completed, epoch_record, line, transaction
from tests.tiers import examples

RECORDS: st.SearchStrategy[Record] = st.one_of(
    st.from_type(CompletedCheckpoint), st.from_type(AbortedEntry), st.from_type(EpochRecord)
)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)
CHECKPOINT = completed(line("a", "b"), 7, 3, transactions=(transaction(7, 2, 3),))
EXTRA = {"files": {"a/3": [12, 345]}, "segments": {"a>b": []}}
WHERE = "file:///s/job/checkpoint-log/0000000007.json"


# -- there and back ------------------------------------------------------------------------------------------------


@given(record=RECORDS, extra=st.dictionaries(st.text(), JSON, max_size=3))
def test_every_record_comes_back_as_it_was(record: Record, extra: dict[str, Any]) -> None:
    data = encode(record, extra)
    assert decode(data, WHERE) == (record, extra)
    assert data.isascii()
    assert data.count(b"\n") == 1


@given(record=RECORDS, extra=st.dictionaries(st.text(), JSON, max_size=3))
def test_one_value_has_one_form(record: Record, extra: dict[str, Any]) -> None:
    data = encode(record, extra)
    assert encode(*decode(data, WHERE)) == data
    assert encode(record, dict(reversed(extra.items()))) == data


def test_the_form_does_not_change() -> None:
    record = EpochRecord(CheckpointId(4), Generation(2), LeaderId("bob"), CheckpointId(12), None, Ending.STOPPED)
    assert encode(record, {"a": 1}) == (
        b'{"format":1,"sha256":"37deb2a3df53276aa656394682012334b2f898be213a2db791b6323af676a6b8","body":'
        b'{"extra":{"a":1},"record":{"base":null,"ending":"stopped","generation":2,"id":4,"leader":"bob","next_id":12,'
        b'"type":"EpochRecord"}}}\n'
    )


def test_what_records_had_not_always_is_written_where_it_says_something() -> None:
    without = replace(epoch_record(4, 2, 12), abandoned=CHECKPOINT.transactions)
    said: list[tuple[Record, str]] = [(replace(CHECKPOINT, keeps=CheckpointId(2)), "keeps"), (without, "abandoned")]
    for record, name in said:
        data = encode(record, {})
        assert json.loads(data)["body"]["record"][name]
        assert decode(data, WHERE)[0] == record
    assert "keeps" not in json.loads(encode(CHECKPOINT, {}))["body"]["record"]


def test_what_is_written_is_json_that_begins_with_the_format() -> None:
    text = encode(CHECKPOINT, EXTRA)
    assert text.startswith(b'{"format":1,')
    body = json.loads(text)["body"]
    assert body["extra"] == EXTRA
    assert body["record"]["type"] == "CompletedCheckpoint"
    assert body["record"]["kind"] == "checkpoint"


# -- damage --------------------------------------------------------------------------------------------------------


def test_a_record_that_is_cut_short_anywhere_is_refused() -> None:
    data = encode(CHECKPOINT, EXTRA)
    for length in range(len(data)):
        with pytest.raises(BadStorage, match=WHERE):
            decode(data[:length], WHERE)


def test_a_record_with_one_changed_byte_is_refused() -> None:
    data = encode(CHECKPOINT, EXTRA)
    for place in range(len(data)):
        for flip in (0x01, 0x20, 0x80, 0xFF):
            damaged = bytearray(data)
            damaged[place] ^= flip
            with pytest.raises(BadStorage, match=WHERE):
                decode(bytes(damaged), WHERE)


@examples(500)
@given(place=st.integers(0, len(encode(CHECKPOINT, EXTRA)) - 1), byte=st.integers(0, 255))
def test_a_record_with_any_byte_in_any_place_is_refused_or_the_same(place: int, byte: int) -> None:
    data = bytearray(encode(CHECKPOINT, EXTRA))
    data[place] = byte
    if data != encode(CHECKPOINT, EXTRA):
        with pytest.raises(BadStorage, match=WHERE):
            decode(bytes(data), WHERE)


@pytest.mark.parametrize("data", [b"", b"\0" * 400, b"{}", b"[1]\n", b'{"format":0,"sha256":"","body":{}}\n', b"\xff"])
def test_what_was_never_a_record_is_refused(data: bytes) -> None:
    with pytest.raises(BadStorage, match=f"{WHERE} is damaged: it is cut short, or not of Headgate; put back"):
        decode(data, WHERE)


def test_bytes_after_a_record_are_refused() -> None:
    with pytest.raises(BadStorage, match="is damaged"):
        decode(encode(CHECKPOINT, EXTRA) + b"\n", WHERE)


@pytest.mark.parametrize("version", [3, 10, 999])
def test_a_newer_format_is_not_guessed_at(version: int) -> None:
    data = b'{"format":%d,"something":"else"}' % version
    with pytest.raises(BadStorage, match=f"{WHERE} has the newer format {version}, .*: use a newer Headgate"):
        decode(data, WHERE)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ({"extra": {}}, "'record'"),
        ({"record": {"type": "AbortedEntry", "id": 1, "generation": 1, "leader": "a"}}, "'extra'"),
        ({"type": "Gap", "id": 1}, "type is 'Gap', not one of CompletedCheckpoint, AbortedEntry, EpochRecord"),
        ({"id": 1}, "type is None, not one of"),
        (["AbortedEntry"], r"it is \['AbortedEntry'\], not"),
        ({"type": "AbortedEntry", "id": 1, "generation": 1}, "leader is not there"),
        ({"type": "AbortedEntry", "id": 1, "generation": 1, "leader": 7}, "leader is 7, not str"),
        ({"type": "AbortedEntry", "id": True, "generation": 1, "leader": "a"}, "id is True, not int"),
        (
            {"type": "AbortedEntry", "id": 1, "generation": 1, "leader": "a", "mood": ""},
            "mood is not known to this Headgate",
        ),
    ],
)
def test_a_body_that_is_no_record_is_refused_with_the_field(body: Any, why: str) -> None:
    whole = body if isinstance(body, dict) and {"extra", "record"} & body.keys() else {"extra": {}, "record": body}
    with pytest.raises(BadStorage, match=f"{WHERE} is not a record: .*{why}"):
        decode(wrap(whole), WHERE)


def test_a_bad_field_deep_inside_is_named_with_its_place() -> None:
    body = json.loads(encode(CHECKPOINT, {}))["body"]
    body["record"]["transactions"][0]["after"] = "two"
    with pytest.raises(BadStorage, match=r"transactions\.after is 'two', not int"):
        decode(wrap(body), WHERE)


def test_a_long_value_is_shortened_in_a_message() -> None:
    with pytest.raises(Mismatch) as raised:
        decode_value(int, "x" * 10_000)
    assert len(str(raised.value)) < 100


# -- values by their type ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Later:
    """A record of which an earlier Headgate wrote only the number."""

    number: Batch
    pair: tuple[TaskId, Batch] = (TaskId("a"), Batch(1))
    share: float = 0.5
    inner: Transaction | None = None


def test_a_field_that_was_not_written_takes_its_default() -> None:
    assert decode_value(Later, {"number": 3}) == Later(Batch(3))


@given(value=st.from_type(Later))
def test_a_value_of_any_frozen_type_comes_back(value: Later) -> None:
    plain = json.loads(json.dumps(encode_value(Later, value)))
    assert decode_value(Later, plain) == value


@pytest.mark.parametrize(
    ("hint", "data"),
    [
        (tuple[TaskId, Batch], ["a"]),
        (tuple[Batch, ...], {"0": 1}),
        (tuple[Batch, ...], [1, None]),
        (Kind, "picnic"),
        (Kind, ["checkpoint"]),
        (Later, [3]),
        (Batch | None, "None"),
        (float, 1),
    ],
)
def test_data_of_another_type_is_a_mismatch(hint: Any, data: Any) -> None:
    with pytest.raises(Mismatch):
        decode_value(hint, data)


@pytest.mark.parametrize(
    "record",
    [
        AbortedEntry(CheckpointId(1), Generation(1), b"a"),  # type: ignore[arg-type]
        AbortedEntry(CheckpointId(True), Generation(1), ALICE),
        completed(line("a"), 1, kind="checkpoint"),
        completed(line("a"), 1, tasks=[]),
        completed(line("a"), 1, transactions=(SinkId("out"),)),
        transaction(1, 2, 3),
    ],
)
def test_nothing_is_written_that_could_not_be_read(record: Any) -> None:
    with pytest.raises(Mismatch):
        encode(record, {})


def test_the_envelope_gives_back_what_it_was_given() -> None:
    assert unwrap(wrap({"b": [1, None], "a": "ü"}), WHERE) == {"a": "ü", "b": [1, None]}


@pytest.mark.parametrize("record", [aborted_entry(1), epoch_record(2, 3, 4, base=CheckpointId(1)), CHECKPOINT])
def test_each_kind_of_record_has_its_own_name(record: Record) -> None:
    assert json.loads(encode(record, {}))["body"]["record"]["type"] == type(record).__name__
