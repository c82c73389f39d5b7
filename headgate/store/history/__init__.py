"""What a job has to tell of its past: notable events, one JSON object in a line.

One rule: history explains and decides nothing. So it is bounded, a line is not flushed to the disk, and no failure to
write or to read it ends a job. What it does say is true: a line that is not whole is not believed, none is told twice,
and lines of several leaders stand in the order in which they led.

============  ==========================================================================
``lines``     lines as bytes, each with a checksum
``index``     what is where in a segment, so that a page is found without reading it all
``files``     the names of segments, and reading them
``reader``    pages, single checkpoints, summaries, what has come since
``writer``    appending, rolling, pruning
============  ==========================================================================
"""

from headgate.store.history.files import HistorySegment
from headgate.store.history.lines import UNREADABLE, HistoryLine, Lines
from headgate.store.history.reader import HistoryPosition, HistoryReader
from headgate.store.history.writer import HistoryBounds, HistoryWriter

__all__ = [
    "UNREADABLE",
    "HistoryBounds",
    "HistoryLine",
    "HistoryPosition",
    "HistoryReader",
    "HistorySegment",
    "HistoryWriter",
    "Lines",
]
