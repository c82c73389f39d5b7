"""Delta tables, as a sink.

One rule: the commit that adds files to the table's log has the sink's application transaction in it.
"""

from headgate.connect.delta.sink import sink

__all__ = ["sink"]
