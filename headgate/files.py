"""Files in a directory, as a source and as a sink.

One rule: a file is read whole and in its place, and is seen only when it is whole.
"""

from headgate.sink.files import sink
from headgate.source.logdir import source

__all__ = ["sink", "source"]
