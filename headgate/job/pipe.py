"""Spark's state calls, many on their way at once.

One rule: the calls are Spark's own, byte for byte, and so is what they do. Spark's client sends one and waits for its
answer; the server takes them in order, so here many are sent before the first answer is read. A round trip costs more
than the call itself, and a batch makes two or more for each key.

What is unanswered is bounded by two windows, which fit the buffers between the two processes: neither side can wait for
the other to read. State is kept exactly as Spark keeps it: its reader, its times to live and its repartitioning see no
difference.

All of this is Spark's private ground, so it is known for ``KNOWN`` releases alone, and ``Pipe.open`` tries it out once
in each process; where the trial fails each call waits for its answer, as Spark does it.
"""

import functools
import io
import itertools
import json
import pickle
import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyspark
import pyspark.sql.streaming.proto.StateMessage_pb2 as messages
from pyspark.serializers import pickle_protocol
from pyspark.sql.streaming.stateful_processor_api_client import StatefulProcessorApiClient

from headgate.errors import ExternalError

KNOWN = ("4.3.",)
"""How the releases begin whose calls and answers are known."""

WINDOW_BYTES = 32 * 1024
"""Requests that are sent at once. Two such windows may be unanswered."""

READ_BYTES = 1 << 16
_HEADER = struct.Struct("!ii")
_VERSION = 0
_NOTHING_THERE = 2
"""The status of an answer which says that there is no value, or nothing more."""

Internal = Any
"""A value as Spark has it inside: a timestamp is a number of microseconds, a struct is a tuple."""


def is_known() -> bool:
    """Whether this release of Spark is one whose calls are known."""
    return pyspark.__version__.startswith(KNOWN)


class Pipe:
    """Requests to the state of one partition in one batch."""

    def __init__(self, client: StatefulProcessorApiClient, *, window_bytes: int = WINDOW_BYTES) -> None:
        self._file: Any = client.sockfile
        self._window_bytes = window_bytes
        self._buffer = bytearray()
        self.names = (f"headgate-{number}" for number in itertools.count())
        """For what is read in parts: each its own."""

    @classmethod
    def open(cls, client: StatefulProcessorApiClient) -> "Pipe":
        """A pipe that is known to work in this process, or one that sends each request alone."""
        return cls(client, window_bytes=WINDOW_BYTES if _tried(cls(client)) else 0)

    @property
    def sends_many(self) -> bool:
        """Whether requests overtake the answers of those before them."""
        return self._window_bytes > 0

    def ask(self, requests: Iterable[bytes]) -> list[bytes]:
        """The answers, in the order of the requests."""
        answers: list[bytes] = []
        waiting: list[int] = []
        for window, count in self._windows(requests):
            while waiting and (len(window) > self._window_bytes or len(waiting) > 1):
                self._take(waiting.pop(0), answers)
            self._send(window)
            waiting.append(count)
        for count in waiting:
            self._take(count, answers)
        return answers

    def tell(self, requests: Iterable[bytes]) -> None:
        """Send what is answered by a mere 'done'. Anything else is an error."""
        for answer in self.ask(requests):
            if answer:
                checked(answer)

    def _windows(self, requests: Iterable[bytes]) -> Iterator[tuple[bytes, int]]:
        parts: list[bytes] = []
        size = 0
        for request in requests:
            if parts and size + len(request) > self._window_bytes:
                yield b"".join(parts), len(parts)
                parts, size = [], 0
            parts.append(request)
            size += len(request)
        if parts:
            yield b"".join(parts), len(parts)

    def _send(self, window: bytes) -> None:
        try:
            self._file.write(window)
            self._file.flush()
        except OSError as error:
            raise ExternalError(_LOST) from error

    def _take(self, count: int, answers: list[bytes]) -> None:
        buffer, at = self._buffer, 0
        for _ in range(count):
            if len(buffer) < at + 4:
                at = self._fill(at, 4)
            size = int.from_bytes(buffer[at : at + 4], "big")
            at += 4
            if not size:
                answers.append(b"")
                continue
            if len(buffer) < at + size:
                at = self._fill(at, size)
            answers.append(bytes(buffer[at : at + size]))
            at += size
        del buffer[:at]

    def _fill(self, at: int, least: int) -> int:
        """Read until at least ``least`` bytes are there after ``at``; what is before it is thrown away."""
        del self._buffer[:at]
        while len(self._buffer) < least:
            try:
                came = self._file.read1(READ_BYTES)
            except OSError as error:
                raise ExternalError(_LOST) from error
            if not came:
                raise ExternalError(_LOST)
            self._buffer += came
        return 0


_LOST = (
    "Spark's side of the keyed state closed the connection: it could not do what was asked, or its process ended; "
    "the log of the executor says why"
)


# -- requests --------------------------------------------------------------------------------------------------------


def dumps(value: Internal) -> bytes:
    """A key or a value as it travels."""
    return pickle.dumps(value, pickle_protocol)


