"""Iceberg tables, as a sink.

One rule: the commit that adds files to the table has the sink's mark in it, as a property of the table.
"""

from headgate.connect.iceberg.sink import sink

__all__ = ["sink"]
