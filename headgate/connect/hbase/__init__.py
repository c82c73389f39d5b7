"""Out to HBase, through its REST gateway.

One rule: a row's key comes from its columns, so that a row that is put again is put over itself.
"""

from headgate.connect.hbase.sink import HBaseSink, sink

__all__ = ["HBaseSink", "sink"]
