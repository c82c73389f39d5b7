"""The state and the timers of some keys, all at once.

One rule: values go in and out as they are inside Spark (``headgate.job.arrow`` makes columns of them), so that both
ways there give the same: ``Piped`` asks for all keys in one go, ``OneKey`` goes through Spark's own calls for the only
key that Spark lets us see.

``which`` names keys by their place in the order of the keys.
"""

# ruff: noqa: D102, ARG002 - StateAccess says what each does, and with what

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol

import pyspark.sql.streaming.proto.StateMessage_pb2 as messages
from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle
from pyspark.sql.types import DataType

from headgate.job import pipe
from headgate.job.arrow import Internal
from headgate.job.pipe import Pipe

StatePairs = list[tuple[Internal, Internal]]


class Variable(NamedTuple):
    """A state that was asked for."""

    name: str
    kind: str
    """``value``, ``list`` or ``map``."""
    of: DataType
    key_of: DataType | None
    """Of a map, the type of its keys."""
    spark: Any
    """Spark's own object for it."""


class StateAccess(Protocol):
    """What can be done with the state of some keys."""

    def values(self, of: Variable) -> list[Internal | None]:
        """The value of each key; None where there is none, or it has expired."""

    def update(self, of: Variable, which: Sequence[int], values: Sequence[Internal]) -> None:
        """Keep a value for each of these keys."""

    def exist(self, of: Variable) -> list[bool]:
        """Whether each key has a list."""

    def lists(self, of: Variable, which: range | None = None) -> list[list[Internal]]:
        """The list of each key, or of each of these."""

    def put(self, of: Variable, which: Sequence[int], lists: Sequence[Sequence[Internal]]) -> None:
        """Keep a list, which is not empty, for each of these keys instead of what was there."""

    def append(self, of: Variable, which: Sequence[int], lists: Sequence[Sequence[Internal]]) -> None:
        """Add to the list of each of these keys; no addition is empty."""

    def maps(self, of: Variable) -> list[StatePairs]:
        """The map of each key."""

    def update_maps(self, of: Variable, which: Sequence[int], pairs: Sequence[StatePairs]) -> None:
        """Keep values in the map of each of these keys."""

    def remove(self, of: Variable, which: Sequence[int], keys: Sequence[Sequence[Internal]]) -> None:
        """Forget keys in the map of each of these keys."""

    def clear(self, of: Variable, which: Sequence[int]) -> None:
        """Forget what is kept for these keys."""

    def timers(self) -> list[list[int]]:
        """The times of each key's timers, in ms."""

    def set_timers(self, which: Sequence[int], at_ms: Sequence[int]) -> None:
        """Set a timer for each of these keys."""

    def drop_timers(self, which: Sequence[int], at_ms: Sequence[int]) -> None:
        """Drop a timer of each of these keys."""


