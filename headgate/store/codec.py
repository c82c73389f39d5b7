"""Records as bytes: JSON with a version and a checksum.

One rule: what does not read back as what was written raises ``BadStorage``. A byte that was changed, lost or added is
noticed by the checksum; a version that is not known is not guessed at. One value has one form, byte for byte.

::

    {"format":1,"sha256":"<of the body's bytes>","body":{"extra":{...},"record":{"type":"EpochRecord",...}}}

A value is written by its type: a frozen dataclass as an object, a tuple as an array, an enum as its value, an id as
what it is made of. A field that is not there takes its default, so that records may gain fields: those are marked, and
written only where they differ from it. One that nobody knows is an error, so that none is lost.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from reprlib import repr as short
from types import NoneType, UnionType
from typing import Any, NewType, Union, cast, get_args, get_origin, get_type_hints

from headgate.core.records import Record
from headgate.errors import BadStorage

FORMAT = 2
"""The newest format that is read. What needs no newer one is written in format 1, which earlier releases read too."""
_SCALARS = (str, int, bool, float)
_VERSION = re.compile(rb'\{"format":(\d{1,9}),')
_ENVELOPE = re.compile(rb'\{"format":([12]),"sha256":"([0-9a-f]{64})","body":(\{.*\})\}\n', re.DOTALL)


def encode(record: Record, extra: Mapping[str, object], version: int = 1) -> bytes:
    """A record of the checkpoint log with further sections, which are plain JSON."""
    return wrap({"record": encode_value(Record, record), "extra": extra}, version)


def decode(data: bytes, where: str) -> tuple[Record, dict[str, Any]]:
    """A record and its further sections. ``where`` is named if they cannot be read."""
    body = unwrap(data, where)
    try:
        extra = body["extra"]
        record = decode_value(Record, body["record"])
    except (Mismatch, KeyError) as error:
        raise BadStorage(f"{where} is not a record: {error}; put back a good copy of it") from error
    return cast("Record", record), extra


# -- the envelope --------------------------------------------------------------------------------------------------


def wrap(body: Mapping[str, object], version: int = 1) -> bytes:
    """Plain JSON, with the version and a checksum before it."""
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")
    return b'{"format":%d,"sha256":"%s","body":%s}\n' % (version, _sha256(version, text), text)


def unwrap(data: bytes, where: str) -> dict[str, Any]:
    """What ``wrap`` was given."""
    version = _VERSION.match(data)
    if version and int(version[1]) > FORMAT:
        raise BadStorage(newer_format(where, int(version[1])))
    envelope = _ENVELOPE.fullmatch(data)
    if envelope is None:
        raise BadStorage(f"{where} is damaged: it is cut short, or not of Headgate; put back a good copy of it")
    found, checksum, body = envelope.groups()
    if _sha256(int(found), body) != checksum:
        raise BadStorage(f"{where} is damaged: its checksum does not match; put back a good copy of it")
    return cast("dict[str, Any]", json.loads(body))


def _sha256(version: int, body: bytes) -> bytes:
    """The checksum of a body. From format 2 on it is of the version too, so that none is taken for another."""
    return hashlib.sha256(body if version == 1 else b"%d%s" % (version, body)).hexdigest().encode()


def newer_format(where: str, version: int, known: int = FORMAT) -> str:
    """What to say about a file that a later Headgate wrote."""
    return f"{where} has the newer format {version}, and this Headgate knows format {known}: use a newer Headgate"


# -- values by their type ------------------------------------------------------------------------------------------


class Mismatch(TypeError):
    """A value is not of its type."""

    def __init__(self, what: str, within: tuple[str, ...] = ()) -> None:
        super().__init__(what, within)
        self.what = what
        self.within = within

    def __str__(self) -> str:
        return f"{'.'.join(self.within) or 'it'} {self.what}"


def encode_value(hint: Any, value: Any) -> object:
    """A value of the type ``hint`` as plain JSON. ``Mismatch`` if it is not: nothing is written that cannot be read."""
    hint = _plain(hint)
    if hint in _SCALARS:
        return _checked(hint, value)
    if get_origin(hint) is tuple and isinstance(value, tuple):
        return [encode_value(kind, item) for kind, item in _items(hint, value)]
    if get_origin(hint) in {Union, UnionType}:
        if value is None and NoneType in get_args(hint):
            return None
        members = _members(hint)
        if len(members) == 1:
            return encode_value(members[0], value)
        name = type(value).__name__
        return {"type": name, **cast("dict[str, object]", encode_value(_named(members, name), value))}
    if isinstance(hint, type) and isinstance(value, hint):
        if issubclass(hint, Enum):
            return cast("Enum", value).value
        if is_dataclass(hint):
            said = {name: (kind, getattr(value, name)) for name, kind, _ in _fields(hint)}
            unsaid = _later(hint)
            return {
                name: encode_value(kind, each)
                for name, (kind, each) in said.items()
                if name not in unsaid or each != unsaid[name]
            }
    raise Mismatch(f"is {short(value)}, not {_word(hint)}")


def decode_value(hint: Any, data: Any) -> Any:
    """The value of the type ``hint`` that was written as ``data``. ``Mismatch`` if there is none."""
    hint = _plain(hint)
    if hint in _SCALARS:
        return _checked(hint, data)
    if get_origin(hint) is tuple and isinstance(data, list):
        return tuple(decode_value(kind, item) for kind, item in _items(hint, data))
    if get_origin(hint) in {Union, UnionType}:
        if data is None and NoneType in get_args(hint):
            return None
        members = _members(hint)
        if len(members) == 1:
            return decode_value(members[0], data)
        if isinstance(data, dict):
            rest = dict(data)
            return decode_value(_named(members, rest.pop("type", None)), rest)
    if isinstance(hint, type) and issubclass(hint, Enum) and any(data == member.value for member in hint):
        return hint(data)
    if is_dataclass(hint) and isinstance(data, dict):
        return _decode_fields(hint, data)
    raise Mismatch(f"is {short(data)}, not {_word(hint)}")


def _decode_fields(hint: Any, data: dict[str, Any]) -> Any:
    known: dict[str, object] = {}
    for name, kind, optional in _fields(hint):
        if name in data:
            try:
                known[name] = decode_value(kind, data[name])
            except Mismatch as error:
                raise Mismatch(error.what, (name, *error.within)) from None
        elif not optional:
            raise Mismatch("is not there", (name,))
    for name in data:
        if name not in known:
            raise Mismatch(f"is not known to this Headgate, in {_word(hint)}", (name,))
    return hint(**known)


def _plain(hint: Any) -> Any:
    while isinstance(hint, NewType):
        hint = hint.__supertype__
    return hint


def _checked(hint: Any, value: Any) -> object:
    if type(value) is not hint:  # a bool is an int, and would come back as one
        raise Mismatch(f"is {short(value)}, not {_word(hint)}")
    return cast("object", value)


def _items(hint: Any, values: Any) -> Iterator[tuple[Any, Any]]:
    """The items of a tuple, each with its type."""
    kinds = get_args(hint)
    if len(kinds) == 2 and kinds[1] is Ellipsis:
        return ((kinds[0], value) for value in values)
    if len(kinds) != len(values):
        raise Mismatch(f"has {len(values)} items, not {len(kinds)}")
    return zip(kinds, values, strict=True)


@cache
def _members(hint: Any) -> tuple[Any, ...]:
    """What a union may be besides None. Of several the name is written, so they must be dataclasses."""
    members = tuple(member for member in get_args(hint) if member is not NoneType)
    assert len(members) == 1 or all(is_dataclass(member) for member in members), f"no way to tell apart {hint}"
    return members


def _named(members: tuple[Any, ...], name: object) -> Any:
    for member in members:
        if member.__name__ == name:
            return member
    raise Mismatch(f"is {short(name)}, not one of {', '.join(member.__name__ for member in members)}", ("type",))


@cache
def _fields(hint: Any) -> tuple[tuple[str, Any, bool], ...]:
    """Name and type of each field of a dataclass, and whether it has a default."""
    hints = get_type_hints(hint)
    return tuple(
        (field.name, hints[field.name], field.default is not MISSING or field.default_factory is not MISSING)
        for field in fields(hint)
    )


@cache
def _later(hint: Any) -> Mapping[str, object]:
    """The fields that records had not always, with their defaults."""
    return {field.name: field.default for field in fields(hint) if field.metadata.get("later")}


def _word(hint: Any) -> str:
    return str(getattr(hint, "__name__", hint))
