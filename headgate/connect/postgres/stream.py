"""Rows of PostgreSQL's binary COPY, laid out from columns.

One rule: no step goes row by row in Python. What has a fixed width is laid side by side by numpy, in one block for
neighbouring columns; Arrow then joins the blocks with what has a length of its own.

A row is the number of its fields (2 bytes), and for each field its length (4 bytes, -1 for null) and its bytes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
"""What a stream begins with: the signature, no flags, no extension."""
TRAILER = b"\xff\xff"
"""What a stream ends with: a row of -1 fields."""

NullMask = NDArray[np.bool_] | None
"""Which values are null. None: none is."""


@dataclass(frozen=True)
class Fixed:
    """A column whose values have one width. ``kind`` is the type as it goes over the wire: big-endian."""

    values: NDArray[Any]
    kind: np.dtype[Any]
    nulls: NullMask


@dataclass(frozen=True)
class Varying:
    """A column whose values have lengths of their own. ``data`` has no nulls: there it is empty.

    ``head`` stands before each value, the same number of bytes for all.
    """

    data: pa.Array
    nulls: NullMask
    head: NDArray[Any] | None = None


Field = Fixed | Varying


def lay_out(fields: Sequence[Field], rows: int, *, counted: bool = True) -> pa.Array:
    """The bytes of each row, as one binary array without nulls. ``counted``: with the number of fields in front."""
    layout = _Layout(rows)
    if counted:
        layout.add(np.int16(len(fields)), np.dtype(">i2"))
    for field in fields:
        match field:
            case Fixed(values, kind, nulls):
                layout.add(_length(np.int32(kind.itemsize), nulls), np.dtype(">i4"))
                layout.add(values, kind, nulls)
            case Varying(data, nulls, head):
                lengths = pc.binary_length(data).to_numpy(zero_copy_only=False)
                layout.add(_length(lengths + (head.itemsize if head is not None else 0), nulls), np.dtype(">i4"))
                if head is not None:
                    layout.add(head, head.dtype, nulls)
                layout.append(data)
    return layout.joined()


def as_bytes(rows: pa.Array) -> memoryview:
    """The values of a binary array or a text array, one after the other."""
    _, offsets, data = rows.buffers()
    if data is None or len(rows) == 0:
        return memoryview(b"")
    ends = np.frombuffer(offsets, np.int32)[rows.offset : rows.offset + len(rows) + 1]
    return memoryview(data)[ends[0] : ends[-1]]


def _length(lengths: Any, nulls: NullMask) -> Any:
    return lengths if nulls is None else np.where(nulls, np.int32(-1), lengths)


class _Layout:
    """Blocks of fixed width and arrays of varying width, in the order of the row."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._open: list[tuple[Any, np.dtype[Any], NullMask]] = []
        self._done: list[pa.Array] = []

    def add(self, values: Any, kind: np.dtype[Any], nulls: NullMask = None) -> None:
        """Values of one width. Where one is null it takes no room."""
        self._open.append((values, kind, nulls))

    def append(self, data: pa.Array) -> None:
        """Values with lengths of their own."""
        self._close()
        self._done.append(data)

    def joined(self) -> pa.Array:
        """Whole rows."""
        self._close()
        return self._done[0] if len(self._done) == 1 else pc.binary_join_element_wise(*self._done, b"")

    def _close(self) -> None:
        if not self._open:
            return
        block = np.empty(self._rows, np.dtype([(f"f{i}", kind) for i, (_, kind, _) in enumerate(self._open)]))
        for i, (values, _, _) in enumerate(self._open):
            block[f"f{i}"] = values
        self._done.append(self._without_nulls(block))
        self._open = []

    def _without_nulls(self, block: NDArray[Any]) -> pa.Array:
        width = block.dtype.itemsize
        offsets = np.zeros(self._rows + 1, np.int32)
        if all(nulls is None for _, _, nulls in self._open):
            offsets[:] = np.arange(0, (self._rows + 1) * width, width, dtype=np.int64)
            return _binary(offsets, block.view(np.uint8))
        kept = np.ones((self._rows, width), np.bool_)
        lengths = np.full(self._rows, width, np.int32)
        begin = 0
        for _, kind, nulls in self._open:
            if nulls is not None:
                kept[nulls, begin : begin + kind.itemsize] = False
                lengths[nulls] -= kind.itemsize
            begin += kind.itemsize
        np.cumsum(lengths, out=offsets[1:])
        return _binary(offsets, block.view(np.uint8).reshape(self._rows, width)[kept])


def _binary(offsets: NDArray[np.int32], data: NDArray[np.uint8]) -> pa.Array:
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(data)])