class Piped:
    """Many keys, through a pipe. ``raws`` has the keys as they travel."""

    def __init__(self, through: Pipe, raws: Sequence[bytes]) -> None:
        self._pipe = through
        self._keys = [pipe.key(raw) for raw in raws]

    def values(self, of: Variable) -> list[Internal | None]:
        get = pipe.get(of.name)
        answers = self._pipe.ask(part for key in self._keys for part in (key, get))
        _all_done(answers[::2])
        return [None if row is None else row[0] for row in pipe.values(answers[1::2])]

    def update(self, of: Variable, which: Sequence[int], values: Sequence[Internal]) -> None:
        dumps, update, name = pipe.dumps, pipe.update, of.name
        self._tell(which, (update(name, dumps((value,))) for value in values))

    def exist(self, of: Variable) -> list[bool]:
        call = pipe.list_exists(of.name)
        answers = self._pipe.ask(part for key in self._keys for part in (key, call))
        _all_done(answers[::2])
        return [pipe.is_there(answer) for answer in answers[1::2]]

    def lists(self, of: Variable, which: range | None = None) -> list[list[Internal]]:
        keys = self._keys if which is None else self._keys[which.start : which.stop]
        found = self._parts(lambda name: pipe.list_get(of.name, name), messages.StateResponseWithListGet, "value", keys)
        flat = iter(pipe.loads([raw for each in found for raw in each]))
        return [[next(flat)[0] for _ in each] for each in found]

    def put(self, of: Variable, which: Sequence[int], lists: Sequence[Sequence[Internal]]) -> None:
        self._tell(which, (pipe.list_put(of.name, [pipe.dumps((value,)) for value in each]) for each in lists))

    def append(self, of: Variable, which: Sequence[int], lists: Sequence[Sequence[Internal]]) -> None:
        self._tell(which, (pipe.list_append(of.name, [pipe.dumps((value,)) for value in each]) for each in lists))

    def maps(self, of: Variable) -> list[StatePairs]:
        found = self._parts(
            lambda name: pipe.map_get(of.name, name), messages.StateResponseWithMapIterator, "kvPair", self._keys
        )
        keys = iter(pipe.loads([pair.key for each in found for pair in each]))
        values = iter(pipe.loads([pair.value for each in found for pair in each]))
        return [[(next(keys)[0], next(values)[0]) for _ in each] for each in found]

    def update_maps(self, of: Variable, which: Sequence[int], pairs: Sequence[StatePairs]) -> None:
        def calls(each: StatePairs) -> list[bytes]:
            return [pipe.map_update(of.name, pipe.dumps((key,)), pipe.dumps((value,))) for key, value in each]

        self._tell_each(which, map(calls, pairs))

    def remove(self, of: Variable, which: Sequence[int], keys: Sequence[Sequence[Internal]]) -> None:
        self._tell_each(which, ([pipe.map_remove(of.name, pipe.dumps((key,))) for key in each] for each in keys))

    def clear(self, of: Variable, which: Sequence[int]) -> None:
        call = pipe.clear(of.kind, of.name)
        self._tell(which, (call for _ in which))

    def timers(self) -> list[list[int]]:
        found = self._parts(pipe.timers_get, messages.StateResponseWithTimer, "timer", self._keys)
        return [[timer.timestampMs for timer in each] for each in found]

    def set_timers(self, which: Sequence[int], at_ms: Sequence[int]) -> None:
        self._tell(which, map(pipe.timer_register, at_ms))

    def drop_timers(self, which: Sequence[int], at_ms: Sequence[int]) -> None:
        self._tell(which, map(pipe.timer_delete, at_ms))

    def _tell(self, which: Sequence[int], calls: Iterable[bytes]) -> None:
        keys = self._keys
        self._pipe.tell(part for at, call in zip(which, calls, strict=True) for part in (keys[at], call))

    def _tell_each(self, which: Sequence[int], calls: Iterable[list[bytes]]) -> None:
        keys = self._keys
        self._pipe.tell(part for at, each in zip(which, calls, strict=True) for part in (keys[at], *each))

    def _parts(self, call: Any, of: type, field: str, keys: Sequence[bytes]) -> list[list[Any]]:
        """What each of these keys has, which comes in parts; most have one."""
        names = [next(self._pipe.names) for _ in keys]
        answers = self._pipe.ask(part for key, name in zip(keys, names, strict=True) for part in (key, call(name)))
        _all_done(answers[::2])
        found: list[list[Any]] = []
        for at, answer in enumerate(answers[1::2]):
            part, more = pipe.more(of, answer, field)
            found.append(list(part))
            while more:
                _, answer = self._pipe.ask([keys[at], call(names[at])])  # noqa: PLW2901 - it goes on
                part, more = pipe.more(of, answer, field)
                found[at] += part
        return found


class OneKey:
    """The key that Spark is at, through Spark's own calls."""

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle

    def values(self, of: Variable) -> list[Internal | None]:
        row = of.spark.get()
        return [None if row is None else of.of.toInternal(row[0])]

    def update(self, of: Variable, which: Sequence[int], values: Sequence[Internal]) -> None:
        for value in values:
            of.spark.update((of.of.fromInternal(value),))

    def exist(self, of: Variable) -> list[bool]:
        return [of.spark.exists()]

    def lists(self, of: Variable, which: range | None = None) -> list[list[Internal]]:
        return [[of.of.toInternal(row[0]) for row in of.spark.get()]]

    def put(self, of: Variable, which: Sequence[int], lists: Sequence[Sequence[Internal]]) -> None:
        for each in lists:
            of.spark.put([(of.of.fromInternal(value),) for value in each])

    def append(self, of: Variable, which: Sequence[int], lists: Sequence[Sequence[Internal]]) -> None:
        for each in lists:
            of.spark.appendList([(of.of.fromInternal(value),) for value in each])

    def maps(self, of: Variable) -> list[StatePairs]:
        assert of.key_of is not None
        to_key, to_value = of.key_of.toInternal, of.of.toInternal
        return [[(to_key(key[0]), to_value(value[0])) for key, value in of.spark.iterator()]]

    def update_maps(self, of: Variable, which: Sequence[int], pairs: Sequence[StatePairs]) -> None:
        assert of.key_of is not None
        for each in pairs:
            for key, value in each:
                of.spark.updateValue((of.key_of.fromInternal(key),), (of.of.fromInternal(value),))

    def remove(self, of: Variable, which: Sequence[int], keys: Sequence[Sequence[Internal]]) -> None:
        assert of.key_of is not None
        for each in keys:
            for key in each:
                of.spark.removeKey((of.key_of.fromInternal(key),))

    def clear(self, of: Variable, which: Sequence[int]) -> None:
        for _ in which:
            of.spark.clear()

    def timers(self) -> list[list[int]]:
        return [list(self._handle.listTimers())]

    def set_timers(self, which: Sequence[int], at_ms: Sequence[int]) -> None:
        for each in at_ms:
            self._handle.registerTimer(each)

    def drop_timers(self, which: Sequence[int], at_ms: Sequence[int]) -> None:
        for each in at_ms:
            self._handle.deleteTimer(each)


def _all_done(answers: Iterable[bytes]) -> None:
    for answer in answers:
        if answer:
            pipe.checked(answer)
