"""Where records come from.

One rule: what was read between two offsets is read again, the same, whenever somebody goes back there; a source that
cannot do that says so (``replayable``).

``api``         what a source is
``generator``   rows that are made up, each one computed from its number
``logdir``      a directory to which files are added
``listing``     the files of such a directory, in order
``options``     how they are written, as users say it
``codecs``      what is in a file that may be compressed
``rows``        the rows of such a file
``lines``       its lines, where Spark's own parser makes rows of them
``parsed``      and those rows

Not here: channels between tasks, which ``headgate.channel`` reads; when a source is read, which the job says.
"""

from headgate.source.api import Source

__all__ = ["Source"]