def key(raw: bytes) -> bytes:
    """From here on, all calls are about this key."""
    return _filled("key", "", len(raw)) + raw


@functools.lru_cache(1_000)
def get(name: str) -> bytes:
    """Read a value."""
    return _framed(_of_value(name, get=messages.Get()))


def update(name: str, raw: bytes) -> bytes:
    """Keep a value."""
    return _filled("update", name, len(raw)) + raw


@functools.lru_cache(1_000)
def clear(kind: str, name: str) -> bytes:
    """Forget all that is kept for the key. ``kind`` is ``value``, ``list`` or ``map``."""
    call: Any = {"value": _of_value, "list": _of_list, "map": _of_map}[kind]
    return _framed(call(name, clear=messages.Clear()))


@functools.lru_cache(1_000)
def list_exists(name: str) -> bytes:
    """Ask whether there is a list."""
    return _framed(_of_list(name, exists=messages.Exists()))


def list_get(name: str, iterator: str) -> bytes:
    """Read a list, or go on reading it."""
    return _framed(_of_list(name, listStateGet=messages.ListStateGet(iteratorId=iterator)))


def list_put(name: str, raws: Sequence[bytes]) -> bytes:
    """Keep a list instead of what was there."""
    return _framed(_of_list(name, listStatePut=messages.ListStatePut(value=raws, fetchWithArrow=False)))


def list_append(name: str, raws: Sequence[bytes]) -> bytes:
    """Add to the end of a list."""
    return _framed(_of_list(name, appendList=messages.AppendList(value=raws, fetchWithArrow=False)))


def map_get(name: str, iterator: str) -> bytes:
    """Read a map, or go on reading it."""
    return _framed(_of_map(name, iterator=messages.Iterator(iteratorId=iterator)))


def map_update(name: str, raw_key: bytes, raw: bytes) -> bytes:
    """Keep a value under a key of a map."""
    return _framed(_of_map(name, updateValue=messages.UpdateValue(userKey=raw_key, value=raw)))


def map_remove(name: str, raw_key: bytes) -> bytes:
    """Forget a key of a map."""
    return _framed(_of_map(name, removeKey=messages.RemoveKey(userKey=raw_key)))


def timer_register(at_ms: int) -> bytes:
    """Set a timer."""
    return _framed(_of_timers(register=messages.RegisterTimer(expiryTimestampMs=at_ms)))


def timer_delete(at_ms: int) -> bytes:
    """Drop a timer."""
    return _framed(_of_timers(delete=messages.DeleteTimer(expiryTimestampMs=at_ms)))


def timers_get(iterator: str) -> bytes:
    """Read the timers of a key, or go on reading them."""
    return _framed(_of_timers(list=messages.ListTimers(iteratorId=iterator)))


def timers_expired(until_ms: int, iterator: str) -> bytes:
    """Read the timers of all keys that have come, or go on reading them."""
    due = messages.ExpiryTimerRequest(expiryTimestampMs=until_ms, iteratorId=iterator)
    return _framed(messages.StateRequest(timerRequest=messages.TimerRequest(expiryTimerRequest=due)))


def _of_value(name: str, **call: Any) -> messages.StateRequest:
    variable = messages.StateVariableRequest(valueStateCall=messages.ValueStateCall(stateName=name, **call))
    return messages.StateRequest(stateVariableRequest=variable)


def _of_list(name: str, **call: Any) -> messages.StateRequest:
    variable = messages.StateVariableRequest(listStateCall=messages.ListStateCall(stateName=name, **call))
    return messages.StateRequest(stateVariableRequest=variable)


def _of_map(name: str, **call: Any) -> messages.StateRequest:
    variable = messages.StateVariableRequest(mapStateCall=messages.MapStateCall(stateName=name, **call))
    return messages.StateRequest(stateVariableRequest=variable)


def _of_timers(**call: Any) -> messages.StateRequest:
    timers = messages.TimerStateCallCommand(**call)
    return messages.StateRequest(statefulProcessorCall=messages.StatefulProcessorCall(timerStateCall=timers))


def _framed(request: messages.StateRequest) -> bytes:
    raw: bytes = request.SerializeToString()
    return _HEADER.pack(_VERSION, len(raw)) + raw


@functools.lru_cache(10_000)
def _filled(kind: str, name: str, length: int) -> bytes:
    """What stands before a payload of this length. It depends on nothing else, and the payload stands last."""
    payload = b"\xfa" * length  # No text has this byte in it.
    if kind == "key":
        of = messages.ImplicitGroupingKeyRequest(setImplicitKey=messages.SetImplicitKey(key=payload))
        request = messages.StateRequest(implicitGroupingKeyRequest=of)
    else:
        request = _of_value(name, valueStateUpdate=messages.ValueStateUpdate(value=payload))
    whole = _framed(request)
    if not whole.endswith(payload):
        raise AssertionError(f"{kind}: the payload is not what stands last")
    return whole[: len(whole) - length]


