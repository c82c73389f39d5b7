"""Lines of history as bytes.

One rule: a line is believed only if it is whole. Each is a JSON object that ends with a checksum of what stands before
it, so that a line that was cut short, changed or written by somebody else is told from a good one, and is passed on as
unreadable, with its place.
"""

import json
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

HistoryLine = dict[str, Any]
Lines = Sequence[Mapping[str, object]]
UNREADABLE = "unreadable"
"""The event that stands where a line cannot be read."""

_CHECKSUM = re.compile(rb'"crc":"([0-9a-f]{8})"\}')
_CHECKSUM_BYTES = len(b'"crc":"01234567"}')


class LinePiece(NamedTuple):
    """What stands between two line ends: where, and what it says. None if it cannot be read."""

    offset: int
    length: int
    line: HistoryLine | None


def encode_line(line: Mapping[str, object]) -> bytes:
    """A line with its checksum and its end."""
    body = json.dumps(line, separators=(",", ":")).encode("ascii")
    return b'%s%s"crc":"%08x"}\n' % (body[:-1], b"," if len(body) > 2 else b"", zlib.crc32(body))


def decode_line(data: bytes, *, unchecked: bool = False) -> HistoryLine | None:
    """What a line without its end says. None if it is not whole.

    ``unchecked``: lines of earlier releases have no checksum, and are read as they stand.
    """
    checksum = _CHECKSUM.fullmatch(data, max(0, len(data) - _CHECKSUM_BYTES))
    if checksum is not None:
        before = data[:-_CHECKSUM_BYTES]
        body = (before[:-1] if before[-1:] == b"," else before) + b"}"
        if zlib.crc32(body) != int(checksum[1], 16) or (before[-1:] != b"," and before != b"{"):
            return None
    elif unchecked:
        body = data
    else:
        return None
    try:
        line = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return line if isinstance(line, dict) else None


def pieces(data: bytes, offset: int = 0, *, unchecked: bool = False) -> Iterator[LinePiece]:
    """Every line that has an end. Empty ones say nothing, and are passed over. ``offset``: where the data begins."""
    begin = 0
    while (end := data.find(b"\n", begin)) >= 0:
        if end > begin:
            yield LinePiece(offset + begin, end - begin, decode_line(data[begin:end], unchecked=unchecked))
        begin = end + 1


def ended(data: bytes) -> int:
    """How much of the data is lines that have an end."""
    return data.rfind(b"\n") + 1


def unreadable(where: str, offset: int, length: int, at: int | None) -> HistoryLine:
    """What stands in place of a line that cannot be read. ``at``: the time of the line before it."""
    return {"at": at, "event": UNREADABLE, "where": where, "offset": offset, "bytes": length}
