"""A stand-in for the side of Spark that keeps keyed state: the same messages, answered from dictionaries.

What Spark itself does is tested on Spark. This one lets thousands of small programs run both ways and be compared.
"""

# ruff: noqa: S301 - what is unpickled was pickled by this test

import io
import json
import pickle
import socket
import struct
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark.sql.streaming.proto.StateMessage_pb2 as messages
from pyspark.sql.streaming.stateful_processor_api_client import StatefulProcessorApiClient
from pyspark.sql.types import DoubleType, LongType, StructType

PART = 2
"""So many items of a list, a map or the timers are told in one answer."""

_NONE = messages.StateResponse(statusCode=2, errorMessage="there is none")


class StateServer:
    """The state of one partition, which outlives connections, and the time."""

    def __init__(self) -> None:
        self.values: dict[tuple[str, Any], Any] = {}
        self.lists: dict[tuple[str, Any], list[Any]] = {}
        self.maps: dict[tuple[str, Any], dict[Any, Any]] = {}
        self.timers: set[tuple[int, Any]] = set()
        self.now_ms = self.watermark_ms = 0
        self._schemas: dict[str, StructType] = {}
        self._key: Any = None
        self._keys = StructType()
        self._open: dict[str, Iterator[Any]] = {}

    @contextmanager
    def client(self, keys: StructType) -> Iterator[StatefulProcessorApiClient]:
        """Spark's own client, at this server."""
        self._keys = keys
        with tempfile.TemporaryDirectory() as directory, socket.socket(socket.AF_UNIX) as listening:
            path = str(Path(directory) / "socket")
            listening.bind(path)
            listening.listen()
            client = StatefulProcessorApiClient(path, keys)
            connection, _ = listening.accept()
            thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            thread.start()
            try:
                yield client
            finally:
                client.sockfile.close()
                client._client_socket.close()
                thread.join(10)

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as requests:
            while header := requests.read(8):
                _, size = struct.unpack("!ii", header)
                reply = self._answer(messages.StateRequest.FromString(requests.read(size))).SerializeToString()
                connection.sendall(struct.pack("!i", len(reply)) + reply)

    def _answer(self, request: messages.StateRequest) -> Any:
        call: Any = request
        above = call
        names = []
        while (name := call.WhichOneof("method") if "method" in call.DESCRIPTOR.oneofs_by_name else None) is not None:
            names.append(name)
            call, above = getattr(call, name), call
        match names:
            case ["implicitGroupingKeyRequest", "setImplicitKey"]:
                self._key = pickle.loads(call.key)
            case ["implicitGroupingKeyRequest", _] | ["statefulProcessorCall", "setHandleState"]:
                pass
            case ["statefulProcessorCall", "timerStateCall", what]:
                return self._timer(what, call)
            case ["statefulProcessorCall", _]:
                self._schemas[call.stateName] = StructType.fromJson(json.loads(call.mapStateValueSchema or call.schema))
            case ["stateVariableRequest", kind, what]:
                return getattr(self, f"_{kind}")(above.stateName, what, call)
            case ["timerRequest", "timerValueRequest", what]:
                time_ms = self.now_ms if what == "getProcessingTimer" else self.watermark_ms
                return messages.StateResponseWithLongTypeVal(value=time_ms)
            case ["timerRequest", _]:
                due = sorted((at, key) for at, key in self.timers if at <= call.expiryTimestampMs)
                infos = [messages.TimerInfo(key=_told(key, self._keys), timestampMs=at) for at, key in due]
                return self._part(call.iteratorId, infos, messages.StateResponseWithTimer, "timer")
            case ["utilsRequest", _]:
                name = call.schema.split()[0]
                schema = {"type": "struct", "fields": [{"name": name}]}
                return messages.StateResponseWithStringTypeVal(value=json.dumps(schema))
            case _:
                raise AssertionError(names)
        return messages.StateResponse()

    def _valueStateCall(self, name: str, what: str, call: Any) -> Any:  # noqa: N802 - as the message
        at = name, self._key
        match what:
            case "exists":
                return messages.StateResponse() if at in self.values else _NONE
            case "get":
                return messages.StateResponse(value=_told((self.values[at],)) if at in self.values else b"")
            case "valueStateUpdate":
                self.values[at] = self._taken(name, call.value)
            case _:
                self.values.pop(at, None)
        return messages.StateResponse()

    def _listStateCall(self, name: str, what: str, call: Any) -> Any:  # noqa: N802 - as the message
        at = name, self._key
        match what:
            case "exists":
                return messages.StateResponse() if at in self.lists else _NONE
            case "listStateGet":
                items = [_told((item,)) for item in self.lists.get(at, [])]
                return self._part(call.iteratorId, items, messages.StateResponseWithListGet, "value")
            case "listStatePut":
                self.lists[at] = [self._taken(name, raw) for raw in call.value]
            case "appendList":
                self.lists.setdefault(at, []).extend(self._taken(name, raw) for raw in call.value)
            case "appendValue":
                self.lists.setdefault(at, []).append(self._taken(name, call.value))
            case _:
                self.lists.pop(at, None)
        return messages.StateResponse()

    def _mapStateCall(self, name: str, what: str, call: Any) -> Any:  # noqa: N802 - as the message
        at = name, self._key
        kept = self.maps.get(at, {})
        match what:
            case "exists":
                return messages.StateResponse() if kept else _NONE
            case "getValue":
                (key,) = pickle.loads(call.userKey)
                return messages.StateResponse(value=_told((kept[key],)) if key in kept else b"")
            case "containsKey":
                return messages.StateResponse() if pickle.loads(call.userKey)[0] in kept else _NONE
            case "updateValue":
                self.maps.setdefault(at, {})[pickle.loads(call.userKey)[0]] = self._taken(name, call.value)
            case "removeKey":
                kept.pop(pickle.loads(call.userKey)[0], None)
            case "clear":
                self.maps.pop(at, None)
            case "iterator":
                pairs = [messages.KeyAndValuePair(key=_told((k,)), value=_told((v,))) for k, v in sorted(kept.items())]
                return self._part(call.iteratorId, pairs, messages.StateResponseWithMapIterator, "kvPair")
            case _:
                told = [_told((item,)) for item in (sorted(kept) if what == "keys" else kept.values())]
                return self._part(call.iteratorId, told, messages.StateResponseWithMapKeysOrValues, "value")
        return messages.StateResponse()

    def _timer(self, what: str, call: Any) -> Any:
        if what == "list":
            infos = [messages.TimerInfo(timestampMs=at) for at, key in sorted(self.timers) if key == self._key]
            return self._part(call.iteratorId, infos, messages.StateResponseWithTimer, "timer")
        (self.timers.add if what == "register" else self.timers.discard)((call.expiryTimestampMs, self._key))
        return messages.StateResponse()

    def _part(self, name: str, items: list[Any], of: Any, field: str) -> Any:
        """Some items; the rest when the same name comes again."""
        left = list(self._open.pop(name, iter(items)))
        if not left:
            return of(statusCode=2, errorMessage="there is nothing more")
        if len(left) > PART:
            self._open[name] = iter(left[PART:])
        return of(**{field: left[:PART]}, requireNextFetch=len(left) > PART)

    def _taken(self, name: str, raw: bytes) -> Any:
        """What Spark makes of a value: nothing, if it is not of its type."""
        (value,) = pickle.loads(raw)
        of = self._schemas[name].fields[0].dataType
        wanted = int if isinstance(of, LongType) else float if isinstance(of, DoubleType) else None
        return None if wanted is not None and type(value) is not wanted else value


def _told(row: tuple[Any, ...], of: StructType | None = None) -> bytes:
    """A row as Spark's pickler writes it: a schema, which makes a function, and a call of that with the values."""
    out = io.BytesIO()
    out.write(b"\x80\x02cpyspark.sql.types\n_create_row_inbound_converter\nq\x00")
    types = [_TYPES[type(value)] for value in row] if of is None else [field.dataType.typeName() for field in of.fields]
    fields = [{"name": "value", "type": each, "nullable": True, "metadata": {}} for each in types]
    schema = json.dumps({"type": "struct", "fields": fields}).encode()
    out.write(b"cpyspark.sql.types\n_parse_datatype_json_string\nX" + struct.pack("<i", len(schema)) + schema)
    out.write(b"q\x01\x85Rq\x02\x85R(" + b"".join(pickle.dumps(value, 2)[2:-1] for value in row) + b"tRq\x03.")
    return out.getvalue()


_TYPES = {int: "long", float: "double", str: "string", bytes: "binary", type(None): "string"}