# -- answers ---------------------------------------------------------------------------------------------------------


def checked(answer: bytes) -> messages.StateResponse:
    """An answer which is not an error."""
    response: messages.StateResponse = messages.StateResponse.FromString(answer)
    if response.statusCode:
        raise ExternalError(f"Spark's state answered: {response.errorMessage}")
    return response


def is_there(answer: bytes) -> bool:
    """What is answered to whether there is something."""
    if not answer:
        return True
    response: messages.StateResponse = messages.StateResponse.FromString(answer)
    if response.statusCode == _NOTHING_THERE:
        return False
    checked(answer)
    return True


def values(answers: Iterable[bytes]) -> list[tuple[Internal, ...] | None]:
    """What ``get`` is answered with: the columns of each value, or None where there is none."""
    found = [checked(answer).value if answer else b"" for answer in answers]
    rows = iter(loads([raw for raw in found if raw]))
    return [next(rows) if raw else None for raw in found]


def more(of: type, answer: bytes, field: str) -> tuple[Any, bool]:
    """A part of what is read in parts, and whether there is more of it."""
    response = of.FromString(answer)  # type: ignore[attr-defined]
    if response.statusCode == _NOTHING_THERE or (response.statusCode and not response.errorMessage):
        return (), False
    if response.statusCode:
        raise ExternalError(f"Spark's state answered: {response.errorMessage}")
    return getattr(response, field), response.requireNextFetch


def loads(raws: Sequence[bytes]) -> list[tuple[Internal, ...]]:
    """Values as they were kept.

    Spark sends with each one the schema of its columns, and parsing that is most of the work: here it is not read, for
    whoever asked knows the schema. All values of a state begin with the same bytes, so they are read as one list.
    """
    if len(raws) > 1 and (together := _together(raws)) is not None:
        return together
    return [_Columns(io.BytesIO(raw)).load() for raw in raws]


def _together(raws: Sequence[bytes]) -> list[tuple[Internal, ...]] | None:
    """All at once, or None where they are not all written in the one way that is known.

    Each is a head, the same for all, which makes a function of the schema; a tuple of values; and a call of the one
    with the other. What the values refer to stands in the head or among themselves, so one head will do for all tuples.
    """
    first = raws[0]
    cut = first.find(_HEAD_END) + len(_HEAD_END)
    head = first[:cut]
    if cut < len(_HEAD_END) or not all(raw.startswith(head) and raw[-5:-2] == _TUPLE_CALLED for raw in raws):
        return None
    tuples = b"".join([raw[cut:-4] for raw in raws])
    try:
        rows: list[tuple[Internal, ...]] = _Columns(io.BytesIO(head + b"0](" + tuples + b"e.")).load()
    except (pickle.UnpicklingError, IndexError, KeyError, EOFError, TypeError, ValueError):
        return None
    sample = _Columns(io.BytesIO(first)).load()
    return rows if len(rows) == len(raws) and repr(rows[0]) == repr(sample) else None


_HEAD_END = b"q\x01\x85Rq\x02\x85R"
"""The schema is memorised, and so is what is made of it; then comes the function."""
_TUPLE_CALLED = b"tRq"
"""The end of a tuple, the call, and the number under which the outcome is memorised, which is one byte."""


class _Columns(pickle.Unpickler):
    """Reads rows as tuples of internal values, whatever their schema."""

    def find_class(self, module: str, name: str) -> Any:
        match name:
            case "_parse_datatype_json_string":
                return _no_schema
            case "_create_row_inbound_converter":
                return _columns
            case _:
                return super().find_class(module, name)


def _no_schema(_: str) -> None:
    """A schema that nobody reads."""


def _columns(_: None) -> Any:
    return _as_tuple


def _as_tuple(*values: Internal) -> tuple[Internal, ...]:
    return values


# -- the trial -------------------------------------------------------------------------------------------------------

_trials: dict[str, bool] = {}
"""What came out of it, by the release of Spark: once in a process."""


def _tried(pipe: Pipe) -> bool:
    """Send several requests at once whose answers can be told apart, and see whether they come in order."""
    if pyspark.__version__ not in _trials:
        _trials[pyspark.__version__] = is_known() and _in_order(pipe)
    return _trials[pyspark.__version__]


def _in_order(pipe: Pipe) -> bool:
    names = ("a", "b", "c")
    asked = [messages.ParseStringSchema(schema=f"{name} int") for name in names]
    requests = [messages.StateRequest(utilsRequest=messages.UtilsRequest(parseStringSchema=each)) for each in asked]
    answers = pipe.ask(map(_framed, requests))
    got = (messages.StateResponseWithStringTypeVal.FromString(answer).value for answer in answers)
    try:
        found = [json.loads(text)["fields"][0]["name"] for text in got]
    except (ValueError, LookupError):
        return False
    return found == list(names)
